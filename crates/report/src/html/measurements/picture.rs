//! What a picture of measured values shows.

use super::super::number::format_four_significant_digits;

/// A picture of measured values.
#[derive(Clone, Debug)]
pub enum MeasuredPicture {
    /// A line for each value, with its interval.
    Intervals(Vec<MeasuredInterval>),
    /// Curves over logarithmic axes.
    Curves {
        /// Title of the horizontal axis, with its unit.
        x_title: String,
        /// The curves.
        curves: Vec<MeasuredCurve>,
    },
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
