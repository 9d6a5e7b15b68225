//! The policy that is best by one metric among those that keep conditions.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::{CompareError, Comparison, Row};
use crate::{Better, Mean, Metric};

/// A limit that a metric has to keep: `p99_us < 150`.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Name of the metric.
    pub metric: String,
    /// Whether the metric has to be below the limit, else above it.
    pub below: bool,
    /// Whether the limit itself keeps the condition.
    pub or_equal: bool,
    /// The limit, in the metric's unit.
    pub limit: f64,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no condition such as `p99_us < 150`");
        let at = text.find(['<', '>']).ok_or_else(wrong)?;
        let (metric, rest) = text.split_at(at);
        let below = rest.starts_with('<');
        let rest = &rest[1..];
        let limit = rest.strip_prefix('=');
        let number: f64 = limit.unwrap_or(rest).trim().parse().map_err(|_| wrong())?;
        if metric.trim().is_empty() || !number.is_finite() {
            return Err(wrong());
        }
        Ok(Self {
            metric: metric.trim().to_owned(),
            below,
            or_equal: limit.is_some(),
            limit: number,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.below { '<' } else { '>' };
        let equal = if self.or_equal { "=" } else { "" };
        write!(f, "{} {sign}{equal} {}", self.metric, self.limit)
    }
}

impl Serialize for Condition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
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

impl Condition {
    fn keeps(&self, value: f64) -> bool {
        match (self.below, self.or_equal) {
            (true, true) => value <= self.limit,
            (true, false) => value < self.limit,
            (false, true) => value >= self.limit,
            (false, false) => value > self.limit,
        }
    }

    fn holds(&self, row: &Row) -> Holds {
        match row.interval.map(|ends| ends.map(|end| self.keeps(end))) {
            Some([true, true]) => Holds::Surely,
            Some([false, false]) => Holds::Fails,
            _ => Holds::CannotTell,
        }
    }

    /// By how many percent of the limit a mean misses it; 0 or less if it does not.
    fn miss(&self, mean: f64) -> f64 {
        let way = if self.below { 1.0 } else { -1.0 };
        way * (mean - self.limit) / self.limit.abs().max(f64::MIN_POSITIVE) * 100.0
    }
}

/// A figure of a policy on a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Name of the metric.
    pub metric: String,
    /// The workload.
    pub workload: String,
    /// Mean over the runs.
    pub mean: f64,
    /// The interval around it; none of fewer than 4 runs.
    pub interval: Option<[f64; 2]>,
    /// Runs.
    pub runs: usize,
}

/// A policy that was asked about.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The policy.
    pub policy: String,
    /// The geometric mean over the workloads of what is minimised or maximised.
    pub value: f64,
    /// What is minimised or maximised, on each workload.
    pub figures: Vec<Figure>,
    /// Whether all conditions are kept on all workloads.
    pub holds: Holds,
    /// By how many percent of its limit the worst condition is missed, by the means; 0 or less if none is.
    pub miss_percent: f64,
    /// The figure of that condition.
    pub worst: Option<Figure>,
    /// Which condition that is.
    pub condition: Option<Condition>,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// What is minimised or maximised.
    pub metric: Metric,
    /// Whether less of it is wanted.
    pub minimise: bool,
    /// What has to be kept.
    pub keep: Vec<Condition>,
    /// Confidence level of the intervals.
    pub level: f64,
    /// Those that surely keep every condition, then those of which it cannot be told, both best first; then the others,
    /// nearest first.
    pub candidates: Vec<Candidate>,
    /// The answer in sentences: the policy, the next one, the nearest of those that are better and miss.
    pub sentences: Vec<String>,
}

/// Chooses among the policies of a comparison that has all these metrics. A policy has to have them on every workload.
///
/// # Errors
/// A metric that the comparison does not have; nothing that has all of them.
pub fn choose(
    comparison: &Comparison,
    metric: &str,
    minimise: bool,
    keep: &[Condition],
) -> Result<Choice, CompareError> {
    let find = |name: &str| {
        let found = comparison.metrics.iter().find(|m| m.name == name);
        found.ok_or_else(|| CompareError::Unknown {
            what: "metric",
            name: name.to_owned(),
            known: comparison
                .metrics
                .iter()
                .map(|m| &*m.name)
                .collect::<Vec<_>>()
                .join(", "),
        })
    };
    let goal = find(metric)?.clone();
    for condition in keep {
        find(&condition.metric)?;
    }
    let rows: BTreeMap<(&str, &str, &str), &Row> = comparison
        .rows
        .iter()
        .map(|r| ((&*r.metric, &*r.workload, &*r.policy), r))
        .collect();
    let workloads: Vec<&str> = comparison.workloads.iter().map(String::as_str).collect();
    let of = |metric: &str, policy: &str| -> Option<Vec<&Row>> {
        workloads
            .iter()
            .map(|w| rows.get(&(metric, *w, policy)).copied())
            .collect()
    };
    let candidate = |policy: &String| {
        let figures = of(metric, policy)?;
        let means: Vec<f64> = figures.iter().map(|r| r.mean).collect();
        let mean = if means.iter().all(|m| *m > 0.0) {
            Mean::Geometric
        } else {
            Mean::Arithmetic
        };
        let mut found = Candidate {
            policy: policy.clone(),
            value: mean.of(&means),
            figures: figures.into_iter().map(figure).collect(),
            holds: Holds::Surely,
            miss_percent: f64::NEG_INFINITY,
            worst: None,
            condition: None,
        };
        for condition in keep {
            for row in of(&condition.metric, policy)? {
                found.holds = found.holds.max(condition.holds(row));
                let miss = condition.miss(row.mean);
                if miss > found.miss_percent {
                    found.miss_percent = miss;
                    found.worst = Some(figure(row));
                    found.condition = Some(condition.clone());
                }
            }
        }
        Some(found)
    };
    let mut candidates: Vec<Candidate> = comparison.policies.iter().filter_map(candidate).collect();
    if candidates.is_empty() {
        return Err(CompareError::Nothing);
    }
    let way = if minimise { 1.0 } else { -1.0 };
    candidates.sort_by(|a, b| {
        let miss = |c: &Candidate| {
            if c.holds == Holds::Fails {
                c.miss_percent
            } else {
                0.0
            }
        };
        let by_goal = (way * a.value).total_cmp(&(way * b.value));
        a.holds
            .cmp(&b.holds)
            .then(miss(a).total_cmp(&miss(b)))
            .then(by_goal)
    });
    let mut choice = Choice {
        metric: goal,
        minimise,
        keep: keep.to_vec(),
        level: comparison.level,
        candidates,
        sentences: Vec::new(),
    };
    choice.sentences = sentences(&choice, comparison);
    Ok(choice)
}

fn figure(row: &Row) -> Figure {
    Figure {
        metric: row.metric.clone(),
        workload: row.workload.clone(),
        mean: row.mean,
        interval: row.interval,
        runs: row.runs,
    }
}

fn sentences(choice: &Choice, comparison: &Comparison) -> Vec<String> {
    let about = |name: &str| comparison.metrics.iter().find(|m| m.name == name);
    let shown =
        |figure: &Figure| about(&figure.metric).map_or_else(String::new, |m| shown(m, figure));
    let goal = |c: &Candidate| -> String {
        let each = c
            .figures
            .iter()
            .map(|f| format!("{} on {}", shown(f), f.workload));
        each.collect::<Vec<_>>().join(", ")
    };
    let worst = |c: &Candidate| {
        let figure = c.worst.as_ref()?;
        Some(format!(
            "{} {} on {}",
            about(&figure.metric)?.title,
            shown(figure),
            figure.workload
        ))
    };
    let keep = choice
        .keep
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(" and ");
    let first = &choice.candidates[0];
    let mut all = Vec::new();
    let what = &choice.metric.title;
    all.push(match (first.holds, worst(first)) {
        (_, None) => format!("{}: {what} {}.", first.policy, goal(first)),
        (Holds::Surely, Some(worst)) => format!(
            "{}: {what} {}; surely {keep}, at worst {worst}.",
            first.policy,
            goal(first)
        ),
        (holds, Some(worst)) => {
            let distance = if first.miss_percent > 0.0 {
                format!(", {:.1} % beyond the limit", first.miss_percent)
            } else {
                String::new()
            };
            let sure = if holds == Holds::Fails {
                "fails"
            } else {
                "cannot tell whether it keeps it"
            };
            format!(
                "Nothing surely keeps {keep}. Nearest: {}, {sure}: {worst}{distance}; {what} {}.",
                first.policy,
                goal(first)
            )
        }
    });
    let change = |c: &Candidate| (c.value / first.value - 1.0) * 100.0;
    if let Some(next) = choice.candidates.get(1).filter(|c| c.holds == first.holds) {
        all.push(format!(
            "Next: {}, {what} {:+.1} %: {}.",
            next.policy,
            change(next),
            goal(next)
        ));
    }
    let better = |c: &&Candidate| {
        if choice.minimise {
            c.value < first.value
        } else {
            c.value > first.value
        }
    };
    if first.holds == Holds::Surely {
        for holds in [Holds::CannotTell, Holds::Fails] {
            let mut missing = choice
                .candidates
                .iter()
                .filter(|c| c.holds == holds)
                .filter(better);
            if let Some((near, worst)) = missing.next().and_then(|c| Some((c, worst(c)?))) {
                let says = if holds == Holds::Fails {
                    format!("misses by {:.1} %", near.miss_percent)
                } else {
                    "cannot tell whether it keeps it".to_owned()
                };
                all.push(format!(
                    "Better, but {says}: {}, {what} {:+.1} %, {worst}.",
                    near.policy,
                    change(near)
                ));
            }
        }
    }
    all
}

/// A figure with its interval and unit; watts from 10 W on.
fn shown(metric: &Metric, figure: &Figure) -> String {
    let (unit, factor) = if metric.unit == "mW" && figure.mean >= 1e4 {
        ("W", 1e-3)
    } else {
        (&*metric.unit, 1.0)
    };
    let doubt = figure
        .interval
        .map(|[low, high]| (high - low) / 2.0 * factor);
    let text = |value: f64| digits(value * factor, doubt);
    let unit = if unit.is_empty() {
        String::new()
    } else {
        format!(" {unit}")
    };
    let interval = figure.interval.map_or_else(
        || {
            format!(
                " ({} run{})",
                figure.runs,
                if figure.runs == 1 { "" } else { "s" }
            )
        },
        |[low, high]| format!(" ({} to {})", text(low), text(high)),
    );
    format!("{}{unit}{interval}", text(figure.mean))
}

/// A value with as many digits as its doubt deserves: two of the doubt's own, but at least three and at most six; four if
/// there is no doubt.
fn digits(value: f64, doubt: Option<f64>) -> String {
    let exponent = |v: f64| {
        if v == 0.0 {
            0
        } else {
            v.abs().log10().floor() as i32
        }
    };
    let before = exponent(value) + 1;
    let decimals = match doubt.filter(|d| *d > 0.0 && d.is_finite()) {
        Some(doubt) => (1 - exponent(doubt)).clamp(3 - before, 6 - before),
        None => 4 - before,
    };
    format!("{value:.*}", decimals.clamp(0, 9) as usize)
}

/// Which policies no other one beats in these metrics, by the geometric mean over the workloads: as good in all, and better
/// in one. With their values, in the order of the comparison.
///
/// # Errors
/// A metric that the comparison does not have; nothing that has all of them.
pub fn front(
    comparison: &Comparison,
    metrics: &[String],
) -> Result<Vec<(String, Vec<f64>, bool)>, CompareError> {
    let mut points: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut ways = Vec::new();
    for name in metrics {
        let choice = choose(comparison, name, true, &[])?;
        ways.push(if choice.metric.better == Better::Lower {
            1.0
        } else {
            -1.0
        });
        for candidate in choice.candidates {
            points
                .entry(candidate.policy)
                .or_default()
                .push(candidate.value);
        }
    }
    points.retain(|_, values| values.len() == metrics.len());
    let beats = |a: &[f64], b: &[f64]| {
        let pairs = || {
            a.iter()
                .zip(b)
                .zip(&ways)
                .map(|((a, b), way)| (way * a, way * b))
        };
        pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b)
    };
    let order = comparison
        .policies
        .iter()
        .filter_map(|p| Some((p, points.get(p)?)));
    Ok(order
        .map(|(policy, own)| {
            let beaten = points.values().any(|other| beats(other, own));
            (policy.clone(), own.clone(), !beaten)
        })
        .collect())
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
    fn a_number_has_the_digits_that_its_doubt_deserves() {
        for (value, doubt, text) in [
            (188.345, Some(1.2), "188.3"),
            (188.345, Some(0.0012), "188.345"),
            (101.3, Some(60.0), "101"),
            (100.0, None, "100.0"),
            (1_234_567.0, Some(3.0), "1234567"),
        ] {
            assert_eq!(digits(value, doubt), text);
        }
    }
}
