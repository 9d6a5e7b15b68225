//! Conditions that a guard can judge.

use std::fmt;
use std::str::FromStr;

use wakepath_results::{ConditionError, LoadCondition};

use super::window::LatencySlice;
use crate::{LatencyCounts, LatencyInterval, Quantile, mean_interval, quantile_interval};

/// A condition that latencies of block requests can keep or break: `p99_us < 150`, `p99_us(nvme0n1) <= +5%`.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardCondition {
    condition: LoadCondition,
    figure: LatencyFigure,
    direction: Direction,
}

/// A figure of latencies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LatencyFigure {
    Mean,
    Percentile(Quantile),
}

/// Which requests count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Any,
    Reads,
    Writes,
}

/// Metrics that a guard knows.
const KNOWN: [(&str, LatencyFigure, Direction); 7] = [
    ("mean_us", LatencyFigure::Mean, Direction::Any),
    ("read_mean_us", LatencyFigure::Mean, Direction::Reads),
    ("write_mean_us", LatencyFigure::Mean, Direction::Writes),
    (
        "p50_us",
        LatencyFigure::Percentile(Quantile::MEDIAN),
        Direction::Any,
    ),
    (
        "p90_us",
        LatencyFigure::Percentile(Quantile::P90),
        Direction::Any,
    ),
    (
        "p99_us",
        LatencyFigure::Percentile(Quantile::P99),
        Direction::Any,
    ),
    (
        "p999_us",
        LatencyFigure::Percentile(Quantile::P999),
        Direction::Any,
    ),
];

impl GuardCondition {
    /// A condition that is known from elsewhere.
    ///
    /// # Errors
    /// Block requests do not show the metric, or the limit is no upper limit above 0.
    pub fn new(condition: LoadCondition) -> Result<Self, ConditionError> {
        let metric = &condition.condition.metric;
        let known = KNOWN.iter().find(|(name, ..)| name == metric);
        let problem = match known {
            None => {
                let names: Vec<&str> = KNOWN.iter().map(|(name, ..)| *name).collect();
                format!(
                    "a guard sees the latency of block requests, not {metric}; expected one of {}",
                    names.join(", ")
                )
            }
            Some(_) if !condition.condition.below => {
                format!("a guard keeps latency below a limit; expected `{metric} < LIMIT`")
            }
            Some(_) if !condition.is_relative && condition.condition.limit <= 0.0 => {
                "no latency is below this limit; expected one above 0".to_owned()
            }
            Some(_) if condition.is_relative && condition.condition.limit <= -100.0 => {
                "no latency is below this limit; expected more than -100%".to_owned()
            }
            Some((_, figure, direction)) => {
                return Ok(Self {
                    figure: *figure,
                    direction: *direction,
                    condition,
                });
            }
        };
        Err(ConditionError {
            condition: condition.to_string(),
            problem,
        })
    }

    /// Name of the watched block device, such as `nvme0n1`; `None`: all drives together.
    pub fn drive(&self) -> Option<&str> {
        let name = self.condition.load.as_deref()?;
        Some(name.strip_prefix("/dev/").unwrap_or(name))
    }

    /// Whether the limit is a change in percent of what was measured before the set was applied.
    pub const fn is_relative(&self) -> bool {
        self.condition.is_relative
    }

    /// Selects the latencies in a slice that concern the condition.
    pub(super) fn select_latencies(&self, slice: &LatencySlice) -> LatencyCounts {
        let mut selected = LatencyCounts::new();
        for (name, drive) in &slice.drives {
            if self.drive().is_some_and(|wanted| wanted != name) {
                continue;
            }
            if self.direction != Direction::Writes {
                selected.add_counts(&drive.reads);
            }
            if self.direction != Direction::Reads {
                selected.add_counts(&drive.writes);
            }
        }
        selected
    }

    /// The figure over groups of latencies, with its interval; `None` without requests.
    pub(super) fn figure_interval(&self, groups: &[LatencyCounts]) -> Option<LatencyInterval> {
        match self.figure {
            LatencyFigure::Mean => mean_interval(groups),
            LatencyFigure::Percentile(quantile) => quantile_interval(groups, quantile),
        }
    }

    /// Whether a figure in ns keeps the condition. `before_ns`: the figure before the set was applied, which a relative limit
    /// counts from.
    pub(super) fn is_kept_by(&self, figure_ns: f64, before_ns: f64) -> bool {
        self.condition
            .is_kept_by_value(figure_ns / 1e3, before_ns / 1e3)
    }

    /// The limit in ns.
    pub(super) fn limit_ns(&self, before_ns: f64) -> f64 {
        self.condition.limit_in_metric_unit(before_ns / 1e3) * 1e3
    }

    /// A note if the limit seems to be in another unit than microseconds: it is 300 times away from a measured figure.
    pub fn note_if_unit_looks_wrong(&self, measured: &LatencyInterval) -> Option<String> {
        self.condition
            .note_if_unit_looks_wrong(measured.estimate_ns / 1e3)
    }
}

impl FromStr for GuardCondition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, ConditionError> {
        Self::new(text.parse()?)
    }
}

impl fmt::Display for GuardCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_print_as_they_were_written() {
        for text in ["p99_us < 150", "read_mean_us(nvme0n1) <= +5%"] {
            let condition: GuardCondition = text.parse().unwrap();
            assert_eq!(condition.to_string(), text);
        }
        let named: GuardCondition = "p50_us(/dev/sda) < 9".parse().unwrap();
        assert_eq!(named.drive(), Some("sda"));
    }

    #[test]
    fn what_latencies_cannot_show_is_refused() {
        for (text, part) in [
            ("mean_mw < 900", "not mean_mw; expected one of mean_us"),
            ("max_us < 900", "not max_us"),
            ("p99_us > 100", "expected `p99_us < LIMIT`"),
            ("p99_us < 0", "above 0"),
            ("p99_us < -100%", "more than -100%"),
            ("p99_us < 5%", "<= +5%"),
            ("p99us < 5", "did you mean `p99_us`"),
        ] {
            let refused = text.parse::<GuardCondition>().unwrap_err().to_string();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }
}
