//! Means that summarise a metric.

use serde::{Deserialize, Serialize};

/// A kind of mean. All kinds need numbers above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mean {
    /// Arithmetic mean, sum over count: for times and amounts.
    Arithmetic,
    /// Harmonic mean, count over the sum of reciprocals: for rates of equal work, such as operations per second.
    Harmonic,
    /// Geometric mean, the exponential of the mean logarithm: for ratios, and for summaries over workloads.
    Geometric,
}

impl Mean {
    /// Averages values above 0 by this kind of mean; NaN without values.
    pub fn average(self, values: &[f64]) -> f64 {
        match self {
            Self::Arithmetic => average_after_conversion(values, |v| v),
            Self::Harmonic => 1.0 / average_after_conversion(values, |v| 1.0 / v),
            Self::Geometric => average_after_conversion(values, f64::ln).exp(),
        }
    }
}

/// The arithmetic mean after a conversion of each value.
fn average_after_conversion(values: &[f64], convert: fn(f64) -> f64) -> f64 {
    values.iter().map(|v| convert(*v)).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn means_of_textbook_values() {
        for (mean, expected) in [
            (Mean::Arithmetic, 50.0),
            (Mean::Harmonic, 48.0),
            (Mean::Geometric, 2400.0_f64.sqrt()),
        ] {
            let average = mean.average(&[40.0, 60.0]);
            assert!((average - expected).abs() < 1e-9, "{mean:?}");
        }
    }

    proptest! {
        #[test]
        fn means_are_ordered(
            values in prop::collection::vec(1e-3_f64..1e6, 1..20),
        ) {
            let [a, h, g] =
                [Mean::Arithmetic, Mean::Harmonic, Mean::Geometric].map(|m| m.average(&values));
            prop_assert!(h <= g * (1.0 + 1e-9) && g <= a * (1.0 + 1e-9));
        }
    }
}
