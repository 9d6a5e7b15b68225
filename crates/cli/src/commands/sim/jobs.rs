//! Figures of each job of a file, beside those of all jobs together.

use wakepath_compare::figure::Unit;
use wakepath_sim::{JobRun, Run};
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};

use super::columns::header_with_policy;
use super::figures::format_median_or_empty;
use crate::output::{self, Screen};

/// A figure of a job.
type JobFigure = fn(&JobRun) -> f64;

/// Columns of the table of jobs behind policy and job, each with its figure.
const COLUMNS: [(&str, JobFigure); 6] = [
    ("IOPS", |job| job.iops),
    ("MB/s", |job| job.bandwidth_mbs),
    ("mean us", |job| job.latency_us.mean),
    ("p50", |job| job.latency_us.p50),
    ("p99", |job| job.latency_us.p99),
    ("p99.9", |job| job.latency_us.p999),
];

/// Writes a row for each job and policy; nothing for a single job.
pub(super) fn write_figures_per_job(
    out: &mut Screen,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    let rows: Vec<Vec<String>> = comparison.results.iter().flat_map(list_job_rows).collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nEach job by itself: medians\n")?;
    let titles = COLUMNS.iter().map(|(title, _)| *title);
    let columns: Vec<&str> = ["job"].into_iter().chain(titles).collect();
    output::write_table(out, header_with_policy(&columns), rows)
}

fn list_job_rows(result: &SimulatedPolicy) -> Vec<Vec<String>> {
    let jobs = result.runs.first().map_or(&[][..], |run| &run.jobs);
    let rows = jobs.iter().enumerate().map(|(number, job)| {
        let mut row = vec![result.policy.to_string(), job.name.clone()];
        row.extend(COLUMNS.iter().map(|(_, figure)| {
            let values = (result.runs.iter())
                .map(|run| run.jobs.get(number).map(figure))
                .collect();
            format_median_or_empty(&Unit::for_value("", 0.0), values)
        }));
        row
    });
    rows.collect()
}

/// Column of the CSV output that names a row's job.
pub(super) const CSV_COLUMN: &str = "job";

/// Name of the CSV row for all jobs together.
pub(super) const ALL_JOBS: &str = "(all)";

/// For each job of a run its name and the figures in the columns of latency of the CSV output: IOPS, mean, p50, p99, p99.9.
pub(super) fn list_csv_figures(run: &Run) -> impl Iterator<Item = (&str, [f64; 5])> {
    run.jobs.iter().map(|job| {
        let latency = &job.latency_us;
        let figures = [
            job.iops,
            latency.mean,
            latency.p50,
            latency.p99,
            latency.p999,
        ];
        (job.name.as_str(), figures)
    })
}
