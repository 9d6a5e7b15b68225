//! Means.

use serde::{Deserialize, Serialize};

/// Which mean a metric is summarised by. All need numbers above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mean {
    /// Sum over count: for times and amounts.
    Arithmetic,
    /// Count over the sum of reciprocals: for rates, such as operations per second, of equal work.
    Harmonic,
    /// The exponential of the mean logarithm: for ratios and summaries over workloads.
    Geometric,
}

impl Mean {
    /// The mean of values above 0; NaN of nothing.
    pub fn of(self, values: &[f64]) -> f64 {
        let mean = |value: fn(f64) -> f64| {
            values.iter().map(|v| value(*v)).sum::<f64>() / values.len() as f64
        };
        match self {
            Self::Arithmetic => mean(|v| v),
            Self::Harmonic => 1.0 / mean(|v| 1.0 / v),
            Self::Geometric => mean(f64::ln).exp(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn means_of_textbook_values() {
        let near = |mean: Mean, wanted: f64| {
            assert!((mean.of(&[40.0, 60.0]) - wanted).abs() < 1e-9, "{mean:?}");
        };
        near(Mean::Arithmetic, 50.0);
        near(Mean::Harmonic, 48.0);
        near(Mean::Geometric, 2400.0_f64.sqrt());
    }

    proptest! {
        #[test]
        fn means_are_ordered(
            values in prop::collection::vec(1e-3_f64..1e6, 1..20),
        ) {
            let [a, h, g] =
                [Mean::Arithmetic, Mean::Harmonic, Mean::Geometric].map(|m| m.of(&values));
            prop_assert!(h <= g * (1.0 + 1e-9) && g <= a * (1.0 + 1e-9));
        }
    }
}
