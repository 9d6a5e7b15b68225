//! The times in which every CPU of the recording is idle, and so the package may sleep.
//!
//! A first passage over the recording collects them ([`Finder`]), because an idle period stands in a recording at its end:
//! what the other CPUs do meanwhile is known only later.

use std::ops::Range;

/// More windows than this are not kept: the shortest ones count as busy.
const MOST: usize = 1 << 20;

/// A time in which every CPU is idle, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: u64,
    /// When the first CPU leaves its idle loop.
    pub(crate) end: u64,
    /// How long the package can have slept in the windows before this one.
    sleep_before: u64,
}

/// All windows of a recording, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    list: Vec<Window>,
    /// How long the package takes to fall asleep.
    delay: u64,
    /// From the beginning of the first idle span to the end of the last one.
    pub(crate) span: Range<u64>,
    /// Idle times up to this long count as busy: 0, unless there are too many.
    pub(crate) left_out: u64,
    /// When each CPU was first and last idle; by number.
    pub(crate) cpus: Vec<Option<Extent>>,
}

/// When a CPU began its first idle span and ended its last one, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Collects windows from the idle spans of all CPUs.
///
/// Before its first idle span and after its last one a CPU counts as asleep, as one does that has none at all.
#[derive(Debug)]
pub(crate) struct Finder {
    /// When some CPU is busy: apart from each other, in order.
    busy: Vec<(u64, u64)>,
    /// Idle times up to this long are not worth keeping.
    join: u64,
    hysteresis: u64,
    delay: u64,
    cpus: Vec<Option<Extent>>,
    most: usize,
}

impl Finder {
    /// `hysteresis`: the package does not notice shorter idle times; `delay`: it needs this long to fall asleep. In ns.
    pub(crate) fn new(hysteresis: u64, delay: u64) -> Self {
        Self {
            busy: Vec::new(),
            join: hysteresis,
            hysteresis,
            delay,
            cpus: Vec::new(),
            most: MOST,
        }
    }

    /// A CPU was idle. Idle spans of one CPU come in order.
    pub(crate) fn span(&mut self, cpu: usize, start: u64, end: u64) {
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, None);
        }
        match &mut self.cpus[cpu] {
            Some(extent) => {
                let since = std::mem::replace(&mut extent.last, end);
                // Otherwise the clock went back.
                if since <= start {
                    self.busy(since, start);
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

    fn busy(&mut self, start: u64, end: u64) {
        let join = self.join;
        let far = |a: u64, b: u64| b.saturating_sub(a) > join;
        if self.busy.last().is_none_or(|last| far(last.1, start)) {
            self.busy.push((start, end));
        } else {
            let first = self.busy.partition_point(|b| far(b.1, start));
            let after = first + self.busy[first..].partition_point(|b| !far(end, b.0));
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
            self.join_more();
        }
    }

    /// Leaves the shortest windows out.
    #[cold]
    fn join_more(&mut self) {
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

    /// What lies between.
    pub(crate) fn finish(self) -> Windows {
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

impl Windows {
    /// How much of the span is in these times, in ns.
    pub(crate) fn span_in(&self, times: impl Iterator<Item = Range<u64>>) -> u64 {
        let of = |time: Range<u64>| {
            let from = time.start.max(self.span.start);
            time.end.min(self.span.end).saturating_sub(from)
        };
        times.map(of).sum()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Window> {
        self.list.get(index)
    }

    /// The windows that an idle span has a part in: all of them lie inside of it, but for those around a CPU's first and last
    /// idle span. `near`: a window that is not far from there.
    #[inline(always)]
    pub(crate) fn within(&self, near: usize, start: u64, end: u64) -> Range<usize> {
        let first = self.seek(near, |w| w.end <= start);
        first..self.seek(first, |w| w.start < end)
    }

    /// The first window of which `is_before` is not true; quickest just behind `near`.
    #[inline(always)]
    fn seek(&self, near: usize, is_before: impl Fn(&Window) -> bool) -> usize {
        let before = |index: usize| self.list.get(index).is_some_and(&is_before);
        if near > 0 && !before(near - 1) {
            return self.list.partition_point(&is_before);
        }
        let mut step = 1;
        let mut from = near;
        while before(from + step - 1) {
            from += step;
            step *= 2;
        }
        let to = (from + step).min(self.list.len());
        from + self.list[from..to].partition_point(&is_before)
    }

    /// How long the package can sleep in these windows, in ns.
    pub(crate) fn sleep_in(&self, windows: &Range<usize>) -> u64 {
        let Some(last) = windows.clone().last().and_then(|last| self.get(last)) else {
            return 0;
        };
        let before = self.get(windows.start).map_or(0, |w| w.sleep_before);
        let of_last = (last.end - last.start).saturating_sub(self.delay);
        last.sleep_before - before + of_last
    }

    /// The first of these windows that has not ended by `time`, or the end of them.
    #[inline]
    pub(crate) fn not_over_by(&self, time: u64, of: &Range<usize>) -> usize {
        // Mostly there is one, or none.
        if of.is_empty() || self.get(of.start).is_none_or(|w| w.end > time) {
            return of.start;
        }
        let after = self.list.get(of.start + 1..of.end).unwrap_or_default();
        of.start + 1 + after.partition_point(|w| w.end <= time)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(finder: Finder) -> Vec<(u64, u64)> {
        let windows = finder.finish();
        windows.list.iter().map(|w| (w.start, w.end)).collect()
    }

    #[test]
    fn a_window_is_where_every_cpu_is_idle() {
        let mut finder = Finder::new(0, 0);
        finder.span(0, 100, 200);
        finder.span(0, 210, 300);
        finder.span(0, 310, 900);
        // Idle all the time, but for one moment; known last.
        finder.span(1, 150, 500);
        finder.span(1, 500, 850);
        assert_eq!(
            found(finder),
            [(100, 200), (210, 300), (310, 500), (500, 900)]
        );
    }

    #[test]
    fn what_the_package_does_not_notice_is_no_window() {
        let mut finder = Finder::new(95, 200);
        for start in [0, 100, 210] {
            finder.span(0, start, start + 95);
        }
        finder.span(0, 400, 700);
        let windows = finder.finish();
        assert_eq!(windows.len(), 1);
        assert_eq!(windows.sleep_in(&(0..1)), 100);
        assert_eq!(windows.sleep_in(&(0..0)), 0);
    }

    #[test]
    fn too_many_windows_lose_the_shortest_and_that_is_said() {
        let mut finder = Finder::new(0, 0);
        finder.most = 100;
        for i in 0..1000 {
            let length = if i % 10 == 0 { 50_000 } else { 500 };
            finder.span(0, i * 100_000, i * 100_000 + length);
        }
        assert!(finder.busy.len() <= 100);
        let windows = finder.finish();
        assert!(windows.left_out >= 1000);
    }

    proptest! {
        #[test]
        fn windows_are_what_looking_at_each_moment_finds(
            gaps in prop::collection::vec((0_usize..3, 0_u64..20, 1_u64..30), 1..40),
            near in 0_usize..50,
        ) {
            let mut finder = Finder::new(0, 0);
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
                finder.span(cpu, start, start + length);
            }
            prop_assume!(!extents.is_empty());
            let first = extents.iter().map(|e| e.0).min().unwrap();
            let last = extents.iter().map(|e| e.1).max().unwrap();
            busy[first as usize..last as usize].fill(false);
            for (start, end) in &awake {
                busy[*start as usize..*end as usize].fill(true);
            }
            let windows = finder.finish();
            for moment in 0..400_u64 {
                let inside = windows.list.iter().any(|w| (w.start..w.end).contains(&moment));
                prop_assert_eq!(inside, !busy[moment as usize], "{}", moment);
            }
            // A wake-up without any length ends a window, too.
            for (start, _) in &awake {
                prop_assert!(!windows.list.iter().any(|w| w.start < *start && *start < w.end));
            }
            for time in 0..400 {
                let expected = windows.list.iter().filter(|w| w.start < time).count();
                let found = windows.seek(near.min(windows.len()), |w| w.start < time);
                prop_assert_eq!(found, expected);
            }
            let all = windows.within(0, first, last);
            prop_assert_eq!(all.len(), windows.len());
            let whole: u64 = windows.list.iter().map(|w| w.end - w.start).sum();
            prop_assert_eq!(windows.sleep_in(&all), whole);
        }
    }
}
