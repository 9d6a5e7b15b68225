//! What a governor is asked, what it answers, and parameters that policies hand to governors.

use serde::Serialize;
use wakepath_units::Nanoseconds;

/// States that pay off sooner than this are chosen without a look at the timers
/// (`RESIDENCY_THRESHOLD_NS`, `drivers/cpuidle/governors/gov.h`, Linux 6.12).
pub(super) const RESIDENCY_THRESHOLD_NS: i64 = 15_000;

/// What a governor may know when it is asked for a state. All times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleQuery {
    /// Time to the next timer if the tick were stopped (`tick_nohz_get_sleep_length()`); negative
    /// when that timer is overdue.
    pub sleep_length: i64,
    /// Time to the next timer or tick, whichever comes first, with the tick left as it is.
    pub delta_tick: i64,
    /// The tick on this CPU is already stopped.
    pub tick_stopped: bool,
    /// Longest tolerated exit latency (`cpuidle_governor_latency_req()`).
    pub latency_request: i64,
    /// The idle period before was of the same idle loop, and the tick ended it.
    pub after_tick: bool,
    /// Tasks in iowait that last ran on this CPU (`nr_iowait_cpu()`).
    pub nr_iowait: u32,
    /// The CPU's clock (`local_clock()`).
    pub clock: u64,
    /// How long the CPU will really stay idle. Only the `oracle` looks at it.
    pub true_idle: u64,
    /// Package energy saved if this CPU enters the deepest state in its table, in fJ. Only the `oracle` uses this
    /// value.
    pub package_saving: i64,
}

/// A governor's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleDecision {
    /// Index of the idle state to enter.
    pub state: usize,
    /// Whether the tick may be stopped before entering it.
    pub stop_tick: bool,
}

/// Outcome of a decision. All times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleOutcome {
    /// The CPU's clock after the wake-up.
    pub clock: u64,
    /// Measured residency, exit latency included (`last_residency_ns`). 0 means that the driver refused
    /// the state; the kernel then does not call the governor's reflect at all.
    pub residency: u64,
    /// The tick woke the CPU (`tick_nohz_idle_got_tick()`).
    pub got_tick: bool,
    /// The polling state gave up at its time limit. Counts only when the state entered polls.
    pub poll_limit_hit: bool,
}

/// A CPU idle governor, with memory for a single CPU.
pub trait IdleGovernor {
    /// Chooses a state. A device starts zeroed, as the kernel's does.
    fn select(&mut self, query: &IdleQuery) -> IdleDecision;

    /// Tells the governor how the idle period in state `entered` ended.
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome);

    /// The governor's own polling limit, if any (haltpoll). The default is [`crate::poll::limit`].
    fn poll_limit(&self) -> Option<Nanoseconds> {
        None
    }

    /// Passes over the remembered intervals during the last choice, for governors that search a pattern. Each pass
    /// takes CPU work.
    fn rounds(&self) -> u32 {
        1
    }

    /// Whether the governor uses CPU utilisation. No built-in governor does; teo from Linux 6.3 to 6.10 does, as a
    /// user's own governor.
    const WANTS_UTILISATION: bool = false;

    /// Passes recent utilisation, up to 1024, to a governor that [wants](Self::WANTS_UTILISATION) the value, before
    /// each query.
    fn set_utilisation(&mut self, _share: u16) {}
}

/// An operation on a governor of known type: faster than a dispatch at every call.
pub trait WithGovernor {
    /// Runs the operation.
    fn run<G: IdleGovernor>(self, governor: &mut G);
}

/// Goal that the oracle minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OracleGoal {
    /// Energy, subject to the latency request.
    #[default]
    Energy,
    /// Exit latency.
    Latency,
}

/// The module parameters of haltpoll, under the kernel's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct HaltpollParameters {
    /// The longest time to poll, in ns.
    pub guest_halt_poll_ns: u32,
    /// What the time to poll is divided by after a long halt; 0 sets it to zero.
    pub guest_halt_poll_shrink: u32,
    /// What the time to poll is multiplied with after a short halt.
    pub guest_halt_poll_grow: u32,
    /// The shortest time to poll to grow from, in ns.
    pub guest_halt_poll_grow_start: u32,
    /// Whether the time to poll may shrink at all.
    pub guest_halt_poll_allow_shrink: bool,
}

impl Default for HaltpollParameters {
    fn default() -> Self {
        Self {
            guest_halt_poll_ns: 200_000,
            guest_halt_poll_shrink: 2,
            guest_halt_poll_grow: 2,
            guest_halt_poll_grow_start: 50_000,
            guest_halt_poll_allow_shrink: true,
        }
    }
}
