//! CPU idle governors: which idle state to enter, and whether to stop the tick.
//!
//! A governor is asked ([`IdleGovernor::select`]) when a CPU runs out of work, and told afterwards
//! what came of it ([`IdleGovernor::reflect`]).

/// What a governor may know when it is asked for a state. All times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleQuery {
    /// Time to the next timer if the tick were stopped (`tick_nohz_get_sleep_length()`); negative
    /// when that timer is overdue.
    pub sleep_length: i64,
    /// Time to the next timer or tick, whichever comes first, with the tick left as it is.
    pub delta_tick: i64,
    /// The tick of this CPU is stopped already.
    pub tick_stopped: bool,
    /// Longest tolerated exit latency (`cpuidle_governor_latency_req()`).
    pub latency_request: i64,
    /// Tasks last run on this CPU that wait for I/O (`nr_iowait_cpu()`).
    pub nr_iowait: u32,
    /// The CPU's clock (`local_clock()`).
    pub clock: u64,
    /// How long the CPU will really stay idle. Only the `oracle` looks at it.
    pub true_idle: u64,
}

/// A governor's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleDecision {
    /// Index of the idle state to enter.
    pub state: usize,
    /// Whether the tick may be stopped before entering it.
    pub stop_tick: bool,
}

/// What came of a decision. All times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleOutcome {
    /// The CPU's clock after the wake-up.
    pub clock: u64,
    /// Measured stay, exit latency included (`last_residency_ns`). 0 means that the driver refused
    /// the state; the kernel then does not call the governor's reflect at all.
    pub residency: u64,
    /// The tick woke the CPU (`tick_nohz_idle_got_tick()`).
    pub got_tick: bool,
    /// The polling state gave up at its time limit. Counts only when the state entered polls.
    pub poll_limit_hit: bool,
}

/// A CPU idle governor with its memory of one CPU.
pub trait IdleGovernor {
    /// Chooses a state. A device starts zeroed, as the kernel's does.
    fn select(&mut self, query: &IdleQuery) -> IdleDecision;

    /// Tells the governor how the stay in state `entered` ended.
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome);
}
