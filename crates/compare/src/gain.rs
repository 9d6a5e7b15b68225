//! Gain of a series of runs over its baseline, with a bootstrap interval.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use wakepath_results::{Design, Mean, Metric};

/// Number of bootstrap resamples behind every interval of a gain.
pub const RESAMPLES: usize = 1999;

/// Fewest runs of a series for which an interval is given.
pub(crate) const FEWEST: usize = 4;

/// Smallest standard error that a bootstrap resample counts with, as a share of the runs' standard
/// error. A resample from few runs can miss the only outlier, or draw nearly the same value every
/// time: a third of the resamples from five runs do. The standard error is then next to 0, and a
/// deviation in units of such an error has no bounds. Intervals hold the truth as often with this
/// share as without a bound, and less often with half the share (tests/all/coverage.rs).
const LEAST_ERROR: f64 = 0.25;

/// Share of the mean up to which a standard deviation is only rounding.
const NO_SPREAD: f64 = 1e-9;

/// Largest chance, as a share of an interval's own, that the ratio of means lies outside of all runs' ratios. Intervals then end with
/// these ratios: a resample that misses one of two modes has next to no spread, and alone would put the end far beyond.
const OUTSIDE_SHARE: f64 = 0.1;

/// P-value below which p-values follow the tail of the t distribution: the resamples beyond are too
/// few to count.
const TAIL: f64 = 0.02;

/// Gain of a series of runs over its baseline, in one metric.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// Means of the metric: baseline, series.
    pub means: [f64; 2],
    /// Change of the mean in percent of the baseline; plus is better, as in MMTests.
    pub percent: f64,
    /// Interval around the change at the requested confidence level, in percent.
    pub interval: [f64; 2],
    /// Probability that chance alone gives at least this difference, either way; not corrected for
    /// other comparisons.
    pub p_value: f64,
    /// Effect size Hedges' g: the difference of arithmetic means in pooled standard deviations;
    /// plus is better. `None` for runs without spread, as a job with a limited rate gives.
    pub effect: Option<f64>,
    /// Numbers of runs: baseline, series.
    pub runs: [usize; 2],
}

/// Why no gain of a series over its baseline can be given.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum GainError {
    /// A series has too few runs for an interval.
    #[error("{runs} run(s): no interval can be given for fewer than {FEWEST}")]
    TooFewRuns {
        /// Number of runs in the shorter series.
        runs: usize,
    },
    /// Pairs without partners.
    #[error("{baseline} and {series} runs cannot be paired")]
    NotPairs {
        /// Number of runs in the baseline.
        baseline: usize,
        /// Number of runs in the series.
        series: usize,
    },
    /// A run's value has no mean ratio: arithmetic means need numbers from 0 on, other means
    /// numbers above 0.
    #[error("run {index} is {value}; a mean ratio needs finite numbers above 0")]
    Value {
        /// Index of the run in the series.
        index: usize,
        /// The value.
        value: f64,
    },
    /// All runs of a series are zero: no gain is a percentage of 0.
    #[error("{0} is 0 in every run, and there is no ratio to 0")]
    Zero(&'static str),
    /// Few runs of a series are above 0: the next runs may have none above 0, or many.
    #[error("above 0 in {runs} run(s) only: too rare for an interval, which takes {FEWEST}")]
    Rare {
        /// Number of runs above 0 in the series with fewer such runs.
        runs: usize,
    },
    /// The confidence level is out of range.
    #[error("{0} is no confidence level between 0.5 and 0.999")]
    Level(f64),
}

/// Estimates the gain of `series` over `baseline`. `level` is the interval's confidence level, 0.5
/// to 0.999; `seed` starts the resampling.
///
/// # Errors
/// Fewer than 4 runs, pairs without partners, values that are not finite numbers above 0. Metrics with an arithmetic mean,
/// such as counts and added time, can have runs at 0, if all runs are 0 or at least 4 in each series are not.
pub fn estimate_gain(
    metric: &Metric,
    baseline: &[f64],
    series: &[f64],
    design: Design,
    level: f64,
    seed: u64,
) -> Result<Gain, GainError> {
    check_runs_and_level(metric.mean, [baseline, series], design, level)?;
    if [baseline, series].concat().iter().all(|v| *v == 0.0) {
        return Ok(gain_of_zero_runs([baseline.len(), series.len()]));
    }
    let scale = Scale(metric.mean);
    let [a, b] = [baseline, series].map(|values| scale.convert_values(values));
    let estimate = scale.estimate_log_ratio(&a, &b, design);
    let (log_ratio, error) = (estimate.log_ratio, estimate.standard_error());
    let [from, to, p_value] = if error > 0.0 {
        let mut studentised = statistics_of_resamples(&a, &b, design, seed, |a, b| {
            let resampled = scale.estimate_log_ratio(a, b, design);
            let resampled_error = resampled.standard_error().max(LEAST_ERROR * error);
            let deviation = (resampled.log_ratio - log_ratio) / resampled_error;
            // A resample of mostly zero runs can have runs at 0 alone, and then no error.
            (resampled_error > 0.0 && deviation.is_finite()).then_some(deviation)
        });
        studentised.sort_by(f64::total_cmp);
        let observed = log_ratio / error;
        let tail = (1.0 - level) / 2.0;
        [
            log_ratio - nearest_quantile(&studentised, 1.0 - tail) * error,
            log_ratio - nearest_quantile(&studentised, tail) * error,
            two_sided_p_value(
                &studentised,
                observed,
                estimate.degrees_of_freedom(a.len(), b.len()),
            ),
        ]
    } else {
        // Runs that do not vary leave no doubt about the difference.
        let certain = if log_ratio == 0.0 { 1.0 } else { 0.0 };
        [log_ratio, log_ratio, certain]
    };
    let range = RatioRange::from_runs(baseline, series, design);
    let is_reliable = range.chance <= OUTSIDE_SHARE * (1.0 - level);
    let (from, to, p_value) = match range.logs.filter(|_| is_reliable) {
        Some([lowest, highest]) => (
            from.max(lowest).min(log_ratio),
            to.min(highest).max(log_ratio),
            if lowest > 0.0 || highest < 0.0 {
                p_value.min(range.chance)
            } else {
                p_value
            },
        ),
        None => (from, to, p_value),
    };
    let percent = |log: f64| (log.exp() - 1.0) * 100.0;
    let [change, low, high] = [log_ratio, from, to].map(percent);
    let sign = metric.better.gain_sign();
    Ok(Gain {
        means: [baseline, series].map(|values| metric.mean.average(values)),
        percent: sign * change,
        interval: if sign > 0.0 {
            [low, high]
        } else {
            [-high, -low]
        },
        p_value,
        effect: hedges_g_effect_size(baseline, series).map(|g| sign * g),
        runs: [baseline.len(), series.len()],
    })
}

/// Interval around the mean of some runs at a confidence level, by Student's t on the scale that
/// makes the mean arithmetic. `None` for fewer than 4 runs and for values that are no finite
/// numbers.
pub fn interval_of_mean(kind: Mean, values: &[f64], level: f64) -> Option<[f64; 2]> {
    if values.len() < FEWEST || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let positive = values.iter().all(|v| *v > 0.0);
    let scale = Scale(if positive { kind } else { Mean::Arithmetic });
    let scaled = scale.convert_values(values);
    let (runs, middle) = (scaled.len() as f64, arithmetic_mean(&scaled));
    let squares: f64 = scaled.iter().map(|v| (v - middle).powi(2)).sum();
    let half = standard_errors_of_interval(Some(scaled.len()), level)?
        * (squares / (runs * (runs - 1.0))).sqrt();
    let (low, high) = (middle - half, middle + half);
    Some(match scale.0 {
        // The lower end is at least 0, because amounts have no mean below 0.
        Mean::Arithmetic if values.iter().all(|v| *v >= 0.0) => [low.max(0.0), high],
        Mean::Arithmetic => [low, high],
        Mean::Geometric => [low.exp(), high.exp()],
        // The upper end is open, because no rate is too high to be ruled out.
        Mean::Harmonic if low <= 0.0 => [1.0 / high, f64::INFINITY],
        Mean::Harmonic => [1.0 / high, 1.0 / low],
    })
}

/// Half the width of a two-sided confidence interval in standard errors, where the error was estimated from so many runs
/// (Student's t); `None`: the error is known. Returns `None` for fewer than two runs.
pub fn standard_errors_of_interval(runs: Option<usize>, level: f64) -> Option<f64> {
    let upper = f64::midpoint(1.0, level);
    match runs {
        None => Some(Normal::standard().inverse_cdf(upper)),
        Some(runs) => {
            let distribution = StudentsT::new(0.0, 1.0, runs as f64 - 1.0).ok()?;
            Some(distribution.inverse_cdf(upper))
        }
    }
}

/// Standard deviation of some runs; `None` for fewer than two.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = arithmetic_mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some((squares / (values.len() as f64 - 1.0)).sqrt())
}

/// The lowest and the highest ratio of a run to its baseline's.
struct RatioRange {
    /// Logarithms of the ratios; `None` where a run is 0.
    logs: Option<[f64; 2]>,
    /// Chance that so many runs all lie on one side of their centre, as in the sign test.
    chance: f64,
}

impl RatioRange {
    /// Pairs give their own ratios. Without pairs, any run may stand beside any other.
    fn from_runs(baseline: &[f64], series: &[f64], design: Design) -> Self {
        let range_of_logs = |values: &mut dyn Iterator<Item = f64>| {
            values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| {
                [low.min(value.ln()), high.max(value.ln())]
            })
        };
        let [lowest, highest] = match design {
            Design::Paired => {
                let pairs = baseline.iter().zip(series);
                range_of_logs(&mut pairs.map(|(a, b)| b / a))
            }
            Design::Unpaired => {
                let [a, b] =
                    [baseline, series].map(|runs| range_of_logs(&mut runs.iter().copied()));
                [b[0] - a[1], b[1] - a[0]]
            }
        };
        let runs = baseline.len().min(series.len()) as i32;
        Self {
            logs: (lowest.is_finite() && highest.is_finite()).then_some([lowest, highest]),
            chance: 2.0 * 0.5_f64.powi(runs),
        }
    }
}

/// Gain of two series that are all 0: no difference.
fn gain_of_zero_runs(runs: [usize; 2]) -> Gain {
    Gain {
        means: [0.0; 2],
        percent: 0.0,
        interval: [0.0; 2],
        p_value: 1.0,
        effect: None,
        runs,
    }
}

fn check_runs_and_level(
    mean: Mean,
    [baseline, series]: [&[f64]; 2],
    design: Design,
    level: f64,
) -> Result<(), GainError> {
    if !(0.5..=0.999).contains(&level) {
        return Err(GainError::Level(level));
    }
    for values in [baseline, series] {
        for (index, value) in values.iter().copied().enumerate() {
            let low = value < 0.0 || (value == 0.0 && mean != Mean::Arithmetic);
            if low || !value.is_finite() {
                return Err(GainError::Value { index, value });
            }
        }
    }
    if design == Design::Paired && baseline.len() != series.len() {
        return Err(GainError::NotPairs {
            baseline: baseline.len(),
            series: series.len(),
        });
    }
    let runs = baseline.len().min(series.len());
    if runs < FEWEST {
        return Err(GainError::TooFewRuns { runs });
    }
    match [baseline, series].map(|values| values.iter().filter(|v| **v > 0.0).count()) {
        [0, 0] => Ok(()),
        [0, _] => Err(GainError::Zero("the baseline")),
        [_, 0] => Err(GainError::Zero("this series")),
        [a, b] if a.min(b) < FEWEST => Err(GainError::Rare { runs: a.min(b) }),
        _ => Ok(()),
    }
}

/// Scale on which a metric's mean is arithmetic.
#[derive(Clone, Copy)]
struct Scale(Mean);

impl Scale {
    fn convert_values(self, values: &[f64]) -> Vec<f64> {
        match self.0 {
            Mean::Arithmetic => values.to_vec(),
            Mean::Harmonic => values.iter().map(|v| 1.0 / v).collect(),
            Mean::Geometric => values.iter().map(|v| v.ln()).collect(),
        }
    }

    /// Estimates the logarithm of the ratio of two means, with its variance by the delta method.
    fn estimate_log_ratio(self, a: &[f64], b: &[f64], design: Design) -> Estimate {
        let [mean_a, mean_b] = [arithmetic_mean(a), arithmetic_mean(b)];
        // Each share says how much a value's distance from the mean moves the mean's logarithm.
        let (log, share_a, share_b) = match self.0 {
            Mean::Geometric => (mean_b - mean_a, 1.0, 1.0),
            Mean::Arithmetic => ((mean_b / mean_a).ln(), 1.0 / mean_a, 1.0 / mean_b),
            Mean::Harmonic => ((mean_a / mean_b).ln(), 1.0 / mean_a, 1.0 / mean_b),
        };
        let variances = match design {
            Design::Unpaired => [
                variance_of_mean(a.iter().map(|v| (v - mean_a) * share_a)),
                variance_of_mean(b.iter().map(|v| (v - mean_b) * share_b)),
            ],
            Design::Paired => {
                let pairs = a.iter().zip(b);
                let differences =
                    pairs.map(|(x, y)| (y - mean_b) * share_b - (x - mean_a) * share_a);
                [variance_of_mean(differences), 0.0]
            }
        };
        Estimate {
            log_ratio: log,
            variances,
        }
    }
}

/// Variance of a mean of values that deviate from their mean by this much.
fn variance_of_mean(deviations: impl ExactSizeIterator<Item = f64>) -> f64 {
    let runs = deviations.len() as f64;
    deviations.map(|v| v * v).sum::<f64>() / (runs * (runs - 1.0))
}

/// Estimate of the ratio of two means.
#[derive(Clone, Copy)]
struct Estimate {
    /// Logarithm of the ratio of means.
    log_ratio: f64,
    /// Variance of the logarithm in two parts: baseline's part, series' part. The variance of pairs
    /// is all in the first part.
    variances: [f64; 2],
}

impl Estimate {
    /// The standard error.
    fn standard_error(self) -> f64 {
        self.variances.iter().sum::<f64>().sqrt()
    }

    /// Welch's degrees of freedom for `a` and `b` runs; for pairs, one less than their number.
    fn degrees_of_freedom(self, a: usize, b: usize) -> f64 {
        let [part_a, part_b] = self.variances;
        let squares = part_a.powi(2) / (a as f64 - 1.0) + part_b.powi(2) / (b as f64 - 1.0);
        let freedom = (part_a + part_b).powi(2) / squares;
        // The squares of very small variances are 0, so that the quotient is not finite.
        if freedom.is_finite() {
            freedom
        } else {
            a.min(b) as f64 - 1.0
        }
    }
}

/// Computes a statistic for each bootstrap resample of both series, unless it is `None`.
fn statistics_of_resamples(
    a: &[f64],
    b: &[f64],
    design: Design,
    seed: u64,
    statistic: impl Fn(&[f64], &[f64]) -> Option<f64>,
) -> Vec<f64> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let (mut drawn_a, mut drawn_b) = (a.to_vec(), b.to_vec());
    let mut all = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        match design {
            Design::Paired => {
                for (x, y) in drawn_a.iter_mut().zip(&mut drawn_b) {
                    let index = random.random_range(0..a.len());
                    (*x, *y) = (a[index], b[index]);
                }
            }
            Design::Unpaired => {
                drawn_a.fill_with(|| a[random.random_range(0..a.len())]);
                drawn_b.fill_with(|| b[random.random_range(0..b.len())]);
            }
        }
        all.extend(statistic(&drawn_a, &drawn_b));
    }
    all
}

/// Quantile of sorted values: the value nearest to the given share of them.
fn nearest_quantile(sorted: &[f64], probability: f64) -> f64 {
    let rank = (probability * (sorted.len() as f64 + 1.0)).round() as usize;
    let index = rank.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(index).copied().unwrap_or(0.0)
}

/// Two-sided p-value of an observed statistic by its resamples; never 0, because the observation
/// counts as a resample.
///
/// Resamples cannot show p-values below one over their number, and after the correction for many comparisons such a value
/// is never significant. So below `TAIL` the p-value falls with the tail of the t distribution, from the resamples' own
/// quantile on, and is no smaller than in the t test.
fn two_sided_p_value(sorted: &[f64], observed: f64, freedom: f64) -> f64 {
    let below = sorted.partition_point(|t| *t < observed);
    let not_above = sorted.partition_point(|t| *t <= observed);
    let rarer = not_above.min(sorted.len() - below) as f64;
    let counted = (2.0 * (rarer + 1.0) / (sorted.len() as f64 + 1.0)).min(1.0);
    let start = if observed > 0.0 {
        nearest_quantile(sorted, 1.0 - TAIL / 2.0)
    } else {
        -nearest_quantile(sorted, TAIL / 2.0)
    };
    let Ok(t) = StudentsT::new(0.0, 1.0, freedom) else {
        return counted;
    };
    let (start, observed) = (start.max(0.0), observed.abs());
    if counted > TAIL || observed <= start {
        return counted;
    }
    let beyond = t.sf(observed);
    // The tail is at least twice that of t: resamples with lighter tails find too much at 60
    // comparisons (tests/all/coverage.rs).
    let continued = (TAIL * beyond / t.sf(start)).max(2.0 * beyond);
    if continued.is_nan() {
        return counted;
    }
    continued.clamp(f64::MIN_POSITIVE, TAIL)
}

fn arithmetic_mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sum of the squared deviations from the mean.
fn sum_of_squared_deviations(values: &[f64]) -> f64 {
    let mean = arithmetic_mean(values);
    values.iter().map(|v| (v - mean).powi(2)).sum()
}

fn hedges_g_effect_size(a: &[f64], b: &[f64]) -> Option<f64> {
    let freedom = (a.len() + b.len() - 2) as f64;
    let pooled = ((sum_of_squared_deviations(a) + sum_of_squared_deviations(b)) / freedom).sqrt();
    if pooled <= NO_SPREAD * arithmetic_mean(a).abs() {
        return None;
    }
    let difference = arithmetic_mean(b) - arithmetic_mean(a);
    Some(difference / pooled * (1.0 - 3.0 / (4.0 * freedom - 1.0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metric(name: &str) -> &'static Metric {
        Metric::find(name).unwrap()
    }

    fn gain_in(name: &str, a: &[f64], b: &[f64], design: Design) -> Result<Gain, GainError> {
        estimate_gain(metric(name), a, b, design, 0.95, 1)
    }

    #[test]
    fn plus_is_better_whatever_the_metric() {
        let (slow, fast) = ([100.0, 101.0, 99.0, 100.0], [50.0, 51.0, 49.0, 50.0]);
        let latency = gain_in("mean_us", &slow, &fast, Design::Unpaired).unwrap();
        assert!((latency.percent - 50.0).abs() < 0.1, "{latency:?}");
        let iops = gain_in("iops", &fast, &slow, Design::Unpaired).unwrap();
        assert!((iops.percent - 100.0).abs() < 0.1, "{iops:?}");
        let worse = gain_in("iops", &slow, &fast, Design::Unpaired).unwrap();
        assert!(
            worse.percent < -49.0
                && worse.effect.is_some_and(|g| g < 0.0)
                && worse.interval[1] < -40.0
        );
    }

    /// Ten runs of the README's job: `teo` has a slow mode, and each of its runs is faster than each of menu's.
    #[test]
    fn runs_of_two_modes_that_are_all_faster_are_better() {
        let menu = [
            511.5, 512.3, 511.7, 511.5, 512.5, 512.5, 512.3, 512.0, 512.3, 512.0,
        ];
        let teo = [
            239.9, 240.6, 240.5, 240.1, 403.7, 240.3, 394.2, 240.6, 398.3, 240.3,
        ];
        for design in [Design::Paired, Design::Unpaired] {
            let gain = gain_in("p99_us", &menu, &teo, design).unwrap();
            let [low, high] = gain.interval;
            assert!((20.0..25.0).contains(&low), "{gain:?}");
            assert!((48.0..54.0).contains(&high), "{gain:?}");
            assert!(gain.p_value < 0.003, "{gain:?}");
        }
        // With few runs, all of them may lie on one side by chance.
        let gain = gain_in("p99_us", &menu[2..7], &teo[2..7], Design::Paired).unwrap();
        assert!(gain.interval[0] < 21.0, "{gain:?}");
    }

    #[test]
    fn a_rate_that_is_limited_has_no_effect_size() {
        // Same to the last digit, and different in the last digit.
        for b in [[2000.0; 5], [2_000.000_67; 5]] {
            let gain = gain_in("iops", &[2000.0; 5], &b, Design::Paired);
            assert_eq!(gain.unwrap().effect, None);
        }
    }

    #[test]
    fn what_cannot_be_compared_is_an_error() {
        let four = [1.0, 2.0, 3.0, 4.0];
        let few = gain_in("iops", &four, &four[..1], Design::Unpaired);
        assert_eq!(few, Err(GainError::TooFewRuns { runs: 1 }));
        let wrong = gain_in("iops", &four, &[1.0, 2.0, f64::NAN, 4.0], Design::Unpaired);
        assert!(matches!(wrong, Err(GainError::Value { index: 2, .. })));
        let zero = gain_in("iops", &[0.0; 4], &four, Design::Unpaired);
        assert!(zero.unwrap_err().to_string().contains("above 0"));
        let zero_baseline = gain_in("mean_us", &[0.0; 4], &four, Design::Paired);
        assert_eq!(zero_baseline, Err(GainError::Zero("the baseline")));
        let zero_series = gain_in("mean_us", &four, &[0.0; 4], Design::Paired);
        assert_eq!(zero_series, Err(GainError::Zero("this series")));
        assert!(gain_in("mean_us", &four, &[1.0, -1.0, 1.0, 1.0], Design::Paired).is_err());
        let not_pairs = gain_in("iops", &four, &[1.0; 5], Design::Paired);
        assert!(matches!(not_pairs, Err(GainError::NotPairs { .. })));
        assert!(estimate_gain(metric("iops"), &four, &four, Design::Paired, 1.0, 1).is_err());
    }

    #[test]
    fn some_runs_of_an_amount_can_be_0() {
        let a = [0.0, 4.0, 5.0, 0.0, 6.0, 3.0];
        let b: Vec<f64> = a
            .iter()
            .map(|v| v * 2.0 + f64::from(u8::from(*v > 4.0)) * 0.1)
            .collect();
        let worse = gain_in("mean_us", &a, &b, Design::Paired).unwrap();
        assert!(
            worse.percent < -100.0 && worse.interval[1] < -95.0,
            "{worse:?}"
        );
        assert!(worse.interval.iter().all(|v| v.is_finite()), "{worse:?}");
        let rare = estimate_gain(
            metric("mean_us"),
            &a,
            &[0.0, 0.0, 0.0, 2.0, 0.0, 0.0],
            Design::Paired,
            0.95,
            1,
        );
        assert_eq!(rare, Err(GainError::Rare { runs: 1 }));
        let same = gain_in("mean_us", &[0.0; 5], &[0.0; 5], Design::Paired).unwrap();
        assert_eq!(
            (same.percent, same.interval, same.p_value),
            (0.0, [0.0; 2], 1.0)
        );
    }

    #[test]
    fn pairs_take_away_what_both_have_in_common() {
        let a: [f64; 8] = [100.0, 140.0, 90.0, 120.0, 160.0, 80.0, 110.0, 130.0];
        let noise = [1.01, 0.99, 1.0, 1.005, 0.995, 1.01, 0.99, 1.0];
        let b: Vec<f64> = a.iter().zip(noise).map(|(a, n)| a * 1.05 * n).collect();
        let [paired, unpaired] = [Design::Paired, Design::Unpaired]
            .map(|design| gain_in("iops", &a, &b, design).unwrap());
        let [narrow, wide] = [paired, unpaired].map(|gain| gain.interval[1] - gain.interval[0]);
        assert!(
            paired.interval[0] > 3.0 && paired.p_value < 0.01,
            "{paired:?}"
        );
        assert!(wide > 10.0 * narrow, "{unpaired:?}");
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_gain_and_does_not_depend_on_the_unit(
            a in prop::collection::vec(1.0_f64..100.0, 4..10),
            b in prop::collection::vec(1.0_f64..100.0, 4..10),
        ) {
            for name in ["iops", "mean_us"] {
                let gain_of = |factor: f64| {
                    let [a, b] = [&a, &b].map(|s| s.iter().map(|v| v * factor).collect::<Vec<_>>());
                    estimate_gain(metric(name), &a, &b, Design::Unpaired, 0.9, 7).unwrap()
                };
                let one = gain_of(1.0);
                prop_assert!(one.p_value > 0.0 && one.p_value <= 1.0);
                prop_assert!(one.interval[0] <= one.interval[1]);
                prop_assert_eq!(one, gain_of(1.0));
                let thousand = gain_of(1024.0);
                prop_assert!((one.percent - thousand.percent).abs() < 1e-6 * one.percent.abs().max(1.0));
                // The interval excludes 0 exactly if the p-value is below its level, but for rounding.
                let excludes = one.interval[0] > 0.0 || one.interval[1] < 0.0;
                prop_assert!(excludes == (one.p_value < 0.1) || (one.p_value - 0.1).abs() < 0.005);
            }
        }
    }
}
