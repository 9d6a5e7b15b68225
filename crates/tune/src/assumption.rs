//! What is assumed behind runs of policy sets: figures of the machine, and what an energy-performance preference changes.

use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;

use crate::epp_effect::set_with_scaled_epp_effect;
use crate::varied_figure::{AnswerAtRangeEnd, VariedFigure};

/// Name of the only assumption beside figures: how much an energy-performance preference changes.
const EPP_EFFECT: &str = "EPP's effect";

/// Figures that move less than this may be varied together.
const LITTLE: f64 = 0.01;

/// A changed assumption.
pub(crate) enum Variation {
    /// A figure of the machine gets a value.
    Figure(f64),
    /// Several figures of the machine, by name, get values.
    Figures(Vec<(String, f64)>),
    /// The distance of each energy-performance preference from the neutral one is multiplied.
    EppEffect(f64),
}

/// An assumption with both ends.
pub(crate) struct Assumption {
    /// Name as `machine show` prints it.
    pub(crate) name: String,
    /// The assumed value, in the figure's unit.
    pub(crate) assumed: f64,
    /// Why this value was assumed.
    pub(crate) reason: String,
    /// Where the range comes from.
    pub(crate) range_source: String,
    /// The low and the high end of the range.
    pub(crate) ends: Vec<Variation>,
    /// What very short runs with the figure at an end of its range move; 0: nothing. `None`: there were no such runs.
    pub(crate) influence: Option<f64>,
}

impl Assumption {
    pub(crate) fn with_ends(&self, ends: Vec<AnswerAtRangeEnd>, by_one_run: bool) -> VariedFigure {
        VariedFigure {
            figure: self.name.clone(),
            assumed: self.assumed,
            reason: self.reason.clone(),
            range_source: self.range_source.clone(),
            by_one_run,
            with_nearest_only: false,
            together: false,
            ends,
        }
    }

    /// The influence of a figure with both ends that moves little; `None` for others.
    pub(crate) fn influence_if_little(&self) -> Option<f64> {
        let is_figure = matches!(self.ends[..], [Variation::Figure(_), Variation::Figure(_)]);
        self.influence.filter(|moved| is_figure && *moved < LITTLE)
    }

    /// Two or more figures as one, which are low together and high together. `None`: fewer, or one that is no figure.
    pub(crate) fn join<'a>(members: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut values = [Vec::new(), Vec::new()];
        for member in members {
            let [Variation::Figure(low), Variation::Figure(high)] = member.ends[..] else {
                return None;
            };
            for (end, value) in values.iter_mut().zip([low, high]) {
                end.push((member.name.clone(), value));
            }
        }
        (values[0].len() > 1).then(|| Self {
            name: String::new(),
            assumed: 0.0,
            reason: String::new(),
            range_source: String::new(),
            ends: values.map(Variation::Figures).into(),
            influence: None,
        })
    }
}

/// The assumptions behind runs of the sets on the machine, in the order in which they are varied.
pub(crate) fn list_assumptions(machine: &Machine, sets: &[PolicySet]) -> Vec<Assumption> {
    let has_preference = sets
        .iter()
        .any(|set| set_with_scaled_epp_effect(machine, set, 0.5) != *set);
    let epp = has_preference.then(|| Assumption {
        name: EPP_EFFECT.to_owned(),
        assumed: 1.0,
        reason: "a preference moves an end of the range of clocks along a straight line".to_owned(),
        range_source: "no published range; half and one and a half times the effect".to_owned(),
        ends: vec![Variation::EppEffect(0.5), Variation::EppEffect(1.5)],
        influence: None,
    });
    let ranges = machine.assumed_figures_with_ranges().into_iter();
    let figures = ranges.map(|(figure, range)| Assumption {
        assumed: figure.figure.value,
        reason: figure.origin_in_words(),
        name: figure.key,
        range_source: range.source.to_owned(),
        ends: vec![Variation::Figure(range.low), Variation::Figure(range.high)],
        influence: None,
    });
    epp.into_iter().chain(figures).collect()
}
