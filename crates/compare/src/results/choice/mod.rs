//! The policy that is best by one metric among those that keep conditions.

mod answers;
mod front;
mod sentences;

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_results::question::is_among;
use wakepath_results::{Condition, Goal};

pub use answers::{Answer, answer, answers};
pub use front::{Point, front, front_of};

use super::{CompareError, Comparison, Load, Row};
use crate::figure::doubt;
use crate::power_scope::has_scope;
use crate::{Mean, Metric};

/// What to choose among.
#[derive(Clone, Debug, Default)]
pub struct Among {
    /// Policies as the comparison calls them; empty: all.
    pub policies: Vec<String>,
    /// Workloads on machines; empty: all.
    pub loads: Vec<Load>,
}

/// Which policy is wanted.
#[derive(Clone, Debug)]
pub struct Objective {
    /// Name of the metric that is minimised or maximised.
    pub metric: String,
    /// Which of both.
    pub goal: Goal,
    /// What the policy has to keep on every workload.
    pub keep: Vec<Condition>,
    /// Of which policies, on which workloads.
    pub among: Among,
}

/// Whether a condition is kept, its interval considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// The whole interval keeps it.
    Surely,
    /// The interval reaches beyond the limit, or there are too few runs for one.
    CannotTell,
    /// The whole interval breaks it.
    Fails,
}

fn holds(condition: &Condition, row: &Row) -> Holds {
    match row
        .interval
        .map(|ends| ends.map(|end| condition.keeps(end)))
    {
        Some([true, true]) => Holds::Surely,
        Some([false, false]) => Holds::Fails,
        _ => Holds::CannotTell,
    }
}

/// By how many percent of the limit a mean misses it; 0 or less if it does not.
fn miss(condition: &Condition, mean: f64) -> f64 {
    let way = if condition.below { 1.0 } else { -1.0 };
    way * (mean - condition.limit) / condition.limit.abs().max(f64::MIN_POSITIVE) * 100.0
}

/// A figure of a policy on a workload.
#[derive(Clone, Debug, Serialize)]
pub struct MetricFigure {
    /// Name of the metric.
    pub metric: String,
    /// The workload on its machine.
    #[serde(flatten)]
    pub load: Load,
    /// Mean over the runs.
    pub mean: f64,
    /// The interval around it; none of fewer than 4 runs.
    pub interval: Option<[f64; 2]>,
    /// Runs.
    pub runs: usize,
}

impl From<&Row> for MetricFigure {
    fn from(row: &Row) -> Self {
        Self {
            metric: row.metric.clone(),
            load: row.load.clone(),
            mean: row.mean,
            interval: row.interval,
            runs: row.runs,
        }
    }
}

/// A policy that was asked about.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The policy.
    pub policy: String,
    /// The geometric mean over the workloads of what is minimised or maximised.
    pub value: f64,
    /// How far that may be off by the intervals of its figures; none of too few runs.
    #[serde(skip)]
    pub doubt: Option<f64>,
    /// What is minimised or maximised, on each workload.
    pub figures: Vec<MetricFigure>,
    /// Whether all conditions are kept on all workloads.
    pub holds: Holds,
    /// By how many percent of its limit the worst condition is missed, by the means; 0 or less if none is.
    pub miss_percent: f64,
    /// The figure of that condition.
    pub worst: Option<MetricFigure>,
    /// Which condition that is.
    pub condition: Option<Condition>,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// What is minimised or maximised.
    pub metric: Metric,
    /// Which of both.
    pub goal: Goal,
    /// What has to be kept.
    pub keep: Vec<Condition>,
    /// Confidence level of the intervals.
    pub level: f64,
    /// Those that surely keep every condition, then those of which it cannot be told, then the others. Each of these groups
    /// begins with those whose means miss nothing, the best first; then come the others, the nearest first.
    pub candidates: Vec<Candidate>,
    /// The answer in sentences: the policy, the next one, the nearest of those that are better and miss.
    pub sentences: Vec<String>,
    /// Every metric that is named above.
    #[serde(skip)]
    metrics: Vec<Metric>,
    /// Whether power is modelled with assumed figures.
    #[serde(skip)]
    assumes_power: bool,
}

/// Chooses among the policies of a comparison. A policy has to have all these metrics on every workload.
///
/// # Errors
/// A metric that the comparison does not have; no policy that has all of them.
pub fn choose(comparison: &Comparison, objective: &Objective) -> Result<Choice, CompareError> {
    let mut names = vec![objective.metric.as_str()];
    names.extend(objective.keep.iter().map(|c| c.metric.as_str()));
    let metrics: Vec<Metric> = names
        .iter()
        .map(|name| goal_of(comparison, name).cloned())
        .collect::<Result<_, _>>()?;
    let found = candidates(comparison, &names, &objective.among)?;
    let candidate = |Found { policy, rows }: Found<'_>| {
        let (value, doubt) = over_workloads(&rows[0]);
        let mut found = Candidate {
            policy: policy.to_owned(),
            value,
            doubt,
            figures: rows[0].iter().map(|row| MetricFigure::from(*row)).collect(),
            holds: Holds::Surely,
            miss_percent: f64::NEG_INFINITY,
            worst: None,
            condition: None,
        };
        let mut worst = (0.0, Holds::Surely, f64::NEG_INFINITY);
        for (condition, rows) in objective.keep.iter().zip(&rows[1..]) {
            for row in rows {
                let (holds, miss) = (holds(condition, row), miss(condition, row.mean));
                found.holds = found.holds.max(holds);
                let this = (miss.max(0.0), holds, miss);
                if found.worst.is_none() || this > worst {
                    worst = this;
                    found.miss_percent = miss;
                    found.worst = Some(MetricFigure::from(*row));
                    found.condition = Some(condition.clone());
                }
            }
        }
        found
    };
    let mut candidates: Vec<Candidate> = found.into_iter().map(candidate).collect();
    let way = objective.goal.sign();
    let missed = |c: &Candidate| c.miss_percent.max(0.0);
    candidates.sort_by(|a, b| {
        let by_goal = (way * a.value).total_cmp(&(way * b.value));
        let by_miss = missed(a).total_cmp(&missed(b));
        a.holds.cmp(&b.holds).then(by_miss).then(by_goal)
    });
    let mut choice = Choice {
        metric: metrics[0].clone(),
        goal: objective.goal,
        keep: objective.keep.clone(),
        level: comparison.level,
        candidates,
        sentences: Vec::new(),
        metrics,
        assumes_power: comparison.assumes_power,
    };
    choice.say();
    Ok(choice)
}

/// The metric of this name.
fn goal_of<'a>(comparison: &'a Comparison, name: &str) -> Result<&'a Metric, CompareError> {
    let found = comparison.metrics.iter().find(|m| m.name == name);
    found.ok_or_else(|| {
        let known = comparison.metrics.iter().map(|m| &*m.name);
        CompareError::Unknown {
            what: "metric",
            name: name.to_owned(),
            known: known.collect::<Vec<_>>().join(", "),
        }
    })
}

/// A policy with its rows by metric and workload.
struct Found<'a> {
    policy: &'a str,
    rows: Vec<Vec<&'a Row>>,
}

/// The policies that have all these metrics on every workload.
fn candidates<'a>(
    comparison: &'a Comparison,
    metrics: &[&str],
    among: &Among,
) -> Result<Vec<Found<'a>>, CompareError> {
    let policies = comparison.policies.iter();
    let policies: Vec<&String> = policies.filter(|p| is_among(&among.policies, p)).collect();
    let loads = match among.loads[..] {
        [] => &comparison.loads,
        _ => &among.loads,
    };
    let rows: BTreeMap<(&str, &Load, &str), &Row> = comparison
        .rows
        .iter()
        .map(|r| ((&*r.metric, &r.load, &*r.policy), r))
        .collect();
    let of = |metric: &str, policy: &str| -> Option<Vec<&Row>> {
        let of = |load| rows.get(&(metric, load, policy)).copied();
        loads.iter().map(of).collect()
    };
    let found: Vec<_> = policies
        .iter()
        .filter_map(|policy| {
            let rows: Option<Vec<_>> = metrics.iter().map(|metric| of(metric, policy)).collect();
            Some(Found {
                policy,
                rows: rows?,
            })
        })
        .collect();
    if !found.is_empty() {
        return match mixed_power(comparison, metrics, &found, loads) {
            Some(sentence) => Err(CompareError::MixedPower(sentence)),
            None => Ok(found),
        };
    }
    let pairs = metrics
        .iter()
        .flat_map(|metric| loads.iter().map(move |load| (*metric, load)));
    let lacks = |(metric, load): &(&str, &Load)| {
        let has = |policy: &&String| rows.contains_key(&(metric, load, policy.as_str()));
        !policies.iter().any(has)
    };
    Err(match pairs.into_iter().find(lacks) {
        Some((metric, load)) => CompareError::NoFigures {
            metric: metric.to_owned(),
            workload: load.to_string(),
        },
        None => CompareError::Nothing,
    })
}

/// Why these policies cannot be ranked, if a metric is power and counts different things on their machines.
fn mixed_power(
    comparison: &Comparison,
    metrics: &[&str],
    found: &[Found<'_>],
    loads: &[Load],
) -> Option<String> {
    if !metrics.iter().any(|metric| has_scope(metric)) {
        return None;
    }
    let pairs = found.iter().flat_map(|candidate| {
        let machines = loads.iter().map(|load| load.machine.as_str());
        machines.map(|machine| (candidate.policy, machine))
    });
    comparison.power_counts.mixed(pairs)
}

/// The geometric mean over the workloads, the arithmetic one if a mean is not above 0; and how far it may be off if the
/// figures are off independently of each other.
fn over_workloads(rows: &[&Row]) -> (f64, Option<f64>) {
    let means: Vec<f64> = rows.iter().map(|row| row.mean).collect();
    let doubts = rows.iter().map(|r| doubt(r.interval, r.deviation));
    let doubts: Option<Vec<f64>> = doubts.collect();
    let positive = means.iter().all(|m| *m > 0.0);
    let mean = if positive {
        Mean::Geometric
    } else {
        Mean::Arithmetic
    };
    let value = mean.of(&means);
    let together = |doubts: Vec<f64>| {
        // A geometric mean is off by a share.
        let terms = doubts.iter().zip(&means).map(|(doubt, mean)| {
            if positive {
                doubt / mean * value
            } else {
                *doubt
            }
        });
        terms.map(|t| t.powi(2)).sum::<f64>().sqrt() / means.len() as f64
    };
    (value, doubts.map(together))
}
