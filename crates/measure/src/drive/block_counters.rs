//! The kernel's own account of a disk's requests (`Documentation/block/stat.rst`).

use serde::Serialize;
use wakepath_system::Root;
use wakepath_units::Nanoseconds;

use super::plan::AccessDirection;

/// With fewer requests a mean of whole milliseconds is too coarse.
const FEWEST: u64 = 1000;
/// A larger share of foreign requests spoils the mean.
const OTHERS: f64 = 0.05;

/// Finished requests and their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockCounters {
    requests: [u64; 2],
    ms: [u64; 2],
}

/// The block layer's account of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockLayerView {
    /// Mean time from a request's start to its completion; absent where the kernel does not count, or others' requests
    /// came along.
    pub mean: Option<Nanoseconds>,
    /// Requests of others meanwhile.
    pub foreign_requests: u64,
}

impl BlockCounters {
    pub(super) fn read(root: &Root, disk: &str) -> Option<Self> {
        let text = root.optional(&format!("sys/block/{disk}/stat"))?;
        let parsed: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        match parsed.ok()?[..] {
            [reads, _, _, read_ms, writes, _, _, write_ms, ..] => Some(Self {
                requests: [reads, writes],
                ms: [read_ms, write_ms],
            }),
            _ => None,
        }
    }

    /// The view of `ours` requests in a direction since `before`.
    pub(super) fn view_since(
        self,
        before: Self,
        direction: AccessDirection,
        ours: u64,
    ) -> BlockLayerView {
        let (index, other) = match direction {
            AccessDirection::Read => (0, 1),
            AccessDirection::Write => (1, 0),
        };
        let all = subtract(self.requests, before.requests);
        let requests = all[index];
        let foreign = requests.saturating_sub(ours);
        let enough = ours >= FEWEST && requests >= ours;
        let alone = foreign as f64 <= OTHERS * ours as f64;
        let ms = subtract(self.ms, before.ms)[index];
        BlockLayerView {
            mean: (enough && alone && ms > 0)
                .then(|| Nanoseconds((u128::from(ms) * 1_000_000 / u128::from(requests)) as u64)),
            foreign_requests: foreign.saturating_add(all[other]),
        }
    }
}

fn subtract(now: [u64; 2], before: [u64; 2]) -> [u64; 2] {
    [0, 1].map(|index| now[index].saturating_sub(before[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(requests: [u64; 2], ms: [u64; 2]) -> BlockCounters {
        BlockCounters { requests, ms }
    }

    #[test]
    fn a_mean_is_that_of_our_requests_alone() {
        let before = counters([100, 50], [10, 5]);
        let view =
            |requests, ms| counters(requests, ms).view_since(before, AccessDirection::Read, 10_000);
        let alone = view([10_100, 53], [410, 6]);
        assert_eq!(alone.mean, Some(Nanoseconds(40_000)));
        assert_eq!(alone.foreign_requests, 3);
        assert_eq!(view([11_100, 50], [450, 5]).mean, None);
        assert_eq!(view([11_100, 50], [450, 5]).foreign_requests, 1000);
        // Switched off, or of another device.
        assert_eq!(view([100, 50], [10, 5]), BlockLayerView::default());
        let few = counters([150, 50], [12, 5]).view_since(before, AccessDirection::Read, 50);
        assert_eq!(few.mean, None);
    }
}
