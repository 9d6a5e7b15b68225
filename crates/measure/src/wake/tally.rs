//! What a step of an experiment on wake-ups has brought so far.

use std::time::Duration;

use wakepath_units::Nanoseconds;

use super::at_rest::ReachedTally;
use super::bands::WakeSample;
use crate::summary::LatencySummary;

/// A state with fewer counted samples than this is not judged.
pub(super) const FEWEST_COUNTED: u64 = 20;
/// A state without a counted sample after so many tries is left.
const TRIES: u64 = 10;

/// Wake-ups of a step so far: those that count, and how many do not.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) samples: Vec<WakeSample>,
    pub(super) missed: u64,
    pub(super) rejected: u64,
    /// Counted samples during which the CPU's stolen time grew.
    pub(super) disturbed_by_host: u64,
    /// Pauses before wake-ups that met no state.
    pub(super) missed_after: Vec<Nanoseconds>,
    pub(super) reached: ReachedTally,
    pub(super) requested: RequestedTime,
    pub(super) ipis: IpiTally,
}

/// Inter-processor interrupts of the sleeping CPU beside the wake-ups that were tried meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IpiTally {
    taken: u64,
    wake_ups: u64,
}

/// Time in the step's state as the kernel counts it, beside the whole time of sampling.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestedTime {
    in_state: Duration,
    all: Duration,
}

impl RequestedTime {
    /// Adds a round.
    pub(super) fn add(&mut self, in_state: Duration, all: Duration) {
        self.in_state = self.in_state.saturating_add(in_state);
        self.all = self.all.saturating_add(all);
    }

    /// Share of the time, 0 to 1.
    pub(super) fn share(self) -> f64 {
        let all = self.all.as_secs_f64().max(f64::MIN_POSITIVE);
        (self.in_state.as_secs_f64() / all).min(1.0)
    }
}

impl IpiTally {
    /// Adds a round: the CPU's counts before and after, and the wake-ups between. Without counts nothing is known of it.
    pub(super) fn add(&mut self, before: Option<u64>, after: Option<u64>, wake_ups: u64) {
        if let Some((before, after)) = before.zip(after) {
            self.taken += after.saturating_sub(before);
            self.wake_ups += wake_ups;
        }
    }

    /// Interrupts for each wake-up; `None` without counts.
    pub(super) fn per_wake_up(self) -> Option<f64> {
        (self.wake_ups > 0).then(|| self.taken as f64 / self.wake_ups as f64)
    }
}

impl Tally {
    /// Whether the state was tried for a whole round, often enough and in vain.
    pub(super) fn is_hopeless(&self) -> bool {
        self.samples.is_empty() && self.missed + self.rejected >= TRIES
    }

    /// Latencies after pauses of at least this length.
    pub(super) fn latencies_after(&self, shortest: Nanoseconds) -> Option<LatencySummary> {
        let long = self.samples.iter().filter(|sample| sample.gap >= shortest);
        let latencies: Vec<u64> = long.map(|sample| sample.latency_ns).collect();
        LatencySummary::new(&latencies)
    }

    /// Latencies after the shortest quarter of the pauses, before caches are cold; of few samples, after the shortest ones.
    pub(super) fn latencies_after_short_pauses(&self) -> Option<LatencySummary> {
        let mut sorted = self.samples.clone();
        sorted.sort_by_key(|sample| sample.gap);
        let kept = (sorted.len() / 4).max(FEWEST_COUNTED as usize);
        let short = sorted.iter().take(kept);
        let latencies: Vec<u64> = short.map(|sample| sample.latency_ns).collect();
        LatencySummary::new(&latencies)
    }
}
