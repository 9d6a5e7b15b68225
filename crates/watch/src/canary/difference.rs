//! The difference between changed machines and machines left alone, with the machine as the unit.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Difference of two means with Welch's standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MeanDifference {
    difference: f64,
    standard_error: f64,
    freedom: f64,
}

impl MeanDifference {
    /// Mean of `changed` minus mean of `left_alone`; `None` with fewer than two machines in either group.
    pub(crate) fn between(changed: &[f64], left_alone: &[f64]) -> Option<Self> {
        let [first, second] = [changed, left_alone].map(mean_and_its_variance);
        let ((mean, variance), (other_mean, other_variance)) = (first?, second?);
        let total = variance + other_variance;
        let freedom = total.powi(2)
            / (variance.powi(2) / (changed.len() - 1) as f64
                + other_variance.powi(2) / (left_alone.len() - 1) as f64);
        Some(Self {
            difference: mean - other_mean,
            standard_error: total.sqrt(),
            freedom: if freedom.is_finite() { freedom } else { 1.0 },
        })
    }

    /// The difference of the means.
    pub(crate) const fn value(&self) -> f64 {
        self.difference
    }

    /// Probability of an equal or larger difference by chance alone.
    pub(crate) fn p_value_of_increase(&self) -> f64 {
        if self.standard_error <= 0.0 {
            return if self.difference > 0.0 { 0.0 } else { 1.0 };
        }
        self.distribution().map_or(1.0, |distribution| {
            distribution.sf(self.difference / self.standard_error)
        })
    }

    /// Lower bound that the true difference is below with probability `alpha`; none where `alpha` is 0.
    pub(crate) fn lower_bound(&self, alpha: f64) -> Option<f64> {
        Some(self.difference - self.half_width(alpha)?)
    }

    /// Upper bound that the true difference is above with probability `alpha`; none where `alpha` is 0.
    pub(crate) fn upper_bound(&self, alpha: f64) -> Option<f64> {
        Some(self.difference + self.half_width(alpha)?)
    }

    fn half_width(&self, alpha: f64) -> Option<f64> {
        let is_probability = alpha > 0.0 && alpha < 1.0;
        let quantile = is_probability
            .then(|| self.distribution())??
            .inverse_cdf(1.0 - alpha);
        Some(quantile * self.standard_error)
    }

    fn distribution(&self) -> Option<StudentsT> {
        StudentsT::new(0.0, 1.0, self.freedom.max(1.0)).ok()
    }
}

/// The mean, and the variance of the mean.
fn mean_and_its_variance(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, squares / (count - 1.0) / count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Welch's example of two small groups, computed with R 4: `t.test(x, y, alternative = "greater")`.
    #[test]
    fn the_difference_agrees_with_welch_by_hand() {
        let difference =
            MeanDifference::between(&[3.0, 4.0, 5.0, 8.0], &[1.0, 2.0, 2.5, 3.0, 4.0]).unwrap();
        // By hand: means 5 and 2.5, variances of the means 4.6667 / 4 and 1.25 / 5.
        assert!((difference.value() - 2.5).abs() < 1e-12);
        let total: f64 = 14.0 / 3.0 / 4.0 + 0.25;
        assert!((difference.standard_error - total.sqrt()).abs() < 1e-12);
        let freedom = total.powi(2) / ((14.0_f64 / 12.0).powi(2) / 3.0 + 0.25_f64.powi(2) / 4.0);
        assert!((difference.freedom - freedom).abs() < 1e-9);
        let p = difference.p_value_of_increase();
        let bound = difference.lower_bound(p).unwrap();
        assert!(bound.abs() < 1e-6, "a bound at its p-value is 0: {bound}");
        assert!(difference.upper_bound(0.05) > difference.upper_bound(0.2));
        assert_eq!(difference.upper_bound(0.0), None);
    }

    #[test]
    fn one_machine_shows_nothing() {
        assert_eq!(MeanDifference::between(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(MeanDifference::between(&[1.0, 2.0], &[]), None);
    }

    #[test]
    fn machines_without_any_spread_are_no_division_by_zero() {
        let same = MeanDifference::between(&[1.0, 1.0], &[1.0, 1.0]).unwrap();
        assert!((same.p_value_of_increase() - 1.0).abs() < 1e-12);
        assert_eq!(same.upper_bound(0.05), Some(0.0));
        let worse = MeanDifference::between(&[2.0, 2.0], &[1.0, 1.0]).unwrap();
        assert!(worse.p_value_of_increase() <= 0.0);
    }
}
