//! Rests of the drive, or of a host between drive and kernel: reads take longer after pauses, whatever the CPU does.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::bands::WakeSample;
use super::deeper::{DeeperSleep, find_deeper_sleep};
use super::plan::{WakePlan, WakeSource, WakeStep};
use super::tally::{FEWEST_COUNTED, Tally};
use crate::summary::{Estimate, LatencySummary};

/// Least growth of reads that counts: a share of reads after shorter pauses, and a time in ns. Cold caches of the driver cost
/// less, and wake-ups by a task do not meet them.
const LEAST_GROWTH: (f64, f64) = (0.1, 10_000.0);

/// A pause from which on reads take longer, although the CPU is as awake as before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SlowerReads {
    /// The CPU that waited for the reads.
    pub cpu: usize,
    /// The pause in ns, from the longest pause with faster reads on.
    pub after: Estimate,
    /// What reads take more than reads after the shortest pauses, in ns.
    pub growth: Estimate,
    /// Number of reads.
    pub n: u64,
}

/// Finds slower reads of each kind of CPU, held in the first state from which drive and task woke it often enough.
pub(super) fn find_slower_reads_by_cpu(
    plan: &WakePlan,
    settled: &[(&WakeStep, &Tally)],
) -> Vec<SlowerReads> {
    let kinds = plan.kinds.iter().enumerate();
    kinds
        .flat_map(|(kind, group)| {
            let mut states = group.states.iter();
            let found = states.find_map(|state| {
                let [reads, tasks] = [WakeSource::Drive, WakeSource::Task].map(|source| {
                    let mut steps = settled.iter();
                    let tally = steps.find(|(step, _)| {
                        (step.kind, step.state, step.source) == (kind, Some(state.index), source)
                    });
                    tally.map_or(&[][..], |(_, tally)| &tally.samples)
                });
                let fewest = reads.len().min(tasks.len()) as u64;
                (fewest >= FEWEST_COUNTED).then(|| find_slower_reads(group.cpu, reads, tasks))
            });
            found.unwrap_or_default()
        })
        .collect()
}

/// Finds the pauses at which reads become slower, shortest first. All samples are from the same idle state. Wake-ups by tasks
/// tell what the CPU itself takes longer after the same pauses.
fn find_slower_reads(cpu: usize, reads: &[WakeSample], tasks: &[WakeSample]) -> Vec<SlowerReads> {
    let mut changes = Vec::new();
    append_changes(reads, tasks, &mut changes);
    let later = changes.iter().skip(1).map(|change| change.after);
    let ends = later.chain([Nanoseconds(u64::MAX)]);
    let first = changes.first().map(|change| change.after);
    let Some((shortest, _)) =
        first.and_then(|end| delay_within([reads, tasks], [Nanoseconds::ZERO, end]))
    else {
        return Vec::new();
    };
    let mut slower: Vec<SlowerReads> = Vec::new();
    for (change, end) in changes.iter().zip(ends) {
        let Some((delay, n)) = delay_within([reads, tasks], [change.after, end]) else {
            continue;
        };
        let growth = delay.minus(shortest);
        if growth.ns > slower.last().map_or(0.0, |before| before.growth.ns) {
            slower.push(SlowerReads {
                cpu,
                after: change.after_estimate(),
                growth,
                n,
            });
        }
    }
    slower
}

/// Adds changes within samples, shortest pause first.
fn append_changes(reads: &[WakeSample], tasks: &[WakeSample], changes: &mut Vec<DeeperSleep>) {
    let Some(change) = find_deeper_sleep(reads, tasks, LEAST_GROWTH) else {
        return;
    };
    let [(short, long), (short_tasks, long_tasks)] =
        [reads, tasks].map(|samples| split_at_pause(samples, change.after));
    append_changes(&short, &short_tasks, changes);
    changes.push(change);
    append_changes(&long, &long_tasks, changes);
}

/// Samples after shorter pauses, and those after longer ones.
fn split_at_pause(
    samples: &[WakeSample],
    pause: Nanoseconds,
) -> (Vec<WakeSample>, Vec<WakeSample>) {
    samples.iter().partition(|sample| sample.gap < pause)
}

/// What reads take longer than wake-ups by tasks after pauses between two lengths, and the number of reads.
fn delay_within(
    samples: [&[WakeSample]; 2],
    [begin, end]: [Nanoseconds; 2],
) -> Option<(Estimate, u64)> {
    let [reads, tasks] = samples.map(|samples| summarize_between(samples, begin, end));
    let (read, task) = reads.zip(tasks)?;
    Some((read.median.minus(task.median), read.n))
}

/// Latencies after pauses from `begin` up to `end`; `None` without any.
fn summarize_between(
    samples: &[WakeSample],
    begin: Nanoseconds,
    end: Nanoseconds,
) -> Option<LatencySummary> {
    let within = samples
        .iter()
        .filter(|sample| (begin..end).contains(&sample.gap));
    let latencies: Vec<u64> = within.map(|sample| sample.latency_ns).collect();
    LatencySummary::new(&latencies)
}

impl SlowerReads {
    /// A sentence for people.
    pub(super) fn describe(&self) -> String {
        format!(
            "reads take {:.1} us longer after pauses from {} on, whatever CPU {} does: the drive rests, or a host between drive and kernel",
            self.growth.ns / 1e3,
            Nanoseconds(self.after.ns as u64),
            self.cpu
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wake-ups after pauses of 30 us to 10 ms, not in the order of pauses.
    fn samples(latency: impl Fn(u64) -> u64) -> Vec<WakeSample> {
        let exponents = (0..400_u64).map(|index| index * 37 % 400);
        exponents
            .map(|exponent| {
                let gap = (30_000.0 * 1.0146_f64.powi(exponent as i32)) as u64;
                WakeSample {
                    gap: Nanoseconds(gap),
                    latency_ns: latency(gap) + exponent % 7 * 300,
                }
            })
            .collect()
    }

    #[test]
    fn two_rests_are_found_with_their_delays() {
        let tasks = samples(|gap| 3_000 + gap / 2_000);
        let reads = samples(|gap| {
            let rest = match gap {
                ..400_000 => 0,
                400_000..2_000_000 => 14_000,
                _ => 36_000,
            };
            55_000 + gap / 2_000 + rest
        });
        let found = find_slower_reads(1, &reads, &tasks);
        let growths: Vec<f64> = found
            .iter()
            .map(|slower| (slower.growth.ns / 1e3).round())
            .collect();
        assert_eq!(growths, [14.0, 36.0], "{found:?}");
        for (slower, begins) in found.iter().zip([400_000.0, 2_000_000.0]) {
            assert!(
                slower.after.low < begins && slower.after.high >= begins,
                "{found:?}"
            );
        }
    }

    #[test]
    fn what_the_cpu_takes_longer_is_no_rest_of_the_drive() {
        let growing = samples(|gap| 3_000 + gap / 200);
        let reads = samples(|gap| 55_000 + gap / 200);
        assert_eq!(find_slower_reads(1, &reads, &growing), []);
        // Code of the driver that is cold after long pauses.
        let colder = samples(|gap| 55_000 + gap / 200 + gap.min(8_000_000) / 2_000);
        assert_eq!(find_slower_reads(1, &colder, &growing), []);
        let constant = samples(|_| 55_000);
        assert_eq!(find_slower_reads(1, &constant, &samples(|_| 3_000)), []);
        assert_eq!(find_slower_reads(1, &[], &growing), []);
    }
}
