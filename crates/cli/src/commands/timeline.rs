//! `--perfetto` and `--record`: a simulated run as a timeline and as a recording.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::error::ErrorKind;
use wakepath_report::perfetto;
use wakepath_study::plan::{Cell, Plan};
use wakepath_study::recorder::{self, FollowedTasks, Recorder};
use wakepath_study::run::sim::Sim;
use wakepath_study::timeline::Observed;
use wakepath_trace::recording::{Metadata, Overwrite, Writer};
use wakepath_units::{Nanoseconds, quantity};
use wakepath_workloads::Workload;

use crate::{new_file, waiting};

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("files").args(["perfetto", "record"]).multiple(true)))]
pub(crate) struct TimelineArgs {
    /// Write a timeline of the first run for Perfetto; needs a single policy set.
    #[arg(long, value_name = "FILE")]
    perfetto: Option<PathBuf>,
    /// How much of the run, from its start: a number with ns, us, ms or s.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_timeline_span, requires = "perfetto")]
    perfetto_span: Nanoseconds,
    /// Write the first run as a recording, as `wakepath record` would have, for `wakepath explain`; needs a single policy set.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Record the steps of all tasks, and not only of those that wait for I/O: `wakepath workload extract -o FILE.toml` needs
    /// them.
    #[arg(long, requires = "record")]
    all_tasks: bool,
    /// Replace the files of --perfetto and --record if they exist.
    #[arg(long, requires = "files")]
    force: bool,
}

impl TimelineArgs {
    /// Whether the first run is to be written as a recording.
    pub(crate) const fn is_recording_asked_for(&self) -> bool {
        self.record.is_some()
    }

    /// Writes the first run's recording and timeline, if requested. Both paths are checked before anything is
    /// simulated.
    pub(crate) fn write_requested_recording_and_trace(
        &self,
        plan: &Plan,
        sim: &Sim<'_>,
        cli: clap::Command,
    ) -> anyhow::Result<()> {
        let option = match (&self.record, &self.perfetto) {
            (None, None) => return Ok(()),
            (Some(_), _) => "--record writes",
            (None, Some(_)) => "--perfetto draws",
        };
        if plan.policies.len() > 1 {
            exit_for_several_policy_sets(cli, option, plan.policies.len());
        }
        if self.record.is_some() && self.record == self.perfetto {
            bail!("--record and --perfetto name the same file; give each its own");
        }
        for (option, path) in [("--record", &self.record), ("--perfetto", &self.perfetto)] {
            if let Some(path) = path {
                new_file::check_output_may_be_written(path, self.force)
                    .with_context(|| format!("{option} {}", path.display()))?;
            }
        }
        if let Some(path) = &self.record {
            self.write_first_run_as_recording(path, plan, sim)
                .with_context(|| format!("--record {}", path.display()))?;
        }
        if let Some(path) = &self.perfetto {
            self.write_first_run_as_perfetto(path, plan, sim)
                .with_context(|| format!("--perfetto {}", path.display()))?;
        }
        Ok(())
    }

    fn write_first_run_as_recording(
        &self,
        path: &Path,
        plan: &Plan,
        sim: &Sim<'_>,
    ) -> anyhow::Result<()> {
        let (cell, workload) = first_cell_with_workload(plan)?;
        let machine = sim.machine_under_policy(cell)?;
        let set = &plan.policies[cell.policy].set;
        let metadata = Metadata {
            settings: recorder::describe_drive_settings(&machine, set),
            ..recorder::describe_machine(&machine).map_err(anyhow::Error::msg)?
        };
        // A recording gets its name only when complete, whatever happens meanwhile.
        let target = new_file::resolve_links_if_present(path);
        let folder = tempfile::Builder::new()
            .prefix(".wakepath-")
            .tempdir_in(new_file::parent_folder(&target))
            .map_err(|e| e.raw_os_error().map_or(e, io::Error::from_raw_os_error))?;
        waiting::remove_folder_at_second_signal(folder.path());
        let unfinished = folder.path().join("recording.parquet");
        let writer = Writer::create(&unfinished, Overwrite::No, metadata)?;
        let followed = if self.all_tasks {
            FollowedTasks::All
        } else {
            FollowedTasks::WithIo
        };
        let mut recorder =
            Recorder::new(writer, &machine, workload, followed, waiting::is_cancelled);
        sim.simulate(cell, &mut recorder)?;
        recorder.finish_recording()?;
        if waiting::is_cancelled() {
            bail!("nothing was kept");
        }
        let unfinished = tempfile::TempPath::try_from_path(unfinished)?;
        if self.force {
            unfinished.persist(target)?;
        } else {
            unfinished.persist_noclobber(target)?;
        }
        Ok(())
    }

    fn write_first_run_as_perfetto(
        &self,
        path: &Path,
        plan: &Plan,
        sim: &Sim<'_>,
    ) -> anyhow::Result<()> {
        let (cell, workload) = first_cell_with_workload(plan)?;
        new_file::write_whole_file(path, self.force, |file| {
            let span = self.perfetto_span;
            let machine = sim.machine_under_policy(cell)?;
            let mut observed = Observed::new(&machine, workload, span, |_| waiting::is_cancelled());
            sim.simulate(cell, &mut observed)?;
            let out = BufWriter::new(WriterUntilCancelled(file));
            perfetto::write_perfetto_trace(out, &observed.into_timeline())?;
            Ok(())
        })
    }
}

/// The first cell of a plan, with the workload to simulate.
fn first_cell_with_workload(plan: &Plan) -> anyhow::Result<(Cell, &Workload)> {
    let cell = plan.cell_at(0);
    let workload = plan.workloads[cell.workload].simulated_workload();
    Ok((cell, workload.context("no workload that can be simulated")?))
}

/// A writer that refuses all bytes after Ctrl-C.
struct WriterUntilCancelled<'a>(&'a File);

impl Write for WriterUntilCancelled<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if waiting::is_cancelled() {
            return Err(io::Error::other("nothing was kept"));
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Exits with a usage error, because a timeline needs a single policy set.
fn exit_for_several_policy_sets(mut cli: clap::Command, what: &str, sets: usize) -> ! {
    cli.build();
    let mut sim = cli.find_subcommand("sim").cloned().unwrap_or(cli);
    let message = format!("{what} one policy set, and there are {sets}; give --policy once");
    sim.error(ErrorKind::TooManyValues, message).exit()
}

fn parse_timeline_span(text: &str) -> Result<Nanoseconds, String> {
    match quantity::parse_time(text) {
        None => Err("expected a time with ns, us, ms or s, such as 100ms".into()),
        Some(Nanoseconds::ZERO) => Err("a timeline of no time shows nothing".into()),
        Some(time) => Ok(time),
    }
}
