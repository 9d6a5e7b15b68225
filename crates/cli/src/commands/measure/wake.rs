//! `wakepath measure wake`: what waking a CPU from each idle state takes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use rustix::process::geteuid;
use wakepath_measure::MeasureError;
use wakepath_measure::drive::TestTarget;
use wakepath_measure::summary::Estimate;
use wakepath_measure::wake::{
    EntryCost, HeldClock, PackageWake, WakeLatency, WakeMeasurement, WakePlan, WakeSource, measure,
};
use wakepath_report::html::measurements::{
    MeasuredCurve, MeasuredInterval, MeasuredPicture, MeasuredSection,
};
use wakepath_system::System;
use wakepath_units::Nanoseconds;

use super::experiment::{OutputArgs, PlanReport, print_notes};
use super::page::{PageArgs, describe_conditions, interval_us, page_head, page_rows};
use crate::commands::live::RootArgs;
use crate::output::{self, Format, Screen};
use crate::until;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo wakepath measure wake --dry-run
  sudo wakepath measure wake -o measured.toml
  sudo wakepath measure wake --file /var/tmp/data --time 1m")]
pub(super) struct Args {
    /// Also wake CPUs by the drive's completions of reads of this file, or device.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Hold the measured CPUs at this clock [default: as their governor picks].
    #[arg(long, value_enum)]
    clock: Option<Clock>,
    /// How long to measure [default: about 2 s for each idle state and what wakes it].
    #[arg(long, value_name = "TIME", value_parser = until::parse_duration_or_seconds)]
    time: Option<Duration>,
    /// Say what would be done and how long that takes, and do nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    root: RootArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    page: PageArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// A clock of the hardware.
#[derive(Clone, Copy, ValueEnum)]
enum Clock {
    /// The lowest.
    Lowest,
    /// The highest.
    Highest,
    /// The highest, whose figures -o takes, then the lowest.
    Both,
}

impl Clock {
    /// How many clocks are measured in turn.
    const fn count(self) -> u32 {
        match self {
            Self::Lowest | Self::Highest => 1,
            Self::Both => 2,
        }
    }

    /// The plan with the CPUs held at this clock.
    fn hold_in(self, plan: WakePlan, system: &System) -> Result<WakePlan, MeasureError> {
        match self {
            Self::Lowest => plan.with_clock(system, HeldClock::Lowest),
            Self::Highest => plan.with_clock(system, HeldClock::Highest),
            Self::Both => plan
                .with_clock(system, HeldClock::Highest)?
                .and_at(system, HeldClock::Lowest),
        }
    }
}

pub(super) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let system = args.root.open_system()?;
    let captured = args.root.directory().is_some();
    anyhow::ensure!(
        args.dry_run || !captured,
        "--root: a captured machine cannot be measured; --dry-run says what would be done there"
    );
    args.output.check_output_may_be_written()?;
    args.page.check()?;
    if let Some(file) = args.file.as_ref().filter(|_| !captured) {
        TestTarget::Read(file.clone()).check()?;
    }
    let mut sources = vec![WakeSource::Task, WakeSource::Timer];
    sources.extend(args.file.as_ref().map(|_| WakeSource::Drive));
    let forced = captured || geteuid().is_root();
    let clocks = args.clock.map_or(1, Clock::count);
    let time = args.time.map(|time| time / clocks);
    let mut plan = WakePlan::new(&system, &sources, forced, time)?;
    if let Some(clock) = args.clock {
        plan = clock.hold_in(plan, &system).context("--clock")?;
    }
    let report = PlanReport::new(plan.steps(), plan.duration(), plan.describe());
    if args.dry_run {
        return report.print_plan(args.format, out);
    }
    let result = report.announce_and_measure("", |control| {
        measure(&system, &plan, args.file.as_deref(), control)
    })?;
    print_notes(&result.notes);
    match args.format {
        Format::Json => output::write_json(out, &result),
        Format::Csv => output::write_csv(out, HEADER, rows_by_state_and_source(&result)),
        Format::Table => print_tables(&result, out),
    }?;
    // Figures are printed even if the file for them cannot be written any more.
    output::print_result(out)?;
    args.output.write_figures(&result.to_toml())?;
    args.page.write(
        "Wake-ups",
        describe_conditions(&result.conditions),
        &result.notes,
        || sections(&result),
    )
}

/// Exits, then what sleeping costs beyond them where that was measured.
fn print_tables(result: &WakeMeasurement, out: &mut Screen) -> anyhow::Result<()> {
    output::write_table(out, HEADER, rows_by_state_and_source(result))?;
    let beside = rows_beside_exits(result);
    if !beside.is_empty() {
        writeln!(out)?;
        output::write_table(out, HEADER_BESIDE, beside)?;
    }
    Ok(())
}

/// Exit latencies and whole wake-ups, by state and by what woke the CPU.
pub(in crate::commands) fn sections(result: &WakeMeasurement) -> Vec<MeasuredSection> {
    let wakes: Vec<(String, &WakeLatency)> = at_each_clock(result)
        .flat_map(|(clock, measured)| measured.wakes.iter().map(move |wake| (clock.clone(), wake)))
        .collect();
    let exits = wakes.iter();
    let exits = exits.filter_map(|(clock, wake)| exit_interval(wake, clock));
    let whole = wakes.iter().filter_map(|(clock, wake)| {
        let median = wake.latency.as_ref()?.median;
        Some(interval_us(name_wake(wake, clock), median))
    });
    let entries = result.entries.iter().filter_map(|cost| {
        let name = format!("{}, CPU {}", cost.state, cost.cpu);
        Some(interval_us(name, cost.entry?.cost))
    });
    let beside = MeasuredSection {
        title: "Entry of idle states and sleep of packages, us".to_owned(),
        note: "The longest time that a wake-up waits for a CPU that is still on its way into the state, with its 95 % interval; and \
               what a timer's wake-up takes longer while all other CPUs rest."
            .to_owned(),
        picture: Some(MeasuredPicture::Intervals(entries.collect())),
        head: page_head(HEADER_BESIDE),
        rows: page_rows(rows_beside_exits(result)),
    };
    let mut sections = vec![
        MeasuredSection {
            title: "Exit latency of idle states, us".to_owned(),
            note: "Median wake-up less that from the shallowest state, with its 95 % interval. The upright line is what the driver \
                   declares."
                .to_owned(),
            picture: Some(MeasuredPicture::Intervals(exits.collect())),
            head: page_head(HEADER),
            rows: page_rows(rows_by_state_and_source(result)),
        },
        MeasuredSection {
            title: "Whole wake-ups, us".to_owned(),
            note: "From the cause to the first instruction of the woken thread; of reads, from the call to its return. Medians with \
                   their 95 % intervals."
                .to_owned(),
            picture: Some(MeasuredPicture::Intervals(whole.collect())),
            ..MeasuredSection::default()
        },
        MeasuredSection {
            title: "Wake-ups by the pause before, median in us".to_owned(),
            note: "A rising curve means that something sleeps deeper in long pauses: a package, a drive, or the host of a guest.".to_owned(),
            picture: Some(MeasuredPicture::Curves {
                x_title: "pause, ms".to_owned(),
                curves: wakes.iter().filter_map(|(clock, wake)| gap_curve(wake, clock)).collect(),
            }),
            ..MeasuredSection::default()
        },
    ];
    if !beside.rows.is_empty() {
        sections.insert(1, beside);
    }
    sections
}

/// Median wake-ups at the middle of each band of pauses; `None` without bands.
fn gap_curve(wake: &WakeLatency, clock: &str) -> Option<MeasuredCurve> {
    let points = wake.by_gap.iter().map(|band| {
        let middle = (band.shortest.0 as f64 * band.longest.0 as f64).sqrt();
        [middle / 1e6, band.latency.median.ns / 1e3]
    });
    (!wake.by_gap.is_empty()).then(|| MeasuredCurve {
        name: name_wake(wake, clock),
        points: points.collect(),
    })
}

fn exit_interval(wake: &WakeLatency, clock: &str) -> Option<MeasuredInterval> {
    let declared = wake.declared_exit.map(|Nanoseconds(ns)| ns as f64 / 1e3);
    Some(MeasuredInterval {
        reference: declared,
        ..interval_us(name_wake(wake, clock), wake.exit?)
    })
}

/// State, cause, CPU and clock of a wake-up.
fn name_wake(wake: &WakeLatency, clock: &str) -> String {
    let state = wake.state.as_deref().unwrap_or("any state");
    let held = if clock.is_empty() {
        String::new()
    } else {
        format!(", {clock} MHz")
    };
    format!("{state} by {}, CPU {}{held}", wake.source.name(), wake.cpu)
}

const HEADER: [&str; 12] = [
    "CPU",
    "MHz",
    "state",
    "woken by",
    "n",
    "median us",
    "p99",
    "exit us",
    "from",
    "to",
    "declared",
    "remark",
];

const HEADER_BESIDE: [&str; 7] = ["CPU", "state", "cost", "us", "from", "to", "remark"];

/// A table row for each state's entry, and for each package; times in microseconds.
fn rows_beside_exits(result: &WakeMeasurement) -> Vec<[String; 7]> {
    let entries = result.entries.iter().map(row_for_entry);
    entries
        .chain(result.packages.iter().map(row_for_package))
        .collect()
}

fn row_for_entry(cost: &EntryCost) -> [String; 7] {
    let within = cost
        .entry
        .map(|entry| format!("a CPU woken within it {}", entry.woken_within.describe()));
    row_beside(
        (cost.cpu, &cost.state, "entry"),
        cost.entry.map(|entry| entry.cost),
        within.or_else(|| cost.problem.clone()),
    )
}

fn row_for_package(package: &PackageWake) -> [String; 7] {
    row_beside(
        (package.cpu, &package.state, "package"),
        package.beyond,
        package.describe_reached(),
    )
}

fn row_beside(
    (cpu, state, cost): (usize, &str, &str),
    estimate: Option<Estimate>,
    remark: Option<String>,
) -> [String; 7] {
    let text = |ns: Option<f64>| ns.map_or_else(String::new, |ns| format!("{:.2}", ns / 1e3));
    [
        cpu.to_string(),
        state.to_owned(),
        cost.to_owned(),
        text(estimate.map(|estimate| estimate.ns)),
        text(estimate.map(|estimate| estimate.low)),
        text(estimate.map(|estimate| estimate.high)),
        remark.unwrap_or_default(),
    ]
}

/// A table row for each idle state and each way to wake a CPU from there; times in microseconds.
fn rows_by_state_and_source(result: &WakeMeasurement) -> Vec<[String; 12]> {
    let rows = at_each_clock(result).flat_map(|(clock, measured)| {
        let wakes = measured.wakes.iter();
        wakes.map(move |wake| row_for_wake_latency(wake, &clock))
    });
    rows.collect()
}

/// The measurement and those at other clocks, each with its clock in MHz; empty: as the governor picked.
fn at_each_clock(result: &WakeMeasurement) -> impl Iterator<Item = (String, &WakeMeasurement)> {
    let all = std::iter::once(result).chain(&result.at_other_clocks);
    all.map(|measured| {
        let khz = measured.held_khz.first();
        let clock = khz.map_or_else(String::new, |khz| (khz / 1000).to_string());
        (clock, measured)
    })
}

fn row_for_wake_latency(wake: &WakeLatency, clock: &str) -> [String; 12] {
    let latency = wake.latency.as_ref();
    let exit = wake.exit;
    let text = |ns: Option<f64>| ns.map_or_else(String::new, |ns| format!("{:.2}", ns / 1e3));
    [
        wake.cpu.to_string(),
        clock.to_owned(),
        wake.state.clone().unwrap_or_else(|| "any".to_owned()),
        wake.source.name().to_owned(),
        latency.map_or(0, |latency| latency.n).to_string(),
        text(latency.map(|latency| latency.median.ns)),
        text(latency.map(|latency| latency.p99.0 as f64)),
        text(exit.map(|exit| exit.ns)),
        text(exit.map(|exit| exit.low)),
        text(exit.map(|exit| exit.high)),
        text(wake.declared_exit.map(|Nanoseconds(ns)| ns as f64)),
        remark_on_row(wake),
    ]
}

/// A remark for the reader on a row.
fn remark_on_row(wake: &WakeLatency) -> String {
    let reference = wake
        .relative_to
        .as_ref()
        .map(|state| format!("less {state}"));
    let lost = wake.missed + wake.rejected;
    let not_counted = (lost > 0 && wake.problem.is_none()).then(|| format!("{lost} do not count"));
    let host = wake.disturbed_by_host;
    let disturbed = (host > 0).then(|| format!("{host} with stolen time"));
    let way = wake.describe_way_of_task().map(str::to_owned);
    let deeper = wake.deeper.map(|deeper| {
        let [before, exit] = [deeper.exit_before, deeper.exit].map(|exit| exit.ns / 1e3);
        let after = deeper.after;
        format!("{before:.1} us after pauses below {after}, then {exit:.1} us")
    });
    let parts = [
        reference,
        way,
        deeper,
        wake.problem.clone(),
        not_counted,
        disturbed,
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("; ")
}
