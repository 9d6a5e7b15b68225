//! Ranges that the numbers of a server file may have.

use toml::Spanned;
use wakepath_units::Nanoseconds;

use super::error::{ServerError, TextPlace};
use super::figure::ServerFigure;
use super::model::MAX_SECONDS;

/// What bytes of disk calls are multiples of.
pub(super) const SECTOR: u64 = 512;

pub(super) fn figure_in_range(
    figure: &Spanned<ServerFigure>,
    key: &str,
    range: (f64, f64),
    place: TextPlace<'_>,
) -> Result<ServerFigure, ServerError> {
    require_range(figure, figure.get_ref().value, key, range, place)?;
    Ok(figure.get_ref().clone())
}

/// A figure from a sector to `most` bytes that is a multiple of sectors.
pub(super) fn whole_sectors_in_range(
    figure: &Spanned<ServerFigure>,
    key: &str,
    most: f64,
    place: TextPlace<'_>,
) -> Result<ServerFigure, ServerError> {
    let bytes = figure.get_ref().value;
    let sector = SECTOR as f64;
    if !(sector..=most).contains(&bytes) || bytes % sector > 0.0 {
        let message =
            format!("`{key}` is {bytes}, and may be {SECTOR} to {most}, a multiple of {SECTOR}");
        return Err(place.error_at_value(figure, message));
    }
    Ok(figure.get_ref().clone())
}

/// A time from `least` seconds to [`MAX_SECONDS`].
pub(super) fn time_in_range(
    seconds: &Spanned<f64>,
    key: &str,
    least: f64,
    place: TextPlace<'_>,
) -> Result<Nanoseconds, ServerError> {
    require_range(
        seconds,
        *seconds.get_ref(),
        key,
        (least, MAX_SECONDS),
        place,
    )?;
    Ok(seconds_to_time(*seconds.get_ref()))
}

pub(super) fn require_range<T>(
    at: &Spanned<T>,
    value: f64,
    key: &str,
    (low, high): (f64, f64),
    place: TextPlace<'_>,
) -> Result<(), ServerError> {
    // NaN is in no range.
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(place.error_at_value(
        at,
        format!("`{key}` is {value}, and may be {low} to {high}"),
    ))
}

pub(super) fn number_in_range(
    value: Option<&Spanned<u32>>,
    key: &str,
    default: u32,
    (low, high): (u32, u32),
    place: TextPlace<'_>,
) -> Result<u32, ServerError> {
    let Some(value) = value else {
        return Ok(default);
    };
    let number = *value.get_ref();
    if (low..=high).contains(&number) {
        return Ok(number);
    }
    Err(place.error_at_value(
        value,
        format!("`{key}` is {number}, and may be {low} to {high}"),
    ))
}

pub(super) fn seconds_to_time(seconds: f64) -> Nanoseconds {
    Nanoseconds((seconds * 1e9).round() as u64)
}
