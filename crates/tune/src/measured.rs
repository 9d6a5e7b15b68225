//! The decision between the best few sets of a search by runs on a real machine.

use wakepath_results::{LoadCondition, Metric};

use crate::TuneError;
use crate::answer::{AnswerOrigin, Finalist, PredictedFigure, SearchAnswer};
use crate::evaluator::Trial;
use crate::figures::Question;
use crate::judgement::{
    Baseline, choose_smallest_change_as_good_as_best, judge_set, sort_judged_best_first,
};
use crate::load::check_hours_and_count_rest;
use crate::objective::SearchObjective;
use crate::search::SearchRequest;

/// Metrics of a simulation with the metric that a machine measures in their place; `None`: nothing measures them.
const MEASURED_IN_PLACE: [(&str, Option<&str>); 4] = [
    ("mean_mw", Some("package_mw")),
    ("cpus_mw", None),
    ("drive_mw", None),
    ("per_io_uj", None),
];

/// A policy set with its runs on a real machine.
#[derive(Clone, Debug)]
pub struct MeasuredSet {
    /// The policy set as `apply` takes it.
    pub set: String,
    /// Number of mechanisms that the set changes.
    pub changes: usize,
    /// Runs of each load, in the loads' order, and at rest.
    pub trial: Trial,
}

/// The request in the metrics that a machine measures. `measures_power`: the machine counts the energy of its processor
/// packages.
///
/// # Errors
/// A metric that nothing measures on this machine, as objective or in a condition.
pub fn request_with_measured_metrics(
    request: &SearchRequest,
    measures_power: bool,
) -> Result<SearchRequest, TuneError> {
    let objective = &request.objective.metric.name;
    let measured = measured_metric(objective, measures_power)?;
    for condition in &request.conditions {
        let mut loads = request.loads.iter();
        if loads.any(|load| condition.job_of_load(&load.name).is_some()) {
            return not_measured_error(
                &condition.to_string(),
                "--on live measures all jobs of a file together; leave the job out, or give files of one job each",
            );
        }
    }
    let conditions = request.conditions.iter().map(|condition| {
        let mut measured = condition.clone();
        let metric = measured_metric(&condition.condition.metric, measures_power)?;
        metric.clone_into(&mut measured.condition.metric);
        Ok(measured)
    });
    Ok(SearchRequest {
        objective: SearchObjective::new(measured, request.objective.goal)?,
        conditions: conditions.collect::<Result<Vec<LoadCondition>, TuneError>>()?,
        ..request.clone()
    })
}

/// The metric that a machine measures in place of a metric.
fn measured_metric(metric: &str, measures_power: bool) -> Result<&str, TuneError> {
    let known = MEASURED_IN_PLACE.iter().find(|(name, _)| *name == metric);
    match known {
        Some((_, None)) => not_measured_error(
            metric,
            "nothing on a machine measures that; with --on live give mean_mw, a latency or a rate",
        ),
        Some((_, Some(_))) if !measures_power => not_measured_error(
            metric,
            "this machine has no energy counters (RAPL), and power that is not measured cannot be minimised or limited by \
             --on live; give a latency or a rate, or leave --on live out for a prediction",
        ),
        Some((_, Some(measured))) => Ok(measured),
        None => Ok(metric),
    }
}

fn not_measured_error<T>(metric: &str, problem: &str) -> Result<T, TuneError> {
    Err(TuneError::Condition {
        condition: metric.to_owned(),
        problem: problem.to_owned(),
    })
}

/// Decides between measured sets as a search decides between its finalists. `request` has measured metrics, and the runs of
/// each repeat belong together. What `predicted` says of the search stays: space, budget, seed.
///
/// # Errors
/// A load lacks the objective; hours that no day has.
pub fn decide_by_measurements(
    request: &SearchRequest,
    in_force: Trial,
    sets: &[MeasuredSet],
    predicted: &SearchAnswer,
) -> Result<SearchAnswer, TuneError> {
    let conditions = request.conditions_with_implied_rates();
    let question = Question {
        loads: &request.loads,
        rest_hours: check_hours_and_count_rest(&request.loads)?,
        objective: &request.objective,
        conditions: &conditions,
        noise: Vec::new(),
    };
    let baseline = Baseline::new(&question, in_force, sets.len(), request.seed)?;
    let before = baseline.judge_itself(&question)?;
    let mut judged = Vec::new();
    for measured in sets {
        judged.push(judge_set(
            &question,
            &baseline,
            &measured.set,
            measured.changes,
            &measured.trial,
        )?);
    }
    sort_judged_best_first(&request.objective, &mut judged);
    let chosen =
        choose_smallest_change_as_good_as_best(&request.objective, &baseline, &judged, &before);
    let mut next: Vec<Finalist> = judged.into_iter().map(|set| set.finalist).collect();
    let best = match chosen {
        Some(index) => Some(next.remove(index)),
        None => (before.finalist.keeps_conditions_by_means()).then(|| before.finalist.clone()),
    };
    Ok(SearchAnswer {
        origin: AnswerOrigin::Measurement,
        objective: request.objective.metric.name.to_string(),
        unit: request.objective.metric.unit.to_string(),
        best,
        in_force: before.finalist,
        next,
        contributions: Vec::new(),
        first_seed_of_decision: 0,
        repeats: baseline.values.len() as u32,
        level: baseline.level,
        ..predicted.clone()
    })
}

/// Predicted figures beside the measured ones, for each measured set and load. Power is left out.
pub fn compare_prediction_with_measurement(
    predicted: &SearchAnswer,
    measured: &SearchAnswer,
) -> Vec<PredictedFigure> {
    let mut errors = Vec::new();
    for (load, set, metric, value) in list_figures(measured) {
        let same = list_figures(predicted)
            .find(|(a, b, c, _)| (*a, *b, *c) == (load, set, metric))
            .map(|(.., value)| value);
        let Some(expected) = same.filter(|_| !is_power(metric)) else {
            continue;
        };
        errors.push(PredictedFigure {
            set: set.to_owned(),
            load: load.to_owned(),
            metric: metric.to_owned(),
            predicted: expected,
            measured: value,
            error_percent: (value != 0.0).then(|| 100.0 * (expected / value - 1.0)),
        });
    }
    errors
}

fn is_power(metric: &str) -> bool {
    Metric::find(metric).is_some_and(|metric| matches!(&*metric.unit, "mW" | "uJ"))
}

/// Load, set, metric and value of every figure of an answer, each set once.
fn list_figures(answer: &SearchAnswer) -> impl Iterator<Item = (&str, &str, &str, f64)> {
    let best = answer.best.iter().filter(|best| !best.changes_nothing());
    let finalists = best.chain(&answer.next).chain([&answer.in_force]);
    finalists.flat_map(|finalist| {
        finalist.loads.iter().flat_map(move |figures| {
            let metrics = figures.metrics.iter();
            metrics.map(move |(metric, value)| {
                (
                    figures.load.as_str(),
                    finalist.set.as_str(),
                    metric.as_str(),
                    *value,
                )
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::evaluator::LoadRuns;
    use crate::load::DailyLoad;
    use wakepath_results::Goal;

    fn request(metric: &str, conditions: &[&str]) -> SearchRequest {
        SearchRequest {
            loads: vec![DailyLoad {
                name: "db".to_owned(),
                workload: None,
                hours: 24.0,
            }],
            objective: SearchObjective::new(metric, Goal::Minimise).unwrap(),
            conditions: (conditions.iter().map(|text| text.parse().unwrap())).collect(),
            budget: Budget(1),
            seed: 1,
        }
    }

    /// Runs with these 99th percentiles, and a fixed rate.
    fn trial(p99_us: &[f64]) -> Trial {
        let runs = p99_us
            .iter()
            .map(|value| vec![("p99_us".to_owned(), *value), ("iops".to_owned(), 1000.0)]);
        Trial {
            loads: vec![LoadRuns {
                runs: runs.collect(),
                ..LoadRuns::default()
            }],
            rest: LoadRuns::default(),
            requests: 1,
        }
    }

    fn set(text: &str, p99_us: &[f64]) -> MeasuredSet {
        MeasuredSet {
            set: text.to_owned(),
            changes: 1,
            trial: trial(p99_us),
        }
    }

    fn finalist(set: &str, changes: usize, p99_us: f64) -> Finalist {
        Finalist {
            set: set.to_owned(),
            changes,
            objective: p99_us,
            interval: None,
            gain: None,
            loads: vec![crate::answer::LoadFigures {
                load: "db".to_owned(),
                metrics: vec![("p99_us".to_owned(), p99_us), ("mean_mw".to_owned(), 9.0)],
            }],
            conditions: Vec::new(),
        }
    }

    fn predicted() -> SearchAnswer {
        SearchAnswer {
            origin: AnswerOrigin::Simulation,
            objective: "p99_us".to_owned(),
            unit: "us".to_owned(),
            in_force: finalist("unchanged", 0, 300.0),
            best: Some(finalist("fast", 1, 150.0)),
            next: vec![finalist("slow", 1, 200.0)],
            contributions: Vec::new(),
            space: 3,
            tried: 3,
            is_exhaustive: true,
            budget: 1,
            simulated: 1,
            seed: 1,
            first_seed_of_decision: 7,
            repeats: 5,
            level: 0.95,
            left_out: Vec::new(),
            notes: Vec::new(),
        }
    }

    const BEFORE: [f64; 5] = [300.0, 302.0, 298.0, 301.0, 299.0];

    #[test]
    fn the_answer_is_what_was_measured_and_not_what_was_predicted() {
        let sets = [
            set("fast", &[299.0, 301.0, 300.0, 300.0, 300.0]),
            set("slow", &[200.0, 201.0, 199.0, 200.0, 200.0]),
        ];
        let request = request("p99_us", &[]);
        let answer = decide_by_measurements(&request, trial(&BEFORE), &sets, &predicted()).unwrap();
        assert_eq!(answer.origin, AnswerOrigin::Measurement);
        assert_eq!(answer.best.as_ref().unwrap().set, "slow");
        assert_eq!((answer.repeats, answer.first_seed_of_decision), (5, 0));
        let errors = compare_prediction_with_measurement(&predicted(), &answer);
        let fast = errors.iter().find(|error| error.set == "fast").unwrap();
        assert!(
            (fast.error_percent.unwrap() + 50.0).abs() < 1e-9,
            "{fast:?}"
        );
        // Simulated power has no measured counterpart.
        assert!(errors.iter().all(|error| error.metric == "p99_us"));
        assert_eq!(errors.len(), 3);
    }

    #[test]
    fn sets_within_chance_leave_what_is_in_force() {
        let sets = [set("fast", &[301.0, 299.0, 302.0, 298.0, 299.5])];
        let answer =
            decide_by_measurements(&request("p99_us", &[]), trial(&BEFORE), &sets, &predicted())
                .unwrap();
        assert!(answer.best.unwrap().changes_nothing());
    }

    #[test]
    fn a_condition_that_the_measurement_breaks_gives_no_answer() {
        let sets = [set("fast", &[200.0, 201.0, 199.0, 200.0, 200.0])];
        let request = request("p99_us", &["p99_us < 100"]);
        let answer = decide_by_measurements(&request, trial(&BEFORE), &sets, &predicted()).unwrap();
        assert!(answer.best.is_none());
        assert_eq!(answer.next.len(), 1);
    }

    #[test]
    fn power_is_measured_only_where_there_are_counters() {
        let watts = request("mean_mw", &["p99_us < 150"]);
        let refused = request_with_measured_metrics(&watts, false).unwrap_err();
        assert!(
            refused.to_string().contains("no energy counters"),
            "{refused}"
        );
        let limited = request("p99_us", &["mean_mw <= +3%"]);
        assert!(request_with_measured_metrics(&limited, false).is_err());
        let measured = request_with_measured_metrics(&limited, true).unwrap();
        assert_eq!(measured.conditions[0].condition.metric, "package_mw");
        let measured = request_with_measured_metrics(&watts, true).unwrap();
        assert_eq!(measured.objective.metric.name, "package_mw");
        let drive = request("drive_mw", &[]);
        let refused = request_with_measured_metrics(&drive, true).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("nothing on a machine measures that")
        );
    }
}
