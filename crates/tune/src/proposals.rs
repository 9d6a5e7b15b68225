//! Which policy sets a search runs first: those to begin with, random ones, and those that a model picks.

use std::collections::BTreeSet;

use rand::SeedableRng;
use rand::seq::index;
use rand_pcg::Pcg64Mcg;

use crate::figures::Score;
use crate::prediction::ScorePredictor;
use crate::ranking::{Ranking, rank_distinct_best_first};
use crate::space::SetChoice;
use crate::state::SearchState;

/// Share of the first rung's sets that are random; a model picks the others.
pub(crate) const RANDOM_SHARE: f64 = 0.5;

/// Number of times that the model is fitted, each time to more sets.
pub(crate) const PREDICTIONS: usize = 4;

/// Most sets with a prediction. Larger spaces are sampled.
const MOST_PREDICTED: usize = 50_000;

impl SearchState<'_> {
    /// Predicts the best sets without a run: in turn by the prediction as is, and with limits farther away by the models'
    /// deviations.
    pub(crate) fn predict_best_untried_sets(
        &self,
        scored: &[(Score, SetChoice)],
        count: usize,
    ) -> Vec<SetChoice> {
        let predictor = ScorePredictor::fit(scored);
        let size = self.space.count_sets();
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let mut predicted: Ranking = index::sample(&mut random, size, size.min(MOST_PREDICTED))
            .into_iter()
            .map(|number| self.space.choice_by_number(number))
            .filter(|set| set.profile.is_none() && !self.tried.contains(set))
            .filter(|set| !self.refused.contains(set))
            .filter(|set| self.space.policy_set_of_choice(set).is_ok())
            .map(|set| (predictor.predict(&set), set))
            .collect();
        predicted = rank_distinct_best_first(predicted);
        predicted.truncate(count);
        predicted.into_iter().map(|(_, set)| set).collect()
    }

    /// Draws the policy sets for the first rung: those to begin with, then random sets.
    pub(crate) fn draw_sets_for_first_rung(&self, count: usize) -> Vec<SetChoice> {
        let mut drawn = self.space.choices_to_begin_with();
        drawn.truncate(count);
        let mut known: BTreeSet<SetChoice> = drawn.iter().cloned().collect();
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let size = self.space.count_sets();
        let wanted = count.min(size);
        for number in index::sample(&mut random, size, size.min(count.saturating_mul(2))) {
            if drawn.len() >= wanted {
                break;
            }
            let candidate = self.space.choice_by_number(number);
            if known.insert(candidate.clone()) {
                drawn.push(candidate);
            }
        }
        drawn
    }
}
