//! Detects a run without progress.

use crate::error::Stuck;

/// Detects a run without progress, by a look at it from time to time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watchdog {
    /// Simulated time in ns, and number of finished requests, at the last look.
    now: u64,
    requests: u64,
    /// Number of looks in a row without a finished request, and the time of the first.
    idle_looks: u64,
    idle_since: u64,
}

impl Watchdog {
    /// Events between two looks: rare enough to cost nothing, and more than any machine has at one
    /// instant.
    pub(super) const EVERY: u64 = 1 << 20;

    /// Looks without a request before the run is given up: some seconds in real time, and hours to weeks in simulated
    /// time.
    const PATIENCE: u64 = 1 << 6;

    /// `requests` have been finished by `now`, in ns; `None` if the workload makes none.
    pub(super) fn check_progress(&mut self, now: u64, requests: Option<u64>) -> Result<(), Stuck> {
        if now == self.now {
            return Err(Stuck::Time {
                at_ns: now,
                events: Self::EVERY,
            });
        }
        let requests = requests.unwrap_or(self.requests + 1);
        if requests > self.requests {
            self.idle_looks = 0;
            self.idle_since = now;
        } else {
            self.idle_looks += 1;
        }
        if self.idle_looks == Self::PATIENCE {
            return Err(Stuck::Requests {
                from_ns: self.idle_since,
                to_ns: now,
                events: Self::PATIENCE * Self::EVERY,
            });
        }
        (self.now, self.requests) = (now, requests);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_stands_still_is_noticed_at_once() {
        let mut watchdog = Watchdog::default();
        watchdog.check_progress(7, Some(1)).unwrap();
        let stuck = watchdog.check_progress(7, Some(2)).unwrap_err();
        assert!(
            stuck.to_string().contains("stands still at 7 ns"),
            "{stuck}"
        );
    }

    #[test]
    fn a_run_without_requests_ends_after_a_while_and_one_with_them_never() {
        let mut watchdog = Watchdog::default();
        for look in 1..10 * Watchdog::PATIENCE {
            watchdog.check_progress(look, Some(look)).unwrap();
        }
        let from = 10 * Watchdog::PATIENCE;
        let stuck = (from..)
            .find_map(|now| watchdog.check_progress(now, Some(from)).err())
            .unwrap();
        let Stuck::Requests { from_ns, to_ns, .. } = stuck else {
            panic!("{stuck}");
        };
        assert_eq!(to_ns - from_ns, Watchdog::PATIENCE);
        let mut without = Watchdog::default();
        for now in 1..10 * Watchdog::PATIENCE {
            without.check_progress(now, None).unwrap();
        }
    }
}
