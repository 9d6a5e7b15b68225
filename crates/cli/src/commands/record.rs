//! `wakepath record`: CPUs' and drives' activity on this machine, into a file.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::{Pid, Signal, getpgid, kill_process, kill_process_group};
use serde::Serialize;
use wakepath_record::{
    BUFFER_BYTES, LiveRecording, MissingHook, RecordSession, RecordSummary, RecordedTasks,
    SessionError,
};
use wakepath_system::System;
use wakepath_trace::recording::Overwrite;
use wakepath_units::causes::in_one_line;

use crate::messages::tell;
use crate::new_file;
use crate::output::{self, Format, Screen};
use crate::until::{self, EndSignals};

/// Interval at which the event buffers are emptied: long enough not to disturb idle CPUs much.
pub(super) const STEP: Duration = Duration::from_millis(100);

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo wakepath record --duration 30s
  sudo wakepath record -o fio.parquet -- fio job.fio")]
pub(crate) struct Args {
    /// The file to write.
    #[arg(short, long, value_name = "FILE", default_value = "wakepath.parquet")]
    output: PathBuf,
    /// How long, such as 30s or 5m [default: until COMMAND ends, or Ctrl-C].
    #[arg(long, value_name = "TIME", value_parser = until::parse_duration_or_seconds)]
    duration: Option<Duration>,
    /// Room for the events of each CPU until they are written, in KiB; with more of it less gets lost.
    #[arg(long, value_name = "KIB", default_value_t = BUFFER_BYTES >> 10,
          value_parser = clap::value_parser!(u32).range(4..=1 << 20))]
    buffer: u32,
    /// Record the steps of all tasks, and not only of those with I/O, for `wakepath workload extract -o FILE.toml`. It costs more.
    #[arg(long)]
    all_tasks: bool,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// How to print what was recorded.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// A command to run meanwhile; recording ends with it. With --format json or csv, its output goes to standard error.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn record_live_machine(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    refuse_dashes_without_command(&args.command)?;
    let overwrite = if args.force {
        Overwrite::Yes
    } else {
        Overwrite::No
    };
    new_file::check_output_may_be_written(&args.output, args.force)
        .with_context(|| args.output.display().to_string())?;
    let tasks = if args.all_tasks {
        RecordedTasks::All
    } else {
        RecordedTasks::WithIo
    };
    let recording = LiveRecording::load_and_attach(args.buffer << 10, tasks)?;
    for line in missing_event_kinds_in_words(recording.missing_hooks()) {
        tell!("{line}");
    }
    let signals = EndSignals::new()?;
    // The file is opened only when everything else runs: a recording that it replaces must not be lost for nothing.
    let mut command = start_command_if_given(&args.command, args.format)?;
    let mut session =
        match RecordSession::start_into_file(recording, System::live(), &args.output, overwrite) {
            Ok(session) => session,
            Err(error) => {
                if let Some(child) = &mut command {
                    end_process_group(child);
                }
                return Err(error.into());
            }
        };
    let ended = record_until_time_signal_or_exit(args, &mut session, &signals, command.as_mut());
    if let Some(child) = &mut command {
        end_process_group(child);
    }
    // The recording is ended properly whatever went wrong meanwhile.
    let (ended, summary) = match (ended, session.finish_file()) {
        (ended, Ok(summary)) => (ended, summary),
        (Ok(_), Err(error)) => return Err(error.into()),
        (Err(first), Err(second)) => return Err(join_errors_unless_equal(first, &second)),
    };
    if summary.lost > 0 {
        tell!(
            "warning: {} events found no room in the buffers and are lost; a bigger --buffer than {} KiB helps",
            summary.lost,
            args.buffer
        );
    }
    if summary.idle_periods == 0 {
        tell!(
            "warning: no idle period was seen, so `wakepath replay` has nothing to replay. \
             Record for longer, or a load that leaves the CPUs something to wait for"
        );
    }
    print_recording_summary(&summary, args, out)?;
    if let Some(status) = ended?.filter(|status| !status.success()) {
        anyhow::bail!("the recording is whole, but the command ended with {status}");
    }
    Ok(())
}

/// Records until the time is over, a signal comes, or the command ends. Returns the exit status if the command ended.
fn record_until_time_signal_or_exit(
    args: &Args,
    session: &mut RecordSession,
    signals: &EndSignals,
    mut command: Option<&mut Child>,
) -> anyhow::Result<Option<std::process::ExitStatus>> {
    // The progress bar is drawn only if standard error is a terminal.
    let bar = ProgressBar::new_spinner()
        .with_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
    let started = Instant::now();
    let status = loop {
        let left = args.duration.map(|d| d.saturating_sub(started.elapsed()));
        let step = left.map_or(STEP, |l| l.min(STEP));
        if left == Some(Duration::ZERO) || signals.wait_for_signal_up_to(Some(step)).is_some() {
            break None;
        }
        session.write_new_events()?;
        let (events, lost) = session.events_written_and_lost();
        bar.set_message(format!("{events} events, {lost} lost; Ctrl-C ends"));
        bar.tick();
        if let Some(child) = &mut command
            && let Some(status) = child.try_wait().context("waiting for the command")?
        {
            break Some(status);
        }
    };
    bar.finish_and_clear();
    Ok(status)
}

/// An error, with a later error that may have the same cause.
fn join_errors_unless_equal(first: anyhow::Error, second: &SessionError) -> anyhow::Error {
    let (earlier, later) = (format!("{first:#}"), in_one_line(second));
    if earlier == later {
        return first;
    }
    anyhow::anyhow!("{earlier}; the recording could not be ended either: {later}")
}

/// Starts the command of a live run. Where programs read the results (`format`), the command prints to standard error, as with
/// `perf stat`.
pub(super) fn start_command_if_given(
    words: &[OsString],
    format: Format,
) -> anyhow::Result<Option<Child>> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(None);
    };
    let mut command = Command::new(program);
    if !std::io::stdin().is_terminal() {
        // Starts the command in its own process group: its descendants can be ended, too, but it cannot read from a
        // terminal.
        command.process_group(0);
    }
    if format != Format::Table {
        let stderr = std::io::stderr().as_fd().try_clone_to_owned();
        command.stdout(stderr.context("standard error for the command")?);
    }
    let child = command
        .args(arguments)
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    Ok(Some(child))
}

/// Refuses a command line that ends with `--`: without a command behind it, nothing would end the watching that the user meant.
pub(super) fn refuse_dashes_without_command(command: &[OsString]) -> anyhow::Result<()> {
    let last = std::env::args_os().next_back();
    anyhow::ensure!(
        !command.is_empty() || last.is_none_or(|word| word != "--"),
        "no command follows `--`; give one to run meanwhile, such as `-- fio job.fio`, or leave `--` out"
    );
    Ok(())
}

/// Text in place of a figure that was not measured.
const UNKNOWN: &str = "unknown";

/// Ends the command and its process group after the recording: first politely, two seconds later by force.
pub(super) fn end_process_group(child: &mut Child) {
    if !is_running(child) {
        return;
    }
    signal_group_or_process(child, Signal::TERM);
    let asked = Instant::now();
    while is_running(child) && asked.elapsed() < Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(20));
    }
    if is_running(child) {
        signal_group_or_process(child, Signal::KILL);
        let _ = child.wait();
    }
}

fn is_running(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(None))
}

/// Sends a signal to the command's process group, or to the command alone if it has no group.
fn signal_group_or_process(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    // The processes may just have ended, so a failure is ignored.
    let _ = if getpgid(Some(pid)) == Ok(pid) {
        kill_process_group(pid, signal)
    } else {
        kill_process(pid, signal)
    };
}

/// A line for each kind of events that is missing, however many hooks the kind has.
pub(super) fn missing_event_kinds_in_words(missing: &[MissingHook]) -> Vec<String> {
    let mut groups: Vec<(&MissingHook, Vec<&str>)> = Vec::new();
    for hook in missing {
        match groups
            .iter_mut()
            .find(|(first, _)| (first.gives, &first.reason) == (hook.gives, &hook.reason))
        {
            Some((_, names)) => names.push(hook.name),
            None => groups.push((hook, vec![hook.name])),
        }
    }
    groups
        .iter()
        .map(|(first, names)| {
            let names = names.join(", ");
            format!(
                "not recorded: {}: this kernel does not let eBPF programs watch {names} ({})",
                first.gives, first.reason
            )
        })
        .collect()
}

/// Summary of a recording as programs read it.
#[derive(Serialize)]
struct PrintedSummary {
    file: String,
    seconds: f64,
    cpus: u32,
    events: u64,
    idle_periods: u64,
    block_completions: u64,
    wakes: u64,
    iowait_wakes: u64,
    timers: u64,
    frequency_changes: u64,
    lost: u64,
    unseen_switches: u64,
    ebpf_ns_per_event: Option<f64>,
    ebpf_cpu_percent: Option<f64>,
    ebpf_missed_runs: Option<u64>,
}

fn print_recording_summary(
    summary: &RecordSummary,
    args: &Args,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let printed = PrintedSummary {
        file: args.output.display().to_string(),
        seconds: summary.duration.as_secs_f64(),
        cpus: summary.cpus,
        events: summary.events,
        idle_periods: summary.idle_periods,
        block_completions: summary.block_completions,
        wakes: summary.wakes,
        iowait_wakes: summary.iowait_wakes,
        timers: summary.timers,
        frequency_changes: summary.frequency_changes,
        lost: summary.lost,
        unseen_switches: summary.unseen_switches,
        ebpf_ns_per_event: summary.ebpf_ns_per_record(),
        ebpf_cpu_percent: summary.ebpf_percent_of_cpu_time(),
        ebpf_missed_runs: summary.overhead.map(|o| o.missed_runs),
    };
    if args.format == Format::Json {
        return output::write_json(out, &printed);
    }
    let rows = [
        ("file", printed.file),
        ("seconds", format!("{:.1}", printed.seconds)),
        ("CPUs", printed.cpus.to_string()),
        ("events", printed.events.to_string()),
        ("idle periods", printed.idle_periods.to_string()),
        ("block completions", printed.block_completions.to_string()),
        ("wake-ups", printed.wakes.to_string()),
        ("of them from I/O wait", printed.iowait_wakes.to_string()),
        ("timers fired", printed.timers.to_string()),
        ("frequency changes", printed.frequency_changes.to_string()),
        ("lost", printed.lost.to_string()),
        ("times eBPF was off", printed.unseen_switches.to_string()),
        (
            "eBPF ns per event",
            printed
                .ebpf_ns_per_event
                .map_or_else(|| UNKNOWN.to_owned(), |ns| format!("{ns:.0}")),
        ),
        (
            "eBPF % of all CPUs",
            printed
                .ebpf_cpu_percent
                .map_or_else(|| UNKNOWN.to_owned(), |p| format!("{p:.3}")),
        ),
        (
            "eBPF runs left out",
            printed
                .ebpf_missed_runs
                .map_or_else(|| UNKNOWN.to_owned(), |n| n.to_string()),
        ),
    ]
    .map(|(name, value)| [name.to_owned(), value]);
    match args.format {
        Format::Csv => output::write_csv(out, ["recorded", "value"], rows),
        _ => output::write_table(out, ["recorded", "value"], rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_once() {
        let missing = [
            ("a", "governor inputs"),
            ("b", "governor inputs"),
            ("c", "wake-ups"),
        ]
        .map(|(name, gives)| MissingHook {
            name,
            gives,
            reason: "no".to_owned(),
        });
        let lines = missing_event_kinds_in_words(&missing);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("governor inputs") && lines[0].contains("a, b"));
    }
}
