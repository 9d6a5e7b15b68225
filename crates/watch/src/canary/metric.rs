//! The metric that a roll-out is judged by.

use wakepath_results::{Better, METRICS, Metric};
use wakepath_units::spelling::suggestion_with_known_names;

use super::CanaryError;

/// How a metric follows from samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// A latency percentile, as a share from 0 to 1: only from histograms.
    Percentile(f64),
    /// Mean latency: from histograms, or from samples of a mean.
    MeanLatency,
    /// Any other quantity, such as watts: the mean of samples.
    Gauge,
}

/// The direction in which a metric gets worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorseDirection {
    /// Larger values are worse, as with latency and power.
    Up,
    /// Smaller values are worse, as with rates.
    Down,
}

/// The metric that a roll-out is judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct CanaryMetric {
    name: String,
    unit: String,
    kind: MetricKind,
    worse: WorseDirection,
}

impl CanaryMetric {
    /// Finds a metric by name: a percentile such as `p99_us`, or any metric of results. A metric of another name needs
    /// `worse`.
    ///
    /// # Errors
    /// The name is unknown and `worse` is not given, or the metric has no worse direction.
    pub fn from_name(name: &str, worse: Option<WorseDirection>) -> Result<Self, CanaryError> {
        let percentile = parse_percentile_name(name);
        let known = Metric::find(name);
        let usual = match (percentile, known.map(|metric| metric.better)) {
            (Some(_), _) | (None, Some(Better::Lower)) => Some(WorseDirection::Up),
            (None, Some(Better::Higher)) => Some(WorseDirection::Down),
            _ => None,
        };
        let Some(direction) = worse.or(usual) else {
            let names: Vec<&str> = METRICS
                .iter()
                .filter(|metric| metric.better != Better::Neither)
                .map(|metric| &*metric.name)
                .collect();
            return Err(CanaryError::Metric {
                name: name.to_owned(),
                meant: suggestion_with_known_names(name, &names),
            });
        };
        let kind = match percentile {
            Some(share) => MetricKind::Percentile(share),
            None if name == "mean_us" => MetricKind::MeanLatency,
            None => MetricKind::Gauge,
        };
        let unit = match percentile {
            Some(_) => "us".to_owned(),
            None => known.map_or_else(String::new, |metric| metric.unit.to_string()),
        };
        Ok(Self {
            name: name.to_owned(),
            unit,
            kind,
            worse: direction,
        })
    }

    /// Name of the metric.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Unit of the metric; empty where unknown.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// How the metric follows from samples.
    pub const fn kind(&self) -> MetricKind {
        self.kind
    }

    /// Sign that turns a change into harm: 1 where larger values are worse, otherwise -1.
    pub(crate) const fn harm_sign(&self) -> f64 {
        match self.worse {
            WorseDirection::Up => 1.0,
            WorseDirection::Down => -1.0,
        }
    }
}

/// The share that a name such as `p99_us` or `p999_us` stands for: two digits are per cent, further digits are decimals.
pub(crate) fn parse_percentile_name(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?.strip_suffix("_us")?;
    let is_plain = (2..=6).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    if !is_plain {
        return None;
    }
    let number: f64 = digits.parse().ok()?;
    let share = number / 10_f64.powi(i32::try_from(digits.len()).ok()?);
    (share > 0.0 && share < 1.0).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_percentiles_are_shares() {
        assert_eq!(parse_percentile_name("p50_us"), Some(0.5));
        assert_eq!(parse_percentile_name("p999_us"), Some(0.999));
        for name in ["p_us", "p1_us", "p00_us", "p99", "px9_us", "p9999999_us"] {
            assert_eq!(parse_percentile_name(name), None, "{name}");
        }
    }

    #[test]
    fn an_unknown_metric_needs_its_worse_direction() {
        let message = CanaryMetric::from_name("mean_mv", None)
            .unwrap_err()
            .to_string();
        assert!(message.contains("did you mean `mean_mw`"), "{message}");
        assert!(message.contains("--worse"), "{message}");
        let own = CanaryMetric::from_name("errors_per_s", Some(WorseDirection::Up)).unwrap();
        assert_eq!(own.kind(), MetricKind::Gauge);
        assert!(CanaryMetric::from_name("iops", None).unwrap().harm_sign() < 0.0);
    }
}
