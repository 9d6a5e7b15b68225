//! Rests of the drive, or of a host between drive and kernel: reads take longer after pauses, whatever the CPU does.

use serde::Serialize;
use wakepath_hardware::machine::DriveRest;
use wakepath_units::Nanoseconds;

use super::bands::WakeSample;
use super::deeper::find_deeper_sleep;
use super::plan::WakeStep;
use super::tally::{FEWEST_COUNTED, Tally};
use super::{WakeMeasurement, WakePlan, WakeSource};
use crate::summary::{Estimate, LatencySummary};

/// Least growth of reads that counts, relative to reads after shorter pauses.
const LEAST_GROWTH: f64 = 0.1;

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
                let samples = [WakeSource::Drive, WakeSource::Task].map(|source| {
                    let mut steps = settled.iter();
                    let found = steps.find(|(step, _)| {
                        (step.kind, step.state, step.source) == (kind, Some(state.index), source)
                    });
                    found.map_or(&[][..], |(_, tally)| &tally.samples)
                });
                let enough = samples
                    .iter()
                    .all(|samples| samples.len() as u64 >= FEWEST_COUNTED);
                enough.then(|| find_slower_reads(group.cpu, samples[0], samples[1]))
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
    let begins = changes.iter().map(|[_, longer]| *longer);
    let begins: Vec<Nanoseconds> = [Nanoseconds::ZERO].into_iter().chain(begins).collect();
    let ends = begins
        .iter()
        .skip(1)
        .copied()
        .chain([Nanoseconds(u64::MAX)]);
    let delays: Vec<Option<(Estimate, u64)>> = begins
        .iter()
        .zip(ends)
        .map(|(begin, end)| {
            let [reads, tasks] =
                [reads, tasks].map(|samples| summarize_between(samples, *begin, end));
            let (reads, tasks) = reads.zip(tasks)?;
            Some((reads.median.minus(tasks.median), reads.n))
        })
        .collect();
    let Some((Some((shortest, _)), later)) = delays.split_first() else {
        return Vec::new();
    };
    let mut slower: Vec<SlowerReads> = Vec::new();
    for ([shorter, longer], (delay, n)) in changes.iter().zip(later.iter().flatten()) {
        let growth = delay.minus(*shortest);
        if growth.ns > slower.last().map_or(0.0, |before| before.growth.ns) {
            slower.push(SlowerReads {
                cpu,
                after: Estimate {
                    ns: longer.0 as f64,
                    low: shorter.0 as f64,
                    high: longer.0 as f64,
                },
                growth,
                n: *n,
            });
        }
    }
    slower
}

/// Adds changes within samples, shortest pause first: the longest pause before each, and the shortest after.
fn append_changes(reads: &[WakeSample], tasks: &[WakeSample], changes: &mut Vec<[Nanoseconds; 2]>) {
    let Some(change) = find_deeper_sleep(reads, tasks, LEAST_GROWTH) else {
        return;
    };
    let [(short, long), (short_tasks, long_tasks)] = [reads, tasks].map(|samples| {
        let samples = samples.iter().copied();
        samples.partition::<Vec<WakeSample>, _>(|sample| sample.gap < change.after)
    });
    append_changes(&short, &short_tasks, changes);
    changes.push([change.not_after, change.after]);
    append_changes(&long, &long_tasks, changes);
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

impl WakeMeasurement {
    /// Rests of the drive as reads by the first measured CPU showed them, the shallowest first.
    pub fn drive_rests(&self) -> Vec<DriveRest> {
        let first = self.slower_reads.first().map(|slower| slower.cpu);
        let own = self
            .slower_reads
            .iter()
            .filter(|slower| Some(slower.cpu) == first);
        own.map(|slower| {
            let after = "pause from which on reads take longer, whatever the CPU does";
            let exit = format!(
                "median read by CPU {} after such pauses less one after the shortest, without what wake-ups by a task take longer",
                slower.cpu
            );
            DriveRest {
                after_ms: slower.after.figure_ms(slower.n, after, &self.conditions),
                exit_us: slower.growth.figure_us(slower.n, &exit, &self.conditions),
            }
        })
        .collect()
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
        let whole_us = |ns: f64| (ns / 1e3).round();
        let growths: Vec<f64> = found
            .iter()
            .map(|slower| whole_us(slower.growth.ns))
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
        let constant = samples(|_| 55_000);
        assert_eq!(find_slower_reads(1, &constant, &samples(|_| 3_000)), []);
        assert_eq!(find_slower_reads(1, &[], &growing), []);
    }
}
