//! Requests in time order.
//!
//! Tools write several CPUs' events almost in order. A request up to [`WINDOW`] requests behind its place is moved there.
//! A request farther behind is an error, since later requests have been handed on by then.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::BufRead;

use super::error::{LineProblem, TraceProblem};
use super::parsed::{ParsedRequests, PlacedRequest};

/// Most requests held for sorting.
pub(super) const WINDOW: usize = 1 << 16;

/// Count of requests behind later ones.
#[derive(Clone, Copy, Debug, Default)]
struct MisplacedCount {
    latest: u64,
    count: u64,
}

impl MisplacedCount {
    fn add_request_at(&mut self, time: u64) {
        self.count += u64::from(time < self.latest);
        self.latest = self.latest.max(time);
    }
}

/// Sorts requests within a window.
#[derive(Debug)]
pub(super) struct OrderedRequests<R> {
    parsed: ParsedRequests<R>,
    /// Number of the only disk that counts; `None`: all disks count.
    disk: Option<usize>,
    /// Held requests, ascending: most traces are in order, and need no heap.
    in_order: VecDeque<PlacedRequest>,
    /// Held requests that are earlier than one read before.
    late: BinaryHeap<Reverse<PlacedRequest>>,
    window: usize,
    /// Begin in ns of the last request handed on.
    last: u64,
    misplaced: MisplacedCount,
    misplaced_by_disk: Vec<MisplacedCount>,
}

impl<R: BufRead> OrderedRequests<R> {
    pub(super) fn new(parsed: ParsedRequests<R>, disk: Option<usize>) -> Self {
        Self::with_window(parsed, disk, WINDOW)
    }

    fn with_window(parsed: ParsedRequests<R>, disk: Option<usize>, window: usize) -> Self {
        Self {
            parsed,
            disk,
            in_order: VecDeque::new(),
            late: BinaryHeap::new(),
            window,
            last: 0,
            misplaced: MisplacedCount::default(),
            misplaced_by_disk: Vec::new(),
        }
    }

    /// Count of requests behind later ones, on any disk.
    pub(super) fn misplaced(&self) -> u64 {
        self.misplaced.count
    }

    /// Count of a disk's requests behind later ones, on the same disk.
    pub(super) fn misplaced_of_disk(&self, disk: usize) -> u64 {
        (self.misplaced_by_disk.get(disk)).map_or(0, |misplaced| misplaced.count)
    }

    /// The line reader.
    pub(super) fn parsed(&self) -> &ParsedRequests<R> {
        &self.parsed
    }

    /// The next request by time; `None` after the last.
    ///
    /// # Errors
    /// A line or record cannot be understood, or stands too far behind its place.
    pub(super) fn next_request(&mut self) -> Result<Option<PlacedRequest>, TraceProblem> {
        while self.in_order.len() + self.late.len() <= self.window {
            let Some(request) = self.parsed.next_request()? else {
                break;
            };
            if self.disk.is_some_and(|disk| disk != request.disk) {
                continue;
            }
            if request.time < self.last {
                let message = format!(
                    "the request is {:.6} s earlier than one that stands more than {} requests before it: sort the trace \
                     by time",
                    (self.last - request.time) as f64 / 1e9,
                    self.window
                );
                let line = request.line;
                return Err(LineProblem { line, message }.into());
            }
            self.count_if_misplaced(&request);
            if self.in_order.back().is_none_or(|last| *last <= request) {
                self.in_order.push_back(request);
            } else {
                self.late.push(Reverse(request));
            }
        }
        let first = self.take_first_held();
        self.last = first.map_or(self.last, |first| first.time);
        Ok(first)
    }

    fn count_if_misplaced(&mut self, request: &PlacedRequest) {
        self.misplaced.add_request_at(request.time);
        if self.misplaced_by_disk.len() <= request.disk {
            (self.misplaced_by_disk).resize_with(request.disk + 1, Default::default);
        }
        self.misplaced_by_disk[request.disk].add_request_at(request.time);
    }

    fn take_first_held(&mut self) -> Option<PlacedRequest> {
        let late_is_first = match (self.late.peek(), self.in_order.front()) {
            (Some(Reverse(late)), Some(front)) => late < front,
            (late, _) => late.is_some(),
        };
        if late_is_first {
            return self.late.pop().map(|Reverse(first)| first);
        }
        self.in_order.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::BlockTraceFormat;
    use super::*;

    fn times(text: &str, window: usize) -> Result<Vec<u64>, TraceProblem> {
        let format = BlockTraceFormat::MsrCambridge;
        let parsed = ParsedRequests::new(text.as_bytes(), format, false);
        let mut ordered = OrderedRequests::with_window(parsed, None, window);
        let mut times = Vec::new();
        while let Some(request) = ordered.next_request()? {
            times.push(request.time / 100);
        }
        Ok(times)
    }

    fn trace(times: &[u64]) -> String {
        let lines = times
            .iter()
            .map(|time| format!("{time},a,0,Read,0,512,1\n"));
        lines.collect()
    }

    proptest! {
        #[test]
        fn requests_within_the_window_are_sorted(
            mut wanted in prop::collection::vec(0_u64..1000, 1..60),
            window in 4_usize..20,
        ) {
            wanted.sort_unstable();
            // Blocks of so many requests, each backwards, are at most that far from their places.
            let mut mixed = wanted.clone();
            for block in mixed.chunks_mut(window) {
                block.reverse();
            }
            prop_assert_eq!(times(&trace(&mixed), window), Ok(wanted));
        }
    }

    #[test]
    fn a_request_beyond_the_window_is_an_error_with_its_line() {
        let problem = times(&trace(&[10, 20, 30, 40, 5]), 2).unwrap_err();
        let TraceProblem::Line(problem) = problem else {
            panic!("{problem:?}");
        };
        assert_eq!(problem.line, 5);
        assert!(problem.message.contains("sort the trace"), "{problem:?}");
        assert_eq!(
            times(&trace(&[10, 20, 30, 15, 40]), 2),
            Ok(vec![10, 15, 20, 30, 40])
        );
    }
}
