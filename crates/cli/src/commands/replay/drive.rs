//! `wakepath replay --drive`: a drive under recorded I/O and several power state tables.

use anyhow::Context;
use serde::Serialize;
use wakepath_hardware::machine::DriveModel;
use wakepath_policies::PolicySet;
use wakepath_study::run::drive_io::{
    DriveIo, NamedMetrics, UNKNOWN_SLEEP, metrics_of_whole_recording,
};

use super::arguments::Args;
use crate::messages::{note, warning};
use crate::output::{self, Format, Screen, count_with_noun};

/// Tables to compare unless others are given: the kernel's, the kernel's older rule, and none.
const DEFAULT_TABLES: [&str; 3] = ["apst", "apst[rule=legacy]", "apst[max_latency_us=0]"];

/// Fewest wake-ups under some table by which tables are compared.
const FEWEST_WAKE_UPS: u64 = 20;

/// Columns: the metric and its title.
const COLUMNS: [(&str, &str); 7] = [
    ("drive_mw", "drive mW"),
    ("drive_wake_ups_per_s", "wake-ups/s"),
    ("drive_wake_mean_us", "mean us"),
    ("drive_wake_p50_us", "p50 us"),
    ("drive_wake_p99_us", "p99 us"),
    ("drive_wake_max_us", "max us"),
    ("drive_asleep", "asleep %"),
];

/// A drive under recorded I/O.
#[derive(Serialize)]
struct DriveUnderTables<'a> {
    drive: &'a str,
    /// Kernel's name for the recorded drive.
    device: &'a str,
    requests: u64,
    seconds: f64,
    /// Whether the waits for the recorded drive's own wake-ups are known and taken out.
    recorded_wake_ups_are_out: bool,
    tables: Vec<TableFigures>,
}

/// A drive's figures under one power state table.
#[derive(Serialize)]
struct TableFigures {
    table: String,
    /// Number of requests to an asleep drive, or one falling asleep.
    wake_ups: u64,
    metrics: NamedMetrics,
}

impl TableFigures {
    /// The columns' values; `None` for waits where no request woke the drive.
    fn values(&self) -> impl Iterator<Item = Option<f64>> {
        COLUMNS.iter().map(|(metric, _)| {
            let (_, value) = self.metrics.iter().find(|(name, _)| name == metric)?;
            Some(*value)
        })
    }
}

pub(super) fn print_drive_under_tables(
    args: &Args,
    name: &str,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let drive = DriveModel::find(name).context("--drive")?;
    if let Some(text) = &drive.note {
        note!("{text}");
    }
    let io = DriveIo::read(&args.trace, args.device.as_deref())?;
    for doubt in &io.doubts {
        warning!("{}: {doubt}", args.trace.display());
    }
    let default_tables = DEFAULT_TABLES.map(str::parse::<PolicySet>);
    let sets = match &args.apst[..] {
        [] => default_tables.into_iter().collect::<Result<Vec<_>, _>>()?,
        given => given.to_vec(),
    };
    let work = io.give_work_to_drive(&drive);
    let mut tables = Vec::new();
    for set in &sets {
        let run = work.run_under_set(set).context("--apst")?;
        tables.push(TableFigures {
            table: set.to_string(),
            wake_ups: run.whole.wake_ups,
            metrics: metrics_of_whole_recording(&run),
        });
    }
    let most = tables.iter().map(|figures| figures.wake_ups).max();
    if let Some(most) = most.filter(|most| *most < FEWEST_WAKE_UPS) {
        warning!(
            "{}: {} in {:.1} s under any table: too few for a percentile, or to compare tables; record for longer",
            args.trace.display(),
            count_with_noun(most, "wake-up"),
            io.duration.as_secs_f64()
        );
    }
    let found = DriveUnderTables {
        drive: &drive.name,
        device: &io.device,
        requests: io.requests,
        seconds: io.duration.0 as f64 / 1e9,
        recorded_wake_ups_are_out: io.knows_recorded_sleep(&drive),
        tables,
    };
    match args.format {
        Format::Json => output::write_json(out, &found),
        Format::Csv => write_tables_as_csv(out, &found),
        Format::Table => write_tables_as_text(out, &found),
    }
}

fn write_tables_as_csv(out: &mut Screen, found: &DriveUnderTables<'_>) -> anyhow::Result<()> {
    let names = COLUMNS.iter().map(|(metric, _)| *metric);
    let header: Vec<&str> = ["table", "wake_ups"].into_iter().chain(names).collect();
    let rows = found.tables.iter().map(|figures| {
        let mut row = vec![figures.table.clone(), figures.wake_ups.to_string()];
        let values = figures.values();
        row.extend(values.map(|value| value.map_or_else(String::new, |value| value.to_string())));
        row
    });
    output::write_csv(out, &header, rows)
}

fn write_tables_as_text(out: &mut Screen, found: &DriveUnderTables<'_>) -> anyhow::Result<()> {
    let sentence = format!(
        "{} modelled under the I/O of {}: {} in {:.1} s",
        found.drive,
        found.device,
        count_with_noun(found.requests, "request"),
        found.seconds
    );
    out.write_folded(&sentence, 2)?;
    writeln!(out)?;
    let titles = COLUMNS.iter().map(|(_, title)| *title);
    let header: Vec<&str> = ["table", "wake-ups"].into_iter().chain(titles).collect();
    let rows = found.tables.iter().map(|figures| {
        let mut row = vec![figures.table.clone(), figures.wake_ups.to_string()];
        let values = figures.values();
        row.extend(values.map(|value| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}"))));
        row
    });
    output::write_table(out, &header, rows)?;
    writeln!(out)?;
    let recorded_waits = if found.recorded_wake_ups_are_out {
        "What requests waited for the recorded drive to wake up is taken out.".to_owned()
    } else {
        format!("The {UNKNOWN_SLEEP}.")
    };
    let about_waits = format!(
        "Waits are those of requests that found the drive asleep or falling asleep. The load is as recorded: it does not \
         wait for a slower drive. {recorded_waits}"
    );
    out.write_folded(&about_waits, 0)?;
    Ok(())
}
