//! Slow requests of a drive, beyond the spread.

use super::Figure;

/// Requests per slow request, on drives with a 99.9th percentile: half the slow requests are slower.
pub const SLOW_REQUEST_IN: u32 = 500;

/// Whether a 99.9th percentile is above the mean and below [`SLOW_REQUEST_IN`] times the mean, as slow requests need it.
pub(crate) fn is_tail_above_mean(service_us: &Figure, p999_us: &Figure) -> bool {
    let most = service_us.value * f64::from(SLOW_REQUEST_IN);
    (service_us.value..most).contains(&p999_us.value)
}
