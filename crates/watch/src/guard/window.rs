//! Windows: the time that a verdict is about.

use std::collections::BTreeMap;

use crate::LatencyCounts;

/// Requests that a window has at least.
pub const WINDOW_REQUESTS: u64 = 1_000;
/// Slices with requests that a window has at least: ten seconds.
pub const WINDOW_SLICES: u32 = 10;
/// Groups of a window at most; neighbours are merged where there would be more.
const MOST_GROUPS: usize = 40;

/// Latencies in ns of requests completed by a drive in a slice of time. Requests without a waiting task, such as
/// read-ahead and write-back, are not among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriveLatencies {
    /// Reads.
    pub reads: LatencyCounts,
    /// Writes, discards and flushes.
    pub writes: LatencyCounts,
}

/// Latencies of requests completed in about a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencySlice {
    /// Drives by the kernel's name, such as `nvme0n1`. Drives without requests may be left out.
    pub drives: BTreeMap<String, DriveLatencies>,
}

/// A window that is being filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    groups: Vec<LatencyCounts>,
    requests: u64,
    slices: u32,
}

impl Window {
    /// Adds the latencies of a slice. A slice without requests changes nothing.
    pub(super) fn add_slice(&mut self, counts: LatencyCounts) {
        if counts.requests() == 0 {
            return;
        }
        self.requests = self.requests.saturating_add(counts.requests());
        self.slices = self.slices.saturating_add(1);
        self.groups.push(counts);
        if self.groups.len() > MOST_GROUPS {
            self.groups = merge_neighbours(&self.groups);
        }
    }

    /// Takes the groups if the window is complete, and begins the next window.
    pub(super) fn take_if_complete(&mut self) -> Option<Vec<LatencyCounts>> {
        let complete = self.requests >= WINDOW_REQUESTS && self.slices >= WINDOW_SLICES;
        complete.then(|| std::mem::take(self).groups)
    }

    /// Requests that the window has so far.
    pub(super) const fn requests(&self) -> u64 {
        self.requests
    }
}

/// Merges each group with the next one.
fn merge_neighbours(groups: &[LatencyCounts]) -> Vec<LatencyCounts> {
    let pairs = groups.chunks(2).map(|pair| {
        let mut merged = LatencyCounts::new();
        for group in pair {
            merged.add_counts(group);
        }
        merged
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(number: u64) -> LatencyCounts {
        let mut counts = LatencyCounts::new();
        (0..number).for_each(|_| counts.add_latency(100_000));
        counts
    }

    #[test]
    fn quiet_time_fills_no_window() {
        let mut window = Window::default();
        for _ in 0..1_000 {
            window.add_slice(requests(0));
        }
        window.add_slice(requests(5_000));
        assert!(window.take_if_complete().is_none(), "a single busy second");
        for _ in 0..9 {
            window.add_slice(requests(1));
        }
        assert_eq!(window.take_if_complete().unwrap().len(), 10);
        assert_eq!(window.requests(), 0);
    }

    #[test]
    fn a_window_waits_for_a_thousand_requests_and_keeps_them_in_few_groups() {
        let mut window = Window::default();
        for slice in 0..999 {
            window.add_slice(requests(1));
            assert!(window.take_if_complete().is_none(), "{slice}");
        }
        window.add_slice(requests(1));
        let groups = window.take_if_complete().unwrap();
        assert!(groups.len() <= MOST_GROUPS);
        let all: u64 = groups.iter().map(LatencyCounts::requests).sum();
        assert_eq!(all, 1_000);
    }
}
