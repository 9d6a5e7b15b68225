//! Pareto fronts: policies that no other policy beats in all metrics.

use serde::Serialize;
use wakepath_results::Better;

use super::subset::{Subset, mean_and_doubt_over_workloads, metric_by_name};
use crate::results::comparison::Comparison;
use crate::results::error::CompareError;

/// A policy with its values in the metrics of a Pareto front.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The policy.
    pub policy: String,
    /// Geometric mean of each metric over the workloads.
    pub values: Vec<f64>,
    /// How far each value may be off; `None` for too few runs.
    #[serde(skip)]
    pub doubts: Vec<Option<f64>>,
    /// Whether the policy is on the Pareto front: no other policy beats it.
    pub on_front: bool,
}

/// Finds the Pareto front: all policies in the order of the comparison, each with whether another
/// policy beats it.
///
/// # Errors
///
/// The comparison lacks a metric, or no policy has all metrics.
pub fn find_pareto_front(
    comparison: &Comparison,
    metrics: &[String],
    among: &Subset,
) -> Result<Vec<Point>, CompareError> {
    let better: Vec<Better> = metrics
        .iter()
        .map(|name| Ok(metric_by_name(comparison, name)?.better))
        .collect::<Result<_, CompareError>>()?;
    let names: Vec<&str> = metrics.iter().map(String::as_str).collect();
    let mut points: Vec<Point> = among
        .policy_rows(comparison, &names)?
        .into_iter()
        .map(|policy| {
            let figures = policy
                .rows
                .iter()
                .map(|rows| mean_and_doubt_over_workloads(rows));
            let (values, doubts) = figures.unzip();
            Point {
                policy: policy.policy.to_owned(),
                values,
                doubts,
                on_front: false,
            }
        })
        .collect();
    let values: Vec<&[f64]> = points.iter().map(|p| p.values.as_slice()).collect();
    let on = are_on_pareto_front(&values, &better);
    for (point, on) in points.iter_mut().zip(on) {
        point.on_front = on;
    }
    Ok(points)
}

/// Whether each point is on the Pareto front: no other point is as good in all dimensions and
/// better in one. A point with a value that is no finite number is never on the front and beats
/// nothing.
pub fn are_on_pareto_front(points: &[impl AsRef<[f64]>], better: &[Better]) -> Vec<bool> {
    let points: Vec<&[f64]> = points.iter().map(AsRef::as_ref).collect();
    points
        .iter()
        .map(|own| {
            let mut others = points.iter();
            has_finite_values(own)
                && !others.any(|other| has_finite_values(other) && dominates(other, own, better))
        })
        .collect()
}

fn has_finite_values(point: &[f64]) -> bool {
    point.iter().all(|value| value.is_finite())
}

/// Whether point `a` is as good as `b` in all dimensions and better in one.
fn dominates(a: &[f64], b: &[f64], better: &[Better]) -> bool {
    let pairs = || {
        let values = a.iter().zip(b).zip(better);
        values.map(|((a, b), better)| (-better.gain_sign() * a, -better.gain_sign() * b))
    };
    pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_front_is_what_no_point_beats() {
        let points = [
            (1.0, 9.0),
            (2.0, 5.0),
            (3.0, 5.0),
            (4.0, 1.0),
            (5.0, 2.0),
            (f64::NAN, 0.0),
            (f64::NEG_INFINITY, 0.0),
        ];
        let points = points.map(|(a, b)| vec![a, b]);
        let lower = [Better::Lower, Better::Lower];
        let on = [true, true, false, true, false, false, false];
        assert_eq!(are_on_pareto_front(&points, &lower), on);
        let mixed = [Better::Lower, Better::Higher];
        let on = [true, false, false, false, false, false, false];
        assert_eq!(are_on_pareto_front(&points, &mixed), on);
    }

    proptest! {
        #[test]
        fn the_front_is_never_empty_and_its_points_do_not_beat_each_other(
            points in prop::collection::vec(prop::collection::vec(0.0_f64..9.0, 2), 1..30),
        ) {
            let front = are_on_pareto_front(&points, &[Better::Lower, Better::Lower]);
            let mut on: Vec<_> = points.iter().zip(&front).filter(|(_, f)| **f).map(|(p, _)| p).collect();
            prop_assert!(!on.is_empty());
            on.sort_by(|a, b| a[0].total_cmp(&b[0]));
            prop_assert!(on.windows(2).all(|w| w[0] == w[1] || (w[0][0] < w[1][0] && w[0][1] > w[1][1])));
        }
    }
}
