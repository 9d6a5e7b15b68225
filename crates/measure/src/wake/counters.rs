//! Whether a CPU was in the state that a sample is for.

use std::time::Duration;

use wakepath_system::{CPUS, Root};

/// Counters of an idle state (`drivers/cpuidle/sysfs.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StateCounters {
    usage: u64,
    time_us: u64,
    rejected: u64,
}

/// Counters of all idle states of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuCounters(Vec<StateCounters>);

/// Times that a CPU enters its state in a sample that wakes it twice.
pub(super) const ENTRIES_OF_TWO_WAKES: u64 = 2;

/// Verdict on a sample by the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleVerdict {
    /// The CPU was in the state, and in no other.
    Counted,
    /// The state was refused by hardware or firmware.
    Rejected,
    /// The CPU was in another state, or in none.
    Missed,
}

impl CpuCounters {
    /// Reads a CPU's counters; `None` if CPU or state has gone.
    pub(super) fn read(root: &Root, cpu: usize, states: usize) -> Option<Self> {
        let all: Option<Vec<StateCounters>> = (0..states)
            .map(|state| {
                let directory = format!("{CPUS}/cpu{cpu}/cpuidle/state{state}");
                let [usage, time_us, rejected] = ["usage", "time", "rejected"]
                    .map(|file| root.read_number_if_readable(&format!("{directory}/{file}")));
                Some(StateCounters {
                    usage: usage?,
                    time_us: time_us?,
                    // Absent before Linux 5.9.
                    rejected: rejected.unwrap_or(0),
                })
            })
            .collect();
        all.map(Self)
    }

    /// Time in a state since `before`, by the kernel's count.
    pub(super) fn time_in_state_since(&self, before: &Self, state: usize) -> Duration {
        let [now, then] = [self, before].map(|counters| {
            let own = counters.0.get(state);
            own.map_or(0, |own| own.time_us)
        });
        Duration::from_micros(now.saturating_sub(then))
    }

    /// Judges a sample for `state` between `before` and these counters. Without a state any idle period counts.
    pub(super) fn judge(&self, before: &Self, state: Option<usize>) -> SampleVerdict {
        let mut verdict = SampleVerdict::Missed;
        for (index, (now, then)) in self.0.iter().zip(&before.0).enumerate() {
            let is_meant = state.is_none_or(|state| state == index);
            let moved = now.usage > then.usage && now.time_us > then.time_us;
            if is_meant && now.rejected > then.rejected {
                return SampleVerdict::Rejected;
            }
            if !is_meant && now.usage > then.usage {
                return SampleVerdict::Missed;
            }
            if is_meant && moved {
                verdict = SampleVerdict::Counted;
            }
        }
        verdict
    }
}

impl CpuCounters {
    /// Judges a sample that woke the CPU from `state`, and once more soon after: the state has to be entered twice, and no
    /// other. The second stay may be too short for the kernel's account of time.
    pub(super) fn judge_two_wakes(&self, before: &Self, state: Option<usize>) -> SampleVerdict {
        let mut entries = 0;
        for (index, (now, then)) in self.0.iter().zip(&before.0).enumerate() {
            let is_meant = state == Some(index);
            if is_meant && now.rejected > then.rejected {
                return SampleVerdict::Rejected;
            }
            match (is_meant, now.usage.saturating_sub(then.usage)) {
                (true, entered) => entries = entered,
                (false, 0) => {}
                (false, _) => return SampleVerdict::Missed,
            }
        }
        if entries == ENTRIES_OF_TWO_WAKES {
            SampleVerdict::Counted
        } else {
            SampleVerdict::Missed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(all: &[[u64; 3]]) -> CpuCounters {
        let states = all.iter().map(|[usage, time_us, rejected]| StateCounters {
            usage: *usage,
            time_us: *time_us,
            rejected: *rejected,
        });
        CpuCounters(states.collect())
    }

    #[test]
    fn a_cpu_that_is_woken_twice_has_to_sleep_twice() {
        let before = counters(&[[5, 100, 0], [7, 900, 2]]);
        for (after, verdict) in [
            ([[5, 100, 0], [9, 950, 2]], SampleVerdict::Counted),
            ([[5, 100, 0], [9, 950, 3]], SampleVerdict::Rejected),
            ([[5, 100, 0], [8, 950, 2]], SampleVerdict::Missed),
            ([[5, 100, 0], [10, 950, 2]], SampleVerdict::Missed),
            ([[6, 101, 0], [9, 950, 2]], SampleVerdict::Missed),
        ] {
            let judged = counters(&after).judge_two_wakes(&before, Some(1));
            assert_eq!(judged, verdict, "{after:?}");
        }
    }

    #[test]
    fn only_the_state_itself_counts() {
        let before = counters(&[[5, 100, 0], [7, 900, 2]]);
        assert_eq!(
            counters(&[[5, 100, 0], [8, 950, 2]]).judge(&before, Some(1)),
            SampleVerdict::Counted
        );
        assert_eq!(
            counters(&[[5, 100, 0], [8, 950, 3]]).judge(&before, Some(1)),
            SampleVerdict::Rejected
        );
        for missed in [
            [[6, 110, 0], [8, 950, 2]],
            [[5, 100, 0], [7, 900, 2]],
            [[5, 100, 0], [8, 900, 2]],
            [[6, 100, 0], [7, 900, 2]],
        ] {
            assert_eq!(
                counters(&missed).judge(&before, Some(1)),
                SampleVerdict::Missed,
                "{missed:?}"
            );
        }
        let any = counters(&[[6, 110, 0], [7, 900, 2]]).judge(&before, None);
        assert_eq!(any, SampleVerdict::Counted);
    }
}
