//! `wakepath status`: what CPUs and drives do, once or as a live view.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::Context;
use wakepath_system::System;
use wakepath_system::status::{CpuStatus, DriveStatus, StateStatus, Status, StatusSample};

use super::{RootArgs, view};
use crate::output::{self, Format, Screen};
use crate::until::{self, EndSignals};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath status
  wakepath status --watch
  wakepath status --watch --interval 5s --format json >> status.jsonl")]
pub(crate) struct Args {
    /// Go on until q or Ctrl-C: a live view on a terminal, else one record after the other.
    #[arg(long)]
    watch: bool,
    /// What span of time to look at.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = until::duration)]
    interval: Duration,
    /// Since the start of the machine instead; what a captured machine always shows.
    #[arg(long, conflicts_with_all = ["watch", "interval"])]
    since_start: bool,
    /// Ask NVMe drives for their power state and whether APST is on (needs root). Asking is a command,
    /// which can wake a drive.
    #[arg(long)]
    ask_drives: bool,
    #[command(flatten)]
    root: RootArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let system = args.root.system()?;
    if args.since_start || !system.root().is_live() {
        return print(args, &Status::since_start(&system, args.ask_drives), out);
    }
    if !args.watch {
        let mut spans = Spans::new(&system, args.ask_drives);
        std::thread::sleep(args.interval);
        return print(args, &spans.next(), out);
    }
    if args.format == Format::Table && std::io::stdout().is_terminal() {
        let first = Status::since_start(&system, args.ask_drives);
        return view::run(&first, Spans::new(&system, args.ask_drives), args.interval);
    }
    let signals = EndSignals::new()?;
    let mut spans = Spans::new(&system, args.ask_drives);
    while signals.wait(Some(args.interval)).is_none() {
        match args.format {
            // One line each, so that a reader can follow.
            Format::Json => output::json_line(out, &spans.next())?,
            _ => print(args, &spans.next(), out)?,
        }
        // Not at the end, which may never come; a reader that has gone is the end.
        match out.print() {
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => break,
            written => written.context("writing the status")?,
        }
    }
    Ok(())
}

/// Spans of time, one after the other.
pub(super) struct Spans<'a> {
    system: &'a System,
    ask_drives: bool,
    last: StatusSample,
    at: Instant,
}

impl<'a> Spans<'a> {
    fn new(system: &'a System, ask_drives: bool) -> Self {
        Self {
            system,
            ask_drives,
            last: StatusSample::now(system),
            at: Instant::now(),
        }
    }

    /// What happened since the last call.
    pub(super) fn next(&mut self) -> Status {
        let (sample, at) = (StatusSample::now(self.system), Instant::now());
        let seconds = (at - self.at).as_secs_f64();
        let status = Status::between(
            self.system,
            &self.last,
            &sample,
            Some(seconds),
            self.ask_drives,
        );
        (self.last, self.at) = (sample, at);
        status
    }
}

const CPU_HEADER: [&str; 9] = [
    "cpu",
    "limit us",
    "MHz",
    "state",
    "off",
    "time %",
    "entries/s",
    "too deep/s",
    "too shallow/s",
];
pub(super) const DRIVE_HEADER: [&str; 9] = [
    "drive",
    "reads/s",
    "MB/s",
    "us per read",
    "writes/s",
    "MB/s",
    "tolerance us",
    "APST",
    "state",
];

fn print(args: &Args, status: &Status, out: &mut Screen) -> anyhow::Result<()> {
    let cpus = || status.cpus.iter().flat_map(cpu_rows);
    match args.format {
        Format::Json => output::json(out, status),
        // Of two tables, CSV has the one that is longer.
        Format::Csv => output::csv(out, CPU_HEADER, cpus()),
        Format::Table => {
            writeln!(out, "{}\n", headline(status))?;
            output::table(out, CPU_HEADER, cpus())?;
            if status.drives.is_empty() {
                return Ok(());
            }
            writeln!(out)?;
            output::table(out, DRIVE_HEADER, status.drives.iter().map(drive_row))
        }
    }
}

/// What holds for the machine as a whole, in a line.
pub(super) fn headline(status: &Status) -> String {
    use wakepath_system::setting::NO_SYSTEM_LATENCY_LIMIT_US;
    let latency = match status.system_latency_us {
        None => "not readable".to_owned(),
        Some(us) if us >= NO_SYSTEM_LATENCY_LIMIT_US => "none".to_owned(),
        Some(us) => format!("{us} us"),
    };
    let applied = match (status.holder, status.applied) {
        (Some(0), _) => "; a running wakepath may have changed settings".to_owned(),
        (Some(process), _) => format!("; process {process}, a wakepath, may have changed settings"),
        (None, Some(true)) => "; changed by wakepath, `wakepath restore` puts it back".to_owned(),
        (None, Some(false)) => String::new(),
        (None, None) => "; what wakepath has changed only root can see".to_owned(),
    };
    let span = status
        .seconds
        .map_or_else(|| "unknown time".to_owned(), |s| format!("{s:.1} s"));
    format!(
        "{span}; idle governor {}; system-wide latency limit {latency}{applied}",
        status.governor
    )
}

/// A limit as people read it.
pub(super) fn limit(of: &CpuStatus) -> String {
    let limit = match of.latency_limit.as_deref() {
        None => "",
        Some("0") => "none",
        Some("n/a") => "0",
        Some(us) => us,
    };
    let lease = if of.lease == Some(true) { " lease" } else { "" };
    format!("{limit}{lease}")
}

pub(super) fn mhz(of: &CpuStatus) -> String {
    of.khz
        .map_or_else(String::new, |khz| (khz / 1000).to_string())
}

/// A row for each idle state; one without if there is none.
fn cpu_rows(of: &CpuStatus) -> Vec<[String; 9]> {
    let row = |state: Option<&StateStatus>| {
        let text = |of: fn(&StateStatus) -> String| state.map_or_else(String::new, of);
        let rate = |of: fn(&StateStatus) -> Option<f64>| number(state.and_then(of));
        [
            of.cpu.to_string(),
            limit(of),
            mhz(of),
            text(|s| s.name.clone()),
            text(|s| if s.disabled { "off" } else { "" }.to_owned()),
            rate(|s| Some(100.0 * s.share?)),
            rate(|s| s.entries_per_s),
            rate(|s| s.too_deep_per_s),
            rate(|s| s.too_shallow_per_s),
        ]
    };
    if of.states.is_empty() {
        return vec![row(None)];
    }
    of.states.iter().map(Some).map(row).collect()
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.1}"))
}

pub(super) fn drive_row(of: &DriveStatus) -> [String; 9] {
    let apst = |on: bool| if on { "on" } else { "off" }.to_owned();
    [
        of.name.clone(),
        number(of.reads_per_s),
        number(of.read_mb_per_s),
        of.read_us.map_or_else(String::new, |us| format!("{us:.0}")),
        number(of.writes_per_s),
        number(of.write_mb_per_s),
        of.latency_tolerance.clone().unwrap_or_default(),
        of.apst.map_or_else(String::new, apst),
        of.power_state
            .map_or_else(String::new, |ps| format!("PS{ps}")),
    ]
}
