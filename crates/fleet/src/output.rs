//! Files about a fleet, for an output folder: a page, a list of machines, a settings file for each class.

use std::path::Path;

use wakepath_report::html::measurements::render_measurements;
use wakepath_units::printable;

use crate::FleetError;
use crate::page::compose_page;
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
    /// `folder` is the fleet's folder, and `command` what makes the page again, as the page shows them.
    ///
    /// # Errors
    /// The page's template fails.
    pub fn compose_files(
        &self,
        folder: &Path,
        command: String,
    ) -> Result<Vec<ReportFile>, FleetError> {
        let page = compose_page(self, folder, command);
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
        for decision in self.decisions.iter().flat_map(|all| &all.decisions) {
            if let Some(content) = &decision.settings_file {
                files.extend(decision.classes.iter().map(|class| ReportFile {
                    name: rows::settings_file_name(class),
                    content: content.clone(),
                }));
            }
        }
        Ok(files)
    }
}
