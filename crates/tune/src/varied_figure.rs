//! What becomes of an answer when assumed figures of the machine are varied.

use serde::Serialize;

/// Effects on the answer, with assumed figures of the machine varied singly.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// Varied figures.
    pub figures: Vec<VariedFigure>,
    /// Names of assumed figures left out for want of requests. With short runs these are figures that came near to a change, too.
    pub not_reached: Vec<String>,
    /// Number of figures left out without effect in the ordering runs.
    pub not_reached_without_effect: usize,
    /// Divisor of the measured time in runs that ordered figures by influence. `None`: figures came in the machine's order.
    pub ordered_by_shortened: Option<u32>,
    /// The measured time of screening runs was divided by this.
    pub shortened: u32,
    /// Number of simulated requests.
    pub simulated: u64,
    /// About how many requests would reach every figure, one by one and with every set; `None` where the requests
    /// did so.
    pub requests_for_all: Option<u64>,
}

/// An assumed figure at both ends of a range.
#[derive(Clone, Debug, Serialize)]
pub struct VariedFigure {
    /// Name of the figure as `machine show` prints it.
    pub figure: String,
    /// The assumed value, in the figure's unit.
    pub assumed: f64,
    /// Why this value was assumed.
    pub reason: String,
    /// Where the range comes from.
    pub range_source: String,
    /// Whether one run of each set judged the figure: nothing came near to a change.
    pub by_one_run: bool,
    /// Whether the figure ran with the present settings, the answer and the set nearest to it only: as one of little influence
    /// (`together`), or because no requests were left.
    pub with_nearest_only: bool,
    /// Whether the figure was varied together with others of little influence, all low and all high, and has no ends of its own.
    pub together: bool,
    /// The answer at the low and at the high end; ends impossible for the machine are left out.
    pub ends: Vec<AnswerAtRangeEnd>,
}

/// The answer with an assumed figure at an end of the range.
#[derive(Clone, Debug, Serialize)]
pub struct AnswerAtRangeEnd {
    /// The figure's value.
    pub value: f64,
    /// Gain over the present settings in percent; `None` where nothing was to be changed.
    pub gain_percent: Option<f64>,
    /// The set that replaces the answer; `None` where the answer stays, or the same runs with the assumed figures replace it
    /// by that set, too.
    pub other_answer: Option<String>,
    /// Whether the answer breaks a condition.
    pub breaks_condition: bool,
}

impl Sensitivity {
    /// Figures with an end where another set would be the answer.
    pub fn figures_that_change_answer(&self) -> impl Iterator<Item = &VariedFigure> {
        self.figures.iter().filter(|figure| {
            let mut ends = figure.ends.iter();
            ends.any(|end| end.other_answer.is_some())
        })
    }
}

impl VariedFigure {
    /// Whether a result is there, and is about the nearest set only.
    pub(crate) fn needs_other_sets(varied: Option<&Self>) -> bool {
        varied.is_some_and(|one| one.with_nearest_only)
    }
}
