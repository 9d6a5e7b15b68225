//! The decision: finalists on fresh seeds, intervals corrected for the number of finalists, useless parts left out.

use wakepath_compare::{Design, Gain, estimate_gain, interval_of_mean};
use wakepath_policies::PolicySet;
use wakepath_results::{Mean, Metric};

use crate::TuneError;
use crate::answer::{Contribution, Finalist, KeptCondition, LoadFigures, SearchAnswer};
use crate::evaluator::{Effort, Trial, TrialOutcome};
use crate::figures::mean;
use crate::objective::SearchObjective;
use crate::space::SetChoice;
use crate::state::SearchState;

/// Number of the decision's stage, whose seeds are far from those of the search.
pub(crate) const STAGE: u64 = 1000;

/// Difference of the objective in percent below which two sets count as equal.
const NO_DIFFERENCE: f64 = 0.5;

/// Confidence level of all intervals together.
const LEVEL: f64 = 0.95;

/// Metrics shown for each load, where the load has them.
const SHOWN: [&str; 7] = [
    "mean_mw",
    "mean_us",
    "p99_us",
    "iops",
    "wake_mean_us",
    "wake_p99_us",
    "ops_per_s",
];

/// The finalists, between which a decision is made.
pub(crate) struct Decision {
    /// Number of fresh runs of each finalist.
    pub(crate) repeats: u32,
    /// The best policy sets of the search.
    pub(crate) finalists: Vec<SetChoice>,
}

/// A policy set with its fresh runs.
struct FinalistRuns {
    candidate: SetChoice,
    /// The objective in each seed.
    values: Vec<f64>,
    finalist: Finalist,
}

/// Fresh runs with unchanged policies: the baseline for all finalists.
struct Baseline {
    trial: Trial,
    values: Vec<f64>,
    effort: Effort,
    /// Confidence level of each interval.
    level: f64,
}

impl Decision {
    pub(crate) fn run_finalists_and_decide(
        self,
        search: &mut SearchState<'_>,
    ) -> Result<SearchAnswer, TuneError> {
        let effort = search.effort_with_stage_seeds(STAGE, self.repeats, 1);
        let trial = search.run_policies_in_force(effort)?;
        let sets = self.finalists.len().max(1) as f64;
        let baseline = Baseline {
            values: search.question.objective_in_each_seed(&trial)?,
            trial,
            effort,
            level: 1.0 - (1.0 - LEVEL) / sets,
        };
        let in_force = summarize_finalist_runs(
            search,
            &baseline,
            search.space.unchanged_choice(),
            &PolicySet::default(),
            &baseline.trial,
        )?;
        let mut ran = Vec::new();
        for candidate in self.finalists {
            ran.extend(run_candidate_on_fresh_seeds(search, &baseline, candidate)?);
        }
        ran.sort_by(|a, b| {
            let sign = search.question.objective.goal.sign_to_minimise();
            sum_of_percent_beyond_limits(&a.finalist)
                .total_cmp(&sum_of_percent_beyond_limits(&b.finalist))
                .then((sign * a.finalist.objective).total_cmp(&(sign * b.finalist.objective)))
                .then(a.candidate.cmp(&b.candidate))
        });
        let best = choose_smallest_change_as_good_as_best(search, &ran, &in_force);
        let (best, contributions) = match best {
            Some(best) => drop_useless_parts_and_rate_others(search, &baseline, best)?,
            None => (None, Vec::new()),
        };
        let shown = best.as_ref().map(|best: &Finalist| best.set.clone());
        let next = ran
            .into_iter()
            .map(|ran| ran.finalist)
            .filter(|finalist| shown.as_ref() != Some(&finalist.set))
            .collect();
        Ok(SearchAnswer {
            objective: search.question.objective.metric.name.to_string(),
            unit: search.question.objective.metric.unit.to_string(),
            best: best.or_else(|| {
                let keeps = in_force.finalist.keeps_conditions_by_means();
                (shown.is_none() && keeps).then(|| in_force.finalist.clone())
            }),
            in_force: in_force.finalist,
            next,
            contributions,
            space: search.space.count_sets(),
            tried: search.tried.len(),
            is_exhaustive: false,
            budget: 0,
            simulated: search.simulated,
            seed: search.seed,
            repeats: self.repeats,
            level: baseline.level,
            left_out: search.space.left_out.clone(),
            notes: Vec::new(),
        })
    }
}

/// Chooses a finalist: the smallest change among sets that keep every condition and equal the best within chance.
/// `None` where unchanged policies are as good, or no finalist keeps every condition.
fn choose_smallest_change_as_good_as_best<'a>(
    search: &SearchState<'_>,
    ran: &'a [FinalistRuns],
    in_force: &FinalistRuns,
) -> Option<&'a FinalistRuns> {
    let surely = ran
        .iter()
        .any(|ran| ran.finalist.keeps_conditions_by_whole_intervals());
    let keeping: Vec<&FinalistRuns> = ran
        .iter()
        .filter(|ran| keeps_conditions_by_mean_or_interval(&ran.finalist, surely))
        .collect();
    let best = *keeping.first()?;
    let is_as_good = |other: &FinalistRuns| !is_surely_better(search, &best.values, &other.values);
    if in_force.finalist.keeps_conditions_by_means() && is_as_good(in_force) {
        return None;
    }
    keeping
        .into_iter()
        .filter(|other| is_as_good(other))
        .min_by_key(|other| other.candidate.count_changed_dimensions())
}

/// Whether a finalist keeps every condition; `surely`: by its whole interval.
fn keeps_conditions_by_mean_or_interval(finalist: &Finalist, surely: bool) -> bool {
    if surely {
        finalist.keeps_conditions_by_whole_intervals()
    } else {
        finalist.keeps_conditions_by_means()
    }
}

/// Distances beyond the limits in percent, added up over the broken conditions of a finalist.
fn sum_of_percent_beyond_limits(finalist: &Finalist) -> f64 {
    let broken = finalist.conditions.iter().filter(|kept| !kept.is_kept);
    broken.map(|kept| -kept.margin_percent).sum()
}

/// Whether a series is better than another by more than chance and more than [`NO_DIFFERENCE`].
fn is_surely_better(search: &SearchState<'_>, series: &[f64], other: &[f64]) -> bool {
    is_better_beyond_chance(search.question.objective, search.seed, series, other)
}

/// As [`is_surely_better`], for series in the same seeds. `seed` starts the random numbers of the interval.
pub(crate) fn is_better_beyond_chance(
    objective: &SearchObjective,
    seed: u64,
    series: &[f64],
    other: &[f64],
) -> bool {
    gain_towards_goal(objective, seed, other, series)
        .is_some_and(|gain| gain.percent > NO_DIFFERENCE && gain.p_value < 1.0 - LEVEL)
}

/// The gain of a series over the baseline, in the direction of the goal. `seed` starts the random numbers of the interval.
fn gain_towards_goal(
    objective: &SearchObjective,
    seed: u64,
    baseline: &[f64],
    series: &[f64],
) -> Option<Gain> {
    let found = estimate_gain(
        objective.metric,
        baseline,
        series,
        Design::Paired,
        LEVEL,
        seed,
    );
    let wanted = objective.goal.sign_to_minimise() * objective.metric.better.gain_sign();
    let mut gain = found.ok()?;
    // `Gain` is positive for the metric's better direction; the goal may ask for the other.
    if wanted > 0.0 {
        let [low, high] = gain.interval;
        gain.percent = -gain.percent;
        gain.interval = [-high, -low];
    }
    Some(gain)
}

fn run_candidate_on_fresh_seeds(
    search: &mut SearchState<'_>,
    baseline: &Baseline,
    candidate: SetChoice,
) -> Result<Option<FinalistRuns>, TuneError> {
    let Ok(set) = search.space.policy_set_of_choice(&candidate) else {
        return Ok(None);
    };
    let outcome = search
        .run_sets_and_count_requests(std::slice::from_ref(&set), baseline.effort)?
        .pop();
    let Some(TrialOutcome::Ran(trial)) = outcome else {
        return Ok(None);
    };
    summarize_finalist_runs(search, baseline, candidate, &set, &trial).map(Some)
}

/// A finalist's figures from its runs on fresh seeds.
fn summarize_finalist_runs(
    search: &SearchState<'_>,
    baseline: &Baseline,
    candidate: SetChoice,
    set: &PolicySet,
    trial: &Trial,
) -> Result<FinalistRuns, TuneError> {
    let question = &search.question;
    let values = question.objective_in_each_seed(trial)?;
    let mut conditions = Vec::new();
    for (condition, load) in question.conditions_with_load_indices() {
        let metric = &condition.condition.metric;
        let series = trial.metric_in_each_seed(load, metric);
        let before = baseline.trial.metric_in_each_seed(load, metric);
        let (Some(series), Some(before)) = (series, before) else {
            continue;
        };
        let kind = Metric::find(metric).map_or(Mean::Arithmetic, |metric| metric.mean);
        let interval = if condition.is_relative {
            interval_by_ratios_in_same_seeds(&series, &before, baseline.level)
        } else {
            interval_of_mean(kind, &series, baseline.level)
        };
        let (value, before) = (mean(&series), mean(&before));
        let worst = interval.map(|[low, high]| if condition.condition.below { high } else { low });
        conditions.push(KeptCondition {
            condition: condition.to_string(),
            is_implied: condition.is_implied,
            load: question.loads[load].name.clone(),
            value,
            interval,
            limit: condition.limit_in_metric_unit(before),
            margin_percent: condition.percent_within_limit(value, before),
            is_kept: condition.is_kept_by_value(value, before),
            is_sure: worst.is_some_and(|worst| condition.is_kept_by_value(worst, before)),
        });
    }
    let loads = question.loads.iter().enumerate().map(|(index, load)| {
        let shown = SHOWN.iter().filter_map(|metric| {
            let series = trial.metric_in_each_seed(index, metric)?;
            Some(((*metric).to_owned(), mean(&series)))
        });
        LoadFigures {
            load: load.name.clone(),
            metrics: shown.collect(),
        }
    });
    let mut figures: Vec<LoadFigures> = loads.collect();
    if let Some(rest) = trial.rest.metric_of_each_run("mean_mw") {
        figures.push(LoadFigures {
            load: "rest".to_owned(),
            metrics: vec![("mean_mw".to_owned(), mean(&rest))],
        });
    }
    let changes_nothing = candidate == search.space.unchanged_choice();
    Ok(FinalistRuns {
        finalist: Finalist {
            set: set.to_string(),
            changes: candidate.count_changed_dimensions(),
            objective: mean(&values),
            interval: interval_of_mean(question.objective.metric.mean, &values, baseline.level),
            gain: (!changes_nothing)
                .then(|| {
                    gain_towards_goal(question.objective, search.seed, &baseline.values, &values)
                })
                .flatten(),
            loads: figures,
            conditions,
        },
        candidate,
        values,
    })
}

/// The confidence interval around a series' mean, from ratios to unchanged policies in the same seeds: common noise
/// cancels out.
fn interval_by_ratios_in_same_seeds(
    series: &[f64],
    in_force: &[f64],
    level: f64,
) -> Option<[f64; 2]> {
    let before = mean(in_force);
    let scaled: Vec<f64> = series
        .iter()
        .zip(in_force)
        .map(|(value, in_force)| value / in_force * before)
        .collect();
    interval_of_mean(Mean::Arithmetic, &scaled, level)
}

/// Removes useless policies from the best set, and returns what each remaining one contributes.
fn drop_useless_parts_and_rate_others(
    search: &mut SearchState<'_>,
    baseline: &Baseline,
    best: &FinalistRuns,
) -> Result<(Option<Finalist>, Vec<Contribution>), TuneError> {
    let mut kept = best.candidate.clone();
    let mut kept_finalist = best.finalist.clone();
    let mut contributions = Vec::new();
    let parts = if kept.profile.is_some() {
        0
    } else {
        kept.choices.len()
    };
    for dimension in 0..parts {
        let choice = kept.choices[dimension];
        let Some(policy) = choice
            .checked_sub(1)
            .map(|index| search.space.dimensions[dimension].choices[index].clone())
        else {
            continue;
        };
        let mut without = kept.clone();
        without.choices[dimension] = 0;
        let Some(ran) = run_candidate_on_fresh_seeds(search, baseline, without)? else {
            continue;
        };
        let surely = kept_finalist.keeps_conditions_by_whole_intervals();
        let keeps = keeps_conditions_by_mean_or_interval(&ran.finalist, surely);
        if keeps && !is_surely_better(search, &best.values, &ran.values) {
            kept = ran.candidate;
            kept_finalist = ran.finalist;
            continue;
        }
        let broken = ran.finalist.conditions.iter().filter(|kept| !kept.is_kept);
        contributions.push(Contribution {
            part: policy.to_string(),
            objective_without: ran.finalist.objective,
            broken_without: broken
                .map(|kept| format!("{} on {}", kept.condition, kept.load))
                .collect(),
        });
    }
    Ok((Some(kept_finalist), contributions))
}
