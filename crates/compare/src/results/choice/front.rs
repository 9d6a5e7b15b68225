//! Pareto fronts: policies that no other policy beats.

use serde::Serialize;
use wakepath_results::Better;

use super::subset::{Subset, find_metric, mean_over_workloads};
use crate::results::comparison::Comparison;
use crate::results::error::CompareError;

/// A policy with its values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The policy.
    pub policy: String,
    /// Each metric's geometric mean over the workloads.
    pub values: Vec<f64>,
    /// How far each value may be off; none for too few runs.
    #[serde(skip)]
    pub doubts: Vec<Option<f64>>,
    /// Whether no other policy beats this policy.
    pub on_front: bool,
}

/// Policies in the order of the comparison, each with whether another policy beats its metrics.
///
/// # Errors
/// A metric that the comparison does not have; no policy that has all metrics.
pub fn front(
    comparison: &Comparison,
    metrics: &[String],
    among: &Subset,
) -> Result<Vec<Point>, CompareError> {
    let better: Vec<Better> = metrics
        .iter()
        .map(|name| Ok(find_metric(comparison, name)?.better))
        .collect::<Result<_, CompareError>>()?;
    let names: Vec<&str> = metrics.iter().map(String::as_str).collect();
    let mut points: Vec<Point> = among
        .policy_rows(comparison, &names)?
        .into_iter()
        .map(|policy| {
            let figures = policy.rows.iter().map(|rows| mean_over_workloads(rows));
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
    let on = front_of(&values, &better);
    for (point, on) in points.iter_mut().zip(on) {
        point.on_front = on;
    }
    Ok(points)
}

/// Whether each point is on the front: no other point is as good in all dimensions and better in one. A point with a value
/// that is no finite number is never on the front and beats nothing.
pub fn front_of(points: &[impl AsRef<[f64]>], better: &[Better]) -> Vec<bool> {
    let points: Vec<&[f64]> = points.iter().map(AsRef::as_ref).collect();
    points
        .iter()
        .map(|own| {
            let mut others = points.iter();
            is_finite(own) && !others.any(|other| is_finite(other) && dominates(other, own, better))
        })
        .collect()
}

fn is_finite(point: &[f64]) -> bool {
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
        assert_eq!(front_of(&points, &lower), on);
        let mixed = [Better::Lower, Better::Higher];
        let on = [true, false, false, false, false, false, false];
        assert_eq!(front_of(&points, &mixed), on);
    }

    proptest! {
        #[test]
        fn the_front_is_never_empty_and_its_points_do_not_beat_each_other(
            points in prop::collection::vec(prop::collection::vec(0.0_f64..9.0, 2), 1..30),
        ) {
            let front = front_of(&points, &[Better::Lower, Better::Lower]);
            let mut on: Vec<_> = points.iter().zip(&front).filter(|(_, f)| **f).map(|(p, _)| p).collect();
            prop_assert!(!on.is_empty());
            on.sort_by(|a, b| a[0].total_cmp(&b[0]));
            prop_assert!(on.windows(2).all(|w| w[0] == w[1] || (w[0][0] < w[1][0] && w[0][1] > w[1][1])));
        }
    }
}
