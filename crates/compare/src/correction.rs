//! Correction of p-values for many comparisons at once.

/// Corrects p-values by the step-up method of Benjamini and Hochberg, in the given order. Among
/// findings with a corrected value up to some level, no larger share is false on average.
///
/// The bound holds for independent comparisons, and for comparisons with a common baseline (`tests/all/coverage.rs`).
///
/// Source: Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", Journal of the Royal Statistical Society
/// B 57 (1995).
pub fn correct_by_benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let all = p_values.len() as f64;
    let mut corrected = vec![0.0; p_values.len()];
    let mut smallest: f64 = 1.0;
    for (rank, index) in order.into_iter().enumerate().rev() {
        smallest = smallest.min(p_values[index] * all / (rank as f64 + 1.0));
        corrected[index] = smallest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_worked_example() {
        let corrected = correct_by_benjamini_hochberg(&[0.01, 0.04, 0.03, 0.005]);
        for (got, wanted) in corrected.iter().zip([0.02, 0.04, 0.04, 0.02]) {
            assert!((got - wanted).abs() < 1e-12, "{corrected:?}");
        }
        assert!(correct_by_benjamini_hochberg(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn between_no_correction_and_that_of_bonferroni(
            p in prop::collection::vec(0.0_f64..=1.0, 1..20),
        ) {
            let corrected = correct_by_benjamini_hochberg(&p);
            let all = p.len() as f64;
            for (p, corrected) in p.iter().zip(&corrected) {
                prop_assert!(*corrected >= p * (1.0 - 1e-12) && *corrected <= (p * all).min(1.0) + 1e-12);
            }
        }
    }
}
