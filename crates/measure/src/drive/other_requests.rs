//! Requests of others during a pause, by the disk's own count: a drive that others use does not fall asleep.

use wakepath_system::Root;

use super::block_counters::read_block_stat;

/// Requests of disks, finished since boot or in flight, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BegunRequests {
    reads: u64,
    /// Writes, discards and flushes.
    changes: u64,
    /// Requests in flight, of any kind.
    in_flight: u64,
}

impl BegunRequests {
    /// Counts of a disk without a request in flight.
    #[cfg(test)]
    pub(super) const fn with_counts(reads: u64, changes: u64) -> Self {
        Self {
            reads,
            changes,
            in_flight: 0,
        }
    }

    /// Counts the requests of all given disks; `None` without a disk, or if a disk's count cannot be read.
    pub(super) fn count(root: &Root, disks: &[String]) -> Option<Self> {
        let mut sum = (!disks.is_empty()).then(Self::default)?;
        for disk in disks {
            let fields = read_block_stat(root, disk)?;
            // Kernels before 4.18 count no discards, and those before 5.5 no flushes.
            let [reads, _, _, _, writes, _, _, _, in_flight, more @ ..] = fields.as_slice() else {
                return None;
            };
            let (discards, flushes) = (more.get(2).unwrap_or(&0), more.get(6).unwrap_or(&0));
            sum.reads = sum.reads.wrapping_add(*reads);
            let changes = [writes, discards, flushes].into_iter();
            sum.changes = changes.fold(sum.changes, |sum, count| sum.wrapping_add(*count));
            sum.in_flight = sum.in_flight.saturating_add(*in_flight);
        }
        Some(sum)
    }

    /// Others' requests since `before`, when this program has read so many times, and the number of reads among them. `None`: the
    /// disk has counted fewer reads (`queue/iostats` is off).
    pub(super) fn requests_of_others_since(
        self,
        before: Self,
        own_reads: u64,
    ) -> Option<(u64, u64)> {
        let reads = self
            .reads
            .checked_sub(before.reads)?
            .checked_sub(own_reads)?;
        let changes = self.changes.saturating_sub(before.changes);
        // A request in flight keeps the drive awake, whenever submitted.
        let requests = reads.saturating_add(changes).saturating_add(self.in_flight);
        Some((requests, reads))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn write_stat(folder: &Path, disk: &str, fields: &str) {
        let disk = folder.join("sys/block").join(disk);
        fs::create_dir_all(&disk).unwrap();
        fs::write(disk.join("stat"), fields).unwrap();
    }

    /// The count of a disk `sda` whose file `stat` has this text.
    fn read_count_from(text: &str) -> Option<BegunRequests> {
        let folder = tempfile::tempdir().unwrap();
        write_stat(folder.path(), "sda", text);
        BegunRequests::count(&Root::at_directory(folder.path()), &["sda".to_owned()])
    }

    #[test]
    fn requests_of_others_are_what_the_disk_counted_beyond_ours() {
        // Reads, writes, in flight, discards and flushes are the 1st, 5th, 9th, 12th and 16th.
        let before = read_count_from("100 1 800 9 50 2 400 9 0 9 9 3 0 24 0 7 1\n").unwrap();
        for (after, others) in [
            ("101 1 808 9 50 2 400 9 0 9 9 3 0 24 0 7 1", Some((0, 0))),
            ("103 1 824 9 51 2 408 9 1 9 9 4 0 32 0 8 1", Some((6, 2))),
            // Statistics are off (`queue/iostats`): our read is not there.
            ("100 1 800 9 50 2 400 9 0 9 9 3 0 24 0 7 1", None),
            // Another disk took the name.
            ("1 0 8 0 0 0 0 0 0 0 0 0 0 0 0 0 0", None),
        ] {
            let count = read_count_from(after).unwrap();
            assert_eq!(count.requests_of_others_since(before, 1), others, "{after}");
        }
        // Linux 4.17 and before have 11 fields.
        let old = read_count_from("100 1 800 9 50 2 400 9 0 9 9").unwrap();
        let written = read_count_from("101 1 808 9 52 2 416 9 0 9 9").unwrap();
        assert_eq!(written.requests_of_others_since(old, 1), Some((2, 0)));
        for bad in ["", "1 2 3", "1 2 3 4 5 6 7 8 x 9 9", "-1 2 3 4 5 6 7 8 9"] {
            assert_eq!(read_count_from(bad), None, "{bad}");
        }
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at_directory(folder.path());
        assert_eq!(BegunRequests::count(&root, &[]), None);
        assert_eq!(BegunRequests::count(&root, &["sda".to_owned()]), None);
    }
}
