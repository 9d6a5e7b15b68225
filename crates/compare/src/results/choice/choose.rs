//! Ranks policies by an objective: a goal and conditions.

use wakepath_results::{Condition, Goal, Metric};

use super::candidate::{Candidate, Choice, Compliance, MetricFigure};
use super::subset::{PolicyRows, Subset, mean_and_doubt_over_workloads, metric_by_name};
use crate::results::comparison::{Comparison, Row};
use crate::results::error::CompareError;

/// What to choose a policy by: a goal with conditions.
#[derive(Clone, Debug)]
pub struct Objective {
    /// Name of the goal's metric.
    pub metric: String,
    /// Whether the goal's metric is minimised or maximised.
    pub goal: Goal,
    /// Conditions that the policy has to keep on every workload.
    pub keep: Vec<Condition>,
    /// Policies and workloads to choose among.
    pub among: Subset,
}

/// Chooses among policies that have all metrics of the objective on every workload.
///
/// # Errors
///
/// The comparison lacks a metric of the objective, or no policy has all metrics.
pub fn choose_policy(
    comparison: &Comparison,
    objective: &Objective,
) -> Result<Choice, CompareError> {
    let mut names = vec![objective.metric.as_str()];
    names.extend(objective.keep.iter().map(|c| c.metric.as_str()));
    let metrics: Vec<Metric> = names
        .iter()
        .map(|name| metric_by_name(comparison, name).cloned())
        .collect::<Result<_, _>>()?;
    let policies = objective.among.policy_rows(comparison, &names)?;
    let mut candidates: Vec<Candidate> = policies
        .iter()
        .map(|policy| make_candidate(policy, &objective.keep))
        .collect();
    let sign = objective.goal.sign_to_minimise();
    candidates.sort_by(|a, b| {
        let by_goal = (sign * a.value).total_cmp(&(sign * b.value));
        let [miss_a, miss_b] = [a, b].map(|candidate| candidate.miss_percent.max(0.0));
        let by_miss = miss_a.total_cmp(&miss_b);
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
    choice.update_sentences();
    Ok(choice)
}

/// Makes a candidate of a policy from its rows for the goal, followed by the rows for each
/// condition.
fn make_candidate(policy: &PolicyRows<'_>, conditions: &[Condition]) -> Candidate {
    let (value, doubt) = mean_and_doubt_over_workloads(&policy.rows[0]);
    let mut candidate = Candidate {
        policy: policy.policy.to_owned(),
        value,
        doubt,
        figures: policy.rows[0]
            .iter()
            .map(|row| MetricFigure::from(*row))
            .collect(),
        holds: Compliance::Surely,
        miss_percent: f64::NEG_INFINITY,
        worst: None,
        condition: None,
    };
    let mut worst = (0.0, Compliance::Surely, f64::NEG_INFINITY);
    for (condition, rows) in conditions.iter().zip(&policy.rows[1..]) {
        for row in rows {
            let compliance = Compliance::judge_row(condition, row);
            let miss = percent_beyond_limit(condition, row);
            candidate.holds = candidate.holds.max(compliance);
            let severity = (miss.max(0.0), compliance, miss);
            if candidate.worst.is_none() || severity > worst {
                worst = severity;
                candidate.miss_percent = miss;
                candidate.worst = Some(MetricFigure::from(*row));
                candidate.condition = Some(condition.clone());
            }
        }
    }
    candidate
}

/// Percent of the limit by which the mean in a row misses a condition; 0 or less if the mean keeps
/// the condition.
fn percent_beyond_limit(condition: &Condition, row: &Row) -> f64 {
    let sign = if condition.below { 1.0 } else { -1.0 };
    let size = condition.limit.abs().max(f64::MIN_POSITIVE);
    sign * (row.mean - condition.limit) / size * 100.0
}
