//! Sleep of a drive, seen from outside: read latency by the pause before the read.

use serde::Serialize;
use wakepath_units::Nanoseconds;

use super::pause_tally::PauseTally;
use crate::summary::{Estimate, LatencySummary};

/// Reads after each pause, however long that takes.
pub(super) const FEWEST_READS: usize = 4;
/// Nearly all reads after a jump are slower than the median before by this factor; caches and clocks add less. Other work on
/// the CPUs makes some reads slow, and not the fastest tenth.
const JUMP_FACTOR: f64 = 1.3;
/// The least rise of a jump in ns: less is the work of the CPU.
const LEAST_JUMP: f64 = 10_000.0;
/// Entry times within this ratio are not narrowed down further.
const CLOSE: f64 = 1.05;
/// A drive has entered a sleep state after a pause longer than the shortest one that showed the state by this factor.
const SETTLED: f64 = 1.3;

/// Read latency after one pause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GapLatency {
    /// The pause.
    pub gap: Nanoseconds,
    /// The reads.
    pub latency: LatencySummary,
}

/// A sleep state of the drive, seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SleepEntry {
    /// A pause after which the drive did not yet sleep.
    pub awake_after: Nanoseconds,
    /// A pause after which the drive slept.
    pub asleep_after: Nanoseconds,
    /// Latency beyond a read after a pause without this state.
    pub exit: Estimate,
}

/// Reads after pauses, by pause.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DriveSleep {
    /// Latencies, shortest pause first.
    pub gaps: Vec<GapLatency>,
    /// Use of the drive by others in pauses, in the order of the experiment; empty where the disk does not count requests.
    pub pauses: Vec<PauseTally>,
}

impl DriveSleep {
    /// Adds the reads after a pause.
    pub(super) fn add(&mut self, gap: Nanoseconds, samples: &[u64]) {
        if let Some(latency) = LatencySummary::new(samples) {
            self.gaps.push(GapLatency { gap, latency });
            self.gaps.sort_by_key(|row| row.gap);
        }
    }

    /// Jumps of the latency, shortest pause first. Each exit latency is that of a pause well beyond the entry: a read right
    /// after the entry began also waits for the end of the entry. A jump that later pauses take back is other work, and no
    /// sleep.
    pub fn entries(&self) -> Vec<SleepEntry> {
        let jumps = self.jumps();
        let ends = jumps.iter().skip(1).map(|(row, _)| *row);
        let ends = ends.chain([self.gaps.len()]);
        let mut awake = self.gaps.first().map(|row| row.latency.median);
        let settled = jumps.iter().zip(ends).map(|((first, entry), end)| {
            let asleep = settled_row(&self.gaps[*first..end]).latency.median;
            let before = awake.replace(asleep).unwrap_or(asleep);
            SleepEntry {
                exit: asleep.minus(before),
                ..*entry
            }
        });
        settled.filter(|entry| entry.exit.low > 0.0).collect()
    }

    /// Latency after pauses in a sleep state less that of a drive that does not sleep at all, with the number of reads.
    pub(super) fn beyond_awake(&self, entry: &SleepEntry) -> Option<(Estimate, u64)> {
        let awake = self.gaps.first()?.latency.median;
        let jumps = self.jumps();
        let position = jumps
            .iter()
            .position(|(_, jump)| jump.asleep_after == entry.asleep_after)?;
        let end = jumps
            .get(position + 1)
            .map_or(self.gaps.len(), |(row, _)| *row);
        let row = settled_row(self.gaps.get(jumps[position].0..end)?);
        Some((row.latency.median.minus(awake), row.latency.n))
    }

    /// Jumps with the place of the first pause after each.
    fn jumps(&self) -> Vec<(usize, SleepEntry)> {
        let mut jumps = Vec::new();
        let Some(mut base) = self.gaps.first().map(|row| row.latency.median) else {
            return jumps;
        };
        for (index, pair) in self.gaps.windows(2).enumerate() {
            let [before, after] = pair else { continue };
            let median = after.latency.median;
            let needed = (base.ns * JUMP_FACTOR).max(base.ns + LEAST_JUMP);
            // A pause that others kept disturbing left few reads.
            let stays = after.latency.n >= FEWEST_READS as u64
                && self.gaps[index + 1..]
                    .iter()
                    .all(|row| row.latency.p10.0 as f64 > needed);
            if stays {
                let entry = SleepEntry {
                    awake_after: before.gap,
                    asleep_after: after.gap,
                    exit: median.minus(base),
                };
                jumps.push((index + 1, entry));
                base = median;
            }
        }
        jumps
    }

    /// A pause to narrow the first loose entry time down; `None` without a loose entry time.
    pub(super) fn refinement(&self) -> Option<Nanoseconds> {
        let entries = self.entries();
        let loose = entries
            .iter()
            .find(|entry| entry.asleep_after.0 as f64 > entry.awake_after.0 as f64 * CLOSE)?;
        let middle = (loose.awake_after.0 as f64 * loose.asleep_after.0 as f64).sqrt();
        Some(Nanoseconds(middle as u64))
    }
}

/// Of pauses in one sleep state, shortest first, the one with most reads beyond the entry, else the longest.
fn settled_row(rows: &[GapLatency]) -> &GapLatency {
    let shortest = rows[0].gap.0 as f64 * SETTLED;
    let settled = rows.iter().filter(|row| row.gap.0 as f64 >= shortest);
    settled
        .max_by_key(|row| row.latency.n)
        .unwrap_or(&rows[rows.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::plan::{GAPS, REFINEMENTS};

    /// Reads of a drive that sleeps after 50 ms and wakes in 400 us, and again after 2 s with 5 ms.
    fn sleeping(gap: Nanoseconds) -> Vec<u64> {
        let exit = match gap.0 {
            ..50_000_000 => 0,
            50_000_000..2_000_000_000 => 400_000,
            _ => 5_000_000,
        };
        (0..10).map(|i| 80_000 + exit + i * 100).collect()
    }

    fn measured(latencies: impl Fn(Nanoseconds) -> Vec<u64>) -> DriveSleep {
        let mut sleep = DriveSleep::default();
        for (us, _) in GAPS {
            let gap = Nanoseconds::from_micros(us);
            sleep.add(gap, &latencies(gap));
        }
        sleep
    }

    /// Tries as many pauses more as an experiment does.
    fn refine(sleep: &mut DriveSleep, latencies: impl Fn(Nanoseconds) -> Vec<u64>) {
        for _ in 0..REFINEMENTS {
            let Some(gap) = sleep.refinement() else { break };
            sleep.add(gap, &latencies(gap));
        }
    }

    /// Exit latencies in whole microseconds.
    fn exits(sleep: &DriveSleep) -> Vec<u64> {
        let entries = sleep.entries().into_iter();
        entries.map(|entry| (entry.exit.ns / 1e3) as u64).collect()
    }

    #[test]
    fn jumps_are_found_and_narrowed_down() {
        let mut sleep = measured(sleeping);
        assert_eq!(exits(&sleep), [400, 4600]);
        refine(&mut sleep, sleeping);
        assert_eq!(exits(&sleep), [400, 4600]);
        let first = sleep.entries()[0];
        assert!(first.awake_after < Nanoseconds::from_millis(50));
        assert!(first.asleep_after >= Nanoseconds::from_millis(50));
        assert!(first.asleep_after.0 as f64 <= first.awake_after.0 as f64 * 1.05);
    }

    #[test]
    fn an_entry_time_is_known_within_5_percent_wherever_it_lies() {
        let mut after = 110_000.0;
        while after < 2.9e9 {
            let truth = Nanoseconds(after as u64);
            let latencies = |gap| vec![80_000 + u64::from(gap >= truth) * 2_000_000; 4];
            let mut sleep = measured(latencies);
            refine(&mut sleep, latencies);
            let entry = sleep.entries()[0];
            assert!(
                entry.awake_after < truth && truth <= entry.asleep_after,
                "{truth}: {entry:?}"
            );
            assert!(
                entry.asleep_after.0 as f64 <= entry.awake_after.0 as f64 * 1.05,
                "{truth}: {entry:?}"
            );
            after *= 1.07;
        }
    }

    #[test]
    fn an_exit_latency_is_that_of_a_pause_beyond_the_entry() {
        // Sleeps after 100 ms, takes 60 ms to enter, and wakes in 2 ms.
        let sleep = measured(|gap| {
            let entered = Nanoseconds::from_millis(160).0.saturating_sub(gap.0);
            let slept = gap >= Nanoseconds::from_millis(100);
            vec![80_000 + u64::from(slept) * (2_000_000 + entered); 8]
        });
        assert_eq!(exits(&sleep), [2_000]);
        let entry = sleep.entries()[0];
        let (beyond, n) = sleep.beyond_awake(&entry).unwrap();
        assert_eq!(((beyond.ns / 1e3) as u64, n), (2_000, 8));
    }

    #[test]
    fn a_jump_that_longer_pauses_take_back_is_no_entry() {
        // Other work makes most reads after 30 ms slow, and all after 10 ms somewhat.
        let mut sleep = DriveSleep::default();
        for (ms, slow, n) in [
            (0, 80, 10),
            (10, 500, 10),
            (30, 1_200, 30),
            (100, 700, 10),
            (1_000, 700, 10),
        ] {
            let fast = if ms == 30 { 6 } else { 0 };
            let samples = (0..n).map(|i| if i < fast { 500_000 } else { slow * 1_000 + i });
            sleep.add(Nanoseconds::from_millis(ms), &samples.collect::<Vec<u64>>());
        }
        assert_eq!(exits(&sleep), [1_120]);
    }

    #[test]
    fn a_drive_that_never_sleeps_has_no_entry() {
        let awake = measured(|_| (0..10).map(|i| 80_000 + i * 3000).collect());
        assert!(awake.entries().is_empty() && awake.refinement().is_none());
        // A single slow pause is noise.
        let noisy = measured(|gap| {
            let slow = u64::from(gap == Nanoseconds::from_millis(10)) * 300_000;
            vec![80_000 + slow; 10]
        });
        assert!(noisy.entries().is_empty());
        // Medians that rise because another process gets in between.
        let busy = measured(|gap| {
            let slow = u64::from(gap > Nanoseconds::from_millis(1)) * 300_000;
            (0..10).map(|i| 80_000 + i / 2 % 4 * slow).collect()
        });
        assert!(busy.entries().is_empty());
        assert!(DriveSleep::default().entries().is_empty());
    }
}
