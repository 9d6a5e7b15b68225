//! How long CPUs have had leases.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Adds up the time under leases over all CPUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseTime {
    ended: Duration,
    /// When the present lease of a CPU began.
    begun: BTreeMap<usize, Instant>,
}

impl LeaseTime {
    /// Notes a lease that was given to a CPU, or taken back, at a time.
    pub(crate) fn note_lease(&mut self, cpu: usize, is_given: bool, at: Instant) {
        if is_given {
            self.begun.entry(cpu).or_insert(at);
        } else if let Some(begun) = self.begun.remove(&cpu) {
            self.ended += at.saturating_duration_since(begun);
        }
    }

    /// The time under leases up to a moment, of all CPUs together.
    pub(crate) fn total_until(&self, now: Instant) -> Duration {
        let running = self.begun.values();
        self.ended
            + running
                .map(|begun| now.saturating_duration_since(*begun))
                .sum::<Duration>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_of_cpus_add_up() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut time = LeaseTime::default();
        time.note_lease(0, true, at(10));
        time.note_lease(1, true, at(20));
        time.note_lease(0, true, at(25));
        time.note_lease(0, false, at(40));
        // A lease that was never given is not taken back.
        time.note_lease(7, false, at(50));
        assert_eq!(time.total_until(at(60)), Duration::from_millis(30 + 40));
        assert_eq!(time.total_until(at(15)), Duration::from_millis(30));
    }
}
