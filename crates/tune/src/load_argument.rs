//! Loads as people write them: `db.fio=6h`.

use std::path::{Path, PathBuf};

use crate::TuneError;
use crate::load::DAY;

/// A load as people write it: a file, perhaps with its hours per day.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadArgument {
    /// The file.
    pub path: PathBuf,
    /// Hours per day, above 0 and at most 24; `None`: a share of the hours that other loads leave.
    pub hours: Option<f64>,
}

impl LoadArgument {
    /// Parses `FILE=8h` or `FILE`. An existing file whose name has a `=` is taken as a file.
    ///
    /// # Errors
    /// Hours that no day has.
    pub fn parse(text: &str) -> Result<Self, TuneError> {
        let whole = Path::new(text);
        let (path, hours) = match text.rsplit_once('=') {
            Some((path, hours)) if !whole.exists() => (Path::new(path), Some(hours)),
            _ => (whole, None),
        };
        Ok(Self {
            path: path.to_owned(),
            hours: hours.map(|hours| parse_hours(text, hours)).transpose()?,
        })
    }

    /// Name of the load in conditions and tables: that of the file, without its ending.
    pub fn name(&self) -> String {
        let stem = self.path.file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }

    /// Hours per day of all loads; loads without hours share the remaining day.
    pub fn share_hours_of_day(loads: &[Self]) -> Vec<f64> {
        let taken: f64 = loads.iter().filter_map(|load| load.hours).sum();
        let without = loads.iter().filter(|load| load.hours.is_none()).count();
        let share = (DAY - taken) / without.max(1) as f64;
        loads
            .iter()
            .map(|load| load.hours.unwrap_or(share))
            .collect()
    }
}

fn parse_hours(text: &str, hours: &str) -> Result<f64, TuneError> {
    let number = hours.trim().trim_end_matches('h').parse::<f64>().ok();
    number
        .filter(|hours| hours.is_finite() && *hours > 0.0 && *hours <= DAY)
        .ok_or_else(|| TuneError::Load {
            load: text.to_owned(),
            problem: "hours per day are 0 to 24, as in load.fio=8h".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_stand_behind_the_file() {
        let load = LoadArgument::parse("a.fio=8h").unwrap();
        assert_eq!((load.path.to_str(), load.hours), (Some("a.fio"), Some(8.0)));
        assert_eq!(LoadArgument::parse("a.fio").unwrap().hours, None);
    }

    #[test]
    fn hours_that_no_day_has_are_refused() {
        for text in ["a.fio=25h", "a.fio=0h", "a.fio=-1", "a.fio=x"] {
            let refused = LoadArgument::parse(text).unwrap_err().to_string();
            assert_eq!(
                refused,
                format!("{text}: hours per day are 0 to 24, as in load.fio=8h")
            );
        }
    }

    #[test]
    fn loads_without_hours_share_what_others_leave() {
        let loads = ["a.fio=8h", "b.fio", "c.fio"].map(|text| LoadArgument::parse(text).unwrap());
        let hours = LoadArgument::share_hours_of_day(&loads);
        assert!(hours.len() == 3 && hours.iter().all(|hours| (hours - 8.0).abs() < 1e-9));
    }
}
