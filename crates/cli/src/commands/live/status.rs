//! `wakepath status`: what CPUs and drives do, once or as a live view.

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use wakepath_settings::{DriftEvidence, DriftState, PersistentState, read_persistent_state};
use wakepath_system::System;
use wakepath_system::status::Status;

use super::activity::{
    CPU_HEADER, DRIVE_HEADER, StatusSpans, describe_machine_in_line, drive_status_row,
    rows_per_idle_state,
};
use super::{RootArgs, shorten_setting_value, view};
use crate::messages::note;
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
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = until::parse_duration_or_seconds)]
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

pub(crate) fn print_or_watch_status(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let system = args.root.open_system()?;
    if args.since_start || !system.root().is_live() {
        let status = Status::activity_since_boot(&system, args.ask_drives);
        return print_status_and_persistent_state(args, &system, &status, out);
    }
    if !args.watch {
        let mut spans = StatusSpans::new(&system, args.ask_drives);
        std::thread::sleep(args.interval);
        let status = spans.status_since_last_call();
        return print_status_and_persistent_state(args, &system, &status, out);
    }
    if args.format == Format::Table && std::io::stdout().is_terminal() {
        let first = Status::activity_since_boot(&system, args.ask_drives);
        return view::show_live_view_until_quit(
            &first,
            StatusSpans::new(&system, args.ask_drives),
            args.interval,
        );
    }
    let signals = EndSignals::new()?;
    let mut spans = StatusSpans::new(&system, args.ask_drives);
    while signals.wait_for_signal_up_to(Some(args.interval)).is_none() {
        let status = spans.status_since_last_call();
        // One JSON document per line lets a reader follow.
        if args.format == Format::Json {
            output::write_json_line(out, &status)?;
        } else {
            print_status_in_format(args, &status, &spans.root_option(), out)?;
        }
        // Each record is printed at once: the end may never come. A closed pipe is the end.
        match out.print() {
            Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => break,
            written => written.context("writing the status")?,
        }
    }
    Ok(())
}

/// JSON output of a single look.
#[derive(Serialize)]
struct StatusReport<'a> {
    #[serde(flatten)]
    status: &'a Status,
    /// The settings of `apply --persist`.
    #[serde(skip_serializing_if = "Option::is_none")]
    persistent: Option<PersistentState>,
}

fn print_status_and_persistent_state(
    args: &Args,
    system: &System,
    status: &Status,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let persistent = read_persistent_state(system).unwrap_or_else(|error| {
        note!("{error}");
        None
    });
    if args.format == Format::Json {
        return output::write_json(out, &StatusReport { status, persistent });
    }
    print_status_in_format(args, status, &system.root().command_line_option(), out)?;
    match persistent {
        Some(state) if args.format == Format::Table => write_persistent_state(&state, out),
        _ => Ok(()),
    }
}

/// Writes whether the settings of `apply --persist` are in force, and each one that is not.
fn write_persistent_state(state: &PersistentState, out: &mut Screen) -> anyhow::Result<()> {
    writeln!(out)?;
    let PersistentState { sets, supply, .. } = state;
    if let Some(why) = &state.not_possible {
        writeln!(
            out,
            "persistent settings: not possible here, so that a boot applies none: {why}"
        )?;
        // A mistake that was told in the line above needs no second one.
        let more = state.impossible_policies.iter();
        for other in more.filter(|other| !why.ends_with(other.as_str())) {
            writeln!(out, "  not possible: {other}")?;
        }
        if state.in_force + state.drifted.len() == 0 {
            return Ok(());
        }
    }
    for drive in &state.left_out {
        writeln!(out, "persistent settings: {drive}")?;
    }
    if let Some(other) = state.other_supply_in_force {
        writeln!(
            out,
            "persistent settings: the set for {other} is still in force; `wakepath apply --supply-changed` switches, \
             as the next look does within two minutes"
        )?;
    }
    let all = state.in_force + state.drifted.len();
    let applied = match state.applied {
        Some(false) => "; not applied in this boot",
        _ => "",
    };
    writeln!(
        out,
        "persistent settings, on {supply}: {} of {all} in force ({sets}){applied}",
        state.in_force
    )?;
    for setting in &state.in_force_though_left_out {
        writeln!(out, "  in force: {setting}, though the set is left out")?;
    }
    let is_left_out = state.not_possible.is_some();
    for drift in &state.drifted {
        let (word, reason) = if is_left_out {
            ("not in force", "the set is left out".to_owned())
        } else {
            ("drifted", describe_writer(drift))
        };
        writeln!(
            out,
            "  {word}: {} is {}, not {}; {reason}",
            drift.setting,
            shorten_setting_value(&drift.found),
            shorten_setting_value(&drift.expected)
        )?;
    }
    Ok(())
}

/// How a file that was edited comes into force.
const PUT_FILE_IN_FORCE: &str = "`systemctl restart wakepath-settings` puts the file in force";

/// Where the value of a drifted setting is from, by evidence.
fn describe_writer(drift: &DriftState) -> String {
    match (drift.evidence, &drift.writers[..]) {
        (Some(DriftEvidence::LaterApply), _) => {
            "a later `wakepath apply` has set it (journal)".to_owned()
        }
        (Some(DriftEvidence::HeldForATime), _) => {
            "a wakepath that runs holds it for a time (journal)".to_owned()
        }
        (Some(DriftEvidence::Daemon), _) => "the daemon has set it (journal)".to_owned(),
        (Some(DriftEvidence::OtherSupply), _) => "by the set for the other supply".to_owned(),
        (Some(DriftEvidence::FileChanged), _) => {
            format!("by the file before it was changed; {PUT_FILE_IN_FORCE}")
        }
        (Some(DriftEvidence::NotInForceYet), _) => {
            format!("not in the set in force; {PUT_FILE_IN_FORCE}")
        }
        (None | Some(DriftEvidence::Reset), _) if drift.seen_writer.is_some() => {
            let writer = drift.seen_writer.as_deref().unwrap_or_default();
            format!("{writer} has written it, as the daemon saw")
        }
        (Some(DriftEvidence::Reset), []) => {
            "this boot's own value, as after a reset (`wakepath apply --resets`)".to_owned()
        }
        (None, []) => "by whom is unknown".to_owned(),
        (_, tools) => format!("{} is running and writes it", tools.join(", ")),
    }
}

fn print_status_in_format(
    args: &Args,
    status: &Status,
    option: &str,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let cpus = status.cpus.iter().flat_map(rows_per_idle_state);
    match args.format {
        Format::Json => output::write_json(out, status),
        // CSV has only the longer table, about CPUs.
        Format::Csv => output::write_csv(out, CPU_HEADER, cpus),
        Format::Table => {
            writeln!(out, "{}\n", describe_machine_in_line(status, option))?;
            output::write_table(out, CPU_HEADER, cpus)?;
            if status.drives.is_empty() {
                return Ok(());
            }
            writeln!(out)?;
            output::write_table(
                out,
                DRIVE_HEADER,
                status.drives.iter().map(drive_status_row),
            )
        }
    }
}
