//! A study's questions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::as_text;

/// A question: how policies differ in a metric, or, with a goal, the best policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// In words.
    pub ask: String,
    /// Name of the metric that the answer compares.
    pub metric: String,
    /// Which policy is wanted; absent: all policies are compared with the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Conditions that the wanted policy has to meet on every workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<Condition>,
    /// Names of the policies that the question is about; empty: all.
    #[serde(default)]
    pub policies: Vec<String>,
    /// Names of the workloads that the question is about; empty: all.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Names of the machines that the question is about; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// The policy to compare with; absent: the study's baseline. A question with a goal has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
}

impl Question {
    /// Names of the metrics that the answer needs: the question's own, then its conditions'.
    pub fn metric_names(&self) -> impl Iterator<Item = &str> {
        let kept = self.keep.iter().map(|c| c.metric.as_str());
        std::iter::once(self.metric.as_str()).chain(kept)
    }

    /// Whether the question is about a policy.
    pub fn includes_policy(&self, name: &str) -> bool {
        is_empty_or_contains(&self.policies, name)
    }

    /// Whether the question is about a workload.
    pub fn includes_workload(&self, name: &str) -> bool {
        is_empty_or_contains(&self.workloads, name)
    }

    /// Whether the question is about a machine.
    pub fn includes_machine(&self, name: &str) -> bool {
        is_empty_or_contains(&self.machines, name)
    }
}

/// Whether a list of names contains a name; an empty list stands for every name.
pub fn is_empty_or_contains(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|n| n == name)
}

/// Whether the policy with the smallest or with the largest value of a metric is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// Least.
    Minimise,
    /// Most.
    Maximise,
}

impl Goal {
    /// Factor 1 or -1: a value times this factor is smallest for the wanted policy.
    pub fn sign_to_minimise(self) -> f64 {
        match self {
            Self::Minimise => 1.0,
            Self::Maximise => -1.0,
        }
    }
}

/// A limit for a metric: `p99_us < 150`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Metric name.
    pub metric: String,
    /// Whether the metric has to be below the limit; else above.
    pub below: bool,
    /// Whether a value equal to the limit meets the condition.
    pub or_equal: bool,
    /// The limit of the condition, in the metric's unit.
    pub limit: f64,
}

impl Condition {
    /// Whether a value meets the condition.
    pub fn is_met_by(&self, value: f64) -> bool {
        match (self.below, self.or_equal) {
            (true, true) => value <= self.limit,
            (true, false) => value < self.limit,
            (false, true) => value >= self.limit,
            (false, false) => value > self.limit,
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let condition = parse_condition(text);
        condition.ok_or_else(|| format!("`{text}` is no condition such as `p99_us < 150`"))
    }
}

fn parse_condition(text: &str) -> Option<Condition> {
    let (metric, comparison) = text.split_at(text.find(['<', '>'])?);
    let below = comparison.starts_with('<');
    let limit = &comparison[1..];
    let inclusive = limit.strip_prefix('=');
    let number: f64 = inclusive.unwrap_or(limit).trim().parse().ok()?;
    let is_valid = !metric.trim().is_empty() && number.is_finite();
    is_valid.then(|| Condition {
        metric: metric.trim().to_owned(),
        below,
        or_equal: inclusive.is_some(),
        limit: number,
    })
}

as_text!(Condition);

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.below { '<' } else { '>' };
        let equal = if self.or_equal { "=" } else { "" };
        write!(f, "{} {sign}{equal} {}", self.metric, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_print_back_and_odd_ones_are_refused() {
        for text in ["p99_us < 150", "iops >= 2000", "mean_mw <= 1.5", "x > -3"] {
            assert_eq!(text.parse::<Condition>().unwrap().to_string(), text);
        }
        let dense = "p99_us<150".parse::<Condition>().unwrap();
        assert_eq!(dense.to_string(), "p99_us < 150");
        for odd in [
            "",
            "p99_us",
            "p99_us = 3",
            "< 3",
            "p99_us < nan",
            "p99_us << 3",
            "p99_us < 3 us",
        ] {
            assert!(odd.parse::<Condition>().is_err(), "{odd}");
        }
    }

    #[test]
    fn a_question_survives_json_and_one_without_a_goal_looks_as_before() {
        let plain = r#"{"ask":"a","metric":"iops","policies":[],"workloads":[]}"#;
        let question: Question = serde_json::from_str(plain).unwrap();
        assert_eq!(serde_json::to_string(&question).unwrap(), plain);
        let asked = Question {
            goal: Some(Goal::Minimise),
            keep: vec!["p99_us < 150".parse().unwrap()],
            ..question
        };
        let text = serde_json::to_string(&asked).unwrap();
        assert!(
            text.contains(r#""goal":"minimise","keep":["p99_us < 150"]"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Question>(&text).unwrap(), asked);
        let odd = text.replace("p99_us < 150", "p99_us");
        assert!(serde_json::from_str::<Question>(&odd).is_err());
    }
}
