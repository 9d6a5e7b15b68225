//! Requests of others during a pause, by the disk's own count: a drive that others use does not fall asleep.

use wakepath_system::Root;

use super::block_counters::read_block_stat;

/// Levels of disks below disks: a volume on an encrypted partition of an array has 3.
const MOST_LEVELS: usize = 8;

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

    /// Others' requests since `before`, when this program has read once, and the number of reads among them. `None`: the disk has
    /// counted no read at all (`queue/iostats` is off).
    pub(super) fn requests_of_others_since(self, before: Self) -> Option<(u64, u64)> {
        let reads = self.reads.checked_sub(before.reads)?.checked_sub(1)?;
        let changes = self.changes.saturating_sub(before.changes);
        // A request in flight keeps the drive awake, whenever submitted.
        let requests = reads.saturating_add(changes).saturating_add(self.in_flight);
        Some((requests, reads))
    }
}

/// The whole disks below a volume or array; for another disk, only the disk.
pub(super) fn find_serving_disks(root: &Root, disk: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut level = vec![disk.to_owned()];
    for _ in 0..MOST_LEVELS {
        let mut below = Vec::new();
        for disk in level {
            let parts = root.list_names(&format!("sys/block/{disk}/slaves"));
            if parts.is_empty() {
                found.push(disk);
            } else {
                below.extend(parts.iter().filter_map(|part| whole_disk(root, part)));
            }
        }
        below.sort_unstable();
        below.dedup();
        level = below;
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// The disk of a partition; of a disk the same name.
fn whole_disk(root: &Root, device: &str) -> Option<String> {
    if root.exists(&format!("sys/block/{device}/stat")) {
        return Some(device.to_owned());
    }
    let mut disks = root.list_names("sys/block").into_iter();
    disks.find(|disk| root.exists(&format!("sys/block/{disk}/{device}/partition")))
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
            assert_eq!(count.requests_of_others_since(before), others, "{after}");
        }
        // Linux 4.17 and before have 11 fields.
        let old = read_count_from("100 1 800 9 50 2 400 9 0 9 9").unwrap();
        let written = read_count_from("101 1 808 9 52 2 416 9 0 9 9").unwrap();
        assert_eq!(written.requests_of_others_since(old), Some((2, 0)));
        for bad in ["", "1 2 3", "1 2 3 4 5 6 7 8 x 9 9", "-1 2 3 4 5 6 7 8 9"] {
            assert_eq!(read_count_from(bad), None, "{bad}");
        }
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at_directory(folder.path());
        assert_eq!(BegunRequests::count(&root, &[]), None);
        assert_eq!(BegunRequests::count(&root, &["sda".to_owned()]), None);
    }

    #[test]
    fn a_volume_is_served_by_the_whole_disks_below() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at_directory(folder.path());
        for disk in ["sda", "nvme0n1", "dm-0", "dm-1", "md0"] {
            write_stat(folder.path(), disk, "0 0 0 0 0 0 0 0 0 0 0");
        }
        let block = folder.path().join("sys/block");
        for partition in ["sda/sda1", "sda/sda2", "nvme0n1/nvme0n1p3"] {
            fs::create_dir_all(block.join(partition)).unwrap();
            fs::write(block.join(partition).join("partition"), "1").unwrap();
        }
        for (disk, below) in [
            ("dm-1", "dm-0"),
            ("dm-0", "md0"),
            ("md0", "sda2"),
            ("md0", "nvme0n1p3"),
        ] {
            fs::create_dir_all(block.join(disk).join("slaves").join(below)).unwrap();
        }
        assert_eq!(find_serving_disks(&root, "dm-1"), ["nvme0n1", "sda"]);
        assert_eq!(find_serving_disks(&root, "sda"), ["sda"]);
        // A circle, which no kernel has, ends.
        fs::create_dir_all(block.join("sda/slaves/dm-1")).unwrap();
        assert_eq!(find_serving_disks(&root, "dm-1"), ["nvme0n1"]);
    }
}
