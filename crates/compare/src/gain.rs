//! By how much a series is better than its baseline, with a bootstrap interval.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::{Design, Mean, Metric};

/// Resamples behind every interval.
pub const RESAMPLES: usize = 1999;

/// Fewest runs of a series for an interval.
pub(crate) const FEWEST: usize = 4;

/// A resample of few runs can miss the only one that stands out, or draw nearly the same value every time. It then
/// has next to no standard error, and its deviation over that is without bounds; a third of the resamples of five runs
/// are of that kind. So no standard error counts as less than this share of that of the runs themselves. Intervals
/// hold the truth as often with that share as without it, and at a half of it less often (tests/all/coverage.rs).
const LEAST_ERROR: f64 = 0.25;

/// A standard deviation of this share of the mean is the rounding of the numbers.
const NO_SPREAD: f64 = 1e-9;

/// Where the resamples become too few to count: smaller p-values follow the tail of the t distribution.
const TAIL: f64 = 0.02;

/// By how much a series is better than its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The metric's mean of the baseline and of the series.
    pub means: [f64; 2],
    /// Change of the mean in percent of the baseline's, plus being better, as MMTests has it.
    pub percent: f64,
    /// The interval around it at the level asked for, in percent.
    pub interval: [f64; 2],
    /// How often chance alone would give at least this difference, either way; not corrected for other
    /// comparisons.
    pub p_value: f64,
    /// Hedges' g: the difference of arithmetic means in pooled standard deviations, plus being better. None if the runs
    /// have no spread to measure it by, as those of a job whose rate is limited.
    pub effect: Option<f64>,
    /// Runs of the baseline and of the series.
    pub runs: [usize; 2],
}

/// Why no gain can be given.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum GainError {
    /// Too few runs for an interval.
    #[error("{runs} run(s): no interval can be given for fewer than {FEWEST}")]
    TooFewRuns {
        /// Runs of the shorter series.
        runs: usize,
    },
    /// Pairs need partners.
    #[error("{baseline} and {series} runs cannot be paired")]
    NotPairs {
        /// Runs of the baseline.
        baseline: usize,
        /// Runs of the series.
        series: usize,
    },
    /// The means need numbers above 0, arithmetic ones numbers that are not below it.
    #[error("run {index} is {value}; a mean ratio needs finite numbers above 0")]
    Value {
        /// Which run of its series, from 0.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// Nothing is a percentage of 0.
    #[error("{0} is 0 in every run, and there is no ratio to 0")]
    Zero(&'static str),
    /// What happened in a few runs only may happen in none of the next ones, or in many.
    #[error("above 0 in {runs} run(s) only: too rare for an interval, which takes {FEWEST}")]
    Rare {
        /// Runs above 0 of the series that has fewer.
        runs: usize,
    },
    /// No such level.
    #[error("{0} is no confidence level between 0.5 and 0.999")]
    Level(f64),
}

/// Compares `series` with `baseline`. The interval has this confidence `level`, 0.5 to 0.999; `seed` is that of
/// the resampling.
///
/// # Errors
/// Fewer than 4 runs, pairs without partners, values that are not finite numbers above 0. Where the metric's mean is the
/// arithmetic one, as of counts and of added time, runs can be 0 if at least 4 of each series are not, or if all are.
pub fn gain(
    metric: &Metric,
    baseline: &[f64],
    series: &[f64],
    design: Design,
    level: f64,
    seed: u64,
) -> Result<Gain, GainError> {
    check(metric.mean, [baseline, series], design, level)?;
    if [baseline, series].concat().iter().all(|v| *v == 0.0) {
        return Ok(nothing([baseline.len(), series.len()]));
    }
    let scale = Scale(metric.mean);
    let [a, b] = [baseline, series].map(|values| scale.of(values));
    let estimate = scale.log_ratio(&a, &b, design);
    let (log_ratio, error) = (estimate.log_ratio, estimate.error());
    let [from, to, p_value] = if error > 0.0 {
        let mut studentised = resample(&a, &b, design, seed, |a, b| {
            let of = scale.log_ratio(a, b, design);
            let error = of.error().max(LEAST_ERROR * error);
            let deviation = (of.log_ratio - log_ratio) / error;
            // A resample can be of runs of 0 alone.
            (error > 0.0 && deviation.is_finite()).then_some(deviation)
        });
        studentised.sort_by(f64::total_cmp);
        let observed = log_ratio / error;
        let tail = (1.0 - level) / 2.0;
        [
            log_ratio - quantile(&studentised, 1.0 - tail) * error,
            log_ratio - quantile(&studentised, tail) * error,
            p_value(&studentised, observed, estimate.freedom(a.len(), b.len())),
        ]
    } else {
        // Nothing varies, so there is no doubt.
        let certain = if log_ratio == 0.0 { 1.0 } else { 0.0 };
        [log_ratio, log_ratio, certain]
    };
    let percent = |log: f64| (log.exp() - 1.0) * 100.0;
    let [change, low, high] = [log_ratio, from, to].map(percent);
    let sign = metric.better.sign();
    Ok(Gain {
        means: [baseline, series].map(|values| metric.mean.of(values)),
        percent: sign * change,
        interval: if sign > 0.0 {
            [low, high]
        } else {
            [-high, -low]
        },
        p_value,
        effect: hedges_g(baseline, series).map(|g| sign * g),
        runs: [baseline.len(), series.len()],
    })
}

/// The interval around this mean of these runs at this level, by Student's t on the scale on which the mean is an
/// arithmetic one. None of fewer than 4 runs, or of values that are no finite numbers.
pub fn interval_of_mean(of: Mean, values: &[f64], level: f64) -> Option<[f64; 2]> {
    if values.len() < FEWEST || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let positive = values.iter().all(|v| *v > 0.0);
    let scale = Scale(if positive { of } else { Mean::Arithmetic });
    let scaled = scale.of(values);
    let (runs, middle) = (scaled.len() as f64, mean(&scaled));
    let squares: f64 = scaled.iter().map(|v| (v - middle).powi(2)).sum();
    let quantile = StudentsT::new(0.0, 1.0, runs - 1.0).ok()?;
    let half =
        quantile.inverse_cdf(f64::midpoint(1.0, level)) * (squares / (runs * (runs - 1.0))).sqrt();
    let (low, high) = (middle - half, middle + half);
    Some(match scale.0 {
        // No mean of amounts is below 0.
        Mean::Arithmetic if values.iter().all(|v| *v >= 0.0) => [low.max(0.0), high],
        Mean::Arithmetic => [low, high],
        Mean::Geometric => [low.exp(), high.exp()],
        // So slow that no rate is too high to be ruled out.
        Mean::Harmonic if low <= 0.0 => [1.0 / high, f64::INFINITY],
        Mean::Harmonic => [1.0 / high, 1.0 / low],
    })
}

/// The standard deviation of these runs; none of fewer than two.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    Some((squares / (values.len() as f64 - 1.0)).sqrt())
}

/// No difference: every run of both is 0.
fn nothing(runs: [usize; 2]) -> Gain {
    Gain {
        means: [0.0; 2],
        percent: 0.0,
        interval: [0.0; 2],
        p_value: 1.0,
        effect: None,
        runs,
    }
}

fn check(
    mean: Mean,
    [baseline, series]: [&[f64]; 2],
    design: Design,
    level: f64,
) -> Result<(), GainError> {
    if !(0.5..=0.999).contains(&level) {
        return Err(GainError::Level(level));
    }
    for values in [baseline, series] {
        let wrong = |(_, v): &(usize, &f64)| {
            let low = **v < 0.0 || (**v == 0.0 && mean != Mean::Arithmetic);
            !v.is_finite() || low
        };
        if let Some((index, value)) = values.iter().enumerate().find(wrong) {
            return Err(GainError::Value {
                index,
                value: *value,
            });
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

/// The scale on which the metric's mean is an arithmetic one.
#[derive(Clone, Copy)]
struct Scale(Mean);

impl Scale {
    fn of(self, values: &[f64]) -> Vec<f64> {
        let value = |v: &f64| match self.0 {
            Mean::Arithmetic => *v,
            Mean::Harmonic => 1.0 / v,
            Mean::Geometric => v.ln(),
        };
        values.iter().map(value).collect()
    }

    /// The logarithm of the ratio of the means, and its variance by the delta method.
    fn log_ratio(self, a: &[f64], b: &[f64], design: Design) -> Estimate {
        let [mean_a, mean_b] = [mean(a), mean(b)];
        // What a value adds to the logarithm of its mean, beyond the average value.
        let (log, share_a, share_b) = match self.0 {
            Mean::Geometric => (mean_b - mean_a, 1.0, 1.0),
            Mean::Arithmetic => ((mean_b / mean_a).ln(), 1.0 / mean_a, 1.0 / mean_b),
            Mean::Harmonic => ((mean_a / mean_b).ln(), 1.0 / mean_a, 1.0 / mean_b),
        };
        let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>();
        let error = |squares: f64, runs: usize| squares / (runs as f64 * (runs as f64 - 1.0));
        let variances = match design {
            Design::Unpaired => {
                let of_a = squares(&mut a.iter().map(|v| (v - mean_a) * share_a));
                let of_b = squares(&mut b.iter().map(|v| (v - mean_b) * share_b));
                [error(of_a, a.len()), error(of_b, b.len())]
            }
            Design::Paired => {
                let pairs = a.iter().zip(b);
                let of_both = squares(
                    &mut pairs.map(|(x, y)| (y - mean_b) * share_b - (x - mean_a) * share_a),
                );
                [error(of_both, a.len()), 0.0]
            }
        };
        Estimate {
            log_ratio: log,
            variances,
        }
    }
}

/// A ratio of means.
#[derive(Clone, Copy)]
struct Estimate {
    /// Its logarithm.
    log_ratio: f64,
    /// What baseline and series add to the variance of the logarithm; pairs are all in the first.
    variances: [f64; 2],
}

impl Estimate {
    /// The standard error.
    fn error(self) -> f64 {
        self.variances.iter().sum::<f64>().sqrt()
    }

    /// Welch's degrees of freedom for so many runs; of pairs, one less than there are.
    fn freedom(self, a: usize, b: usize) -> f64 {
        let [of_a, of_b] = self.variances;
        let squares = of_a.powi(2) / (a as f64 - 1.0) + of_b.powi(2) / (b as f64 - 1.0);
        let freedom = (of_a + of_b).powi(2) / squares;
        // Variances so small that their squares are 0.
        if freedom.is_finite() {
            freedom
        } else {
            a.min(b) as f64 - 1.0
        }
    }
}

/// What `statistic` says of each resample; those on which it says nothing are left out.
fn resample(
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

/// The value below which this share of the sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * (sorted.len() as f64 + 1.0)).round() as usize;
    let index = rank.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(index).copied().unwrap_or(0.0)
}

/// Two-sided, never 0: what was observed counts as one of the resamples.
///
/// Resamples cannot tell p-values below one over their number, and corrected for many comparisons that is never
/// significant. So below `TAIL` the p-value falls with the tail of the t distribution from the resamples' own quantile on, and is
/// no smaller than that of the t test.
fn p_value(sorted: &[f64], observed: f64, freedom: f64) -> f64 {
    let below = sorted.partition_point(|t| *t < observed);
    let not_above = sorted.partition_point(|t| *t <= observed);
    let rarer = not_above.min(sorted.len() - below) as f64;
    let counted = (2.0 * (rarer + 1.0) / (sorted.len() as f64 + 1.0)).min(1.0);
    let start = if observed > 0.0 {
        quantile(sorted, 1.0 - TAIL / 2.0)
    } else {
        -quantile(sorted, TAIL / 2.0)
    };
    let Ok(t) = StudentsT::new(0.0, 1.0, freedom) else {
        return counted;
    };
    let (start, observed) = (start.max(0.0), observed.abs());
    if counted > TAIL || observed <= start {
        return counted;
    }
    let beyond = t.sf(observed);
    // Resamples with lighter tails than t are not believed: at 60 comparisons they find too much (tests/all/coverage.rs).
    let continued = (TAIL * beyond / t.sf(start)).max(2.0 * beyond);
    if continued.is_nan() {
        return counted;
    }
    continued.clamp(f64::MIN_POSITIVE, TAIL)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn hedges_g(a: &[f64], b: &[f64]) -> Option<f64> {
    let squares = |values: &[f64]| {
        let mean = mean(values);
        values.iter().map(|v| (v - mean).powi(2)).sum::<f64>()
    };
    let freedom = (a.len() + b.len() - 2) as f64;
    let pooled = ((squares(a) + squares(b)) / freedom).sqrt();
    if pooled <= NO_SPREAD * mean(a).abs() {
        return None;
    }
    let difference = mean(b) - mean(a);
    Some(difference / pooled * (1.0 - 3.0 / (4.0 * freedom - 1.0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metric(name: &str) -> &'static Metric {
        Metric::find(name).unwrap()
    }

    #[test]
    fn plus_is_better_whatever_the_metric() {
        let (slow, fast) = ([100.0, 101.0, 99.0, 100.0], [50.0, 51.0, 49.0, 50.0]);
        let of = |name, a: &[f64], b: &[f64]| gain(metric(name), a, b, Design::Unpaired, 0.95, 1);
        let latency = of("mean_us", &slow, &fast).unwrap();
        assert!((latency.percent - 50.0).abs() < 0.1, "{latency:?}");
        let iops = of("iops", &fast, &slow).unwrap();
        assert!((iops.percent - 100.0).abs() < 0.1, "{iops:?}");
        let worse = of("iops", &slow, &fast).unwrap();
        assert!(
            worse.percent < -49.0
                && worse.effect.is_some_and(|g| g < 0.0)
                && worse.interval[1] < -40.0
        );
    }

    #[test]
    fn a_rate_that_is_limited_has_no_effect_size() {
        let of = |b: &[f64]| gain(metric("iops"), &[2000.0; 5], b, Design::Paired, 0.95, 1);
        // Same to the last digit, and different in the last digit.
        for b in [[2000.0; 5], [2_000.000_67; 5]] {
            assert_eq!(of(&b).unwrap().effect, None);
        }
    }

    #[test]
    fn what_cannot_be_compared_is_an_error() {
        let iops = metric("iops");
        let four = [1.0, 2.0, 3.0, 4.0];
        let of = |a: &[f64], b: &[f64], design| gain(iops, a, b, design, 0.95, 1).unwrap_err();
        let few = of(&four, &four[..1], Design::Unpaired);
        assert_eq!(few, GainError::TooFewRuns { runs: 1 });
        let wrong = of(&four, &[1.0, 2.0, f64::NAN, 4.0], Design::Unpaired);
        assert!(matches!(wrong, GainError::Value { index: 2, .. }));
        let zero = of(&[0.0; 4], &four, Design::Unpaired);
        assert!(zero.to_string().contains("above 0"));
        let counts = |a: &[f64], b: &[f64]| gain(metric("mean_us"), a, b, Design::Paired, 0.95, 1);
        let zero = counts(&[0.0; 4], &four).unwrap_err();
        assert_eq!(zero, GainError::Zero("the baseline"));
        assert_eq!(
            counts(&four, &[0.0; 4]),
            Err(GainError::Zero("this series"))
        );
        assert!(counts(&four, &[1.0, -1.0, 1.0, 1.0]).is_err());
        assert!(matches!(
            of(&four, &[1.0; 5], Design::Paired),
            GainError::NotPairs { .. }
        ));
        assert!(gain(iops, &four, &four, Design::Paired, 1.0, 1).is_err());
    }

    #[test]
    fn some_runs_of_an_amount_can_be_0() {
        let of =
            |a: &[f64], b: &[f64]| gain(metric("mean_us"), a, b, Design::Paired, 0.95, 1).unwrap();
        let a = [0.0, 4.0, 5.0, 0.0, 6.0, 3.0];
        let b: Vec<f64> = a
            .iter()
            .map(|v| v * 2.0 + f64::from(u8::from(*v > 4.0)) * 0.1)
            .collect();
        let worse = of(&a, &b);
        assert!(
            worse.percent < -100.0 && worse.interval[1] < -95.0,
            "{worse:?}"
        );
        assert!(worse.interval.iter().all(|v| v.is_finite()), "{worse:?}");
        let rare = gain(
            metric("mean_us"),
            &a,
            &[0.0, 0.0, 0.0, 2.0, 0.0, 0.0],
            Design::Paired,
            0.95,
            1,
        );
        assert_eq!(rare, Err(GainError::Rare { runs: 1 }));
        let same = of(&[0.0; 5], &[0.0; 5]);
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
        let of = |design| gain(metric("iops"), &a, &b, design, 0.95, 1).unwrap();
        let [paired, unpaired] = [Design::Paired, Design::Unpaired].map(of);
        let width = |g: &Gain| g.interval[1] - g.interval[0];
        assert!(
            paired.interval[0] > 3.0 && paired.p_value < 0.01,
            "{paired:?}"
        );
        assert!(width(&unpaired) > 10.0 * width(&paired), "{unpaired:?}");
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
                    gain(metric(name), &a, &b, Design::Unpaired, 0.9, 7).unwrap()
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
