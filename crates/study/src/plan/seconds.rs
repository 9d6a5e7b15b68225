//! Times of study files.

use toml::Spanned;
use wakepath_units::Nanoseconds;

/// A time of a study file, given in seconds.
pub(super) fn seconds_to_nanoseconds(seconds: &Spanned<f64>) -> Nanoseconds {
    Nanoseconds((seconds.get_ref() * 1e9).round() as u64)
}
