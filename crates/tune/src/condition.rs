//! Conditions on the answer: `p99_us < 150`, `p99_us(load1) < 150`, `p99_us <= +5%`.

use std::fmt;
use std::str::FromStr;

use wakepath_results::{Condition, Metric};

use crate::TuneError;

/// A limit for a metric, in one load or in every load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadCondition {
    /// The metric, the direction and the limit. The limit is in the metric's unit, or in percent.
    pub condition: Condition,
    /// The load; `None`: every load.
    pub load: Option<String>,
    /// The limit is a change in percent against unchanged policies.
    pub is_relative: bool,
    /// The condition was added because the load asks for no rate.
    pub is_implied: bool,
}

impl LoadCondition {
    /// A load without a rate saves power by doing less: `iops` must stay near the present rate.
    pub fn least_iops(load: &str) -> Self {
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

    /// Whether the condition is about the load.
    pub fn concerns(&self, load: &str) -> bool {
        self.load.as_deref().is_none_or(|named| named == load)
    }

    /// The limit in the metric's unit, where `in_force` is the metric's value under what is in force.
    pub fn limit(&self, in_force: f64) -> f64 {
        if self.is_relative {
            in_force * (1.0 + self.condition.limit / 100.0)
        } else {
            self.condition.limit
        }
    }

    /// Whether a value keeps the condition.
    pub fn keeps(&self, value: f64, in_force: f64) -> bool {
        let condition = Condition {
            limit: self.limit(in_force),
            ..self.condition.clone()
        };
        condition.keeps(value)
    }

    /// Distance beyond the limit as a share of the limit; 0 where the condition is kept.
    pub fn excess(&self, value: f64, in_force: f64) -> f64 {
        if self.keeps(value, in_force) {
            return 0.0;
        }
        let limit = self.limit(in_force);
        let distance = (value - limit).abs();
        // A value at a limit that excludes itself breaks the condition, too.
        (distance / limit.abs().max(f64::MIN_POSITIVE)).max(1e-9)
    }

    /// Distance within the limit in percent of the limit; negative where the condition is broken.
    pub fn margin(&self, value: f64, in_force: f64) -> f64 {
        let limit = self.limit(in_force);
        let distance = if self.condition.below {
            limit - value
        } else {
            value - limit
        };
        100.0 * distance / limit.abs().max(f64::MIN_POSITIVE)
    }

    /// A note if the limit looks like another unit: a thousand times away from what is in force.
    pub fn unit_note(&self, in_force: f64) -> Option<String> {
        let limit = self.limit(in_force);
        if self.is_relative || limit <= 0.0 || in_force <= 0.0 {
            return None;
        }
        let ratio = limit / in_force;
        let unit = Metric::find(&self.condition.metric).map(|metric| &*metric.unit)?;
        ((ratio >= 300.0) || (ratio <= 1.0 / 300.0))
            .then(|| format!("{self}: {in_force:.1} {unit} is in force; limits are in {unit}"))
    }
}

impl FromStr for LoadCondition {
    type Err = TuneError;

    fn from_str(text: &str) -> Result<Self, TuneError> {
        let refuse = |problem: String| TuneError::Condition {
            condition: text.to_owned(),
            problem,
        };
        let trimmed = text.trim();
        let without_percent = trimmed.strip_suffix('%');
        let absolute = without_percent.unwrap_or(trimmed);
        let (plain, load) = split_load(absolute).map_err(refuse)?;
        let condition: Condition = plain
            .parse()
            .map_err(|_| refuse(explain_condition(&plain)))?;
        let Some(metric) = Metric::find(&condition.metric) else {
            return Err(refuse(unknown_metric(&condition.metric)));
        };
        if without_percent.is_some() && metric.unit != "%" && !has_sign(absolute) {
            return Err(refuse(format!(
                "a change of what is in force has a sign, as in `{} <= +5%`",
                metric.name
            )));
        }
        Ok(Self {
            condition,
            load,
            is_relative: without_percent.is_some() && has_sign(absolute),
            is_implied: false,
        })
    }
}

/// The sentence for an unknown metric.
pub(crate) fn unknown_metric(name: &str) -> String {
    let names = wakepath_results::METRICS.iter().map(|metric| &*metric.name);
    let near = wakepath_units::spelling::similar_name(name, names.clone());
    if let Some(near) = near {
        format!("no metric `{name}`; did you mean `{near}`?")
    } else {
        let known: Vec<&str> = names.collect();
        format!("no metric `{name}`; there are {}", known.join(", "))
    }
}

/// Whether the number behind the comparison has a sign.
fn has_sign(text: &str) -> bool {
    let number = text.rsplit(['<', '>', '=']).next().unwrap_or("");
    number.trim_start().starts_with(['+', '-'])
}

/// `p99_us(load1) < 150` without the load, and the load.
fn split_load(text: &str) -> Result<(String, Option<String>), String> {
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

/// Explains a faulty condition.
fn explain_condition(text: &str) -> String {
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
            "p99_us <= +5%",
            "iops(a) >= -2%",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn a_relative_limit_counts_from_what_is_in_force() {
        let condition = parse("p99_us <= +5%");
        assert!(condition.keeps(105.0, 100.0));
        assert!(!condition.keeps(105.1, 100.0));
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
        assert!(parse("p99_us < 0.15").unit_note(142.0).is_some());
        assert!(parse("p99_us < 150").unit_note(142.0).is_none());
    }

    #[test]
    fn the_margin_is_negative_where_the_condition_is_broken() {
        let condition = parse("p99_us < 100");
        assert!(condition.margin(90.0, 0.0) > 0.0);
        assert!(condition.margin(110.0, 0.0) < 0.0);
        assert!(condition.excess(110.0, 0.0) > 0.0);
        assert!(condition.excess(90.0, 0.0) <= 0.0);
    }
}
