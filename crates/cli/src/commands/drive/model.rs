//! A drive that a file describes, or that the user keeps, in place of one of the library.

use std::path::Path;

use wakepath_hardware::machine::DriveModel;

use super::states::print_declared_states_and_contradictions;
use crate::messages::note;
use crate::output::{self, Format, Screen};

const FIGURE_HEADER: [&str; 4] = ["figure", "value", "origin", "because"];

/// Finds the drive of a TOML file, or one that the user keeps; `None` for other names, which are those of dumps and of the
/// library.
///
/// # Errors
/// The file cannot be read or describes no drive.
pub(in crate::commands) fn find_drive_file_or_kept_drive(
    name: &str,
) -> anyhow::Result<Option<DriveModel>> {
    let path = Path::new(name);
    if path.extension().is_some_and(|ending| ending == "toml") {
        return Ok(Some(DriveModel::load(path)?));
    }
    if path.is_file() {
        return Ok(None);
    }
    Ok(DriveModel::find_kept(name.trim())?)
}

/// Prints a drive with its declared power states, and every figure with the origin.
pub(super) fn print_drive_model(
    drive: &DriveModel,
    format: Format,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let figures = drive.figures();
    let given = figures.iter().filter(|figure| figure.figure.is_given());
    let rows = given.map(|figure| {
        [
            figure.key.clone(),
            figure.figure.value.to_string(),
            figure.figure.origin.origin_kind_name().to_owned(),
            figure.origin_in_words(),
        ]
    });
    match format {
        Format::Json => output::write_json(out, drive),
        Format::Csv => output::write_csv(out, FIGURE_HEADER, rows),
        Format::Table => {
            if let Some(text) = &drive.note {
                note!("{text}");
            }
            out.write_folded(&drive.name, 2)?;
            out.write_folded(&format!("source: {}", drive.source), 2)?;
            writeln!(out)?;
            match &drive.power {
                Some(power) => print_declared_states_and_contradictions(out, &power.declared)?,
                None if drive.rest_after_ms.is_given() => writeln!(
                    out,
                    "no power states are known: the drive rests after a pause, and does not sleep deeper"
                )?,
                None => writeln!(out, "no power states are known: the drive never sleeps")?,
            }
            writeln!(out)?;
            output::write_table(out, FIGURE_HEADER, rows)
        }
    }
}
