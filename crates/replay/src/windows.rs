//! Windows: times in which every CPU is idle, so that the package may sleep.
//!
//! A first pass over the recording collects the windows ([`WindowFinder`]). A recording lists an idle period at the
//! period's end, so the other CPUs' activity during the period is known only later.

use std::ops::Range;

/// Most windows that are kept; if there are more, the shortest count as busy.
const MAX_WINDOWS: usize = 1 << 20;

/// A window, a time in which every CPU is idle, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: u64,
    /// End of the window: the first CPU leaves the idle loop.
    pub(crate) end: u64,
    /// Time that the package can sleep in all earlier windows together, in ns.
    sleep_before: u64,
}

/// All windows of a recording, in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    list: Vec<Window>,
    /// Time that the package takes to fall asleep, in ns.
    delay: u64,
    /// Time from the start of the first idle span to the end of the last, in ns.
    pub(crate) span: Range<u64>,
    /// Length in ns up to which windows were left out as busy: 0, unless there are too many
    /// windows.
    pub(crate) left_out: u64,
    /// First and last idle time of each CPU, by CPU number; `None` for a CPU that is never idle.
    pub(crate) cpus: Vec<Option<Extent>>,
}

/// Start of a CPU's first idle span and end of the last, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Collects windows from the idle spans of all CPUs.
///
/// A CPU counts as asleep before its first idle span and after its last, and so does a CPU without idle spans.
#[derive(Debug)]
pub(crate) struct WindowFinder {
    /// Times in which some CPU is busy, as start and end in ns: disjoint, in order.
    busy: Vec<(u64, u64)>,
    /// Length in ns up to which windows are not kept.
    join: u64,
    hysteresis: u64,
    delay: u64,
    cpus: Vec<Option<Extent>>,
    most: usize,
}

impl WindowFinder {
    /// Starts without windows. `hysteresis`: the package does not notice shorter idle times;
    /// `delay`: time to fall asleep. Both in ns.
    pub(crate) fn new(hysteresis: u64, delay: u64) -> Self {
        Self {
            busy: Vec::new(),
            join: hysteresis,
            hysteresis,
            delay,
            cpus: Vec::new(),
            most: MAX_WINDOWS,
        }
    }

    /// Takes in an idle span of a CPU, from `start` to `end` ns. Spans of one CPU come in order.
    pub(crate) fn add_idle_span(&mut self, cpu: usize, start: u64, end: u64) {
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, None);
        }
        match &mut self.cpus[cpu] {
            Some(extent) => {
                let since = std::mem::replace(&mut extent.last, end);
                // Spans of one CPU come out of order only if its clock went back.
                if since <= start {
                    self.add_busy_time(since, start);
                }
            }
            none => {
                *none = Some(Extent {
                    first: start,
                    last: end,
                });
            }
        }
    }

    fn add_busy_time(&mut self, start: u64, end: u64) {
        let join = self.join;
        if self
            .busy
            .last()
            .is_none_or(|last| are_further_apart_than(last.1, start, join))
        {
            self.busy.push((start, end));
        } else {
            let first = self
                .busy
                .partition_point(|b| are_further_apart_than(b.1, start, join));
            let after = first
                + self.busy[first..].partition_point(|b| !are_further_apart_than(end, b.0, join));
            if first == after {
                self.busy.insert(first, (start, end));
            } else {
                let whole = (
                    start.min(self.busy[first].0),
                    end.max(self.busy[after - 1].1),
                );
                self.busy[first] = whole;
                self.busy.drain(first + 1..after);
            }
        }
        if self.busy.len() > self.most {
            self.join_busy_times_if_many();
        }
    }

    /// Joins busy times until few enough are left: the shortest windows between them are lost.
    #[cold]
    fn join_busy_times_if_many(&mut self) {
        while self.busy.len() > self.most / 2 {
            self.join = (self.join * 2).max(1000);
            let join = self.join;
            self.busy.dedup_by(|next, kept| {
                let joined = next.0.saturating_sub(kept.1) <= join;
                if joined {
                    kept.1 = kept.1.max(next.1);
                }
                joined
            });
        }
    }

    /// Makes the windows between the busy times.
    pub(crate) fn into_windows_between(self) -> Windows {
        let extents = self.cpus.iter().flatten();
        let start = extents.clone().map(|e| e.first).min().unwrap_or(0);
        let end = extents.map(|e| e.last).max().unwrap_or(0);
        let starts = std::iter::once(start).chain(self.busy.iter().map(|b| b.1));
        let ends = (self.busy.iter().map(|b| b.0)).chain(std::iter::once(end));
        let mut windows = Windows {
            delay: self.delay,
            span: start..end.max(start),
            left_out: if self.join > self.hysteresis {
                self.join
            } else {
                0
            },
            ..Windows::default()
        };
        let mut sleep_before = 0;
        for (start, end) in starts.zip(ends) {
            let length = end.saturating_sub(start);
            if length > self.join {
                windows.list.push(Window {
                    start,
                    end,
                    sleep_before,
                });
                sleep_before += length.saturating_sub(self.delay);
            }
        }
        windows.cpus = self.cpus;
        windows
    }
}

/// Whether more than `longest_gap` ns lie between the end of a busy time and the start of the next.
fn are_further_apart_than(end: u64, start: u64, longest_gap: u64) -> bool {
    start.saturating_sub(end) > longest_gap
}

impl Windows {
    /// Part of the recording's idle extent that lies in these times, in ns.
    pub(crate) fn extent_within(&self, times: impl Iterator<Item = Range<u64>>) -> u64 {
        let lengths = times.map(|time| {
            let from = time.start.max(self.span.start);
            time.end.min(self.span.end).saturating_sub(from)
        });
        lengths.sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn window_at(&self, index: usize) -> Option<&Window> {
        self.list.get(index)
    }

    /// Indices of the windows inside an idle span; windows around a CPU's first and last idle span
    /// may reach beyond the span. `near`: index of a window nearby, for speed.
    #[inline(always)]
    pub(crate) fn windows_in_span(&self, near: usize, start: u64, end: u64) -> Range<usize> {
        let first = self.seek_first_not_before(near, |w| w.end <= start);
        first..self.seek_first_not_before(first, |w| w.start < end)
    }

    /// Index of the first window for which `is_before` does not hold; quickest just behind `near`.
    #[inline(always)]
    fn seek_first_not_before(&self, near: usize, is_before: impl Fn(&Window) -> bool) -> usize {
        if near > 0 && !self.list.get(near - 1).is_some_and(&is_before) {
            return self.list.partition_point(&is_before);
        }
        let mut step = 1;
        let mut from = near;
        while self.list.get(from + step - 1).is_some_and(&is_before) {
            from += step;
            step *= 2;
        }
        let to = (from + step).min(self.list.len());
        from + self.list[from..to].partition_point(&is_before)
    }

    /// Time that the package can sleep in these windows, in ns.
    pub(crate) fn possible_sleep_in(&self, windows: &Range<usize>) -> u64 {
        let Some(last) = windows.clone().last().and_then(|last| self.window_at(last)) else {
            return 0;
        };
        let before = self.window_at(windows.start).map_or(0, |w| w.sleep_before);
        let in_last = (last.end - last.start).saturating_sub(self.delay);
        last.sleep_before - before + in_last
    }

    /// Index of the first window in `range` that ends after `time` ns, or the end of `range`.
    #[inline]
    pub(crate) fn first_window_ending_after(&self, time: u64, range: &Range<usize>) -> usize {
        // Shortcut for the most common cases: an empty range, or a first window that ends later.
        if range.is_empty() || self.window_at(range.start).is_none_or(|w| w.end > time) {
            return range.start;
        }
        let after = self
            .list
            .get(range.start + 1..range.end)
            .unwrap_or_default();
        range.start + 1 + after.partition_point(|w| w.end <= time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn windows_found(finder: WindowFinder) -> Vec<(u64, u64)> {
        let windows = finder.into_windows_between();
        windows.list.iter().map(|w| (w.start, w.end)).collect()
    }

    #[test]
    fn a_window_is_where_every_cpu_is_idle() {
        let mut finder = WindowFinder::new(0, 0);
        finder.add_idle_span(0, 100, 200);
        finder.add_idle_span(0, 210, 300);
        finder.add_idle_span(0, 310, 900);
        // CPU 1 is idle all the time except for one moment, and is known last.
        finder.add_idle_span(1, 150, 500);
        finder.add_idle_span(1, 500, 850);
        assert_eq!(
            windows_found(finder),
            [(100, 200), (210, 300), (310, 500), (500, 900)]
        );
    }

    #[test]
    fn what_the_package_does_not_notice_is_no_window() {
        let mut finder = WindowFinder::new(95, 200);
        for start in [0, 100, 210] {
            finder.add_idle_span(0, start, start + 95);
        }
        finder.add_idle_span(0, 400, 700);
        let windows = finder.into_windows_between();
        assert_eq!(windows.len(), 1);
        assert_eq!(windows.possible_sleep_in(&(0..1)), 100);
        assert_eq!(windows.possible_sleep_in(&(0..0)), 0);
    }

    #[test]
    fn too_many_windows_lose_the_shortest_and_that_is_said() {
        let mut finder = WindowFinder::new(0, 0);
        finder.most = 100;
        for i in 0..1000 {
            let length = if i % 10 == 0 { 50_000 } else { 500 };
            finder.add_idle_span(0, i * 100_000, i * 100_000 + length);
        }
        assert!(finder.busy.len() <= 100);
        let windows = finder.into_windows_between();
        assert!(windows.left_out >= 1000);
    }

    proptest! {
        #[test]
        fn windows_are_what_looking_at_each_moment_finds(
            gaps in prop::collection::vec((0_usize..3, 0_u64..20, 1_u64..30), 1..40),
            near in 0_usize..50,
        ) {
            let mut finder = WindowFinder::new(0, 0);
            let mut busy = [true; 400];
            let mut now = [0_u64; 3];
            let mut extents: Vec<(u64, u64)> = Vec::new();
            let mut awake = Vec::new();
            for (cpu, gap, length) in gaps {
                let start = now[cpu] + gap;
                if start + length > 400 {
                    continue;
                }
                if now[cpu] > 0 {
                    awake.push((now[cpu], start));
                }
                extents.push((start, start + length));
                now[cpu] = start + length;
                finder.add_idle_span(cpu, start, start + length);
            }
            prop_assume!(!extents.is_empty());
            let first = extents.iter().map(|e| e.0).min().unwrap();
            let last = extents.iter().map(|e| e.1).max().unwrap();
            busy[first as usize..last as usize].fill(false);
            for (start, end) in &awake {
                busy[*start as usize..*end as usize].fill(true);
            }
            let windows = finder.into_windows_between();
            for moment in 0..400_u64 {
                let inside = windows.list.iter().any(|w| (w.start..w.end).contains(&moment));
                prop_assert_eq!(inside, !busy[moment as usize], "{}", moment);
            }
            // A wake-up without any busy time also ends a window.
            for (start, _) in &awake {
                prop_assert!(!windows.list.iter().any(|w| w.start < *start && *start < w.end));
            }
            for time in 0..400 {
                let expected = windows.list.iter().filter(|w| w.start < time).count();
                let found = windows.seek_first_not_before(near.min(windows.len()), |w| w.start < time);
                prop_assert_eq!(found, expected);
            }
            let all = windows.windows_in_span(0, first, last);
            prop_assert_eq!(all.len(), windows.len());
            let whole: u64 = windows.list.iter().map(|w| w.end - w.start).sum();
            prop_assert_eq!(windows.possible_sleep_in(&all), whole);
        }
    }
}
