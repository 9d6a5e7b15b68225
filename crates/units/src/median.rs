//! The median of numbers.

/// The middle value, or the mean of the two middle values; `None` for an empty list.
///
/// ```
/// use wakepath_units::median;
///
/// assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
/// assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
/// assert_eq!(median([]), None);
/// ```
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    match sorted.len() % 2 {
        0 => Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper)),
        _ => Some(upper),
    }
}
