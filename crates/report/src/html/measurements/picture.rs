//! What a picture of measured values shows.

use super::super::number::format_four_significant_digits;

/// A picture of measured values.
#[derive(Clone, Debug)]
pub enum MeasuredPicture {
    /// A line for each value, with its interval.
    Intervals(Vec<MeasuredInterval>),
    /// Curves over logarithmic axes.
    Curves {
        /// Title of the horizontal axis, with the unit.
        x_title: String,
        /// The curves.
        curves: Vec<MeasuredCurve>,
    },
    /// Points with two quantities, and a line through points unbeaten in both.
    TradeOff {
        /// Title of the horizontal axis, with the unit.
        x_title: String,
        /// Title of the vertical axis, with the unit.
        y_title: String,
        /// Whether more is better: horizontally, vertically.
        more_is_better: [bool; 2],
        /// The points.
        points: Vec<TradeOffPoint>,
    },
}

/// A point with two quantities.
#[derive(Clone, Debug, Default)]
pub struct TradeOffPoint {
    /// The point's name.
    pub name: String,
    /// The horizontal quantity.
    pub x: f64,
    /// The vertical quantity.
    pub y: f64,
    /// Whether the page recommends the point.
    pub is_answer: bool,
}

/// The finite points unbeaten in both quantities, from left to right.
pub(super) fn undominated_points(
    points: &[TradeOffPoint],
    more_is_better: [bool; 2],
) -> Vec<[f64; 2]> {
    let signs = more_is_better.map(|more| if more { -1.0 } else { 1.0 });
    let signed = points
        .iter()
        .map(|point| [signs[0] * point.x, signs[1] * point.y]);
    let mut sorted: Vec<[f64; 2]> = signed.filter(|p| p.iter().all(|v| v.is_finite())).collect();
    sorted.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    let mut front: Vec<[f64; 2]> = Vec::new();
    for point in sorted {
        if front.last().is_none_or(|last| point[1] < last[1]) {
            front.push(point);
        }
    }
    if more_is_better[0] {
        front.reverse();
    }
    front
        .into_iter()
        .map(|[x, y]| [signs[0] * x, signs[1] * y])
        .collect()
}

/// A value with its interval, in the unit of the picture.
#[derive(Clone, Debug, Default)]
pub struct MeasuredInterval {
    /// Name of the line.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Another value to compare with, such as a declared or a live one.
    pub reference: Option<f64>,
}

/// A curve of measured values.
#[derive(Clone, Debug, Default)]
pub struct MeasuredCurve {
    /// Name of the curve.
    pub name: String,
    /// Points from left to right: place, value.
    pub points: Vec<[f64; 2]>,
}

/// Value and interval in words.
pub(super) fn describe_interval(row: &MeasuredInterval) -> String {
    let [value, low, high] = [row.value, row.low, row.high].map(format_four_significant_digits);
    format!("{value} ({low} to {high})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_has_the_points_that_no_other_beats_in_both() {
        let points = [
            [3.0, 1.0],
            [1.0, 5.0],
            [2.0, 3.0],
            [2.5, 3.0],
            [2.0, 9.0],
            [f64::NAN, 0.0],
        ];
        let points = points.map(|[x, y]| TradeOffPoint {
            x,
            y,
            ..TradeOffPoint::default()
        });
        assert_eq!(
            undominated_points(&points, [false, false]),
            [[1.0, 5.0], [2.0, 3.0], [3.0, 1.0]]
        );
        assert_eq!(
            undominated_points(&points, [true, true]),
            [[2.0, 9.0], [2.5, 3.0], [3.0, 1.0]]
        );
    }
}
