//! Conditions on loads: `p99_us < 150`, `p99_us(load1) < 150`, `p99_us <= +5%`.

use std::fmt;
use std::str::FromStr;

use crate::{Condition, Metric};

/// Why a condition on a load is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{condition}: {problem}")]
pub struct ConditionError {
    /// The condition, as the user wrote it.
    pub condition: String,
    /// What is wrong with the condition, and the right form.
    pub problem: String,
}

/// A limit for a metric, in one load or in every load. A guard has drives in place of loads.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadCondition {
    /// The metric, the direction and the limit. The limit is in the metric's unit, or in percent.
    pub condition: Condition,
    /// Name of the load, perhaps with a job of it (`db:reader`); `None`: every load.
    pub load: Option<String>,
    /// Whether the limit is a change in percent against unchanged policies.
    pub is_relative: bool,
    /// Whether the condition was added because the load asks for no rate.
    pub is_implied: bool,
}

impl LoadCondition {
    /// The condition that `iops` of a load without a rate stays near the present rate: such a load could save power by
    /// doing less.
    pub fn implied_iops_near_present(load: &str) -> Self {
        Self {
            condition: Condition {
                metric: "iops".to_owned(),
                below: false,
                or_equal: true,
                limit: -2.0,
            },
            load: Some(load.to_owned()),
            is_relative: true,
            is_implied: true,
        }
    }

    /// Whether the condition is about the load, or about one of its jobs.
    pub fn concerns_load(&self, load: &str) -> bool {
        self.load.as_deref().is_none_or(|named| named == load) || self.job_of_load(load).is_some()
    }

    /// The job of the load that the condition is about, as in `p99_us(db:reader) < 150`; `None`: all jobs together, or another
    /// load.
    pub fn job_of_load(&self, load: &str) -> Option<&str> {
        let named = self.load.as_deref()?;
        named.strip_prefix(load)?.strip_prefix(':')
    }

    /// The limit in the metric's unit, where `value_in_force` is the metric's value under what is in force.
    pub fn limit_in_metric_unit(&self, value_in_force: f64) -> f64 {
        if self.is_relative {
            value_in_force * (1.0 + self.condition.limit / 100.0)
        } else {
            self.condition.limit
        }
    }

    /// Whether a metric's value keeps the condition.
    pub fn is_kept_by_value(&self, value: f64, value_in_force: f64) -> bool {
        let condition = Condition {
            limit: self.limit_in_metric_unit(value_in_force),
            ..self.condition.clone()
        };
        condition.is_met_by(value)
    }

    /// Distance of a metric's value beyond the limit as a share of the limit; 0 where the condition is kept.
    pub fn share_beyond_limit_or_0(&self, value: f64, value_in_force: f64) -> f64 {
        if self.is_kept_by_value(value, value_in_force) {
            return 0.0;
        }
        let limit = self.limit_in_metric_unit(value_in_force);
        // A value exactly at a limit that excludes itself breaks the condition, too.
        share_of_limit((value - limit).abs(), limit).max(1e-9)
    }

    /// Distance of a metric's value within the limit in percent of the limit; negative where the condition is broken.
    pub fn percent_within_limit(&self, value: f64, value_in_force: f64) -> f64 {
        let limit = self.limit_in_metric_unit(value_in_force);
        let distance = if self.condition.below {
            limit - value
        } else {
            value - limit
        };
        100.0 * share_of_limit(distance, limit)
    }

    /// A note if the limit seems to be in another unit: a thousand times away from what is in force.
    pub fn note_if_unit_looks_wrong(&self, value_in_force: f64) -> Option<String> {
        let limit = self.limit_in_metric_unit(value_in_force);
        if self.is_relative || limit <= 0.0 || value_in_force <= 0.0 {
            return None;
        }
        let ratio = limit / value_in_force;
        let unit = Metric::find(&self.condition.metric).map(|metric| &*metric.unit)?;
        ((ratio >= 300.0) || (ratio <= 1.0 / 300.0)).then(|| {
            format!("{self}: {value_in_force:.1} {unit} is in force; limits are in {unit}")
        })
    }
}

impl FromStr for LoadCondition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        let refuse = |problem: String| ConditionError {
            condition: text.to_owned(),
            problem,
        };
        let trimmed = text.trim();
        let without_percent = trimmed.strip_suffix('%');
        let absolute = without_percent.unwrap_or(trimmed);
        let (plain, load) = split_into_condition_and_load(absolute).map_err(refuse)?;
        let condition: Condition = plain
            .parse()
            .map_err(|_| refuse(explain_unparsable_condition(&plain)))?;
        let Some(metric) = Metric::find(&condition.metric) else {
            return Err(refuse(unknown_metric_message(&condition.metric)));
        };
        if without_percent.is_some() && metric.unit != "%" && !has_sign_on_limit(absolute) {
            return Err(refuse(format!(
                "a change of what is in force has a sign, as in `{} <= +5%`",
                metric.name
            )));
        }
        Ok(Self {
            condition,
            load,
            is_relative: without_percent.is_some() && has_sign_on_limit(absolute),
            is_implied: false,
        })
    }
}

/// The message for an unknown metric.
pub fn unknown_metric_message(name: &str) -> String {
    let names = crate::METRICS.iter().map(|metric| &*metric.name);
    let near = wakepath_units::spelling::similar_name(name, names.clone());
    if let Some(near) = near {
        format!("no metric `{name}`; did you mean `{near}`?")
    } else {
        let known: Vec<&str> = names.collect();
        format!("no metric `{name}`; there are {}", known.join(", "))
    }
}

/// Whether the number behind the comparison has a sign, as in `<= +5%`.
fn has_sign_on_limit(text: &str) -> bool {
    let number = text.rsplit(['<', '>', '=']).next().unwrap_or("");
    number.trim_start().starts_with(['+', '-'])
}

/// Splits `p99_us(load1) < 150` into the condition without the load, and the load.
fn split_into_condition_and_load(text: &str) -> Result<(String, Option<String>), String> {
    let Some((metric, rest)) = text.split_once('(') else {
        return Ok((text.to_owned(), None));
    };
    let Some((load, comparison)) = rest.split_once(')') else {
        return Err("a `)` is missing behind the load's name".to_owned());
    };
    Ok((
        format!("{metric} {comparison}"),
        Some(load.trim().to_owned()),
    ))
}

/// Explains what is wrong with a condition.
fn explain_unparsable_condition(text: &str) -> String {
    let limit = text.rsplit(['<', '>', '=']).next().unwrap_or("").trim();
    let metric = text.split(['<', '>']).next().unwrap_or("").trim();
    let has_unit = limit.starts_with(|c: char| c.is_ascii_digit())
        && limit.ends_with(|c: char| c.is_alphabetic());
    match Metric::find(metric) {
        Some(found) if has_unit => format!(
            "limits have no unit: `{metric}` is in {}, as in `{metric} < 150`",
            found.unit
        ),
        _ => "no condition such as `p99_us < 150`, `p99_us(load1) < 150` or `p99_us <= +5%`"
            .to_owned(),
    }
}

impl fmt::Display for LoadCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Condition {
            metric,
            below,
            or_equal,
            limit,
        } = &self.condition;
        write!(f, "{metric}")?;
        if let Some(load) = &self.load {
            write!(f, "({load})")?;
        }
        let sign = if *below { '<' } else { '>' };
        let equal = if *or_equal { "=" } else { "" };
        if self.is_relative {
            write!(f, " {sign}{equal} {limit:+}%")
        } else {
            write!(f, " {sign}{equal} {limit}")
        }
    }
}

/// A distance as a share of a limit; of a limit of 0, which has no shares, any distance is the whole.
fn share_of_limit(distance: f64, limit: f64) -> f64 {
    if distance == 0.0 {
        0.0
    } else if limit == 0.0 {
        distance.signum()
    } else {
        distance / limit.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> LoadCondition {
        text.parse().unwrap()
    }

    #[test]
    fn a_condition_prints_as_it_was_written() {
        for text in [
            "p99_us < 150",
            "p99_us(db) <= 150.5",
            "p99_us(db:reader) < 150",
            "p99_us <= +5%",
            "iops(a) >= -2%",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn a_relative_limit_counts_from_what_is_in_force() {
        let condition = parse("p99_us <= +5%");
        assert!(condition.is_kept_by_value(105.0, 100.0));
        assert!(!condition.is_kept_by_value(105.1, 100.0));
    }

    #[test]
    fn a_percentage_without_a_sign_is_refused() {
        let refused = "p99_us < 5%".parse::<LoadCondition>().unwrap_err();
        assert!(refused.to_string().contains("<= +5%"), "{refused}");
    }

    #[test]
    fn a_limit_with_a_unit_is_told_the_metrics_unit() {
        let refused = "p99_us < 150us".parse::<LoadCondition>().unwrap_err();
        assert!(refused.to_string().contains("is in us"), "{refused}");
    }

    #[test]
    fn a_misspelt_metric_is_told_the_right_one() {
        let refused = "p99us < 150".parse::<LoadCondition>().unwrap_err();
        assert!(refused.to_string().contains("`p99_us`"), "{refused}");
    }

    #[test]
    fn a_limit_in_milliseconds_is_noted() {
        assert!(
            parse("p99_us < 0.15")
                .note_if_unit_looks_wrong(142.0)
                .is_some()
        );
        assert!(
            parse("p99_us < 150")
                .note_if_unit_looks_wrong(142.0)
                .is_none()
        );
    }

    #[test]
    fn the_margin_is_negative_where_the_condition_is_broken() {
        let condition = parse("p99_us < 100");
        assert!(condition.percent_within_limit(90.0, 0.0) > 0.0);
        assert!(condition.percent_within_limit(110.0, 0.0) < 0.0);
        assert!(condition.share_beyond_limit_or_0(110.0, 0.0) > 0.0);
        assert!(condition.share_beyond_limit_or_0(90.0, 0.0) <= 0.0);
    }
}
