//! Tables that `wakepath replay` prints.

use wakepath_compare::figure;
use wakepath_policies::idle::generations::Generation;
use wakepath_replay::drives::DriveReport;
use wakepath_replay::package::PackageReport;
use wakepath_replay::{PolicyReport, Report, StateReport};
use wakepath_study::run::replay::Replayed;

use super::intervals::ReplayIntervals;
use crate::output::{self, Screen};

/// A table of the result. As text they all come, each below the other; CSV has room for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Table {
    /// Each governor in each idle state.
    #[default]
    States,
    /// Each governor in one line, with its generation and its shares of idle periods; what --kernel is for.
    Kernels,
    /// What each governor costs per second, I/O and wake-up, with intervals and verdicts.
    Intervals,
    /// Sums over the states, and how often governors were asked, stopped the tick, polled in vain.
    Governors,
    /// Whether the governor that ran answers as recorded, and if not, why.
    Agreement,
    /// Requests of each drive, and where their completions came to.
    Drives,
    /// How long drives had nothing to do.
    Gaps,
    /// APST timeouts that follow from that.
    Timeouts,
}

type Rows = Vec<Vec<String>>;

/// Writes one table of a replay as CSV.
pub(super) fn write_csv_table(
    replayed: &Replayed,
    table: Table,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let numbers = ReplayNumbers::Full;
    let report = &replayed.report;
    let (header, rows): (Vec<&str>, Rows) = match table {
        Table::States | Table::Intervals => {
            (STATES.to_vec(), state_and_package_rows(report, numbers))
        }
        Table::Kernels => (
            KERNELS.to_vec(),
            row_per_governor_and_kernel(replayed, numbers),
        ),
        Table::Governors => (GOVERNORS.to_vec(), selection_count_rows(report, numbers)),
        Table::Agreement => (
            AGREEMENT.to_vec(),
            rows_per_reason_to_differ(report, numbers),
        ),
        Table::Drives => header_and_rows_per_drive(report, &DRIVES, |drive| {
            vec![issued_and_completed_cells(drive)]
        }),
        Table::Gaps => {
            header_and_rows_per_drive(report, &GAPS, |drive| idle_gap_rows(drive, numbers))
        }
        Table::Timeouts => {
            header_and_rows_per_drive(report, &TIMEOUTS, |drive| apst_timeout_rows(drive, numbers))
        }
    };
    output::write_csv(out, header, rows)
}

/// Header and rows of a table whose first column names the drive.
fn header_and_rows_per_drive(
    report: &Report,
    header: &[&'static str],
    rows: impl Fn(&DriveReport) -> Rows,
) -> (Vec<&'static str>, Rows) {
    let mut all = Vec::new();
    for drive in &report.drives {
        let name = vec![drive.name.clone()];
        all.extend(
            rows(drive)
                .into_iter()
                .map(|row| [name.clone(), row].concat()),
        );
    }
    ([&["drive"], header].concat(), all)
}

/// Writes all tables of a replay as text.
pub(super) fn write_all_tables_as_text(
    report: &Report,
    intervals: &ReplayIntervals,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let numbers = ReplayNumbers::Read;
    writeln!(
        out,
        "{} idle periods in {} idle spans over {:.3} s; {} spans ended by an I/O completion",
        report.periods,
        report.spans,
        report.duration_ns as f64 / 1e9,
        report.io_wake_ups
    )?;
    writeln!(out)?;
    output::write_table(out, STATES, state_and_package_rows(report, numbers))?;
    writeln!(out)?;
    output::write_table(out, GOVERNORS, selection_count_rows(report, numbers))?;
    writeln!(out)?;
    intervals.write_table(out)?;
    write_agreement_and_notes(report, numbers, out)?;
    write_gaps_and_timeouts_as_text(report, out)
}

/// Writes the tables about drives, with idle gaps and APST timeouts.
pub(super) fn write_gaps_and_timeouts_as_text(
    report: &Report,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let numbers = ReplayNumbers::Read;
    for drive in &report.drives {
        writeln!(out)?;
        writeln!(
            out,
            "{}: {} requests issued, {} of {} completions on the issuing CPU",
            drive.name, drive.issued, drive.same_cpu, drive.completions
        )?;
        output::write_table(out, GAPS, idle_gap_rows(drive, numbers))?;
        output::write_table(out, TIMEOUTS, apst_timeout_rows(drive, numbers))?;
    }
    Ok(())
}

const STATES: [&str; 12] = [
    "governor",
    "state",
    "time ms",
    "count",
    "too deep",
    "too shallow",
    "slower",
    "added us",
    "slower I/O",
    "added I/O us",
    "wasted J",
    "energy J",
];

fn state_and_package_rows(report: &Report, numbers: ReplayNumbers) -> Rows {
    let mut rows = Vec::new();
    for policy in &report.policies {
        let states = policy.states.iter();
        rows.extend(states.map(|state| state_row(policy, state, numbers)));
        let package = policy.package.iter();
        rows.extend(package.map(|package| package_row(policy, package, numbers)));
    }
    rows
}

fn state_row(policy: &PolicyReport, state: &StateReport, numbers: ReplayNumbers) -> Vec<String> {
    vec![
        policy.policy.clone(),
        state.state.clone(),
        numbers.format_ns_as_milliseconds(state.time_ns),
        state.count.to_string(),
        state.too_deep.to_string(),
        state.too_shallow.to_string(),
        state.slower.to_string(),
        numbers.format_ns_as_microseconds(state.added_latency_ns),
        state.slower_io.to_string(),
        numbers.format_ns_as_microseconds(state.added_io_latency_ns),
        numbers.format_joules_or_dash(state.wasted_j),
        numbers.format_joules_or_dash(state.energy_j),
    ]
}

/// A row for the sleeping package, as a further state.
fn package_row(
    policy: &PolicyReport,
    package: &PackageReport,
    numbers: ReplayNumbers,
) -> Vec<String> {
    vec![
        policy.policy.clone(),
        "package".to_owned(),
        numbers.format_ns_as_milliseconds(package.asleep_ns),
        package.count.to_string(),
        dash_for_no_value(),
        dash_for_no_value(),
        package.slower.to_string(),
        numbers.format_ns_as_microseconds(package.added_latency_ns),
        package.slower_io.to_string(),
        numbers.format_ns_as_microseconds(package.added_io_latency_ns),
        numbers.format_joules_or_dash(Some(package.wasted_j)),
        numbers.format_joules_or_dash(Some(package.energy_j)),
    ]
}

const KERNELS: [&str; 9] = [
    "governor",
    "as from",
    "compared",
    "too deep %",
    "too shallow %",
    "added us",
    "added I/O us",
    "energy J",
    "idle periods %",
];

/// A row per governor, for the table that compares kernels.
fn row_per_governor_and_kernel(replayed: &Replayed, numbers: ReplayNumbers) -> Rows {
    replayed
        .policies
        .iter()
        .filter_map(|(place, policy)| {
            let policy = policy.as_ref()?;
            let of_policy = replayed.report.policies.get(*place)?;
            let name = &of_policy.policy;
            let sums = of_policy.total_sums();
            let all = sums.count;
            let by_state = of_policy.states.iter().map(|state| {
                format!(
                    "{} {}",
                    state.state,
                    numbers.format_count_as_percent(state.count, all)
                )
            });
            let generation = policy.generation();
            Some(vec![
                name.clone(),
                generation.map_or_else(dash_for_no_value, Generation::first_releases),
                generation.map_or_else(dash_for_no_value, |generation| {
                    generation.compared.unwrap_or("not compared").to_owned()
                }),
                numbers.format_count_as_percent(sums.too_deep, all),
                numbers.format_count_as_percent(sums.too_shallow, all),
                numbers.format_ns_as_microseconds(sums.added_latency_ns),
                numbers.format_ns_as_microseconds(sums.added_io_latency_ns),
                numbers.format_joules_or_dash(sums.energy_j),
                by_state.collect::<Vec<_>>().join(", "),
            ])
        })
        .collect()
}

/// Writes the table that compares kernels, if there are several, before other tables.
pub(super) fn write_kernel_comparison_table(
    replayed: &Replayed,
    out: &mut Screen,
) -> anyhow::Result<()> {
    output::write_table(
        out,
        KERNELS,
        row_per_governor_and_kernel(replayed, ReplayNumbers::Read),
    )?;
    writeln!(out)?;
    Ok(())
}

const GOVERNORS: [&str; 10] = [
    "governor",
    "asked",
    "tick stops",
    "poll limit hits",
    "too deep",
    "too shallow",
    "added us",
    "added I/O us",
    "wasted J",
    "energy J",
];

fn selection_count_rows(report: &Report, numbers: ReplayNumbers) -> Rows {
    report
        .policies
        .iter()
        .map(|p| {
            let sums = p.total_sums();
            vec![
                p.policy.clone(),
                p.selections.to_string(),
                count_or_dash(p.tick_stops),
                count_or_dash(p.poll_limit_hits),
                sums.too_deep.to_string(),
                sums.too_shallow.to_string(),
                numbers.format_ns_as_microseconds(sums.added_latency_ns),
                numbers.format_ns_as_microseconds(sums.added_io_latency_ns),
                numbers.format_joules_or_dash(sums.wasted_j),
                numbers.format_joules_or_dash(sums.energy_j),
            ]
        })
        .collect()
}

const AGREEMENT: [&str; 6] = [
    "governor",
    "periods",
    "as recorded",
    "share %",
    "otherwise",
    "reason",
];

/// A row for each reason to differ from the recorded choice; the numbers in front are the same in all rows.
fn rows_per_reason_to_differ(report: &Report, numbers: ReplayNumbers) -> Rows {
    let Some((name, found)) = &report.agreement else {
        return Vec::new();
    };
    let share = found
        .same_state_share()
        .map_or_else(dash_for_no_value, |share| {
            numbers.format_share_as_percent(share)
        });
    let reasons = found.reasons.iter();
    let mut reasons: Vec<(&str, u64)> =
        reasons.map(|(reason, count)| (&**reason, *count)).collect();
    if reasons.is_empty() {
        reasons.push(("", 0));
    }
    let rows = reasons.into_iter().map(|(reason, count)| {
        vec![
            name.clone(),
            found.periods.to_string(),
            found.same_state.to_string(),
            share.clone(),
            count.to_string(),
            reason.to_owned(),
        ]
    });
    rows.collect()
}

const DRIVES: [&str; 3] = ["issued", "completions", "on the issuing CPU"];

fn issued_and_completed_cells(drive: &DriveReport) -> Vec<String> {
    [drive.issued, drive.completions, drive.same_cpu]
        .map(|count| count.to_string())
        .to_vec()
}

const GAPS: [&str; 4] = ["idle from us", "to us", "gaps", "total ms"];

fn idle_gap_rows(drive: &DriveReport, numbers: ReplayNumbers) -> Rows {
    drive
        .gaps
        .iter()
        .map(|gap| {
            vec![
                gap.from_us.to_string(),
                gap.to_us.to_string(),
                gap.count.to_string(),
                numbers.format_ns_as_milliseconds(gap.total_us.saturating_mul(1000)),
            ]
        })
        .collect()
}

const TIMEOUTS: [&str; 4] = ["entry + exit ms", "APST timeout ms", "wake-ups", "asleep %"];

fn apst_timeout_rows(drive: &DriveReport, numbers: ReplayNumbers) -> Rows {
    drive
        .timeouts
        .iter()
        .map(|t| {
            vec![
                t.transition_ms.to_string(),
                t.timeout_ms.map_or_else(
                    || "never".to_owned(),
                    |ms| numbers.format_full_or_rounded(ms, 3),
                ),
                t.wake_ups.to_string(),
                numbers.format_full_or_rounded(100.0 * t.asleep, 1),
            ]
        })
        .collect()
}

fn write_agreement_and_notes(
    report: &Report,
    numbers: ReplayNumbers,
    out: &mut Screen,
) -> anyhow::Result<()> {
    writeln!(out)?;
    if let Some((name, agreement)) = &report.agreement
        && let Some(share) = agreement.same_state_share()
    {
        writeln!(
            out,
            "{name} answers as recorded in {} of {} periods ({} %)",
            agreement.same_state,
            agreement.periods,
            numbers.format_share_as_percent(share)
        )?;
        for (reason, count) in &agreement.reasons {
            writeln!(out, "  otherwise {count}: {reason}")?;
        }
        if agreement.tick_known > 0 {
            writeln!(
                out,
                "  and as recorded about the tick in {} of {}",
                agreement.same_tick, agreement.tick_known
            )?;
        }
    }
    if !report.measured_latencies {
        writeln!(
            out,
            "Wake-up latencies are the declared ones, which are upper bounds."
        )?;
    }
    if !report.approximate.is_empty() {
        writeln!(out, "Approximate, by idle periods:")?;
        for (reason, count) in &report.approximate {
            writeln!(out, "  {count}: {reason}")?;
        }
    }
    Ok(())
}

fn dash_for_no_value() -> String {
    "-".to_owned()
}

fn count_or_dash(count: Option<u64>) -> String {
    count.map_or_else(dash_for_no_value, |count| count.to_string())
}

/// How numbers in a replay's tables are written.
#[derive(Clone, Copy)]
enum ReplayNumbers {
    /// All digits.
    Full,
    /// For reading.
    Read,
}

impl ReplayNumbers {
    fn format_full_or_rounded(self, value: f64, decimals: usize) -> String {
        match self {
            Self::Full => value.to_string(),
            Self::Read => format!("{value:.decimals$}"),
        }
    }

    /// Energy in J; recordings have no interval to limit the digits, so six are printed, down to microjoules.
    fn format_joules_or_dash(self, value: Option<f64>) -> String {
        value.map_or_else(dash_for_no_value, |joules| {
            let decimals = match joules {
                0.0 => 0,
                _ => figure::decimals_by_doubt(joules, Some(f64::MIN_POSITIVE)).min(6),
            };
            self.format_full_or_rounded(joules, decimals)
        })
    }

    fn format_ns_as_milliseconds(self, ns: u64) -> String {
        self.format_full_or_rounded(ns as f64 / 1e6, 3)
    }

    fn format_ns_as_microseconds(self, ns: u64) -> String {
        self.format_full_or_rounded(ns as f64 / 1e3, 1)
    }

    /// A count as percent of `all`.
    fn format_count_as_percent(self, count: u64, all: u64) -> String {
        self.format_share_as_percent(count as f64 / all.max(1) as f64)
    }

    fn format_share_as_percent(self, share: f64) -> String {
        self.format_full_or_rounded(100.0 * share, 2)
    }
}
