//! Figures of a policy set from its runs: the objective in each seed, metrics by load.

use wakepath_results::LoadCondition;

use crate::TuneError;
use crate::evaluator::{LoadRuns, Trial};
use crate::load::DailyLoad;
use crate::objective::SearchObjective;

/// A metric beyond a limit by up to so many standard errors may keep the condition.
const NOISE_FACTOR: f64 = 2.0;

/// The user's question: loads, hours at rest, objective, conditions.
pub(crate) struct Question<'a> {
    pub(crate) loads: &'a [DailyLoad],
    pub(crate) rest_hours: f64,
    pub(crate) objective: &'a SearchObjective,
    pub(crate) conditions: &'a [LoadCondition],
    /// For each condition with each load that it concerns, how much one whole run of what is in force differs from another:
    /// the standard deviation of the metric over its mean. Empty: not known, and taken as 0.
    pub(crate) noise: Vec<f64>,
}

/// How good the runs of a policy set look: first by the conditions, then by the objective; less is better.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(crate) struct Score {
    /// Distances beyond the limits of conditions, added up, as shares of the limits.
    pub(crate) excess: f64,
    /// As `excess`, of what goes beyond the limits by more than noise.
    pub(crate) excess_beyond_noise: f64,
    /// The objective, with the sign that makes less better.
    pub(crate) objective: f64,
    /// Distance beyond each limit, as a share of the limit; below 0 where the limit is kept.
    pub(crate) distances: Vec<f64>,
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

    /// Metrics in conditions and objective, with name and runs for each concerned load or job.
    pub(crate) fn metrics_with_runs<'t>(
        &'t self,
        trial: &'t Trial,
    ) -> impl Iterator<Item = (&'t str, String, &'t LoadRuns)> {
        let conditions = self.conditions_with_load_indices();
        conditions
            .filter_map(|(condition, load)| {
                let name = &self.loads[load].name;
                let runs = trial.runs_of_condition(condition, load, name)?;
                let shown = condition.load.as_ref().unwrap_or(name);
                Some((condition.condition.metric.as_str(), shown.clone(), runs))
            })
            .chain(self.objective_with_runs(trial))
    }

    /// The objective's metric, with name and runs for each load.
    pub(crate) fn objective_with_runs<'t>(
        &'t self,
        trial: &'t Trial,
    ) -> impl Iterator<Item = (&'t str, String, &'t LoadRuns)> {
        self.loads.iter().zip(&trial.loads).map(|(load, runs)| {
            let metric: &str = &self.objective.metric.name;
            (metric, load.name.clone(), runs)
        })
    }

    /// A condition's runs on a load.
    pub(crate) fn runs_of_condition<'t>(
        &self,
        trial: &'t Trial,
        condition: &LoadCondition,
        load: usize,
    ) -> Option<&'t LoadRuns> {
        trial.runs_of_condition(condition, load, &self.loads[load].name)
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

    /// The noise of each condition's metric from several runs of what is in force.
    pub(crate) fn measure_noise(&self, in_force: &Trial) -> Vec<f64> {
        let concerned = self.conditions_with_load_indices();
        concerned
            .map(|(condition, load)| {
                let runs = self.runs_of_condition(in_force, condition, load);
                let values =
                    runs.and_then(|runs| runs.metric_of_each_run(&condition.condition.metric));
                values.map_or(0.0, |values| relative_deviation_or_0(&values))
            })
            .collect()
    }

    /// The score of a policy set's runs, compared with those of what is in force. `whole_runs` is their number, in which a
    /// shortened run counts as its share of a whole one.
    ///
    /// # Errors
    /// A load lacks a metric.
    pub(crate) fn score_trial(
        &self,
        trial: &Trial,
        in_force: &Trial,
        whole_runs: f64,
    ) -> Result<Score, TuneError> {
        let (mut excess, mut excess_beyond_noise) = (0.0, 0.0);
        let mut distances = Vec::new();
        for (index, (condition, load)) in self.conditions_with_load_indices().enumerate() {
            let metric = &condition.condition.metric;
            let [value, before] = [trial, in_force].map(|trial| {
                self.runs_of_condition(trial, condition, load)?
                    .metric_over_all_runs(metric)
            });
            let (Some(value), Some(before)) = (value, before) else {
                return Err(TuneError::NoMetric {
                    metric: metric.clone(),
                    load: self.loads[load].name.clone(),
                    hint: self.suggest_metrics_or_one_load(in_force, metric),
                });
            };
            let beyond = condition.share_beyond_limit_or_0(value, before);
            let noise = self.noise.get(index).copied().unwrap_or(0.0);
            let tolerated = NOISE_FACTOR * noise / whole_runs.max(f64::MIN_POSITIVE).sqrt();
            excess += beyond;
            distances.push(-condition.percent_within_limit(value, before) / 100.0);
            excess_beyond_noise += (beyond - tolerated).max(0.0);
        }
        let objective = mean(&self.objective_in_each_seed(trial)?);
        Ok(Score {
            excess,
            excess_beyond_noise,
            objective: objective * self.objective.goal.sign_to_minimise(),
            distances,
        })
    }

    /// Metrics that there are, and with several loads how a condition names one of them.
    fn suggest_metrics_or_one_load(&self, in_force: &Trial, metric: &str) -> String {
        let metrics = list_metrics_of_first_run(in_force);
        if self.loads.len() < 2 {
            return metrics;
        }
        format!("{metrics}; a condition on one load is written {metric}(LOAD)")
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

/// Standard deviation over mean; 0 for fewer than two values, or a mean of 0.
fn relative_deviation_or_0(values: &[f64]) -> f64 {
    let centre = mean(values);
    if values.len() < 2 || centre == 0.0 {
        return 0.0;
    }
    let squares = values.iter().map(|value| (value - centre).powi(2));
    let variance = squares.sum::<f64>() / (values.len() - 1) as f64;
    variance.sqrt() / centre.abs()
}

/// The arithmetic mean.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
