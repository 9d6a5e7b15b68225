//! The kernel's own account of a disk's requests (`Documentation/block/stat.rst`).

use serde::Serialize;
use wakepath_system::Root;
use wakepath_units::Nanoseconds;

use super::plan::AccessDirection;

/// With fewer requests a mean of whole milliseconds is too coarse.
const FEWEST: u64 = 1000;
/// A larger share of foreign requests spoils the mean: each may take a hundred times as long as ours.
const OTHERS: f64 = 0.005;

/// Finished requests of a disk, and the time that they took in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockCounters {
    requests: [u64; 2],
    /// Data in units of 512 bytes.
    sectors: [u64; 2],
    ms: [u64; 2],
}

/// The load that counters are read around.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedLoad {
    pub(super) direction: AccessDirection,
    pub(super) requests: u64,
    /// Size of each request of the load in bytes.
    pub(super) kib: u64,
    /// Mean latency as the program sees it, which has the block layer's part in it.
    pub(super) mean_ns: f64,
}

/// The block layer's account of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockLayerView {
    /// Mean time from a request's start to its completion; absent where the kernel does not count, or others' requests
    /// came along.
    pub mean: Option<Nanoseconds>,
    /// Requests of others meanwhile; absent where requests were split, so that their number does not tell.
    pub foreign_requests: Option<u64>,
}

impl BlockCounters {
    pub(super) fn read(root: &Root, disk: &str) -> Option<Self> {
        match read_block_stat(root, disk)?[..] {
            [
                reads,
                _,
                read_sectors,
                read_ms,
                writes,
                _,
                write_sectors,
                write_ms,
                ..,
            ] => Some(Self {
                requests: [reads, writes],
                sectors: [read_sectors, write_sectors],
                ms: [read_ms, write_ms],
            }),
            _ => None,
        }
    }

    /// The view of a load since `before`.
    pub(super) fn view_since(self, before: Self, load: CountedLoad) -> BlockLayerView {
        let (index, other) = match load.direction {
            AccessDirection::Read => (0, 1),
            AccessDirection::Write => (1, 0),
        };
        let all = subtract(self.requests, before.requests);
        let (requests, ours) = (all[index], load.requests);
        let foreign = requests.saturating_sub(ours);
        let sectors = subtract(self.sectors, before.sectors)[index];
        let foreign_sectors = sectors.saturating_sub(ours.saturating_mul(load.kib * 2));
        // A request of others has a sector at least; without data a request is a part of ours.
        let is_split = foreign > foreign_sectors;
        let enough = ours >= FEWEST && requests >= ours;
        let alone = foreign as f64 <= OTHERS * ours as f64;
        let ms = subtract(self.ms, before.ms)[index];
        let mean = Nanoseconds((u128::from(ms) * 1_000_000 / u128::from(requests.max(1))) as u64);
        // A part is longer than the whole only where requests of others were slow.
        let is_ours = ms > 0 && mean.0 as f64 <= load.mean_ns;
        BlockLayerView {
            mean: (enough && alone && is_ours).then_some(mean),
            foreign_requests: (!is_split).then(|| foreign.saturating_add(all[other])),
        }
    }
}

/// The counters of a disk in the kernel's order; `None` if they cannot be read.
pub(super) fn read_block_stat(root: &Root, disk: &str) -> Option<Vec<u64>> {
    let text = root.read_text_if_readable(&format!("sys/block/{disk}/stat"))?;
    text.split_whitespace()
        .map(|word| word.parse().ok())
        .collect()
}

fn subtract(now: [u64; 2], before: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|index| now[index].saturating_sub(before[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters after requests of 4 KiB, unless `sectors` says otherwise.
    fn counters(requests: [u64; 2], ms: [u64; 2]) -> BlockCounters {
        BlockCounters {
            requests,
            sectors: requests.map(|requests| requests * 8),
            ms,
        }
    }

    const fn reads(requests: u64, kib: u64) -> CountedLoad {
        CountedLoad {
            direction: AccessDirection::Read,
            requests,
            kib,
            mean_ns: 60_000.0,
        }
    }

    #[test]
    fn a_part_that_is_longer_than_the_whole_is_not_ours() {
        let slow = counters([10_010, 0], [1_000, 0]);
        let view = slow.view_since(BlockCounters::default(), reads(10_000, 4));
        assert_eq!((view.mean, view.foreign_requests), (None, Some(10)));
    }

    #[test]
    fn a_mean_is_that_of_our_requests_alone() {
        let before = counters([100, 50], [10, 5]);
        let view = |requests, ms| counters(requests, ms).view_since(before, reads(10_000, 4));
        let alone = view([10_100, 53], [410, 6]);
        assert_eq!(alone.mean, Some(Nanoseconds(40_000)));
        assert_eq!(alone.foreign_requests, Some(3));
        assert_eq!(view([11_100, 50], [450, 5]).mean, None);
        assert_eq!(view([11_100, 50], [450, 5]).foreign_requests, Some(1000));
        // Switched off, or of another device.
        let off = view([100, 50], [10, 5]);
        assert_eq!((off.mean, off.foreign_requests), (None, Some(0)));
        let few = counters([150, 50], [12, 5]).view_since(before, reads(50, 4));
        assert_eq!(few.mean, None);
    }

    #[test]
    fn parts_of_our_requests_are_not_those_of_others() {
        let before = BlockCounters::default();
        // 2000 requests of 1 MiB, each split in two.
        let after = BlockCounters {
            requests: [4000, 0],
            sectors: [2000 * 2048, 0],
            ms: [1000, 0],
        };
        let view = after.view_since(before, reads(2000, 1024));
        assert_eq!((view.mean, view.foreign_requests), (None, None));
    }
}
