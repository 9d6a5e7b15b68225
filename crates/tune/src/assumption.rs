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
    /// What very short runs with the figure at the farthest possible end of its range move; 0: nothing. `None`: no such runs.
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

    /// The ends by their distance from the assumed value as a ratio, the farthest first. An end with the assumed value itself
    /// changes nothing and is left out.
    pub(crate) fn ends_farthest_first(&self) -> Vec<&Variation> {
        let distances = self.ends.iter().map(|end| self.distance_of_end(end));
        let mut ends: Vec<(f64, &Variation)> = distances.zip(&self.ends).collect();
        ends.retain(|(distance, _)| *distance > 0.0);
        ends.sort_by(|one, other| other.0.total_cmp(&one.0));
        ends.into_iter().map(|(_, end)| end).collect()
    }

    /// How far an end is from the assumed value, as the logarithm of their ratio; infinite where one of the two is 0.
    fn distance_of_end(&self, end: &Variation) -> f64 {
        let value = match end {
            Variation::Figure(value) | Variation::EppEffect(value) => *value,
            Variation::Figures(_) => return f64::INFINITY,
        };
        if value.to_bits() == self.assumed.to_bits() {
            return 0.0;
        }
        let distance = (value / self.assumed).ln().abs();
        if distance.is_nan() {
            f64::INFINITY
        } else {
            distance
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

#[cfg(test)]
mod tests {
    use super::*;

    fn farthest_ends(assumed: f64, ends: [f64; 2]) -> Vec<f64> {
        let assumption = Assumption {
            name: "figure".to_owned(),
            assumed,
            reason: String::new(),
            range_source: String::new(),
            ends: ends.map(Variation::Figure).into(),
            influence: None,
        };
        let found = assumption.ends_farthest_first().into_iter();
        let values = found.map(|end| match end {
            Variation::Figure(value) => *value,
            _ => f64::NAN,
        });
        values.collect()
    }

    #[test]
    fn the_end_of_the_larger_ratio_comes_first_and_the_assumed_value_never() {
        // CONFIG_HZ and a switch, which may be assumed at an end of their ranges.
        assert_eq!(farthest_ends(1000.0, [100.0, 1000.0]), [100.0]);
        assert_eq!(farthest_ends(100.0, [100.0, 1000.0]), [1000.0]);
        assert_eq!(farthest_ends(1.0, [0.0, 1.0]), [0.0]);
        assert_eq!(farthest_ends(0.0, [0.0, 1.0]), [1.0]);
        // The larger difference is not the larger ratio.
        assert_eq!(farthest_ends(50.0, [16.0, 84.0]), [16.0, 84.0]);
        assert_eq!(farthest_ends(250.0, [100.0, 1000.0]), [1000.0, 100.0]);
    }

    #[test]
    fn an_effect_of_one_half_is_farther_than_one_and_a_half() {
        let machine = Machine::find("laptop").unwrap();
        let sets = ["epp[value=power]".parse().unwrap()];
        let epp = list_assumptions(&machine, &sets).remove(0);
        assert_eq!(epp.name, EPP_EFFECT);
        let first = epp.ends_farthest_first()[0];
        assert!(matches!(first, Variation::EppEffect(factor) if *factor < 1.0));
    }
}
