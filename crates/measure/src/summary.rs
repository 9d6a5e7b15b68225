//! Quantiles and intervals of samples.

use serde::Serialize;
use wakepath_hardware::machine::Figure;
use wakepath_units::Nanoseconds;

use crate::Conditions;

/// Batches for the interval of a mean: successive samples depend on each other, means of long batches hardly.
const BATCHES: usize = 20;
/// Distance between a normal distribution's quartiles, in standard deviations.
const QUARTILES: f64 = 1.349;
/// Two-sided 95 % quantile of the normal distribution.
const Z_95: f64 = 1.96;

/// A sample of so many times the median is a slow one, of which the 99.9th percentile tells.
const SLOW: u64 = 10;

/// A statistic with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The statistic in nanoseconds.
    pub ns: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

impl Estimate {
    /// No time, for sure.
    pub(crate) const ZERO: Self = Self {
        ns: 0.0,
        low: 0.0,
        high: 0.0,
    };

    /// Whether the estimate's interval contains this value.
    pub fn covers(self, ns: f64) -> bool {
        (self.low..=self.high).contains(&ns)
    }

    /// The difference to another, independent estimate.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let ns = self.ns - other.ns;
        let below = (self.ns - self.low).hypot(other.high - other.ns);
        let above = (self.high - self.ns).hypot(other.ns - other.low);
        Self {
            ns,
            low: ns - below,
            high: ns + above,
        }
    }

    /// The sum with another, independent estimate.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let ns = self.ns + other.ns;
        Self {
            ns,
            low: ns - (self.ns - self.low).hypot(other.ns - other.low),
            high: ns + (self.high - self.ns).hypot(other.high - other.ns),
        }
    }

    /// The estimate for one of several equal parts of what was timed.
    #[must_use]
    pub fn divided_by(self, parts: f64) -> Self {
        Self {
            ns: self.ns / parts,
            low: self.low / parts,
            high: self.high / parts,
        }
    }

    /// The estimate with everything below 0 raised to 0, for a time that cannot be negative.
    #[must_use]
    pub const fn at_least_zero(self) -> Self {
        self.at_least(0.0)
    }

    /// The estimate with everything below a least value raised to it.
    #[must_use]
    pub(crate) const fn at_least(self, least: f64) -> Self {
        Self {
            ns: self.ns.max(least),
            low: self.low.max(least),
            high: self.high.max(least),
        }
    }

    /// The estimate as a figure of a machine file in microseconds. `what` names statistic and conditions of `n` samples.
    pub fn figure_us(self, n: u64, what: &str, conditions: &Conditions) -> Figure {
        let [value, low, high] = [self.ns, self.low, self.high].map(round_to_us);
        let measurement = conditions.describe_measurement(n, Some([low, high]), what);
        Figure::measured_here(value, measurement)
    }

    /// As [`Self::figure_us`], in milliseconds.
    pub fn figure_ms(self, n: u64, what: &str, conditions: &Conditions) -> Figure {
        let thousandth = Self {
            ns: self.ns / 1e3,
            low: self.low / 1e3,
            high: self.high / 1e3,
        };
        thousandth.figure_us(n, what, conditions)
    }
}

/// How far the 95 % interval of a count reaches to each side, as of a Poisson process.
pub fn reach_of_count(count: f64) -> f64 {
    Z_95 * count.max(0.0).sqrt()
}

/// A time with its number of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SampledTime {
    /// Number of samples.
    pub n: u64,
    /// The time.
    #[serde(flatten)]
    pub estimate: Estimate,
}

/// Nanoseconds as microseconds with three decimals.
fn round_to_us(ns: f64) -> f64 {
    ns.round() / 1e3
}

/// Latency of repeated, equal operations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Number of samples.
    pub n: u64,
    /// Mean; the interval is Student's, from 20 batch means, or from the samples below 40 of them.
    pub mean: Estimate,
    /// Median; its interval is by order statistics.
    pub median: Estimate,
    /// Shortest.
    pub min: Nanoseconds,
    /// 10th percentile.
    pub p10: Nanoseconds,
    /// 90th percentile.
    pub p90: Nanoseconds,
    /// 99th percentile.
    pub p99: Nanoseconds,
    /// 99.9th percentile; absent below 1000 samples.
    pub p999: Option<Nanoseconds>,
    /// Longest.
    pub max: Nanoseconds,
    /// Standard deviation over the median, from the quartiles as for a normal distribution: other work on the CPUs makes
    /// tails that are none of the hardware's.
    pub spread: f64,
    /// Nanoseconds that slow samples, beyond ten medians, add to the mean: the mean of all less that of the others.
    pub slow_part: f64,
}

impl LatencySummary {
    /// Summarises samples in the order of time, in nanoseconds; `None` without samples.
    pub fn new(samples: &[u64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let [lower, middle, upper] = [0.25, 0.5, 0.75].map(|p| quantile(&sorted, p).0 as f64);
        Some(Self {
            n: samples.len() as u64,
            mean: estimate_mean(samples, (min, max)),
            median: estimate_median(&sorted),
            min: Nanoseconds(min),
            p10: quantile(&sorted, 0.1),
            p90: quantile(&sorted, 0.9),
            p99: quantile(&sorted, 0.99),
            p999: (samples.len() >= 1000).then(|| quantile(&sorted, 0.999)),
            max: Nanoseconds(max),
            spread: (upper - lower) / QUARTILES / middle.max(1.0),
            slow_part: slow_part_of_mean(samples),
        })
    }
}

/// Drops samples that take more than ten medians.
pub(crate) fn drop_slow_samples(samples: &mut Vec<u64>) {
    let mut sorted = samples.clone();
    sorted.sort_unstable();
    let longest = quantile(&sorted, 0.5).0.saturating_mul(SLOW);
    samples.retain(|sample| *sample <= longest);
}

/// What slow samples add to the mean.
fn slow_part_of_mean(samples: &[u64]) -> f64 {
    let mut others = samples.to_vec();
    drop_slow_samples(&mut others);
    mean_of_samples(samples) - mean_of_samples(&others)
}

fn mean_of_samples(samples: &[u64]) -> f64 {
    samples.iter().map(|s| *s as f64).sum::<f64>() / samples.len().max(1) as f64
}

/// The smallest sample not exceeded by at least a share `p`.
fn quantile(sorted: &[u64], p: f64) -> Nanoseconds {
    let rank = (p * sorted.len() as f64).ceil() as usize;
    let index = rank.saturating_sub(1).min(sorted.len().saturating_sub(1));
    Nanoseconds(sorted.get(index).copied().unwrap_or_default())
}

/// Mean with an interval from batch means, or from the samples themselves where these are few.
fn estimate_mean(samples: &[u64], (min, max): (u64, u64)) -> Estimate {
    let ns = mean_of_samples(samples);
    let batches = if samples.len() < 2 * BATCHES {
        samples.len()
    } else {
        BATCHES
    };
    if batches < 2 {
        return Estimate {
            ns,
            low: min as f64,
            high: max as f64,
        };
    }
    let means: Vec<f64> = (0..batches)
        .map(|batch| {
            let from = batch * samples.len() / batches;
            let to = (batch + 1) * samples.len() / batches;
            mean_of_samples(&samples[from..to])
        })
        .collect();
    let centre = means.iter().sum::<f64>() / batches as f64;
    let squares: f64 = means.iter().map(|m| (m - centre).powi(2)).sum();
    let error = (squares / (batches * (batches - 1)) as f64).sqrt();
    let reach = student_t_95(batches - 1) * error;
    Estimate {
        ns,
        low: (ns - reach).max(0.0),
        high: ns + reach,
    }
}

/// Mean of independent values with the reach of its 95 % interval (Student's t); `None` without values. A single value has no
/// interval, and reaches nowhere.
pub(crate) fn mean_with_reach(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    if n == 1 {
        return Some((mean, 0.0));
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (n * (n - 1)) as f64).sqrt();
    Some((mean, student_t_95(n - 1) * error))
}

/// Two-sided 95 % quantile of Student's t. From 3 degrees of freedom on, the Cornish-Fisher expansion is within 1 %
/// (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5).
fn student_t_95(degrees: usize) -> f64 {
    match degrees {
        0 | 1 => 12.706,
        2 => 4.303,
        _ => {
            let (z, n) = (Z_95, degrees as f64);
            let first = (z.powi(3) + z) / 4.0;
            let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
            let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
            z + first / n + second / n.powi(2) + third / n.powi(3)
        }
    }
}

/// Median of sorted samples. The interval ends at samples with binomial ranks (Conover, Practical Nonparametric
/// Statistics, section 3.2).
fn estimate_median(sorted: &[u64]) -> Estimate {
    let n = sorted.len() as f64;
    let reach = Z_95 * n.sqrt() / 2.0;
    let at = [n / 2.0 - reach, n / 2.0 + reach + 1.0];
    let [low, high] = at.map(|rank| {
        let index = (rank.round().max(1.0) as usize).min(sorted.len()) - 1;
        sorted[index] as f64
    });
    Estimate {
        ns: quantile(sorted, 0.5).0 as f64,
        low,
        high,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn quantiles_of_student_are_those_of_tables() {
        for (degrees, expected) in [(1, 12.706), (3, 3.182), (5, 2.571), (9, 2.262), (19, 2.093)] {
            let t = student_t_95(degrees);
            assert!((t / expected - 1.0).abs() < 0.01, "{degrees}: {t}");
        }
        // Four reads after a long pause.
        let few = LatencySummary::new(&[80_000, 90_000, 100_000, 110_000]).unwrap();
        let reach = few.mean.high - few.mean.ns;
        assert!((20_000.0..21_000.0).contains(&reach), "{reach}");
    }

    #[test]
    fn quantiles_are_samples() {
        let samples: Vec<u64> = (1..=1000).rev().collect();
        let summary = LatencySummary::new(&samples).unwrap();
        assert!((summary.median.ns - 500.0).abs() < 1e-9);
        assert_eq!([summary.p90, summary.p99].map(|q| q.0), [900, 990]);
        assert_eq!(summary.p999, Some(Nanoseconds(999)));
        assert_eq!((summary.min.0, summary.max.0), (1, 1000));
        assert!((summary.mean.ns - 500.5).abs() < 1e-9);
        assert_eq!(LatencySummary::new(&[]), None);
    }

    #[test]
    fn intervals_cover_the_truth_as_often_as_they_say() {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let (mut means, mut medians) = (0, 0);
        for _ in 0..1000 {
            // Exponential with mean 10,000 and median 10,000 ln 2.
            let samples: Vec<u64> = (0..400)
                .map(|_| (-10_000.0 * (1.0 - random.random::<f64>()).ln()) as u64)
                .collect();
            let summary = LatencySummary::new(&samples).unwrap();
            means += u32::from(summary.mean.covers(10_000.0));
            medians += u32::from(summary.median.covers(10_000.0 * 2_f64.ln()));
        }
        assert!((930..=970).contains(&means), "{means} of 1000");
        assert!((935..=980).contains(&medians), "{medians} of 1000");
    }

    proptest! {
        #[test]
        fn any_samples_have_a_summary(samples in prop::collection::vec(any::<u64>(), 1..200)) {
            let summary = LatencySummary::new(&samples).unwrap();
            prop_assert!(summary.min <= summary.p10 && summary.p10 <= summary.p90);
            prop_assert!(summary.min <= summary.p90 && summary.p90 <= summary.p99);
            prop_assert!(summary.p99 <= summary.max);
            prop_assert!(summary.median.low <= summary.median.ns);
            prop_assert!(summary.median.ns <= summary.median.high);
            prop_assert!(summary.mean.low <= summary.mean.high);
            prop_assert!(summary.mean.low <= summary.mean.ns);
        }
    }
}
