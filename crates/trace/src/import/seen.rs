//! Which kinds of events a trace has, and how well the facts of its recording are known for that.

use super::timers::TimersOfCpus;
use crate::recording::{DataQuality, Recorded};

/// Kinds of events seen in the trace so far.
#[derive(Default)]
pub(super) struct SeenEvents {
    pub(super) idle: bool,
    pub(super) switches: bool,
    pub(super) waking: bool,
    pub(super) wakes: bool,
    pub(super) block: bool,
    pub(super) frequency: bool,
    pub(super) timers: bool,
    pub(super) queueing: bool,
    pub(super) interrupts: bool,
    pub(super) ipis: bool,
}

impl SeenEvents {
    /// How well each kind of fact in the trace is known. `others`: the quality of facts that no event shows.
    pub(super) fn quality_of_recorded_facts(
        &self,
        timers: &TimersOfCpus,
        others: Recorded,
    ) -> Recorded {
        Recorded {
            idle: exact_if_seen(self.idle),
            sleep_length: inferred_if_seen(timers.any_timer),
            tick: inferred_if_seen(timers.any_tick_stop),
            iowaiters: inferred_if_seen(self.switches),
            idle_loop: exact_if_seen(self.switches),
            block: exact_if_seen(self.block),
            wakes: exact_if_seen(self.wakes),
            frequency: exact_if_seen(self.frequency),
            timers: exact_if_seen(self.timers),
            queueing: exact_if_seen(self.queueing),
            interrupts: exact_if_seen(self.interrupts),
            ipis: exact_if_seen(self.ipis),
            tasks: match (self.switches, self.waking, self.wakes) {
                (true, true, _) => DataQuality::Exact,
                // Where `sched_waking` is not traced, the wake-up's start is inferred from `sched_wakeup`.
                (true, false, true) => DataQuality::Inferred,
                _ => DataQuality::Missing,
            },
            ..others
        }
    }
}

fn exact_if_seen(seen: bool) -> DataQuality {
    if seen {
        DataQuality::Exact
    } else {
        DataQuality::Missing
    }
}

fn inferred_if_seen(seen: bool) -> DataQuality {
    if seen {
        DataQuality::Inferred
    } else {
        DataQuality::Missing
    }
}
