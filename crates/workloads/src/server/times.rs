//! Recorded arrival times: a column of a CSV file.

use std::path::Path;

use toml::Spanned;
use wakepath_files::{Links, Tree};
use wakepath_units::Nanoseconds;

use super::error::{ServerError, TextPlace};
use super::model::{MAX_SECONDS, MAX_TIMES};
use super::raw::TimeUnit;
use crate::text::escape_and_shorten;

/// Longest CSV file that is read, in bytes.
const MAX_CSV_BYTES: u64 = 64 << 20;

/// Why arrival times were refused, and the index of the first wrong one, if one is.
pub(super) struct TimesFault {
    pub(super) index: Option<usize>,
    pub(super) message: String,
}

impl TimesFault {
    fn for_all(message: impl Into<String>) -> Self {
        Self {
            index: None,
            message: message.into(),
        }
    }
}

/// Turns times into such since the first arrival.
pub(super) fn from_first_arrival(
    times: &[f64],
    unit: TimeUnit,
) -> Result<Vec<Nanoseconds>, TimesFault> {
    let Some(first) = times.first() else {
        return Err(TimesFault::for_all("there is no arrival time"));
    };
    if times.len() > MAX_TIMES {
        return Err(TimesFault::for_all(too_many_times_message()));
    }
    let mut before = *first;
    for (index, time) in times.iter().enumerate() {
        let message = if !time.is_finite() {
            format!("{time} is no time")
        } else if *time < before {
            format!("{time} comes after {before}: the times have to ascend")
        } else {
            before = *time;
            continue;
        };
        return Err(TimesFault {
            index: Some(index),
            message,
        });
    }
    let span = (before - first) * unit.nanoseconds();
    if !(1e6..=MAX_SECONDS * 1e9).contains(&span) {
        let message = format!(
            "the arrivals span {} s, and may span 0.001 to {MAX_SECONDS} s; is the unit right?",
            span / 1e9
        );
        return Err(TimesFault::for_all(message));
    }
    let since = times.iter().map(|time| (time - first) * unit.nanoseconds());
    Ok(since.map(|ns| Nanoseconds(ns.round() as u64)).collect())
}

/// Reads a CSV file beside the server file. `column`: name of the column; without it, the file has one column.
pub(super) fn read_times_file(
    name: &Spanned<String>,
    column: Option<&str>,
    unit: TimeUnit,
    place: TextPlace<'_>,
    folder: Option<&Path>,
) -> Result<Vec<Nanoseconds>, ServerError> {
    let Some(folder) = folder else {
        let message = "a text without a folder has no file beside it: give the times in `times_ns`";
        return Err(place.error_at_value(name, message));
    };
    let shown = escape_and_shorten(name.get_ref());
    let text = Tree::open_folder(folder, Links::Refused)
        .and_then(|tree| tree.read_text_up_to(Path::new(name.get_ref()), MAX_CSV_BYTES))
        .map_err(|e| place.error_at_value(name, format!("`times`: {shown}: {e}")))?;
    let (times, lines) = read_column(&text, column).map_err(|(line, message)| ServerError {
        origin: shown.clone(),
        line,
        message,
    })?;
    from_first_arrival(&times, unit).map_err(|fault| ServerError {
        origin: shown,
        line: fault.index.and_then(|index| lines.get(index).copied()),
        message: fault.message,
    })
}

/// Times and the line of each.
type TimesAndLines = (Vec<f64>, Vec<usize>);

/// Reads a column of numbers from CSV text with a header. An error has its line, if it is in one.
fn read_column(text: &str, column: Option<&str>) -> Result<TimesAndLines, (Option<usize>, String)> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let header = reader
        .headers()
        .map_err(|e| describe_csv_error(&e))?
        .clone();
    if header.is_empty() {
        let message = "is empty; expected the name of a column, and a time in each line below";
        return Err((None, message.to_owned()));
    }
    let index = match column {
        Some(column) => header.iter().position(|name| name == column),
        None => (header.len() == 1).then_some(0),
    };
    let Some(index) = index else {
        let names: Vec<String> = header.iter().take(20).map(escape_and_shorten).collect();
        let what = match column {
            Some(column) => format!("no column is called `{}`", escape_and_shorten(column)),
            None => "`column` has to name the column with the times".to_owned(),
        };
        return Err((Some(1), format!("{what}; there are: {}", names.join(", "))));
    };
    let (mut times, mut lines) = (Vec::new(), Vec::new());
    for record in reader.records() {
        let record = record.map_err(|e| describe_csv_error(&e))?;
        let line = record.position().map_or(0, |at| at.line() as usize);
        let cell = record.get(index).unwrap_or_default();
        let time: f64 = cell.parse().map_err(|_| {
            (
                Some(line),
                format!("`{}` is no time", escape_and_shorten(cell)),
            )
        })?;
        if times.len() == MAX_TIMES {
            return Err((Some(line), too_many_times_message()));
        }
        times.push(time);
        lines.push(line);
    }
    Ok((times, lines))
}

/// A CSV error's line and description.
fn describe_csv_error(error: &csv::Error) -> (Option<usize>, String) {
    let line = error.position().map(|at| at.line() as usize);
    let message = match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            format!("the line has {len} cells, and the header {expected_len}")
        }
        _ => "is no CSV".to_owned(),
    };
    (line, message)
}

fn too_many_times_message() -> String {
    format!("there may be {MAX_TIMES} arrival times")
}
