//! What a governor is asked, what it answers, and parameters that policies hand to governors.

use serde::Serialize;
use wakepath_units::Nanoseconds;

/// Target residency below which a state is chosen without a look at the timers
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
    /// Whether the tick on this CPU is already stopped.
    pub tick_stopped: bool,
    /// Longest tolerated exit latency (`cpuidle_governor_latency_req()`).
    pub latency_request: i64,
    /// Whether the tick ended the idle period before, in the same idle loop.
    pub after_tick: bool,
    /// Tasks in iowait that last ran on this CPU (`nr_iowait_cpu()`).
    pub nr_iowait: u32,
    /// The CPU's clock at the query (`local_clock()`).
    pub clock: u64,
    /// How long the CPU will really stay idle. Only the `oracle` governor looks at it.
    pub true_idle: u64,
    /// Package energy saved if this CPU enters the deepest state in its table, in fJ. Only the
    /// `oracle` governor uses this value.
    pub package_saving: i64,
}

/// A governor's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleDecision {
    /// Index of the idle state to enter.
    pub state: usize,
    /// Whether the tick may be stopped before the CPU enters the state.
    pub stop_tick: bool,
}

/// How an idle period ended, as a governor learns it. All times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleOutcome {
    /// The CPU's clock after the wake-up.
    pub clock: u64,
    /// Measured length of the idle period, exit latency included (`last_residency_ns`). 0 means
    /// that the driver refused the state; the kernel then does not call the governor's reflect at
    /// all.
    pub residency: u64,
    /// Whether the tick woke the CPU (`tick_nohz_idle_got_tick()`).
    pub got_tick: bool,
    /// Whether the polling state gave up at its time limit. Counts only when the state entered
    /// polls.
    pub poll_limit_hit: bool,
}

/// A CPU idle governor, with memory for a single CPU.
pub trait IdleGovernor {
    /// Chooses an idle state for a CPU that has nothing to run. A governor starts with zeroed
    /// memory, as the kernel's does.
    fn select(&mut self, query: &IdleQuery) -> IdleDecision;

    /// Tells the governor how the idle period in state `entered` ended, so that it learns.
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome);

    /// The governor's own polling limit, if any (haltpoll). The default is
    /// [`crate::poll::polling_limit`].
    fn poll_limit(&self) -> Option<Nanoseconds> {
        None
    }

    /// Number of passes over the remembered intervals during the last choice, for governors that
    /// search a pattern. Each pass takes CPU work.
    fn pattern_passes(&self) -> u32 {
        1
    }

    /// Whether the governor uses CPU utilisation. No built-in governor does; teo from Linux 6.3 to 6.10 does, as a
    /// user's own governor.
    const WANTS_UTILISATION: bool = false;

    /// Passes the CPU's recent utilisation, up to 1024, to a governor that
    /// [wants](Self::WANTS_UTILISATION) the value, before each query.
    fn set_utilisation(&mut self, _share: u16) {}
}

/// An operation on a governor whose type is known to the compiler: faster than a dispatch at every
/// call.
pub trait WithGovernor {
    /// Runs the operation.
    fn run_with<G: IdleGovernor>(self, governor: &mut G);
}

/// What the oracle governor minimises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OracleGoal {
    /// The oracle minimises energy, within the latency request.
    #[default]
    Energy,
    /// Exit latency.
    Latency,
}

/// The module parameters of haltpoll, under the kernel's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct HaltpollParameters {
    /// Longest time for which a guest polls before it halts, in ns.
    pub guest_halt_poll_ns: u32,
    /// Divisor of the time to poll after a long halt; 0 sets the time to zero.
    pub guest_halt_poll_shrink: u32,
    /// Factor of the time to poll after a short halt.
    pub guest_halt_poll_grow: u32,
    /// Time to poll that growth starts from, in ns, where the time to poll is shorter.
    pub guest_halt_poll_grow_start: u32,
    /// Whether the time to poll may shrink after a long halt.
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
