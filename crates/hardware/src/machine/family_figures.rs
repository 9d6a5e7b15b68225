//! Published figures of processor families: times to leave idle states, and power at rest
//! (`data/processor_families.csv`).
//!
//! A figure is published if its source names the family, or a processor of the family. Else the figure is assumed, with its
//! source as the reason. Families without a row have none.

use std::sync::LazyLock;

use serde::Deserialize;

use super::model_number::has_model_number_like_pattern;
use super::{Figure, Origin};

const FAMILIES: &str = include_str!("../../data/processor_families.csv");

/// What a row of the file tells of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FamilyFigureKey {
    /// Time to leave an idle state, in us, without the package's part.
    TrueExitUs,
    /// Time for the package to power up, in us.
    PackageExitUs,
    /// Power of a socket with all cores in their deepest state, in W, by the package's energy counter.
    PackageRestW,
    /// Additional power of a socket while any core is awake, in W, by the package's energy counter.
    PackageAwakeW,
    /// Power of a whole laptop at rest, in W, from its battery.
    LaptopRestW,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RowOrigin {
    Published,
    Assumed,
}

#[derive(Debug, Deserialize)]
struct FamilyRow {
    family: String,
    /// CPUID family and models, with `|` between several.
    family_model: String,
    /// Model number in the processor's name, with `?` for any digit: `????` is any name.
    number: String,
    key: FamilyFigureKey,
    /// Name of the idle state; empty for figures of no state.
    state: String,
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    origin: RowOrigin,
    source: String,
}

static ROWS: LazyLock<Vec<FamilyRow>> = LazyLock::new(|| {
    csv::Reader::from_reader(FAMILIES.as_bytes())
        .into_deserialize()
        .filter_map(Result::ok)
        .collect()
});

/// A figure that is published of a processor's family, with the range of the values behind it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FamilyFigure {
    /// Name of the family, such as `Sapphire Rapids`.
    pub(super) family: &'static str,
    /// The figure in the unit that the key names.
    pub(super) figure: Figure,
    /// Lowest and highest value, where the source has several.
    pub(super) range: Option<(f64, f64)>,
}

/// Finds a figure of a processor's family; `None` if nothing is known. `family_model`: CPUID family and model, such as
/// `6/143`. `state`: name of an idle state, or empty.
pub(super) fn find_family_figure(
    family_model: &str,
    processor_name: &str,
    key: FamilyFigureKey,
    state: &str,
) -> Option<FamilyFigure> {
    let row = ROWS.iter().find(|row| {
        row.key == key
            && row.state == state
            && row
                .family_model
                .split('|')
                .any(|model| model == family_model)
            && has_model_number_like_pattern(processor_name, &row.number)
    })?;
    Some(row.to_figure())
}

impl FamilyRow {
    fn to_figure(&'static self) -> FamilyFigure {
        let range = self.low.zip(self.high).filter(|(low, high)| low < high);
        let words = range.map_or_else(String::new, |(low, high)| format!("; {low} to {high}"));
        let text = format!("{}: {}{words}", self.family, self.source);
        FamilyFigure {
            family: &self.family,
            figure: match self.origin {
                RowOrigin::Published => Figure::with_own_source(self.value, text),
                RowOrigin::Assumed => Figure::assumed(self.value, text),
            },
            range,
        }
    }
}

impl FamilyFigure {
    /// The figure for several sockets, less what other figures of the machine count already; in mW, from W.
    pub(super) fn milliwatts_of_sockets(&self, sockets: usize, less_mw: f64, less: &str) -> Figure {
        let remark = format!("; {sockets} socket(s), less {less}");
        let value = self.figure.value * 1e3 * sockets as f64 - less_mw;
        Figure {
            value: value.max(0.0).round(),
            origin: match &self.figure.origin {
                Origin::Source(text) => Origin::Source(format!("{text}{remark}")),
                origin => Origin::Assumed(format!("{}{remark}", origin.describe_origin(""))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded::builtin_recorded_systems;

    #[test]
    fn every_row_is_read_and_in_its_range() {
        assert_eq!(ROWS.len() + 1, FAMILIES.lines().count());
        for row in ROWS.iter() {
            let ends = (row.low.unwrap_or(row.value), row.high.unwrap_or(row.value));
            assert!(
                row.value > 0.0 && ends.0 <= row.value && row.value <= ends.1,
                "{row:?}"
            );
            assert_eq!(
                row.state.is_empty(),
                row.key != FamilyFigureKey::TrueExitUs,
                "{row:?}"
            );
            assert!(row.source.contains(['(', ':']), "{row:?}");
        }
    }

    #[test]
    fn a_figure_is_that_of_the_family_and_says_whose() {
        let find =
            |model: &str, name: &str, key, state: &str| find_family_figure(model, name, key, state);
        let spr = find(
            "6/143",
            "Xeon Platinum 8460H",
            FamilyFigureKey::TrueExitUs,
            "C6",
        )
        .unwrap();
        assert_eq!(
            (spr.family, spr.range),
            ("Sapphire Rapids", Some((96.8, 104.0)))
        );
        assert!(
            matches!(&spr.figure.origin, Origin::Source(text) if text.starts_with("Sapphire Rapids: median of"))
        );
        let emr = find(
            "6/207",
            "XEON PLATINUM 8592+",
            FamilyFigureKey::TrueExitUs,
            "C6",
        )
        .unwrap();
        assert!(matches!(emr.figure.origin, Origin::Assumed(_)));
        // Skylake-SP and Cascade Lake share a CPUID model.
        for (name, family) in [
            ("Xeon Platinum 8170M", "Skylake-SP"),
            ("Xeon Platinum 8260L", "Cascade Lake"),
        ] {
            let found = find("6/85", name, FamilyFigureKey::TrueExitUs, "C6").unwrap();
            assert_eq!(found.family, family);
        }
        // Nothing is published of how fast Milan, Genoa, Turin and Sierra Forest leave their deep states.
        for model in ["25/1", "25/17", "26/2"] {
            let assumed = find(model, "", FamilyFigureKey::TrueExitUs, "C2").unwrap();
            assert!(
                matches!(&assumed.figure.origin, Origin::Assumed(why) if why.contains("none is published"))
            );
        }
        for state in ["C6S", "C6SP"] {
            assert_eq!(find("6/175", "", FamilyFigureKey::TrueExitUs, state), None);
        }
    }

    #[test]
    fn rows_of_exits_name_states_that_a_recorded_system_of_the_family_has() {
        // Neither Naples nor Bergamo and Siena were recorded.
        let unrecorded = ["23/1", "25/160"];
        let exits = ROWS.iter().filter(|row| !row.state.is_empty());
        for row in exits.filter(|row| !unrecorded.contains(&row.family_model.as_str())) {
            let is_there = builtin_recorded_systems().iter().any(|system| {
                let mut models = row.family_model.split('|');
                let idle = system.idle.iter();
                let mut states = idle.flat_map(|idle| idle.states.iter());
                models.any(|model| model == system.family_model)
                    && states.any(|state| state.name == row.state)
            });
            assert!(is_there, "{row:?}");
        }
    }
}
