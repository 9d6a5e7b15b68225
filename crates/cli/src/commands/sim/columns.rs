//! Heading and first column that all tables by `wakepath sim` share.

use wakepath_results::RunRecord;
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};

use crate::output::Screen;

/// A header whose first column is the policy.
pub(super) fn header_with_policy<'a>(columns: &[&'a str]) -> Vec<&'a str> {
    [&["policy"], columns].concat()
}

pub(super) fn row_with_policy<const N: usize>(
    result: &SimulatedPolicy,
    columns: [String; N],
) -> Vec<String> {
    let mut row = vec![result.policy.to_string()];
    row.extend(columns);
    row
}

/// A time as percent of the whole time.
pub(super) fn percent_of_time(seconds: f64, all: f64) -> String {
    format!("{:.2}", 100.0 * seconds / all)
}

/// A metric of a run with all digits; empty if the run lacks the metric.
pub(super) fn metric_digits_or_empty(run: &RunRecord, name: &str) -> String {
    let found = run.metrics.iter().find(|(metric, _)| metric == name);
    found.map_or_else(String::new, |(_, value)| value.to_string())
}

/// Writes what was simulated, and how many runs the medians in the tables are over.
pub(super) fn write_heading_with_run_count(
    out: &mut Screen,
    simulated: &str,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    let runs = comparison.results.first().map_or(0, |r| r.runs.len());
    out.write_folded(&format!("{simulated}: median of {runs} run(s)"), 2)?;
    Ok(writeln!(out)?)
}
