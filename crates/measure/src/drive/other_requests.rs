//! Requests of others during a pause, by the disk's own count: a drive that others use does not fall asleep.

use serde::Serialize;
use wakepath_system::Root;
use wakepath_units::Nanoseconds;

use super::block_counters::read_block_stat;

/// Disks below disks that are looked into: a volume on an encrypted partition of an array is at 3.
const MOST_LEVELS: usize = 8;

/// Requests that disks have finished since boot or have in flight, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BegunRequests {
    reads: u64,
    /// Writes, discards and flushes.
    changes: u64,
    /// Requests in flight, whose kind the kernel does not tell.
    in_flight: u64,
}

/// Pauses of one length, by whether others used the drive meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PauseTally {
    /// The pause.
    pub gap: Nanoseconds,
    /// Pauses without requests of others. Only the reads after these count.
    pub undisturbed: u64,
    /// Pauses that requests of others disturbed.
    pub disturbed: u64,
    /// Requests of others in disturbed pauses.
    pub requests: u64,
    /// Requests of others that read; the rest wrote, discarded or flushed, or was not finished.
    pub reads: u64,
}

impl BegunRequests {
    /// Counts the requests of these disks; `None` if the count of a disk cannot be read, or there is no disk.
    pub(super) fn count(root: &Root, disks: &[String]) -> Option<Self> {
        let mut sum = (!disks.is_empty()).then(Self::default)?;
        for disk in disks {
            let fields = read_block_stat(root, disk)?;
            // Kernels before 4.18 count no discards, and those before 5.5 no flushes.
            let field = |index: usize| fields.get(index).copied().unwrap_or(0);
            let [reads, writes, in_flight] = [field(0), field(4), *fields.get(8)?];
            let changes = [writes, field(11), field(15)];
            sum.reads = sum.reads.wrapping_add(reads);
            sum.changes = changes.into_iter().fold(sum.changes, u64::wrapping_add);
            sum.in_flight = sum.in_flight.saturating_add(in_flight);
        }
        Some(sum)
    }

    /// Requests of others since `before`, and how many of these read, where one read since was ours. `None`: not even that read
    /// is in the count, so the disk does not count (`queue/iostats`).
    pub(super) fn requests_of_others_since(self, before: Self) -> Option<(u64, u64)> {
        let reads = self.reads.wrapping_sub(before.reads).checked_sub(1)?;
        let changes = self.changes.wrapping_sub(before.changes);
        // A request that began before and goes on keeps the drive awake, too.
        let requests = reads.saturating_add(changes).saturating_add(self.in_flight);
        Some((requests, reads))
    }
}

impl PauseTally {
    /// Notes on how many pauses others disturbed, and from which length on they left none; empty if nobody disturbed any.
    pub(super) fn describe(all: &[Self]) -> Vec<String> {
        let sum = |count: fn(&Self) -> u64| all.iter().map(count).fold(0, u64::saturating_add);
        let disturbed = sum(|pauses| pauses.disturbed);
        if disturbed == 0 {
            return Vec::new();
        }
        let (requests, reads) = (sum(|pauses| pauses.requests), sum(|pauses| pauses.reads));
        let total = disturbed.saturating_add(sum(|pauses| pauses.undisturbed));
        let mut notes = vec![format!(
            "others used the drive in {disturbed} of {total} pauses ({requests} requests, {reads} of them reads); the reads after \
             these do not count"
        )];
        let alone = all.iter().filter(|pauses| pauses.undisturbed > 0);
        let longest_alone = alone.map(|pauses| pauses.gap).max();
        let never_left_alone = all.iter().filter(|pauses| Some(pauses.gap) > longest_alone);
        notes.extend(never_left_alone.min_by_key(|pauses| pauses.gap).map(|pauses| {
            format!(
                "the drive is never left alone for {}: {} requests of others in {} pauses. A sleep that begins later is not \
                 seen; end what uses the drive and measure again",
                pauses.gap, pauses.requests, pauses.disturbed
            )
        }));
        notes
    }
}

/// The disks that serve the requests of a disk: below a volume or array those that it lies on, else itself.
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

/// The disk that a block device is, or is a partition of.
fn whole_disk(root: &Root, device: &str) -> Option<String> {
    let is_disk = |name: &str| root.exists(&format!("sys/block/{name}/stat"));
    if is_disk(device) {
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

    #[test]
    fn requests_of_others_are_what_the_disk_counted_beyond_ours() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at_directory(folder.path());
        let disks = ["sda".to_owned()];
        let count = |fields: &str| {
            write_stat(folder.path(), "sda", fields);
            BegunRequests::count(&root, &disks)
        };
        // Reads, writes, in flight, discards and flushes are the 1st, 5th, 9th, 12th and 16th.
        let before = count("100 1 800 9 50 2 400 9 0 9 9 3 0 24 0 7 1\n").unwrap();
        let others = |fields: &str| count(fields).unwrap().requests_of_others_since(before);
        assert_eq!(
            others("101 1 808 9 50 2 400 9 0 9 9 3 0 24 0 7 1"),
            Some((0, 0))
        );
        assert_eq!(
            others("103 1 824 9 51 2 408 9 1 9 9 4 0 32 0 8 1"),
            Some((6, 2))
        );
        // Statistics are off (`queue/iostats`): not even our read is there.
        assert_eq!(others("100 1 800 9 50 2 400 9 0 9 9 3 0 24 0 7 1"), None);
        // Linux 4.17 and before have 11 fields.
        let old = count("100 1 800 9 50 2 400 9 0 9 9").unwrap();
        let written = count("101 1 808 9 52 2 416 9 0 9 9").unwrap();
        assert_eq!(written.requests_of_others_since(old), Some((2, 0)));
        for bad in ["", "1 2 3", "1 2 3 4 5 6 7 8 x 9 9", "-1 2 3 4 5 6 7 8 9"] {
            assert_eq!(count(bad), None, "{bad}");
        }
        assert_eq!(BegunRequests::count(&root, &[]), None);
        assert_eq!(BegunRequests::count(&root, &["sdb".to_owned()]), None);
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

    #[test]
    fn a_drive_that_is_never_left_alone_is_named_with_the_pause_and_the_requests() {
        let pauses = |ms, undisturbed, disturbed, requests| PauseTally {
            gap: Nanoseconds::from_millis(ms),
            undisturbed,
            disturbed,
            requests,
            reads: requests / 4,
        };
        let none = [pauses(100, 8, 0, 0), pauses(300, 4, 0, 0)];
        assert!(PauseTally::describe(&none).is_empty());
        let some = [pauses(100, 8, 0, 0), pauses(300, 4, 2, 5)];
        assert_eq!(
            PauseTally::describe(&some),
            [
                "others used the drive in 2 of 14 pauses (5 requests, 1 of them reads); the reads after these do not count"
            ]
        );
        // One of the pauses of 100 ms and none of 60 ms was undisturbed, as it may be by chance.
        let always = [
            pauses(1_000, 0, 4, 12),
            pauses(300, 0, 4, 8),
            pauses(100, 1, 7, 9),
            pauses(60, 0, 8, 9),
            pauses(30, 9, 1, 1),
        ];
        let notes = PauseTally::describe(&always);
        let [_, never] = &notes[..] else {
            panic!("{notes:?}")
        };
        assert!(
            never.starts_with(
                "the drive is never left alone for 300.0 ms: 8 requests of others in 4 pauses."
            ),
            "{never}"
        );
    }
}
