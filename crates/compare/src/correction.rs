//! Many comparisons at once.

/// P-values corrected by Holm's step-down method: the chance of even one false finding among all of them
/// stays below the level that each corrected value is compared with. In the order given.
///
/// Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
/// Statistics 6 (1979).
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![0.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, index) in order.into_iter().enumerate() {
        let tests_left = (p_values.len() - rank) as f64;
        largest = largest.max((p_values[index] * tests_left).min(1.0));
        corrected[index] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_worked_example() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (got, wanted) in corrected.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - wanted).abs() < 1e-12, "{corrected:?}");
        }
        assert!(holm(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn between_no_correction_and_that_of_bonferroni(
            p in prop::collection::vec(0.0_f64..=1.0, 1..20),
        ) {
            let corrected = holm(&p);
            let all = p.len() as f64;
            for (p, corrected) in p.iter().zip(&corrected) {
                prop_assert!(corrected >= p && *corrected <= (p * all).min(1.0) + 1e-12);
            }
        }
    }
}
