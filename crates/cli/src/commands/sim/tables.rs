//! Tables by `wakepath sim` for fio jobs and servers.

use wakepath_compare::figure::Unit;
use wakepath_hardware::Machine;
use wakepath_results::Idle;
use wakepath_sim::{DiskPerReply, DriveRun};
use wakepath_study::run::sim::{SimComparison, SimulatedPolicy};
use wakepath_units::median;

use super::columns::{
    header_with_policy, metric_digits_or_empty, percent_of_time, row_with_policy,
    write_heading_with_run_count,
};
use super::states::write_idle_state_shares_and_power;
use super::{drawing, figures, jobs};
use crate::output::{self, Screen};

/// Workloads whose requests the tables are about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestTables {
    /// I/Os of fio jobs.
    Ios,
    /// Requests to a server.
    ServerRequests,
}

/// Metrics of finished requests in the CSV output.
const LATENCY_METRICS: [&str; 5] = ["iops", "mean_us", "p50_us", "p99_us", "p999_us"];

/// Metrics of fsync and fdatasync calls, in the CSV output and the table of such calls.
const SYNC_METRICS: [&str; 3] = ["commits_per_s", "sync_mean_us", "sync_p99_us"];

pub(super) fn write_runs_as_csv(
    out: &mut Screen,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    let mut header = header_with_policy(&[
        "seed",
        "iops",
        "mean_us",
        "p50_us",
        "p99_us",
        "p999_us",
        "mean_mhz",
        "mean_mw",
        "too_deep",
        "too_shallow",
        "above",
        "below",
        "ticks_per_s",
        "wake_ups_per_s",
    ]);
    let mut runs = comparison.results.iter().flat_map(|result| &result.runs);
    let has_jobs = runs.clone().any(|run| !run.jobs.is_empty());
    let has_syncs = runs.clone().any(|run| run.fsyncs.is_some());
    if runs.any(|run| run.drive.is_some()) {
        header.extend(["drive_mw", "drive_wake_ups", "drive_mean_wake_us"]);
    }
    if has_syncs {
        header.extend(SYNC_METRICS);
    }
    if has_jobs {
        header.push(jobs::CSV_COLUMN);
    }
    let columns = header.len();
    let rows = comparison.results.iter().flat_map(|result| {
        let runs = result.rows.iter().zip(&result.runs);
        runs.flat_map(move |(record, run)| {
            let counts: [fn(&Idle) -> u64; 4] = [
                |idle| idle.too_deep,
                |idle| idle.too_shallow,
                |idle| idle.above.unwrap_or(0),
                |idle| idle.below.unwrap_or(0),
            ];
            let mut row = vec![result.policy.to_string(), run.seed.to_string()];
            row.extend(LATENCY_METRICS.map(|name| metric_digits_or_empty(record, name)));
            row.extend(["mean_mhz", "mean_mw"].map(|name| metric_digits_or_empty(record, name)));
            row.extend(counts.map(|count| record.idle.iter().map(count).sum::<u64>().to_string()));
            row.extend(
                ["ticks_per_s", "wake_ups_per_s"].map(|name| metric_digits_or_empty(record, name)),
            );
            if let Some(drive) = &run.drive {
                row.extend([
                    drive.average_mw.to_string(),
                    drive.wake_ups.to_string(),
                    drive.mean_wake_us.to_string(),
                ]);
            }
            if has_syncs {
                row.extend(SYNC_METRICS.map(|name| metric_digits_or_empty(record, name)));
            }
            if has_jobs {
                row.push(jobs::ALL_JOBS.to_owned());
            }
            let of_jobs = jobs::list_csv_figures(run).map(|(job, figures)| {
                let mut row = vec![result.policy.to_string(), run.seed.to_string()];
                row.extend(figures.map(|figure| figure.to_string()));
                // What belongs to the machine stands in the row of all jobs.
                row.resize(columns - 1, String::new());
                row.push(job.to_owned());
                row
            });
            let mut rows = vec![row];
            rows.extend(of_jobs);
            rows
        })
    });
    output::write_csv(out, header, rows)
}

pub(super) fn write_request_tables_and_drawing(
    out: &mut Screen,
    machine: &Machine,
    comparison: &SimComparison,
    tables: RequestTables,
) -> anyhow::Result<()> {
    let drive = match &machine.drive.power {
        Some(_) => format!("; {}", machine.drive.name),
        None => String::new(),
    };
    write_heading_with_run_count(out, &format!("{}{drive}", machine.title), comparison)?;
    write_figures_per_policy(out, machine, comparison, tables)?;
    jobs::write_figures_per_job(out, comparison)?;
    write_sync_calls(out, comparison)?;
    write_drive_power_and_states(out, machine, comparison)?;
    write_first_run_latency_parts(out, comparison, tables)?;
    write_disk_calls_per_request(out, comparison)?;
    write_idle_state_shares_and_power(out, machine, comparison)?;
    drawing::draw_first_runs_if_terminal(out, comparison)
}

/// Writes a table with a row of figures for each policy.
fn write_figures_per_policy(
    out: &mut Screen,
    machine: &Machine,
    comparison: &SimComparison,
    tables: RequestTables,
) -> anyhow::Result<()> {
    let (rate, each) = match tables {
        RequestTables::Ios => ("IOPS", "I/O"),
        RequestTables::ServerRequests => ("requests/s", "request"),
    };
    let energy = figures::unit_for_all_energies_per_io(machine, comparison);
    let power = figures::unit_for_all_mean_powers(machine, comparison);
    let columns = [
        rate,
        "mean us",
        "p50",
        "p99",
        "p99.9",
        "MHz",
        &power.name,
        &format!("{} per {each}", energy.name),
        "too deep",
        "too shallow",
    ];
    let rows = comparison.results.iter().map(|result| {
        let mut row = vec![result.policy.to_string()];
        row.extend(LATENCY_METRICS.map(|name| figures::median_metric_or_empty(result, name)));
        row.extend([
            figures::median_metric_or_empty(result, "mean_mhz"),
            figures::median_mean_power_text(result, &power),
            figures::median_energy_per_io_text(result, &energy),
            figures::median_idle_count_text(result, |idle| idle.too_deep),
            figures::median_idle_count_text(result, |idle| idle.too_shallow),
        ]);
        row
    });
    output::write_table(out, header_with_policy(&columns), rows)
}

/// Writes rate and duration of fsync and fdatasync calls for each policy; nothing if no run made such a call. A write's latency
/// ends before the call, as in fio.
fn write_sync_calls(out: &mut Screen, comparison: &SimComparison) -> anyhow::Result<()> {
    let mut runs = comparison.results.iter().flat_map(|result| &result.runs);
    if !runs.any(|run| run.fsyncs.is_some()) {
        return Ok(());
    }
    writeln!(
        out,
        "\nCalls of fsync and fdatasync: median commits per second and us of a call\n"
    )?;
    let rows = comparison.results.iter().map(|result| {
        let figures = SYNC_METRICS.map(|name| figures::median_metric_or_empty(result, name));
        row_with_policy(result, figures)
    });
    output::write_table(
        out,
        header_with_policy(&["commits/s", "mean us", "p99"]),
        rows,
    )
}

/// Writes a table with the parts of a request's latency for each policy.
fn write_first_run_latency_parts(
    out: &mut Screen,
    comparison: &SimComparison,
    tables: RequestTables,
) -> anyhow::Result<()> {
    writeln!(
        out,
        "\nWhere a request's time goes: us of the mean and of the 99th percentile, first run\n"
    )?;
    let mut columns = vec![
        "of",
        "submit",
        "queue",
        "wake",
        "drive",
        "irq",
        "idle exit",
        "low MHz",
        "wait",
        "resume",
    ];
    if tables == RequestTables::ServerRequests {
        columns.extend(["worker wait", "work"]);
    }
    let rows = comparison
        .results
        .iter()
        .flat_map(first_run_latency_part_rows);
    output::write_table(out, header_with_policy(&columns), rows)
}

/// Writes what a server's request asks of the drive, in the first run; nothing if the server calls no disk.
fn write_disk_calls_per_request(
    out: &mut Screen,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    let each: Vec<(String, DiskPerReply)> = (comparison.results.iter())
        .filter_map(|result| {
            let server = result.runs.first()?.server.as_ref()?;
            Some((result.policy.to_string(), server.disk_per_reply))
        })
        .filter(|(_, calls)| *calls != DiskPerReply::default())
        .collect();
    if each.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nWhat a request asks of the drive, on average, first run\n"
    )?;
    let columns = ["reads", "bytes read", "writes", "bytes written", "flushes"];
    let rows = each.into_iter().map(|(policy, calls)| {
        vec![
            policy,
            format!("{:.3}", calls.reads),
            format!("{:.0}", calls.read_bytes),
            format!("{:.3}", calls.writes),
            format!("{:.0}", calls.written_bytes),
            format!("{:.3}", calls.flushes),
        ]
    });
    output::write_table(out, header_with_policy(&columns), rows)
}

/// Writes drive power, and the first run's share of time in each power state; nothing if the drive has no name.
pub(super) fn write_drive_power_and_states(
    out: &mut Screen,
    machine: &Machine,
    comparison: &SimComparison,
) -> anyhow::Result<()> {
    let drives: Vec<(&SimulatedPolicy, &DriveRun)> = comparison
        .results
        .iter()
        .filter_map(|r| Some((r, r.runs.first()?.drive.as_ref()?)))
        .collect();
    if drives.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nDrive: median power; wake-ups and time in % of the first run\n"
    )?;
    let powers = drives
        .iter()
        .filter_map(|(result, _)| median(result.metric_values("drive_mw")?));
    let power = figures::fewer_digits_if_power_assumed(machine, Unit::for_values("mW", powers));
    output::write_table(
        out,
        header_with_policy(&[
            &power.name,
            "wake-ups",
            "mean wake us",
            "active",
            "changing",
            "power states",
        ]),
        drives.iter().map(|(result, drive)| {
            let all = drive.active_seconds
                + drive.transition_seconds
                + drive.states.iter().map(|s| s.seconds).sum::<f64>();
            let all = all.max(1e-9);
            let states: Vec<String> = drive
                .states
                .iter()
                .filter(|s| s.seconds > 0.0)
                .map(|s| format!("PS{} {}", s.state, percent_of_time(s.seconds, all)))
                .collect();
            row_with_policy(
                result,
                [
                    figures::format_median_or_empty(&power, result.metric_values("drive_mw")),
                    drive.wake_ups.to_string(),
                    format!("{:.0}", drive.mean_wake_us),
                    percent_of_time(drive.active_seconds, all),
                    percent_of_time(drive.transition_seconds, all),
                    states.join(", "),
                ],
            )
        }),
    )
}

/// Rows for the latency parts in the first run's mean and 99th percentile.
pub(super) fn first_run_latency_part_rows(result: &SimulatedPolicy) -> Vec<Vec<String>> {
    let Some(record) = result.rows.first() else {
        return Vec::new();
    };
    ["mean", "p99"]
        .map(|shown| {
            let mut row = vec![result.policy.to_string(), shown.to_owned()];
            let parts = record.attribution.iter().filter(|part| part.at == shown);
            row.extend(parts.map(|part| format!("{:.1}", part.ns / 1e3)));
            row
        })
        .into()
}
