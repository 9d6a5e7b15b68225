//! Heading and first column of all tables by `wakepath sim`.

use wakepath_results::RunRecord;
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};

use crate::output::Screen;

/// A header beginning with the policies.
pub(super) fn policy_header<'a>(columns: &[&'a str]) -> Vec<&'a str> {
    [&["policy"], columns].concat()
}

pub(super) fn policy_row<const N: usize>(
    result: &SimulatedPolicy,
    columns: [String; N],
) -> Vec<String> {
    let mut row = vec![result.policy.to_string()];
    row.extend(columns);
    row
}

/// A share of time in percent.
pub(super) fn percent_of_time(seconds: f64, all: f64) -> String {
    format!("{:.2}", 100.0 * seconds / all)
}

/// A run's metric with all digits; empty without the metric.
pub(super) fn metric_cell(run: &RunRecord, name: &str) -> String {
    let found = run.metrics.iter().find(|(metric, _)| metric == name);
    found.map_or_else(String::new, |(_, value)| value.to_string())
}

/// Writes what was simulated, and over how many runs the tables take medians.
pub(super) fn write_heading(
    out: &mut Screen,
    simulated: &str,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    let runs = comparison.results.first().map_or(0, |r| r.runs.len());
    out.prose(&format!("{simulated}: median of {runs} run(s)"), 2)?;
    Ok(writeln!(out)?)
}
