//! Very short runs that order assumed figures by influence. Such runs decide nothing and need no warm-up, and means stand for
//! percentiles, which take many requests.

use wakepath_results::LoadCondition;

use crate::TuneError;
use crate::evaluator::Trial;
use crate::figures::{Question, Score};
use crate::load::DailyLoad;
use crate::objective::SearchObjective;
use crate::percentile::fewest_requests_for_metric;
use crate::search::smallest_cost_of_whole_runs;

/// Divisors of the measured time, the longest runs first.
const SHORTENED: [u32; 3] = [4, 16, 64];

/// Most requests of ordering runs, as a share of the requests left for screening.
const MOST_OF_SCREENING: f64 = 1.0 / 3.0;

/// The metric that stands for a percentile of the latency.
const MEAN_LATENCY: &str = "mean_us";

/// Runs that put figures in order, and the question behind the runs.
pub(crate) struct OrderingRuns {
    /// The loads without warm-ups.
    pub(crate) loads: Vec<DailyLoad>,
    /// The objective, of means.
    pub(crate) objective: SearchObjective,
    /// The conditions, on means.
    conditions: Vec<LoadCondition>,
    /// The measured time is divided by this.
    pub(crate) shortened: u32,
}

impl OrderingRuns {
    /// Plans the longest runs that are cheap enough. `whole_requests`: cost of all ordering runs at full length; `left`: requests
    /// left for ordering and screening. `None`: even the shortest runs are too dear.
    ///
    /// # Errors
    /// There is no metric of the mean latency.
    pub(crate) fn plan(
        question: &Question<'_>,
        whole_requests: f64,
        left: f64,
    ) -> Result<Option<Self>, TuneError> {
        let loads: Vec<DailyLoad> = question
            .loads
            .iter()
            .map(DailyLoad::without_warm_up)
            .collect();
        let mut lengths = SHORTENED.into_iter();
        let affordable = lengths.find(|shortened| {
            let requests = whole_requests / smallest_cost_of_whole_runs(&loads, *shortened);
            requests <= MOST_OF_SCREENING * left
        });
        let Some(shortened) = affordable else {
            return Ok(None);
        };
        let mut objective = question.objective.clone();
        if fewest_requests_for_metric(&objective.metric.name).is_some() {
            objective = SearchObjective::new(MEAN_LATENCY, objective.goal)?;
        }
        let mut conditions = question.conditions.to_vec();
        for condition in &mut conditions {
            let metric = &mut condition.condition.metric;
            if fewest_requests_for_metric(metric).is_some() {
                MEAN_LATENCY.clone_into(metric);
            }
        }
        Ok(Some(Self {
            loads,
            objective,
            conditions,
            shortened,
        }))
    }

    /// Scores of sets, the first of which is in force.
    ///
    /// # Errors
    /// A run lacks a metric.
    pub(crate) fn score_trials(
        &self,
        trials: &[Trial],
        rest_hours: f64,
    ) -> Result<Vec<Score>, TuneError> {
        let question = Question {
            loads: &self.loads,
            rest_hours,
            objective: &self.objective,
            conditions: &self.conditions,
            noise: Vec::new(),
        };
        let scores = trials
            .iter()
            .map(|trial| question.score_trial(trial, &trials[0], 1.0 / f64::from(self.shortened)));
        scores.collect()
    }
}

/// How far a varied figure moves scores: the answer's distances from limits, as shares of the limits, and the ratio
/// between the objectives of two sets. 0: equal scores.
pub(crate) fn movement_of_scores(before: &[Score], after: &[Score], answer: usize) -> f64 {
    if before == after {
        return 0.0;
    }
    let [gap_before, gap_after] = [before, after].map(|scores| {
        let objectives = scores.iter().map(|score| score.objective);
        objectives.reduce(|first, other| other / first)
    });
    let gap = gap_before
        .zip(gap_after)
        .map_or(0.0, |(before, after)| (after / before - 1.0).abs());
    let distances = before
        .get(answer)
        .zip(after.get(answer))
        .map_or(0.0, |(before, after)| {
            let pairs = before.distances.iter().zip(&after.distances);
            pairs
                .map(|(before, after)| (after - before).abs())
                .fold(0.0, f64::max)
        });
    // A figure that moves all sets alike comes before figures without effect.
    gap.max(distances).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(pairs: [(f64, f64); 2]) -> Vec<Score> {
        let scores = pairs.into_iter().map(|(objective, distance)| Score {
            excess: 0.0,
            excess_beyond_noise: 0.0,
            objective,
            distances: vec![distance],
        });
        scores.collect()
    }

    #[test]
    fn gaps_and_distances_from_limits_are_movements() {
        let before = scores([(100.0, -0.5), (80.0, -0.2)]);
        let moved = |after: [(f64, f64); 2]| movement_of_scores(&before, &scores(after), 1);
        assert!(moved([(100.0, -0.5), (80.0, -0.2)]) == 0.0);
        let alike = moved([(200.0, -0.5), (160.0, -0.2)]);
        assert!(alike > 0.0 && alike < 1e-9, "{alike}");
        let gap = moved([(100.0, -0.5), (88.0, -0.2)]);
        assert!((gap - 0.1).abs() < 1e-9, "{gap}");
        let distance = moved([(100.0, 0.5), (80.0, 0.1)]);
        assert!((distance - 0.3).abs() < 1e-9, "{distance}");
    }
}
