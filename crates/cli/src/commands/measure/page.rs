//! Pages with measurements as pictures: where they go, and what all of them share.

use std::path::{Path, PathBuf};

use anyhow::Context;
use wakepath_measure::Conditions;
use wakepath_measure::summary::Estimate;
use wakepath_report::html::measurements::{
    MeasuredInterval, MeasuredSection, MeasurementPage, render_measurements,
};

use super::experiment::{check_result_file, write_result_file};
use crate::messages::tell;

/// Program and version, for the foot of a page.
pub(in crate::commands) const MADE_BY: &str = concat!("wakepath ", env!("CARGO_PKG_VERSION"));

/// Where a page goes.
#[derive(clap::Args)]
pub(super) struct PageArgs {
    /// Write an HTML page with the measurements as pictures; a file that is there is refused.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

impl PageArgs {
    /// Checks the file before anything is measured for it.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        match &self.page {
            Some(path) => check_result_file(path, false),
            None => Ok(()),
        }
    }

    /// Writes a page with the sections of an experiment, if one was asked for.
    pub(super) fn write(
        &self,
        title: &str,
        facts: Vec<String>,
        notes: &[String],
        sections: impl FnOnce() -> Vec<MeasuredSection>,
    ) -> anyhow::Result<()> {
        let Some(path) = &self.page else {
            return Ok(());
        };
        let page = MeasurementPage {
            title: title.to_owned(),
            facts,
            cautions: notes.to_vec(),
            sections: sections(),
            made_by: MADE_BY.to_owned(),
            ..MeasurementPage::default()
        };
        write_page(path, false, &page)
    }
}

/// Writes a page; a file that is there is replaced with `force`, and else refused.
pub(in crate::commands) fn write_page(
    path: &Path,
    force: bool,
    page: &MeasurementPage,
) -> anyhow::Result<()> {
    let html = render_measurements(page)?;
    write_result_file(path, force, &html).with_context(|| path.display().to_string())?;
    if page.is_prediction {
        tell!("the answer as a page is in {}", path.display());
    } else {
        tell!("measurements as pictures are in {}", path.display());
    }
    Ok(())
}

/// Day, kernel and other work, for a line below a title.
pub(in crate::commands) fn describe_conditions(conditions: &Conditions) -> Vec<String> {
    let mut facts = vec![
        conditions.date.clone(),
        format!("Linux {}", conditions.kernel),
    ];
    let busy = conditions.busy_percent;
    facts.extend(busy.map(|busy| format!("CPUs {busy:.0} % busy with other work")));
    let stolen = conditions.stolen_percent;
    facts.extend(stolen.map(|stolen| format!("{stolen:.1} % of CPU time stolen by the host")));
    facts
}

/// A line of a picture in us, from an estimate in ns.
pub(in crate::commands) fn interval_us(name: String, estimate: Estimate) -> MeasuredInterval {
    let [value, low, high] = [estimate.ns, estimate.low, estimate.high].map(|ns| ns / 1e3);
    MeasuredInterval {
        name,
        value,
        low,
        high,
        reference: None,
    }
}

/// Column titles as a section keeps them.
pub(in crate::commands) fn page_head<const N: usize>(head: [&str; N]) -> Vec<String> {
    head.map(str::to_owned).to_vec()
}

/// Rows as a section keeps them, the same as on a terminal.
pub(in crate::commands) fn page_rows<const N: usize>(
    rows: impl IntoIterator<Item = [String; N]>,
) -> Vec<Vec<String>> {
    rows.into_iter().map(|row| row.to_vec()).collect()
}
