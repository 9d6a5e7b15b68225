//! A figure of policy sets as a sum of effects: each choice has an effect, and each pair of choices.
//!
//! Sets with runs fix the effects by ridge regression, solved by block coordinate descent: each effect is the mean residual of
//! the others, drawn to 0 where few sets have the choice. The model says which other sets are worth a run.

use std::collections::BTreeMap;

use crate::space::SetChoice;

/// With so many sets, the effect of a choice counts half.
const PRIOR_SETS_OF_CHOICE: f64 = 0.5;
/// With so many sets, the effect of a pair of choices counts half.
const PRIOR_SETS_OF_PAIR: f64 = 2.0;
/// Rounds of the descent; later rounds change little.
const ROUNDS: usize = 25;

/// One or two dimensions with a choice in each. The second is `None` for the effect of a single choice.
type Term = ((usize, usize), Option<(usize, usize)>);

/// Effects on one figure.
pub(crate) struct EffectsModel {
    mean: f64,
    effects: BTreeMap<Term, f64>,
    /// Root mean square of the residuals.
    pub(crate) deviation: f64,
}

impl EffectsModel {
    /// Fits the effects to the figures of sets.
    pub(crate) fn fit(samples: &[(&SetChoice, f64)]) -> Self {
        let count = samples.len().max(1) as f64;
        let mean = samples.iter().map(|(_, value)| value).sum::<f64>() / count;
        let mut left: Vec<f64> = samples.iter().map(|(_, value)| value - mean).collect();
        let mut members: BTreeMap<Term, Vec<usize>> = BTreeMap::new();
        for (index, (set, _)) in samples.iter().enumerate() {
            for term in terms_of_set(set) {
                members.entry(term).or_default().push(index);
            }
        }
        let mut effects: BTreeMap<Term, f64> = BTreeMap::new();
        for _ in 0..ROUNDS {
            for (term, members) in &members {
                let prior = match term.1 {
                    None => PRIOR_SETS_OF_CHOICE,
                    Some(_) => PRIOR_SETS_OF_PAIR,
                };
                let effect = effects.entry(*term).or_default();
                let sum: f64 = members.iter().map(|index| left[*index] + *effect).sum();
                let better = sum / (members.len() as f64 + prior);
                for index in members {
                    left[*index] += *effect - better;
                }
                *effect = better;
            }
        }
        let squares: f64 = left.iter().map(|value| value * value).sum();
        Self {
            mean,
            effects,
            deviation: (squares / count).sqrt(),
        }
    }

    /// Predicts the figure of any set.
    pub(crate) fn predict(&self, set: &SetChoice) -> f64 {
        let effects = terms_of_set(set).filter_map(|term| self.effects.get(&term));
        self.mean + effects.sum::<f64>()
    }
}

fn terms_of_set(set: &SetChoice) -> impl Iterator<Item = Term> {
    let choices = &set.choices;
    (0..choices.len()).flat_map(move |first| {
        let one = (first, choices[first]);
        let pairs = (first + 1..choices.len()).map(move |second| Some((second, choices[second])));
        std::iter::once(None)
            .chain(pairs)
            .map(move |other| (one, other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(choices: [usize; 3]) -> SetChoice {
        SetChoice {
            choices: choices.to_vec(),
            profile: None,
        }
    }

    /// Two choices help only together, and a choice does nothing.
    fn figure(choices: [usize; 3]) -> f64 {
        let [first, second, _] = choices;
        10.0 + first as f64 - if first == 3 && second == 2 { 6.0 } else { 0.0 }
    }

    #[test]
    fn a_pair_that_few_sets_have_is_found() {
        // Two thirds of 64 sets run, among them some with both choices.
        let all: Vec<[usize; 3]> = (0..64).map(|n| [n % 4, n / 4 % 4, n / 16]).collect();
        let ran: Vec<SetChoice> = (0..64)
            .filter(|n| n % 3 != 1)
            .map(|n| set(all[n]))
            .collect();
        let samples: Vec<(&SetChoice, f64)> = ran
            .iter()
            .map(|set| {
                let choices = [set.choices[0], set.choices[1], set.choices[2]];
                (set, figure(choices))
            })
            .collect();
        let model = EffectsModel::fit(&samples);
        let best = all
            .iter()
            .min_by(|a, b| {
                model
                    .predict(&set(**a))
                    .total_cmp(&model.predict(&set(**b)))
            })
            .unwrap();
        assert_eq!([best[0], best[1]], [3, 2]);
        assert!(model.deviation < 1.0, "{}", model.deviation);
    }

    #[test]
    fn without_sets_there_is_no_effect() {
        let model = EffectsModel::fit(&[]);
        assert!(model.predict(&set([0, 1, 2])).abs() < f64::EPSILON);
    }
}
