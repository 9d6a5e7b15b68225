//! `wakepath explain` on the running machine.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use wakepath_explain::{Collected, Coverage, CpuExits, Explanation, ProbeCost};
use wakepath_record::{BUFFER_BYTES, GOVERNOR_INPUTS, LiveRecording, Overhead, RecordedTasks};
use wakepath_system::{System, capture};

use super::arguments::{Args, find_drive_number};
use super::gaps::{
    note_virtual_machine, warn_of_gaps, warn_of_missing_hooks, warn_of_unseen_tasks,
};
use super::live_requests::LiveRequests;
use super::measured::find_measured_exits;
use super::outputs::OutputTargets;
use super::results::{self, THIS_MACHINE, TracedResults};
use super::{answer, moments};
use crate::commands::record::{
    STEP, end_process_group, missing_event_kinds_in_words, start_command_if_given,
};
use crate::messages::tell;
use crate::output::{self, Format, Screen};
use crate::until::EndSignals;

/// How long the machine is watched if nothing else says so.
const DURATION: Duration = Duration::from_secs(30);

/// Why watching, or an interval, ended.
enum Ended {
    /// Watching ended because the interval is over.
    Interval,
    /// Watching ended by Ctrl-C, or because the whole time is over.
    Asked,
    /// The command ended.
    Command(ExitStatus),
}

/// What was seen in an interval, or in the whole time.
struct Interval {
    explanation: Explanation,
    /// What `--output` and `--page` take, if something is to be written.
    results: Option<TracedResults>,
    ended: Ended,
}

/// Watches this machine, and explains where its requests' time went.
pub(super) fn run(
    args: &Args,
    targets: &OutputTargets<'_>,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let system = System::live();
    let recording = LiveRecording::load_and_attach(BUFFER_BYTES, RecordedTasks::WithIo)?;
    let missing = recording
        .missing_hooks()
        .iter()
        .filter(|hook| hook.gives != GOVERNOR_INPUTS);
    for line in missing_event_kinds_in_words(&missing.cloned().collect::<Vec<_>>()) {
        tell!("{line}");
    }
    let requests = LiveRequests::start(recording, &system);
    let stream = &requests.stream;
    let device = find_drive_number(args.drive.as_deref(), stream.metadata())?;
    if capture::runs_under_hypervisor(system.root())
        && stream.metadata().idle_driver.as_deref() != Some("haltpoll")
    {
        note_virtual_machine();
    }
    let signals = EndSignals::new()?;
    let mut command = start_command_if_given(&args.command, args.format)?;
    let measured = find_measured_exits(None, stream.metadata())?;
    let mut watch = Watch {
        args,
        targets,
        measured,
        requests,
        device,
        signals,
        started: Instant::now(),
        overhead: Overhead::default(),
    };
    let ended = if args.watch {
        watch.explain_intervals(command.as_mut(), out)
    } else {
        watch.explain_once(command.as_mut(), out)
    };
    if let Some(child) = &mut command {
        end_process_group(child);
    }
    match ended? {
        Ended::Command(status) if !status.success() => {
            // The explanation is printed already, even if the command failed.
            out.print().context("writing the answer")?;
            bail!("the command ended with {status}")
        }
        _ => Ok(()),
    }
}

/// A machine that is being watched.
struct Watch<'a> {
    args: &'a Args,
    targets: &'a OutputTargets<'a>,
    requests: LiveRequests,
    device: Option<u32>,
    /// Measured exits by cluster.
    measured: Vec<CpuExits>,
    signals: EndSignals,
    started: Instant,
    /// Cost of probes up to the end of the last interval.
    overhead: Overhead,
}

impl Watch<'_> {
    fn explain_once(
        &mut self,
        command: Option<&mut Child>,
        out: &mut Screen,
    ) -> anyhow::Result<Ended> {
        let Interval {
            explanation,
            results,
            ended,
        } = self.follow_interval(None, command)?;
        warn_of_gaps(
            &explanation.coverage,
            self.requests.stream.metadata().lost_events,
        );
        warn_of_unseen_tasks(self.requests.stream.metadata());
        if explanation.kinds.is_empty() {
            let nothing = self.nothing_seen_message();
            match ended {
                Ended::Command(status) if !status.success() => {
                    bail!("the command ended with {status}; {nothing}")
                }
                Ended::Command(_) => bail!("{nothing} while the command ran"),
                _ => bail!(
                    "{nothing} meanwhile; run a load beside it, or give it a command: wakepath explain -- fio job.fio"
                ),
            }
        }
        warn_of_missing_hooks(self.requests.stream.metadata());
        answer::print_explanation(&explanation, self.args.by, self.args.format, out)?;
        self.targets
            .write_after_answer(results, &explanation, None, out)?;
        Ok(ended)
    }

    fn explain_intervals(
        &mut self,
        mut command: Option<&mut Child>,
        out: &mut Screen,
    ) -> anyhow::Result<Ended> {
        let mut number = 0;
        let mut coverage = Coverage::default();
        let clears = self.args.format == Format::Table && std::io::stdout().is_terminal();
        loop {
            let interval = Some(self.args.interval);
            let Interval {
                explanation, ended, ..
            } = self.follow_interval(interval, command.as_deref_mut())?;
            if number == 0 {
                warn_of_missing_hooks(self.requests.stream.metadata());
            }
            if clears {
                output::clear_screen().context("clearing the screen")?;
            }
            number += 1;
            coverage += explanation.coverage;
            match self.args.format {
                Format::Json => output::write_json_line(out, &explanation)?,
                Format::Csv => answer::print_interval_csv(&explanation, self.args.by, number, out)?,
                Format::Table if explanation.kinds.is_empty() => {
                    writeln!(out, "no block requests")?;
                }
                Format::Table => {
                    answer::print_explanation(&explanation, self.args.by, Format::Table, out)?;
                }
            }
            // The interval is printed at once: the end may never come. A reader that has gone ends the watching.
            match out.print() {
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                    return Ok(Ended::Asked);
                }
                written => written.context("writing the answer")?,
            }
            if !matches!(ended, Ended::Interval) {
                warn_of_gaps(&coverage, self.requests.stream.metadata().lost_events);
                warn_of_unseen_tasks(self.requests.stream.metadata());
                return Ok(ended);
            }
        }
    }

    /// Follows requests for an interval, or until the end. Explains those that completed long enough ago to have all their
    /// parts, and at the end all that are left.
    fn follow_interval(
        &mut self,
        interval: Option<Duration>,
        mut command: Option<&mut Child>,
    ) -> anyhow::Result<Interval> {
        let begun = Instant::now();
        let ended = loop {
            let whole = self
                .watching_time()
                .map(|time| time.saturating_sub(self.started.elapsed()));
            let rest = interval.map(|time| time.saturating_sub(begun.elapsed()));
            let step = whole.into_iter().chain(rest).chain([STEP]).min();
            if whole == Some(Duration::ZERO) || self.signals.wait_for_signal_up_to(step).is_some() {
                break Ended::Asked;
            }
            self.requests.push_new_events()?;
            if let Some(child) = &mut command
                && let Some(status) = child.try_wait().context("waiting for the command")?
            {
                break Ended::Command(status);
            }
            if rest == Some(Duration::ZERO) {
                break Ended::Interval;
            }
        };
        let mut collected = self.take_requests(&ended)?;
        let submitters = collected.requests.iter().filter_map(|r| r.task);
        let passed_on = collected.hops.iter().map(|hop| hop.task);
        let to_come = self.requests.collector.list_tasks_of_requests_to_come();
        let tasks: HashSet<u32> = submitters.chain(passed_on).chain(to_come).collect();
        if let Some(device) = self.device {
            collected.keep_only_device(device);
        }
        self.requests.stream.update_residency_in_metadata();
        let metadata = self.requests.stream.metadata();
        let mut groups = wakepath_explain::explain_request_kinds(
            &collected,
            self.args.by.map(Into::into),
            metadata,
        );
        wakepath_explain::compare_estimates(&mut groups, &self.measured, &collected.timers);
        let mut explanation = wakepath_explain::assemble_explanation(&groups, &collected, metadata);
        let results = if self.targets.wants_results() && !groups.is_empty() {
            let moments = moments::find_moments(results::keep_large_kinds(&groups));
            Some(TracedResults::new(
                &groups,
                &moments,
                metadata,
                THIS_MACHINE,
            )?)
        } else {
            None
        };
        explanation.probes = self.mean_probe_ns().map(ProbeCost::new);
        self.requests
            .stream
            .forget_unused_task_names_if_half_full(&tasks);
        Ok(Interval {
            explanation,
            results,
            ended,
        })
    }

    /// Takes the requests with all parts, and all requests at the end of watching.
    fn take_requests(&mut self, ended: &Ended) -> anyhow::Result<Collected> {
        Ok(match ended {
            Ended::Interval => self.requests.take_settled_requests(),
            Ended::Asked | Ended::Command(_) => self.requests.finish()?,
        })
    }

    /// How long to watch in total; `None` without a limit.
    fn watching_time(&self) -> Option<Duration> {
        let unlimited = self.args.watch || !self.args.command.is_empty();
        self.args.duration.or((!unlimited).then_some(DURATION))
    }

    /// Mean time that a probe took since the last call, in ns.
    fn mean_probe_ns(&mut self) -> Option<f64> {
        let now = self.requests.stream.overhead_so_far()?;
        let runs = now.runs.saturating_sub(self.overhead.runs);
        let time = now.run_time.saturating_sub(self.overhead.run_time);
        self.overhead = now;
        (runs > 0).then(|| time.as_nanos() as f64 / runs as f64)
    }

    fn nothing_seen_message(&self) -> String {
        let drive = self.args.drive.as_ref();
        let which = drive.map_or_else(String::new, |name| format!(" of {name}"));
        format!("no block request{which} was issued and completed")
    }
}
