//! Predicted scores of policy sets without a run.

use crate::effects::EffectsModel;
use crate::figures::Score;
use crate::space::SetChoice;

/// Distances from a limit count up to this share of the limit: farther away a distance says little about sets near the limit.
const FARTHEST: f64 = 1.0;

/// A model for each figure of a score: the objective, and the distance beyond each limit.
pub(crate) struct ScorePredictor {
    objective: EffectsModel,
    distances: Vec<EffectsModel>,
}

impl ScorePredictor {
    /// Fits the models to sets with runs. A published profile has no choices, and says nothing about other sets.
    pub(crate) fn fit(scored: &[(Score, SetChoice)]) -> Self {
        let conditions = scored.first().map_or(0, |(score, _)| score.distances.len());
        Self {
            objective: fit_effects(scored, |score| score.objective),
            distances: (0..conditions)
                .map(|index| {
                    fit_effects(scored, |score| {
                        score.distances[index].clamp(-FARTHEST, FARTHEST)
                    })
                })
                .collect(),
        }
    }

    /// Predicts the score of a set. A distance within the model's deviation counts as noise.
    pub(crate) fn predict(&self, set: &SetChoice) -> Score {
        let distances: Vec<f64> = self
            .distances
            .iter()
            .map(|model| model.predict(set))
            .collect();
        let beyond_noise = distances
            .iter()
            .zip(&self.distances)
            .map(|(distance, model)| (distance - model.deviation).max(0.0));
        Score {
            excess: distances.iter().map(|distance| distance.max(0.0)).sum(),
            excess_beyond_noise: beyond_noise.sum(),
            objective: self.objective.predict(set),
            distances,
        }
    }
}

fn fit_effects(scored: &[(Score, SetChoice)], figure: impl Fn(&Score) -> f64) -> EffectsModel {
    let samples: Vec<(&SetChoice, f64)> = scored
        .iter()
        .filter(|(_, set)| set.profile.is_none())
        .map(|(score, set)| (set, figure(score)))
        .collect();
    EffectsModel::fit(&samples)
}
