//! Figures of a policy set from its runs: the objective in each seed, metrics by load.

use wakepath_results::LoadCondition;

use crate::TuneError;
use crate::evaluator::Trial;
use crate::load::DailyLoad;
use crate::objective::SearchObjective;

/// The user's question: loads, hours at rest, objective, conditions.
pub(crate) struct Question<'a> {
    pub(crate) loads: &'a [DailyLoad],
    pub(crate) rest_hours: f64,
    pub(crate) objective: &'a SearchObjective,
    pub(crate) conditions: &'a [LoadCondition],
}

/// How good the runs of a policy set look: first by the conditions, then by the objective; less is better.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Score {
    /// Distances beyond the limits of conditions, added up, as shares of the limits.
    pub(crate) excess: f64,
    /// The objective, with the sign that makes less better.
    pub(crate) objective: f64,
}

impl Question<'_> {
    /// The objective in each seed: the mean over the hours of the loads, with rest where power is drawn.
    ///
    /// # Errors
    /// A load lacks the metric.
    pub(crate) fn objective_in_each_seed(&self, trial: &Trial) -> Result<Vec<f64>, TuneError> {
        let metric = &*self.objective.metric.name;
        let mut series: Vec<(f64, Vec<f64>)> = Vec::new();
        for (load, runs) in self.loads.iter().zip(&trial.loads) {
            let values = runs
                .metric_of_each_run(metric)
                .ok_or_else(|| TuneError::NoMetric {
                    metric: metric.to_owned(),
                    load: load.name.clone(),
                    hint: list_metrics_of_first_run(trial),
                })?;
            series.push((load.hours, values));
        }
        if self.objective.counts_hours_of_rest() && self.rest_hours > 0.0 {
            let values =
                trial
                    .rest
                    .metric_of_each_run(metric)
                    .ok_or_else(|| TuneError::NoMetric {
                        metric: metric.to_owned(),
                        load: "rest".to_owned(),
                        hint: "give loads of 24 hours in all".to_owned(),
                    })?;
            series.push((self.rest_hours, values));
        }
        let hours: f64 = series.iter().map(|(hours, _)| hours).sum();
        let seeds = series
            .iter()
            .map(|(_, values)| values.len())
            .min()
            .unwrap_or(0);
        Ok((0..seeds)
            .map(|seed| {
                let weighted = series.iter().map(|(hours, values)| hours * values[seed]);
                weighted.sum::<f64>() / hours
            })
            .collect())
    }

    /// Each condition with the index of each load that it concerns.
    pub(crate) fn conditions_with_load_indices(
        &self,
    ) -> impl Iterator<Item = (&LoadCondition, usize)> {
        self.conditions.iter().flat_map(|condition| {
            let loads = self.loads.iter().enumerate();
            loads
                .filter(|(_, load)| condition.concerns_load(&load.name))
                .map(move |(index, _)| (condition, index))
        })
    }

    /// The score of a policy set's runs, compared with those of what is in force.
    ///
    /// # Errors
    /// A load lacks a metric.
    pub(crate) fn score_trial(&self, trial: &Trial, in_force: &Trial) -> Result<Score, TuneError> {
        let mut excess = 0.0;
        for (condition, load) in self.conditions_with_load_indices() {
            let metric = &condition.condition.metric;
            let [value, before] = [trial, in_force].map(|trial| {
                trial
                    .metric_in_each_seed(load, metric)
                    .map(|values| mean(&values))
            });
            let (Some(value), Some(before)) = (value, before) else {
                return Err(TuneError::NoMetric {
                    metric: metric.clone(),
                    load: self.loads[load].name.clone(),
                    hint: list_metrics_of_first_run(in_force),
                });
            };
            excess += condition.share_beyond_limit_or_0(value, before);
        }
        let objective = mean(&self.objective_in_each_seed(trial)?);
        Ok(Score {
            excess,
            objective: objective * self.objective.goal.sign_to_minimise(),
        })
    }
}

/// Names of the metrics that the runs have, for a message.
fn list_metrics_of_first_run(trial: &Trial) -> String {
    let run = trial.loads.iter().find_map(|load| load.runs.first());
    let names: Vec<&str> = run
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect();
    format!("its runs have {}", names.join(", "))
}

/// The arithmetic mean.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
