//! Requests in time order.
//!
//! Tools write several CPUs' events almost in order. A request up to [`WINDOW`] requests behind its place is moved there.
//! A request farther behind is an error, since later requests have been handed on by then.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::BufRead;

use super::error::LineProblem;
use super::parsed::{ParsedRequests, PlacedRequest};

/// Most requests held for sorting.
pub(super) const WINDOW: usize = 1 << 16;

/// Sorts requests within a window.
#[derive(Debug)]
pub(super) struct OrderedRequests<R> {
    parsed: ParsedRequests<R>,
    /// Number of the only disk that counts; `None`: all disks count.
    disk: Option<usize>,
    held: BinaryHeap<Reverse<PlacedRequest>>,
    window: usize,
    /// Begin in ns of the last request handed on.
    last: u64,
}

impl<R: BufRead> OrderedRequests<R> {
    pub(super) fn new(parsed: ParsedRequests<R>, disk: Option<usize>) -> Self {
        Self::with_window(parsed, disk, WINDOW)
    }

    fn with_window(parsed: ParsedRequests<R>, disk: Option<usize>, window: usize) -> Self {
        Self {
            parsed,
            disk,
            held: BinaryHeap::new(),
            window,
            last: 0,
        }
    }

    /// The line reader.
    pub(super) fn parsed(&self) -> &ParsedRequests<R> {
        &self.parsed
    }

    /// The next request by time; `None` after the last.
    ///
    /// # Errors
    /// A line cannot be understood, or stands too far behind its place.
    pub(super) fn next_request(&mut self) -> Result<Option<PlacedRequest>, LineProblem> {
        while self.held.len() <= self.window {
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
                return Err(LineProblem { line, message });
            }
            self.held.push(Reverse(request));
        }
        let Some(Reverse(first)) = self.held.pop() else {
            return Ok(None);
        };
        self.last = first.time;
        Ok(Some(first))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::BlockTraceFormat;
    use super::*;

    fn times(text: &str, window: usize) -> Result<Vec<u64>, LineProblem> {
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
        assert_eq!(problem.line, 5);
        assert!(problem.message.contains("sort the trace"), "{problem:?}");
        assert_eq!(
            times(&trace(&[10, 20, 30, 15, 40]), 2),
            Ok(vec![10, 15, 20, 30, 40])
        );
    }
}
