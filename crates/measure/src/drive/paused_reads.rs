//! Reads after pauses in which nobody else used the drive.

use std::time::Duration;

use wakepath_units::Nanoseconds;

use super::other_requests::BegunRequests;
use super::pause_tally::PauseTally;
use super::sleep::FEWEST_READS;
use crate::MeasureError;

/// Time between looks at the disk's count in a pause: a disturbed pause ends early.
const LOOK: Duration = Duration::from_millis(100);

/// A drive that is read after pauses.
pub(super) trait PausedDrive {
    /// Time since a fixed moment.
    fn now(&self) -> Duration;
    /// Waits, or returns early at cancellation.
    fn wait(&mut self, time: Duration);
    /// Whether the experiment should end.
    fn is_cancelled(&self) -> bool;
    /// Requests to the drive so far; `None`: not known.
    fn count_requests(&self) -> Option<BegunRequests>;
    /// Reads once. Returns the latency in ns.
    fn read(&mut self) -> Result<u64, MeasureError>;
}

/// Reads after pauses of one length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PausedReads {
    /// Latencies in ns after undisturbed pauses, or after all if the disk does not count.
    pub(super) samples: Vec<u64>,
    /// Use of the drive by others; `None`: not known, as the disk does not count.
    pub(super) tally: Option<PauseTally>,
}

/// Reads after pauses for a time, and at least [`FEWEST_READS`] times. Disturbed pauses are repeated, for at most the time of
/// [`FEWEST_READS`] pauses more.
///
/// # Errors
/// A read fails.
pub(super) fn read_after_pauses(
    drive: &mut impl PausedDrive,
    gap: Nanoseconds,
    time: Duration,
) -> Result<PausedReads, MeasureError> {
    let least = gap.as_duration() * FEWEST_READS as u32;
    let began = drive.now();
    let end = began + time;
    let given_up = began + time.max(least) + least;
    let mut tally = PauseTally {
        gap,
        ..PauseTally::default()
    };
    let (mut samples, mut counts) = (Vec::new(), true);
    // The idle time of the drive begins with a read of this program.
    let mut before = drive.count_requests();
    drive.read()?;
    while samples.len() < FEWEST_READS || drive.now() < end {
        let (after, others) = pause_unless_disturbed(drive, gap.as_duration(), before);
        if drive.is_cancelled() {
            break;
        }
        let latency = drive.read()?;
        before = after;
        match others {
            Some((requests @ 1.., reads)) => {
                tally.disturbed += 1;
                tally.requests = tally.requests.saturating_add(requests);
                tally.reads = tally.reads.saturating_add(reads);
                if drive.now() >= given_up {
                    break;
                }
            }
            undisturbed => {
                counts &= undisturbed.is_some();
                tally.undisturbed += 1;
                samples.push(latency);
            }
        }
    }
    Ok(PausedReads {
        samples,
        tally: counts.then_some(tally),
    })
}

/// Waits until the end of a pause, or until others use the drive. Returns the count at the end, and others' requests since `before`
/// with the number of reads among them.
fn pause_unless_disturbed(
    drive: &mut impl PausedDrive,
    pause: Duration,
    before: Option<BegunRequests>,
) -> (Option<BegunRequests>, Option<(u64, u64)>) {
    let end = drive.now() + pause;
    loop {
        drive.wait(end.saturating_sub(drive.now()).min(LOOK));
        let after = drive.count_requests();
        let counted = before.zip(after);
        let others = counted.and_then(|(before, after)| after.requests_of_others_since(before, 1));
        let is_disturbed = others.is_some_and(|(requests, _)| requests > 0);
        if is_disturbed || drive.now() >= end || drive.is_cancelled() {
            return (after, others);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use wakepath_system::Root;

    use super::*;
    use crate::drive::DriveSleep;

    const AWAKE: u64 = 50_000;
    const EXIT: u64 = 3_000_000;

    /// A drive in simulated time that sleeps after 60 ms without requests, with its count in a file.
    struct SleepyDrive {
        folder: tempfile::TempDir,
        now: u64,
        last_request: u64,
        reads: u64,
        writes: u64,
        /// Others write so often, in ns, up to a time.
        others: Option<(u64, u64)>,
        next_write: u64,
        counts: bool,
    }

    impl SleepyDrive {
        fn new(others: Option<(u64, u64)>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("sys/block/sda")).unwrap();
            Self {
                folder,
                now: 0,
                last_request: 0,
                reads: 0,
                writes: 0,
                others,
                next_write: others.map_or(u64::MAX, |(every, _)| every),
                counts: true,
            }
        }

        fn read_all_pauses(&mut self) -> (DriveSleep, Vec<PauseTally>) {
            let (mut sleep, mut tallies) = (DriveSleep::default(), Vec::new());
            for ms in [10, 30, 100, 300, 1_000] {
                let gap = Nanoseconds::from_millis(ms);
                let found = read_after_pauses(self, gap, Duration::ZERO).unwrap();
                sleep.add(gap, &found.samples);
                tallies.extend(found.tally);
            }
            (sleep, tallies)
        }
    }

    impl PausedDrive for SleepyDrive {
        fn now(&self) -> Duration {
            Duration::from_nanos(self.now)
        }

        fn wait(&mut self, time: Duration) {
            let end = self.now + time.as_nanos() as u64;
            while let Some((every, until)) = self.others
                && self.next_write.min(until) < end
                && self.next_write < until
            {
                self.last_request = self.next_write;
                self.writes += 1;
                self.next_write += every;
            }
            self.now = end;
        }

        fn is_cancelled(&self) -> bool {
            false
        }

        fn count_requests(&self) -> Option<BegunRequests> {
            let [reads, writes] = if self.counts {
                [self.reads, self.writes]
            } else {
                [0, 0]
            };
            let stat = format!("{reads} 0 0 0 {writes} 0 0 0 0 0 0 0 0 0 0 0 0");
            fs::write(self.folder.path().join("sys/block/sda/stat"), stat).unwrap();
            BegunRequests::count(&Root::at_directory(self.folder.path()), &["sda".to_owned()])
        }

        fn read(&mut self) -> Result<u64, MeasureError> {
            let asleep = self.now - self.last_request >= 60_000_000;
            let latency = AWAKE + u64::from(asleep) * EXIT;
            self.now += latency;
            (self.last_request, self.reads) = (self.now, self.reads + 1);
            Ok(latency)
        }
    }

    /// When the drive was found to sleep, as pauses before and after in ms.
    fn sleeps_between(sleep: &DriveSleep) -> Vec<[u64; 2]> {
        let entries = sleep.entries().into_iter();
        let ends = entries.map(|entry| [entry.awake_after, entry.asleep_after]);
        ends.map(|ends| ends.map(|gap| gap.0 / 1_000_000)).collect()
    }

    #[test]
    fn a_drive_left_alone_is_found_asleep() {
        let (sleep, tallies) = SleepyDrive::new(None).read_all_pauses();
        assert_eq!(sleeps_between(&sleep), [[30, 100]]);
        assert!(tallies.iter().all(|tally| tally.disturbed == 0));
        assert!(tallies.iter().all(|tally| tally.undisturbed == 4));
    }

    #[test]
    fn pauses_that_others_disturb_are_repeated_until_they_are_over() {
        // A file system initialises tables for 0.7 s, which keeps the drive awake in pauses of 100 ms.
        let mut drive = SleepyDrive::new(Some((50_000_000, 700_000_000)));
        let (sleep, tallies) = drive.read_all_pauses();
        assert_eq!(sleeps_between(&sleep), [[30, 100]]);
        let after_100_ms = tallies[2];
        assert_eq!(after_100_ms.gap, Nanoseconds::from_millis(100));
        assert!(after_100_ms.disturbed > 0 && after_100_ms.requests > 0);
        assert_eq!((after_100_ms.undisturbed, after_100_ms.reads), (4, 0));
    }

    #[test]
    fn a_drive_that_others_always_use_has_no_long_pause_and_ends() {
        let mut drive = SleepyDrive::new(Some((80_000_000, u64::MAX)));
        let (sleep, tallies) = drive.read_all_pauses();
        assert!(sleep.entries().is_empty());
        assert_eq!(sleep.gaps.last().unwrap().gap, Nanoseconds::from_millis(30));
        let notes = PauseTally::describe(&tallies);
        assert!(
            notes[1].contains("never left alone for 100.0 ms"),
            "{notes:?}"
        );
        // Twice the time of four pauses of each length.
        assert!(drive.now < 2 * 4 * 1_500_000_000, "{}", drive.now);
    }

    #[test]
    fn reads_count_where_the_disk_does_not_count() {
        let mut drive = SleepyDrive::new(None);
        drive.counts = false;
        let (sleep, tallies) = drive.read_all_pauses();
        assert_eq!(sleeps_between(&sleep), [[30, 100]]);
        assert!(tallies.is_empty());
    }
}
