//! Package sleep across the two passes over a recording.

use crate::cost::Judge;
use crate::package::{self, Tally};
use crate::span::{IdleSpan, Residency};
use crate::windows::{WindowFinder, Windows};

/// What a pass over a recording does about the package.
pub(crate) enum PackageStage {
    /// The pass ignores the package, because its power is not known.
    None,
    /// The first pass only collects windows: times in which all CPUs are idle.
    FindsWindows(WindowFinder),
    /// The second pass adds up the package's sleep in these windows under each governor.
    Tallies(Box<Tally>),
}

impl PackageStage {
    /// Sums of package sleep; `None` except in the second pass.
    pub(crate) fn tally(&self) -> Option<&Tally> {
        match self {
            Self::Tallies(tally) => Some(tally),
            Self::None | Self::FindsWindows(_) => None,
        }
    }

    /// Sums of package sleep to add to; `None` except in the second pass.
    pub(crate) fn tally_mut(&mut self) -> Option<&mut Tally> {
        match self {
            Self::Tallies(tally) => Some(tally),
            Self::None | Self::FindsWindows(_) => None,
        }
    }

    /// Windows in which all CPUs are idle, found by the first pass; none in other passes.
    pub(crate) fn into_found_windows(self) -> Windows {
        match self {
            Self::FindsWindows(finder) => finder.into_windows_between(),
            Self::None | Self::Tallies(_) => Windows::default(),
        }
    }
}

/// Adds an idle span to the package's tally, under the governor that ran and under the oracle.
/// `near`: index of the windows found last.
#[inline(never)]
pub(crate) fn tally_span(
    tally: &mut Tally,
    near: &mut usize,
    judge: &Judge,
    span: &mut IdleSpan,
    earlier: &[Residency],
    last: Residency,
) {
    span.windows = tally.windows.windows_in_span(*near, span.start, span.end);
    *near = span.windows.end.saturating_sub(1);
    if !span.windows.is_empty() {
        tally_recorded_periods(tally, judge, span, earlier, last);
    }
    span.set_oracle_choice(judge);
    if !judge.is_deepest(span.best.state) {
        tally.keep_awake(package::ORACLE, &span.windows, span.start..span.end);
    }
}

/// Adds the recorded idle periods of a span to the package's tally, for a span in which the package
/// may sleep.
fn tally_recorded_periods(
    tally: &mut Tally,
    judge: &Judge,
    span: &mut IdleSpan,
    earlier: &[Residency],
    last: Residency,
) {
    span.package_saving = tally.saving_in_span(&span.windows, span.end);
    let mut slept = false;
    let mut start = span.start;
    for period in earlier {
        slept = tally_recorded_period(tally, judge, span, (*period, start), slept);
        start += period.duration;
    }
    tally_recorded_period(tally, judge, span, (last, span.end - last.duration), slept);
}

/// Adds a recorded idle period, given with its start, to the package's tally. `after_deepest`: the
/// CPU was in its deepest state before. Returns whether the CPU is in its deepest state now.
fn tally_recorded_period(
    tally: &mut Tally,
    judge: &Judge,
    span: &IdleSpan,
    (period, start): (Residency, u64),
    after_deepest: bool,
) -> bool {
    let deepest = judge.is_deepest(usize::from(period.state));
    let time = start..start + period.duration;
    tally.add_period(
        package::RECORDED,
        &span.windows,
        time,
        deepest,
        after_deepest,
    );
    deepest
}
