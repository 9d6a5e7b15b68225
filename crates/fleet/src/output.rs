//! Files about a fleet, for an output folder: a page, a list of machines, a settings file for each class.

use std::path::Path;

use wakepath_report::html::measurements::render_measurements;
use wakepath_units::printable;

use crate::FleetError;
use crate::decision::FleetDecision;
use crate::page::compose_page;
use crate::question::FleetQuestion;
use crate::report::FleetReport;
use crate::rows;

/// Name of the page in an output folder.
pub const PAGE: &str = "fleet.html";

/// Name of the list of machines in an output folder.
pub const LIST: &str = "machines.csv";

/// A file of an output folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// Name in the output folder.
    pub name: String,
    /// Content of the file.
    pub content: String,
}

impl FleetReport {
    /// The list of machines as CSV text; no cell can act as a spreadsheet formula.
    ///
    /// # Errors
    /// None in practice: the text is made in memory.
    pub fn list_machines(&self) -> Result<String, FleetError> {
        let mut bytes = Vec::new();
        let mut writer = csv::Writer::from_writer(&mut bytes);
        writer.write_record(rows::MACHINE_HEADER)?;
        for row in rows::machine_rows(self) {
            let cells = row.iter();
            writer.write_record(cells.map(|cell| printable::escape_csv_cell(cell).into_owned()))?;
        }
        writer.flush().map_err(csv::Error::from)?;
        drop(writer);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The files of an output folder: the page, the list of machines, then a settings file for each class with a policy set.
    /// `folder` is the fleet's folder, as the page shows it, and `command` makes the same files again.
    ///
    /// # Errors
    /// The page's template fails.
    pub fn compose_files(
        &self,
        folder: &Path,
        command: &str,
    ) -> Result<Vec<ReportFile>, FleetError> {
        let page = compose_page(self, folder, command.to_owned());
        let mut files = vec![
            ReportFile {
                name: PAGE.to_owned(),
                content: render_measurements(&page)?,
            },
            ReportFile {
                name: LIST.to_owned(),
                content: self.list_machines()?,
            },
        ];
        if let Some(decisions) = &self.decisions {
            for decision in &decisions.decisions {
                files.extend(compose_settings_files(
                    &decisions.question,
                    decision,
                    command,
                ));
            }
        }
        Ok(files)
    }
}

/// A settings file for each class of a decision; none without a policy set. Comments at the start say what the set is for, what
/// was predicted, and how to get the same file again.
fn compose_settings_files(
    question: &FleetQuestion,
    decision: &FleetDecision,
    command: &str,
) -> Vec<ReportFile> {
    let Some(settings) = &decision.settings_file else {
        return Vec::new();
    };
    let mut lines = vec![question.describe()];
    for outcome in &decision.outcomes {
        lines.push(format!(
            "{}: {} {:.1} {unit} in force, {:.1} {unit} with the set.",
            outcome.class,
            question.minimised,
            outcome.in_force,
            outcome.objective,
            unit = outcome.unit
        ));
        lines.extend(outcome.conditions.iter().map(|kept| {
            format!(
                "{}: {} under {}: {:.1} in force, {:.1} with the set, {}.",
                outcome.class,
                kept.condition,
                kept.load,
                kept.in_force,
                kept.value,
                rows::describe_keeping(kept)
            )
        }));
    }
    lines.push(format!("The same again: {command}"));
    let mut content = String::new();
    for line in lines {
        content.push_str("# ");
        content.push_str(&printable::escape_for_one_line(&line));
        content.push('\n');
    }
    content.push_str(settings);
    let classes = decision.classes.iter();
    classes
        .map(|class| ReportFile {
            name: rows::settings_file_name(class),
            content: content.clone(),
        })
        .collect()
}
