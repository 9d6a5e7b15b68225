//! Judging policy sets by their runs: gains, conditions with their intervals, and the smallest change that is as good as the best.

use wakepath_compare::{Design, Gain, estimate_gain, interval_of_mean};
use wakepath_results::{LoadCondition, Mean, Metric};

use crate::TuneError;
use crate::answer::{Finalist, KeptCondition, LoadFigures, SearchAnswer, UNCHANGED};
use crate::evaluator::{LoadRuns, Trial, is_wait_for_drive};
use crate::figures::{Question, mean};
use crate::objective::SearchObjective;

/// Difference of the objective in percent below which two sets count as equal.
const NO_DIFFERENCE: f64 = 0.5;

/// Confidence level of all intervals together, and of a comparison that was not picked from several.
pub(crate) const LEVEL: f64 = 0.95;

/// Metrics shown for each load, where the load has them.
const SHOWN: [&str; 20] = [
    "added_us_per_io",
    "exit_us_per_io",
    "added_us_per_wake",
    "too_deep_per_s",
    "mean_mw",
    "package_mw",
    "drive_mw",
    "drive_wake_ups_per_s",
    "drive_wake_p50_us",
    "drive_wake_p99_us",
    "drive_asleep",
    "mean_us",
    "p99_us",
    "iops",
    "rate_reached",
    "wake_mean_us",
    "wake_p99_us",
    "ops_per_s",
    "commits_per_s",
    "sync_p99_us",
];

/// A policy set with its runs, judged.
pub(crate) struct JudgedSet {
    /// The objective in each run.
    pub(crate) values: Vec<f64>,
    pub(crate) finalist: Finalist,
}

/// Runs with unchanged policies: the baseline for all sets.
pub(crate) struct Baseline {
    pub(crate) trial: Trial,
    pub(crate) values: Vec<f64>,
    /// Confidence level of each interval.
    pub(crate) level: f64,
    /// Start of the random numbers for intervals of gains.
    pub(crate) seed: u64,
}

impl Baseline {
    /// The baseline for so many sets; the intervals together have the level of all.
    ///
    /// # Errors
    /// A load lacks the objective.
    pub(crate) fn new(
        question: &Question<'_>,
        trial: Trial,
        sets: usize,
        seed: u64,
    ) -> Result<Self, TuneError> {
        Ok(Self {
            values: question.objective_in_each_seed(&trial)?,
            trial,
            level: 1.0 - (1.0 - LEVEL) / sets.max(1) as f64,
            seed,
        })
    }

    /// The unchanged policies as a judged set.
    ///
    /// # Errors
    /// A load lacks the objective.
    pub(crate) fn judge_itself(&self, question: &Question<'_>) -> Result<JudgedSet, TuneError> {
        judge_set(question, self, UNCHANGED, 0, &self.trial)
    }
}

/// Chooses one of the judged sets, the best of which come first: the smallest change among sets that keep every condition,
/// equal the best within chance, and beat unchanged policies. Returns its index; `None` where unchanged policies are as good, or
/// no set keeps every condition.
///
/// The best set is the best of several by chance, too: unchanged policies are beaten at the level of the baseline's intervals.
pub(crate) fn choose_smallest_change_as_good_as_best(
    objective: &SearchObjective,
    baseline: &Baseline,
    ran: &[JudgedSet],
    in_force: &JudgedSet,
) -> Option<usize> {
    let surely = ran
        .iter()
        .any(|ran| ran.finalist.keeps_conditions_by_whole_intervals());
    let keeping: Vec<usize> = (0..ran.len())
        .filter(|index| keeps_conditions_by_mean_or_interval(&ran[*index].finalist, surely))
        .collect();
    let best = &ran[*keeping.first()?];
    if !is_worth_changing(objective, baseline, best, in_force) {
        return None;
    }
    let drawing = (LEVEL, baseline.seed);
    keeping
        .into_iter()
        .filter(|index| {
            !is_better_beyond_chance(objective, drawing, &best.values, &ran[*index].values)
        })
        .filter(|index| is_worth_changing(objective, baseline, &ran[*index], in_force))
        .min_by_key(|index| ran[*index].finalist.changes)
}

/// Whether a set beats unchanged policies beyond chance, at the level of the baseline's intervals; any set does where unchanged
/// policies break a condition.
pub(crate) fn is_worth_changing(
    objective: &SearchObjective,
    baseline: &Baseline,
    set: &JudgedSet,
    in_force: &JudgedSet,
) -> bool {
    let drawing = (baseline.level, baseline.seed);
    !in_force.finalist.keeps_conditions_by_means()
        || is_better_beyond_chance(objective, drawing, &set.values, &in_force.values)
}

/// Whether a finalist keeps every condition; `surely`: by its whole interval.
pub(crate) fn keeps_conditions_by_mean_or_interval(finalist: &Finalist, surely: bool) -> bool {
    if surely {
        finalist.keeps_conditions_by_whole_intervals()
    } else {
        finalist.keeps_conditions_by_means()
    }
}

/// Sorts judged sets, the best first: the least beyond the limits, then the best objective. Equal sets keep their order.
pub(crate) fn sort_judged_best_first(objective: &SearchObjective, judged: &mut [JudgedSet]) {
    let sign = objective.goal.sign_to_minimise();
    judged.sort_by(|a, b| {
        sum_of_percent_beyond_limits(&a.finalist)
            .total_cmp(&sum_of_percent_beyond_limits(&b.finalist))
            .then((sign * a.finalist.objective).total_cmp(&(sign * b.finalist.objective)))
    });
}

/// Distances beyond the limits in percent, added up over the broken conditions of a finalist.
fn sum_of_percent_beyond_limits(finalist: &Finalist) -> f64 {
    let broken = finalist.conditions.iter().filter(|kept| !kept.is_kept);
    broken.map(|kept| -kept.margin_percent).sum()
}

/// Whether a series is better than another in the same seeds, by more than chance and more than [`NO_DIFFERENCE`]. `drawing`:
/// the confidence level, and the start of the random numbers.
pub(crate) fn is_better_beyond_chance(
    objective: &SearchObjective,
    drawing: (f64, u64),
    series: &[f64],
    other: &[f64],
) -> bool {
    let (level, _) = drawing;
    gain_towards_goal(objective, drawing, other, series)
        .is_some_and(|gain| gain.percent > NO_DIFFERENCE && gain.p_value < 1.0 - level)
}

/// The gain of a series over the baseline, in the direction of the goal, with an interval of the level. `seed` starts the random
/// numbers of the interval.
fn gain_towards_goal(
    objective: &SearchObjective,
    (level, seed): (f64, u64),
    baseline: &[f64],
    series: &[f64],
) -> Option<Gain> {
    let found = estimate_gain(
        objective.metric,
        baseline,
        series,
        Design::Paired,
        level,
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

/// Judges a policy set by its runs beside the baseline's. `changes` is the number of mechanisms that the set changes.
///
/// # Errors
/// A load lacks the objective.
pub(crate) fn judge_set(
    question: &Question<'_>,
    baseline: &Baseline,
    set: &str,
    changes: usize,
    trial: &Trial,
) -> Result<JudgedSet, TuneError> {
    let values = question.objective_in_each_seed(trial)?;
    let mut conditions = Vec::new();
    for (condition, load) in question.conditions_with_load_indices() {
        let metric = &condition.condition.metric;
        let (Some(runs), Some(runs_before)) = (
            question.runs_of_condition(trial, condition, load),
            question.runs_of_condition(&baseline.trial, condition, load),
        ) else {
            continue;
        };
        let (Some(series), Some(series_before), Some(before)) = (
            runs.metric_of_each_run(metric),
            runs_before.metric_of_each_run(metric),
            runs_before.metric_over_all_runs(metric),
        ) else {
            continue;
        };
        let kind = Metric::find(metric).map_or(Mean::Arithmetic, |metric| metric.mean);
        let pooled = runs.pooled_percentile_if_runs_are_short(metric, baseline.level);
        let interval = match &pooled {
            Some(pooled) if condition.is_relative => {
                let drawing = (baseline.level, baseline.seed);
                // Where the pooled percentile has no upper end, its ratio has none either.
                (pooled.interval_us)
                    .and_then(|_| runs.interval_by_pooled_ratios(runs_before, metric, drawing))
            }
            Some(pooled) => pooled.interval_us,
            None if condition.is_relative => {
                interval_by_ratios_in_same_seeds(&series, &series_before, baseline.level)
            }
            None => interval_of_mean(kind, &series, baseline.level),
        };
        let value = pooled.map_or_else(|| mean(&series), |pooled| pooled.value_us);
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
        let runs = trial.loads.get(index);
        let has_no_wake_up = runs.is_some_and(LoadRuns::have_no_wake_up_of_drive);
        let shown = SHOWN.iter().filter_map(|metric| {
            if has_no_wake_up && is_wait_for_drive(metric) {
                return None;
            }
            let value = trial.loads[index].metric_over_all_runs(metric)?;
            Some(((*metric).to_owned(), value))
        });
        LoadFigures {
            load: load.name.clone(),
            metrics: shown.collect(),
        }
    });
    let mut figures: Vec<LoadFigures> = loads.collect();
    for metric in ["mean_mw", "drive_mw", "package_mw"] {
        if let Some(rest) = trial.rest.metric_of_each_run(metric) {
            figures.push(LoadFigures {
                load: "rest".to_owned(),
                metrics: vec![(metric.to_owned(), mean(&rest))],
            });
            break;
        }
    }
    let (objective, interval) = objective_with_interval(question, trial, &values, baseline.level);
    Ok(JudgedSet {
        finalist: Finalist {
            set: set.to_owned(),
            changes,
            objective,
            interval,
            gain: (changes > 0)
                .then(|| {
                    let drawing = (baseline.level, baseline.seed);
                    gain_towards_goal(question.objective, drawing, &baseline.values, &values)
                })
                .flatten(),
            loads: figures,
            conditions,
        },
        values,
    })
}

/// The objective over all runs, with its interval: the figure of the load, where the objective is that of a single load, or else
/// the mean over runs.
fn objective_with_interval(
    question: &Question<'_>,
    trial: &Trial,
    values: &[f64],
    level: f64,
) -> (f64, Option<[f64; 2]>) {
    let metric = &question.objective.metric;
    if let ([_], [runs]) = (question.loads, &trial.loads[..])
        && let Some(pooled) = runs.pooled_percentile_if_runs_are_short(&metric.name, level)
    {
        return (pooled.value_us, pooled.interval_us);
    }
    (mean(values), interval_of_mean(metric.mean, values, level))
}

/// Remarks on conditions that hold because a set never lets the drive sleep, or never wakes it, under a load.
pub(crate) fn note_waits_for_drives_that_never_wake(
    conditions: &[LoadCondition],
    answer: &SearchAnswer,
) -> Vec<String> {
    let mut notes = Vec::new();
    let changed = answer.best.iter().filter(|best| !best.changes_nothing());
    for finalist in changed.chain([&answer.in_force]) {
        for load in &finalist.loads {
            let mut rates = load.metrics.iter();
            let never_wakes =
                rates.any(|(name, rate)| name == "drive_wake_ups_per_s" && *rate == 0.0);
            let mut concerned = conditions.iter().filter(|condition| {
                condition.concerns_load(&load.load)
                    && is_wait_for_drive(&condition.condition.metric)
            });
            if never_wakes && let Some(condition) = concerned.next() {
                notes.push(format!(
                    "{}: no request of {} wakes the drive under {}, so that none waits for it (0 us)",
                    condition.condition.metric,
                    load.load,
                    if finalist.changes_nothing() {
                        "what is in force"
                    } else {
                        &finalist.set
                    },
                ));
            }
        }
    }
    notes
}

/// The confidence interval around a series' mean, from ratios to unchanged policies in the same seeds: common noise
/// cancels out. Where a figure of unchanged policies is 0 there are no ratios, and the series speaks for itself.
fn interval_by_ratios_in_same_seeds(
    series: &[f64],
    in_force: &[f64],
    level: f64,
) -> Option<[f64; 2]> {
    if in_force.contains(&0.0) {
        return interval_of_mean(Mean::Arithmetic, series, level);
    }
    let before = mean(in_force);
    let scaled: Vec<f64> = series
        .iter()
        .zip(in_force)
        .map(|(value, in_force)| value / in_force * before)
        .collect();
    interval_of_mean(Mean::Arithmetic, &scaled, level)
}
