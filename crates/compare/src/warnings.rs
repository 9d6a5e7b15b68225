//! Finds series of runs whose intervals should not be trusted.

use std::fmt;

use serde::Serialize;
use wakepath_units::median;

/// Coefficient of variation above which a series counts as unstable.
const UNSTABLE: f64 = 0.1;

/// Modified z-score from which a run counts as an outlier, and its factor (Iglewicz and Hoaglin,
/// "How to detect and handle outliers", 1993).
const OUTLIER: f64 = 3.5;
const MAD_FACTOR: f64 = 0.6745;

/// Distance from the median, as a share, up to which a run is no outlier, however similar the other
/// runs are.
const NEAR: f64 = 0.01;

/// Fewest runs for which a drift can be told from chance, and the normal quantile for 1 %.
const FEWEST_FOR_DRIFT: usize = 8;
const ONE_PERCENT: f64 = 2.576;

/// Why the interval of a series should not be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "warning")]
pub enum SeriesWarning {
    /// The runs of a series differ much.
    Unstable {
        /// Standard deviation of the runs divided by their mean.
        variation: f64,
    },
    /// One run is far from the others.
    Outlier {
        /// Index from 0.
        run: usize,
        /// The run's value.
        value: f64,
    },
    /// The runs rise or fall over the session.
    Drift {
        /// Spearman's rank correlation of the runs with their order.
        correlation: f64,
    },
}

/// Looks for runs that make an interval doubtful in a series, which has the order of the session.
pub fn find_series_warnings(series: &[f64]) -> Vec<SeriesWarning> {
    let mut found = Vec::new();
    let count = series.len() as f64;
    let mean = series.iter().sum::<f64>() / count;
    let squares: f64 = series.iter().map(|v| (v - mean).powi(2)).sum();
    let variation = (squares / (count - 1.0)).sqrt() / mean.abs();
    if variation > UNSTABLE {
        found.push(SeriesWarning::Unstable { variation });
    }
    let Some(centre) = median(series.iter().copied()) else {
        return found;
    };
    let spread = median(series.iter().map(|v| (v - centre).abs())).unwrap_or(0.0);
    for (run, value) in series.iter().enumerate() {
        let far = (value - centre).abs() > NEAR * centre.abs();
        if far && spread > 0.0 && MAD_FACTOR * (value - centre).abs() / spread > OUTLIER {
            found.push(SeriesWarning::Outlier { run, value: *value });
        }
    }
    if series.len() >= FEWEST_FOR_DRIFT {
        let correlation = correlation_with_order(series);
        if correlation.abs() * (count - 1.0).sqrt() > ONE_PERCENT {
            found.push(SeriesWarning::Drift { correlation });
        }
    }
    found
}

/// Spearman's rho of a series with its order; ties share their mean rank.
fn correlation_with_order(series: &[f64]) -> f64 {
    let middle = (series.len() as f64 - 1.0) / 2.0;
    let (mut both, mut of_order, mut of_rank) = (0.0, 0.0, 0.0);
    for (order, value) in series.iter().enumerate() {
        let (x, y) = (
            order as f64 - middle,
            rank_in_series(series, *value) - middle,
        );
        both += x * y;
        of_order += x * x;
        of_rank += y * y;
    }
    if of_rank == 0.0 {
        return 0.0;
    }
    both / (of_order * of_rank).sqrt()
}

/// Rank of a value in a series, from 0; ties share their mean rank.
fn rank_in_series(series: &[f64], value: f64) -> f64 {
    let below = series.iter().filter(|v| **v < value).count() as f64;
    let ties = series.iter().filter(|v| v.total_cmp(&value).is_eq());
    below + (ties.count() as f64 - 1.0) / 2.0
}

/// Formats a number with five significant digits, or with more if there are more before the point.
fn format_five_digits(value: f64) -> String {
    let before = value.abs().log10().floor().max(-12.0) as i32 + 1;
    let decimals = usize::try_from(5 - before).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

impl fmt::Display for SeriesWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unstable { variation } => {
                write!(
                    f,
                    "unstable: standard deviation {:.0} % of the mean",
                    variation * 100.0
                )
            }
            Self::Outlier { run, value } => {
                write!(
                    f,
                    "run {} is an outlier: {}",
                    run + 1,
                    format_five_digits(*value)
                )
            }
            Self::Drift { correlation } => {
                let way = if *correlation > 0.0 { "rise" } else { "fall" };
                write!(
                    f,
                    "the values {way} over the session (rank correlation {correlation:.2})"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(series: &[f64]) -> String {
        let all: Vec<String> = find_series_warnings(series)
            .iter()
            .map(ToString::to_string)
            .collect();
        all.join("; ")
    }

    #[test]
    fn a_quiet_series_gives_no_warning() {
        assert!(
            find_series_warnings(&[100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1]).is_empty()
        );
        assert!(
            find_series_warnings(&[5.0; 10]).is_empty() && find_series_warnings(&[5.0]).is_empty()
        );
        assert!(find_series_warnings(&[]).is_empty());
    }

    #[test]
    fn each_oddity_is_named() {
        // A published series from iowait-rk3399: two similar runs, and a run that is 27 % faster.
        assert_eq!(
            sentences(&[2068.0, 2097.0, 2647.0]),
            "unstable: standard deviation 14 % of the mean; run 3 is an outlier: 2647"
        );
        for (value, shown) in [
            (3_617.582_940_202_371, "3617.6"),
            (0.012_345_678, "0.012346"),
            (1_234_567.8, "1234568"),
            (-2.5, "-2.5"),
            (0.0, "0"),
        ] {
            assert_eq!(format_five_digits(value), shown);
        }
        let rising: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i) * 0.1).collect();
        assert_eq!(
            sentences(&rising),
            "the values rise over the session (rank correlation 1.00)"
        );
    }
}
