//! Package sleep across the two passes over a recording.

use crate::cost::Judge;
use crate::package::{self, Tally};
use crate::span::{IdleSpan, Residency};
use crate::windows::{WindowFinder, Windows};

/// What a pass does about the package.
pub(crate) enum PackageStage {
    /// Nothing: the package's power is not known.
    None,
    /// The first pass only collects times in which all CPUs are idle.
    FindsWindows(WindowFinder),
    /// The second pass adds up the package's sleep in these times under each governor.
    Tallies(Box<Tally>),
}

impl PackageStage {
    /// The sums, in the second pass.
    pub(crate) fn tally(&self) -> Option<&Tally> {
        match self {
            Self::Tallies(tally) => Some(tally),
            Self::None | Self::FindsWindows(_) => None,
        }
    }

    /// The sums to add to, in the second pass.
    pub(crate) fn tally_mut(&mut self) -> Option<&mut Tally> {
        match self {
            Self::Tallies(tally) => Some(tally),
            Self::None | Self::FindsWindows(_) => None,
        }
    }

    /// The times in which all CPUs are idle, after the first pass.
    pub(crate) fn into_windows(self) -> Windows {
        match self {
            Self::FindsWindows(finder) => finder.into_windows(),
            Self::None | Self::Tallies(_) => Windows::default(),
        }
    }
}

/// Adds up an idle span under the governor that ran and under the oracle. `near`: where windows were found last.
#[inline(never)]
pub(crate) fn tally_span(
    tally: &mut Tally,
    near: &mut usize,
    judge: &Judge,
    span: &mut IdleSpan,
    earlier: &[Residency],
    last: Residency,
) {
    span.windows = tally.windows.within(*near, span.start, span.end);
    *near = span.windows.end.saturating_sub(1);
    if !span.windows.is_empty() {
        tally_recorded(tally, judge, span, earlier, last);
    }
    span.judge(judge);
    if !judge.is_deepest(span.best.state) {
        tally.keep_awake(package::ORACLE, &span.windows, span.start..span.end);
    }
}

/// Adds up the recorded idle periods of a span in which the package may sleep.
fn tally_recorded(
    tally: &mut Tally,
    judge: &Judge,
    span: &mut IdleSpan,
    earlier: &[Residency],
    last: Residency,
) {
    span.package_saving = tally.saving(&span.windows, span.end);
    let mut slept = false;
    let mut start = span.start;
    for period in earlier {
        slept = tally_period(tally, judge, span, (*period, start), slept);
        start += period.duration;
    }
    tally_period(tally, judge, span, (last, span.end - last.duration), slept);
}

/// Adds up a recorded idle period, given with its start. `after_deepest`: the CPU was in its deepest state before.
/// Returns whether the CPU is in its deepest state now.
fn tally_period(
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
