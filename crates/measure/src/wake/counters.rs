//! Whether a CPU was in the state that a sample is for.

use wakepath_system::{CPUS, Root};

/// Counters of one idle state (`drivers/cpuidle/sysfs.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StateCounters {
    usage: u64,
    time_us: u64,
    rejected: u64,
}

/// Counters of all idle states of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CpuCounters(Vec<StateCounters>);

/// What the counters say of a sample.
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
    /// Reads them; `None` if the CPU or one of its states is gone.
    pub(super) fn read(root: &Root, cpu: usize, states: usize) -> Option<Self> {
        let all: Option<Vec<StateCounters>> = (0..states)
            .map(|state| {
                let directory = format!("{CPUS}/cpu{cpu}/cpuidle/state{state}");
                let number = |file: &str| root.number(&format!("{directory}/{file}"));
                Some(StateCounters {
                    usage: number("usage")?,
                    time_us: number("time")?,
                    // Absent before Linux 5.9.
                    rejected: number("rejected").unwrap_or(0),
                })
            })
            .collect();
        all.map(Self)
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
    fn only_the_state_itself_counts() {
        let before = counters(&[[5, 100, 0], [7, 900, 2]]);
        let judge = |now: &[[u64; 3]]| counters(now).judge(&before, Some(1));
        assert_eq!(judge(&[[5, 100, 0], [8, 950, 2]]), SampleVerdict::Counted);
        assert_eq!(judge(&[[5, 100, 0], [8, 950, 3]]), SampleVerdict::Rejected);
        for missed in [
            [[6, 110, 0], [8, 950, 2]],
            [[5, 100, 0], [7, 900, 2]],
            [[5, 100, 0], [8, 900, 2]],
            [[6, 100, 0], [7, 900, 2]],
        ] {
            assert_eq!(judge(&missed), SampleVerdict::Missed, "{missed:?}");
        }
        let any = counters(&[[6, 110, 0], [7, 900, 2]]).judge(&before, None);
        assert_eq!(any, SampleVerdict::Counted);
    }
}
