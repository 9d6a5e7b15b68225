//! A guard's state, window by window, and its decisions.

use std::fmt;

use super::condition::GuardCondition;
use super::window::{LatencySlice, Window};
use crate::{LatencyCounts, LatencyInterval};

/// Windows in a row that have to break a condition before the set is put back. As many are measured before a set is applied,
/// where a limit is relative, and after a set was put back.
pub const BREAKING_WINDOWS: u32 = 3;

/// What a window says about a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowVerdict {
    /// The whole interval keeps the condition.
    Kept,
    /// A part of the interval keeps the condition.
    Unclear,
    /// The whole interval breaks the condition.
    Broken,
}

/// A window of a condition.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowReport {
    /// The condition, as it was written.
    pub condition: String,
    /// The condition's figure in this window.
    pub interval: LatencyInterval,
    /// The limit in ns.
    pub limit_ns: f64,
    /// The verdict.
    pub verdict: WindowVerdict,
    /// Number of broken windows in a row, including this window.
    pub broken_in_a_row: u32,
    /// A note if the limit looks as if it was in another unit; in a condition's first window only.
    pub unit_note: Option<String>,
}

/// A condition that was broken in [`BREAKING_WINDOWS`] windows in a row: its set is to be put back.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokenCondition {
    /// The condition, as it was written.
    pub condition: String,
    /// The figure over these windows together.
    pub interval: LatencyInterval,
    /// The limit in ns.
    pub limit_ns: f64,
}

/// How latency is after the set was put back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PutBackOutcome {
    /// Latency is better: the setting did it. `keeps`: the condition is kept now.
    Better {
        /// The figure without the set.
        interval: LatencyInterval,
        /// Whether the whole interval keeps the condition.
        keeps: bool,
    },
    /// Latency is no better: the load did it.
    NoBetter {
        /// The figure without the set.
        interval: LatencyInterval,
    },
    /// Latency seems better, but the intervals overlap.
    Unclear {
        /// The figure without the set.
        interval: LatencyInterval,
    },
}

/// Something that a guard has found out.
#[derive(Clone, Debug, PartialEq)]
pub enum GuardEvent {
    /// What a relative condition compares with has been measured.
    Before {
        /// The condition, as it was written.
        condition: String,
        /// The figure before the set is applied.
        interval: LatencyInterval,
    },
    /// A window is complete.
    Window(WindowReport),
    /// A condition is broken: the set is to be put back, and [`Guard::note_set_was_put_back`] to be called.
    Broken(BrokenCondition),
    /// The set was put back, and this is how latency is since.
    AfterPutBack(PutBackOutcome),
}

/// Judges conditions by the latencies of each second.
#[derive(Clone, Debug)]
pub struct Guard {
    watched: Vec<WatchedCondition>,
    phase: Phase,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// The set is not in force yet; relative conditions are measured.
    Before,
    /// The set is in force.
    InForce,
    /// The set is to be put back because the condition with this index is broken.
    Broken(usize, BrokenCondition),
    /// The set was put back.
    After(usize, BrokenCondition),
    /// Everything has been said.
    Ended,
}

/// A condition with the present window and past windows.
#[derive(Clone, Debug)]
struct WatchedCondition {
    condition: GuardCondition,
    window: Window,
    /// Groups from all windows to be judged together: before the set, broken in a row, or after the set.
    pooled: Vec<LatencyCounts>,
    /// Number of windows in `pooled`.
    windows: u32,
    /// The figure before the set was applied; `None` for absolute limits.
    before: Option<LatencyInterval>,
    unit_checked: bool,
}

impl WatchedCondition {
    fn new(condition: GuardCondition) -> Self {
        Self {
            condition,
            window: Window::default(),
            pooled: Vec::new(),
            windows: 0,
            before: None,
            unit_checked: false,
        }
    }

    /// Begins anew: past windows say nothing about what follows.
    fn forget_windows(&mut self) {
        self.window = Window::default();
        self.forget_pooled();
    }

    fn forget_pooled(&mut self) {
        self.pooled.clear();
        self.windows = 0;
    }

    /// Adds the latencies of a slice; returns groups and interval of a complete window.
    fn add_slice(&mut self, slice: &LatencySlice) -> Option<(Vec<LatencyCounts>, LatencyInterval)> {
        self.window
            .add_slice(self.condition.select_latencies(slice));
        let groups = self.window.take_if_complete()?;
        let interval = self.condition.figure_interval(&groups)?;
        Some((groups, interval))
    }

    /// Adds a window to the pool; returns the interval over the pool once it has enough windows.
    fn pool_window(&mut self, groups: Vec<LatencyCounts>) -> Option<LatencyInterval> {
        self.pooled.extend(groups);
        self.windows += 1;
        if self.windows < BREAKING_WINDOWS {
            return None;
        }
        let interval = self.condition.figure_interval(&self.pooled);
        self.forget_pooled();
        interval
    }

    /// Interval ends before the set was applied, in ns, for relative limits; 0 for absolute limits.
    fn before_ns(&self) -> (f64, f64) {
        self.before
            .map_or((0.0, 0.0), |before| (before.low_ns, before.high_ns))
    }

    fn judge(&self, interval: &LatencyInterval) -> WindowVerdict {
        let (before_low, before_high) = self.before_ns();
        if !self.condition.is_kept_by(interval.low_ns, before_high) {
            WindowVerdict::Broken
        } else if self.condition.is_kept_by(interval.high_ns, before_low) {
            WindowVerdict::Kept
        } else {
            WindowVerdict::Unclear
        }
    }

    /// The limit in ns; for a relative limit the higher end.
    fn limit_ns(&self) -> f64 {
        self.condition.limit_ns(self.before_ns().1)
    }

    fn judge_window(
        &mut self,
        groups: Vec<LatencyCounts>,
        interval: LatencyInterval,
    ) -> (WindowReport, Option<BrokenCondition>) {
        let verdict = self.judge(&interval);
        let mut report = WindowReport {
            condition: self.condition.to_string(),
            interval,
            limit_ns: self.limit_ns(),
            verdict,
            broken_in_a_row: 0,
            unit_note: None,
        };
        if !self.unit_checked {
            self.unit_checked = true;
            report.unit_note = self.condition.note_if_unit_looks_wrong(&interval);
        }
        if verdict != WindowVerdict::Broken {
            self.forget_pooled();
            return (report, None);
        }
        report.broken_in_a_row = self.windows + 1;
        let broken = self.pool_window(groups).map(|interval| BrokenCondition {
            condition: report.condition.clone(),
            interval,
            limit_ns: report.limit_ns,
        });
        (report, broken)
    }

    fn judge_after(&self, interval: LatencyInterval, broken: &BrokenCondition) -> PutBackOutcome {
        let verdict = self.judge(&interval);
        if interval.high_ns < broken.interval.low_ns {
            PutBackOutcome::Better {
                interval,
                keeps: verdict == WindowVerdict::Kept,
            }
        } else if verdict == WindowVerdict::Broken
            || interval.estimate_ns >= broken.interval.estimate_ns
        {
            PutBackOutcome::NoBetter { interval }
        } else {
            PutBackOutcome::Unclear { interval }
        }
    }
}

impl Guard {
    /// A guard of a set that is not in force yet.
    pub fn new(conditions: Vec<GuardCondition>) -> Self {
        let phase = if conditions.iter().any(GuardCondition::is_relative) {
            Phase::Before
        } else {
            Phase::InForce
        };
        Self {
            watched: conditions.into_iter().map(WatchedCondition::new).collect(),
            phase,
        }
    }

    /// Whether latency has to be measured before the set is applied, because a limit is relative.
    pub fn waits_for_figures_before(&self) -> bool {
        self.phase == Phase::Before
    }

    /// Whether a condition is broken, and the set was not put back yet.
    pub const fn demands_put_back(&self) -> bool {
        matches!(self.phase, Phase::Broken(..))
    }

    /// Whether there is nothing left to find out: the set was put back, and how latency is since has been said.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Requests in the current window of the condition that has the fewest.
    pub fn requests_in_window(&self) -> u64 {
        let counts = self.watched.iter().map(|watched| watched.window.requests());
        counts.min().unwrap_or(0)
    }

    /// The set was out of force for a moment: present windows begin anew, and figures from before the set stay.
    pub fn note_set_was_applied_again(&mut self) {
        self.watched
            .iter_mut()
            .for_each(WatchedCondition::forget_windows);
    }

    /// The set was put back because of [`GuardEvent::Broken`]. Windows from now on tell whether that helped.
    pub fn note_set_was_put_back(&mut self) {
        if let Phase::Broken(index, broken) = &self.phase {
            self.phase = Phase::After(*index, broken.clone());
            self.watched
                .iter_mut()
                .for_each(WatchedCondition::forget_windows);
        }
    }

    /// Takes the latencies of about a second.
    pub fn add_slice(&mut self, slice: &LatencySlice) -> Vec<GuardEvent> {
        match self.phase.clone() {
            Phase::Before => self.measure_before(slice),
            Phase::InForce => self.judge_slice(slice),
            Phase::After(index, broken) => self.judge_after(slice, index, &broken),
            Phase::Broken(..) | Phase::Ended => Vec::new(),
        }
    }

    fn measure_before(&mut self, slice: &LatencySlice) -> Vec<GuardEvent> {
        let mut events = Vec::new();
        for watched in &mut self.watched {
            if watched.before.is_some() || !watched.condition.is_relative() {
                continue;
            }
            if let Some((groups, _)) = watched.add_slice(slice)
                && let Some(interval) = watched.pool_window(groups)
            {
                watched.before = Some(interval);
                events.push(GuardEvent::Before {
                    condition: watched.condition.to_string(),
                    interval,
                });
            }
        }
        let mut watched = self.watched.iter();
        if watched.all(|watched| watched.before.is_some() || !watched.condition.is_relative()) {
            self.phase = Phase::InForce;
            self.watched
                .iter_mut()
                .for_each(WatchedCondition::forget_windows);
        }
        events
    }

    fn judge_slice(&mut self, slice: &LatencySlice) -> Vec<GuardEvent> {
        let mut events = Vec::new();
        for (index, watched) in self.watched.iter_mut().enumerate() {
            let Some((groups, interval)) = watched.add_slice(slice) else {
                continue;
            };
            let (report, broken) = watched.judge_window(groups, interval);
            events.push(GuardEvent::Window(report));
            if let Some(broken) = broken {
                self.phase = Phase::Broken(index, broken.clone());
                events.push(GuardEvent::Broken(broken));
                break;
            }
        }
        events
    }

    fn judge_after(
        &mut self,
        slice: &LatencySlice,
        index: usize,
        broken: &BrokenCondition,
    ) -> Vec<GuardEvent> {
        let Some(watched) = self.watched.get_mut(index) else {
            return Vec::new();
        };
        let Some((groups, _)) = watched.add_slice(slice) else {
            return Vec::new();
        };
        let Some(interval) = watched.pool_window(groups) else {
            return Vec::new();
        };
        self.phase = Phase::Ended;
        vec![GuardEvent::AfterPutBack(
            watched.judge_after(interval, broken),
        )]
    }
}

/// A figure with its interval in words: `181 us (172 to 190) over 12031 requests`.
struct IntervalInWords<'a>(&'a LatencyInterval);

impl fmt::Display for IntervalInWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LatencyInterval {
            low_ns,
            estimate_ns,
            high_ns,
            requests,
        } = self.0;
        let [low, estimate] = [low_ns, estimate_ns].map(|ns| format_us(*ns));
        if high_ns.is_finite() {
            let high = format_us(*high_ns);
            write!(
                f,
                "{estimate} us (95 %: {low} to {high}) over {requests} requests"
            )
        } else {
            write!(
                f,
                "{estimate} us (95 %: at least {low}) over {requests} requests"
            )
        }
    }
}

/// Microseconds with three digits or more.
fn format_us(ns: f64) -> String {
    let us = ns / 1e3;
    let decimals = match us {
        us if us < 10.0 => 2,
        us if us < 100.0 => 1,
        _ => 0,
    };
    format!("{us:.decimals$}")
}

impl fmt::Display for WindowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}: ",
            self.condition,
            IntervalInWords(&self.interval)
        )?;
        match self.verdict {
            WindowVerdict::Kept => f.write_str("kept"),
            WindowVerdict::Unclear => f.write_str("not certain"),
            WindowVerdict::Broken => write!(
                f,
                "broken, window {} of {BREAKING_WINDOWS}",
                self.broken_in_a_row
            ),
        }
    }
}

impl fmt::Display for BrokenCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is broken in {BREAKING_WINDOWS} windows in a row: {}; the limit is {} us",
            self.condition,
            IntervalInWords(&self.interval),
            format_us(self.limit_ns)
        )
    }
}

impl fmt::Display for GuardEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before {
                condition,
                interval,
            } => write!(
                f,
                "{condition}: {} before the set is applied",
                IntervalInWords(interval)
            ),
            Self::Window(report) => report.fmt(f),
            Self::Broken(broken) => broken.fmt(f),
            Self::AfterPutBack(outcome) => outcome.fmt(f),
        }
    }
}

impl fmt::Display for PutBackOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Better {
                interval,
                keeps: true,
            } => write!(
                f,
                "without the set it is better, {}: the setting did it, unless the load changed at the same time",
                IntervalInWords(interval)
            ),
            Self::Better {
                interval,
                keeps: false,
            } => write!(
                f,
                "without the set it is better, {}, but the condition does not hold without it either: the load did a part of it",
                IntervalInWords(interval)
            ),
            Self::NoBetter { interval } => write!(
                f,
                "without the set it is no better, {}: the load did it, not the setting",
                IntervalInWords(interval)
            ),
            Self::Unclear { interval } => write!(
                f,
                "without the set it is {}, which is not surely better: whether the setting did it cannot be told",
                IntervalInWords(interval)
            ),
        }
    }
}
