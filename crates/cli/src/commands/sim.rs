//! `wakepath sim`: a fio job, an rt-app file or a server on a modelled machine, under the given policy sets.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::PredictionError;
use wakepath_hardware::recorded::{self, RecordedSystem};
use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Place;
use wakepath_sim::{PolicyComparison, PolicyResult, policies_in_force};
use wakepath_study::file::StudyError;
use wakepath_study::plan::{Plan, load_block_trace, longest_simulated_time};
use wakepath_study::run::RunControl;
use wakepath_study::run::sim::{Sim, SimComparison};
use wakepath_units::{KernelVersion, Nanoseconds};
use wakepath_workloads::Workload;
use wakepath_workloads::block_trace::BlockTraceOptions;
use wakepath_workloads::fio::{self, FioSurroundings, MachineFigures};
use wakepath_workloads::rtapp::{MAX_THREADS, RtAppVersion};

mod columns;
mod drawing;
mod figures;
mod jobs;
mod notes;
mod power;
mod states;
mod tables;
mod threads;

use super::arguments;
use super::here;
use super::timeline::TimelineArgs;
use crate::messages::{self, MessageKind, note, warning};
use crate::output::{self, Format, Screen};
use crate::policy_set::{self, ProgramPermission, WholePolicySetParser};
use crate::until;
use crate::waiting::{self, LongSimulationNotes, ThreadCount};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  wakepath sim workloads/iowait-rk3399.fio --machine rk3399 --policy menu@6.1 --policy 'teo + schedutil[iowait_boost=off]'
  wakepath sim workloads/iowait-rk3399.fio --machine rk3399 --policy '' --policy 'cpu-latency[limit=20us]'
  wakepath sim workloads/apst-7.fio --machine laptop --drive sn530 --policy 'apst[rule=legacy]' --policy apst
  wakepath sim workloads/iowait-rk3399.fio --machine rk3399 --perfetto menu.pftrace
  wakepath sim --machine rk3399 -- fio --name=a --rw=randread --direct=1 --size=64m
  wakepath sim trace.csv --machine laptop --drive sn530 --disk 1 --from 2h --policy apst --policy 'apst[rule=legacy]'
  wakepath sim workloads/ping-pong.json --machine intel-tbench-80t --policy performance --policy 'performance + poll[rule=first]'
  wakepath sim workloads/redis-server.toml --machine skylake-2s-server")]
pub(crate) struct Args {
    /// fio job file, rt-app file (*.json), server or tasks (*.toml), or block trace: blktrace's files (or their folder), text of
    /// blkparse, fio's iolog, an MSR Cambridge trace, or a recording.
    #[arg(required_unless_present = "command")]
    job: Option<PathBuf>,
    /// A command line of fio, such as `fio --name=a --rw=randread --direct=1 --size=1g`, in place of a file.
    #[arg(last = true, value_name = "FIO_COMMAND", conflicts_with = "job")]
    command: Vec<String>,
    /// Value of the variable `${NAME}` in a fio job file, before the environment's, or of a server's rate, clients or workers; give
    /// it again for each variable.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_variable)]
    variables: Vec<(String, String)>,
    /// Built-in machine, recorded system, a machine file (*.toml), or here: what `wakepath calibrate` found of this machine
    /// [default: here, if this machine is calibrated].
    #[arg(long)]
    machine: Option<String>,
    /// Policies that hold together, such as 'menu + schedutil + psd[timeout=3ms]'; give it again for each set to
    /// compare. What a set does not name is as the machine's kernel has it. `wakepath policy list` has them all.
    /// `file:/etc/wakepath/daemon.toml` stands for what the daemon would do by that configuration.
    #[arg(long, value_name = "SET", value_parser = WholePolicySetParser(Place::Sim), hide_possible_values = true)]
    policy: Vec<PolicySet>,
    /// The machine's drive instead of its own: sn530, 760p, pm991, bc511, kbg40zns, any drive of
    /// `wakepath drive list`, a drive or machine file (*.toml), or a file with what `nvme id-ctrl` or smartctl printed. On a
    /// captured machine also another of its own, such as nvme1. A drive with power states sleeps by the kernel's default
    /// unless the set has an apst.
    #[arg(long, value_name = "NAME")]
    drive: Option<String>,
    /// How often to run an rt-app workload side by side, each copy with threads and resources of its
    /// own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    copies: Option<u32>,
    /// The disk of a block trace, such as 259,0 [default: the disk with most requests, or all files of fio's iolog].
    #[arg(long, value_name = "NAME")]
    disk: Option<String>,
    /// Time from the first request of a block trace to the first that is simulated, such as 90s; a plain number counts
    /// seconds.
    #[arg(long, value_name = "TIME", value_parser = until::parse_simulated_time_or_seconds)]
    from: Option<Nanoseconds>,
    /// A request of a block trace waits for all that had ended before it there, and then as long as it had come after them
    /// [default: requests come at their times, whatever is in flight].
    #[arg(long)]
    dependent: bool,
    /// Longest time that each fio job, an rt-app file, a server or a block trace is simulated for, such as 500ms or 30s; a plain
    /// number counts seconds. A longer ramp_time is cut as well.
    /// Without it, what gives no time of its own ends after 60 s, and an rt-app file after 600 s.
    #[arg(long, value_name = "TIME", value_parser = until::parse_simulated_time_or_seconds)]
    seconds: Option<Nanoseconds>,
    /// The rt-app that a file was written for: 1.0, where `suspend` waits for the name that it gives, or 2025, where it waits
    /// for its own task's [default: as the file says, or 2025].
    #[arg(long, value_name = "VERSION")]
    rt_app: Option<RtAppVersion>,
    /// Time at the start of time-based fio jobs and servers that does not count, such as 500ms; a plain number counts seconds, and
    /// 0 counts from the first request. A job that has a ramp_time keeps it [default: ten times what is measured, 2 s at most;
    /// none of a job with a steady state, or that pauses for as long as it runs; a server's own].
    #[arg(long, value_name = "TIME", value_parser = until::parse_warm_up_or_zero)]
    warm_up: Option<Nanoseconds>,
    /// The kernel whose policies bare names mean, and what no set names, such as 6.12.48 or 7.3; `wakepath policy kernels` has
    /// what changed [default: the machine's, or 6.12].
    #[arg(long, value_name = "VERSION", value_parser = arguments::parse_kernel_version_or_nearest)]
    kernel: Option<KernelVersion>,
    /// Runs per policy set, each with a seed of its own.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Seed of the first run; the others count up from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    programs: ProgramPermission,
    #[command(flatten)]
    jobs: ThreadCount,
    #[command(flatten)]
    timeline: TimelineArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Bytes of a page of the modelled kernels.
const PAGE_BYTES: u64 = 4096;
const MIB: u64 = 1 << 20;

impl Args {
    /// The workload's path in messages; a command line of fio has a name in its place.
    fn workload_path(&self) -> &Path {
        let named = Path::new(fio::COMMAND_LINE_ORIGIN);
        self.job.as_deref().unwrap_or(named)
    }
}

/// Parses `NAME=VALUE`; a fio variable's name has no blank, bracket or equals sign.
fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !name.contains(['{', '}', ' ', '$']) => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("expected NAME=VALUE, where ${NAME} is in the job file".to_owned()),
    }
}

pub(crate) fn simulate_and_print_policies(
    args: &Args,
    cli: clap::Command,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let (machine, chosen) = here::find_machine_to_simulate_and_notice(
        args.machine.as_deref(),
        args.kernel,
        args.drive.as_deref(),
    )?;
    let given = policy_set::load_custom_governors(&args.policy, args.programs)?;
    let policies = policies_in_force_each_once(&machine, &given)?;
    let workload = load_limited_workload_copies(args, &machine)?;
    let plan = Plan::without_file(
        &args.workload_path().display().to_string(),
        machine.clone(),
        workload.clone(),
        policies,
        args.seed,
        args.runs,
    );
    let long = LongSimulationNotes::new(plan.run_count(), longest_simulated_time(&workload));
    let comparison = waiting::run_with_progress(
        args.jobs,
        plan.run_count(),
        "runs",
        |finished, cancelled| {
            let sim = Sim::new(&plan)?;
            args.timeline
                .write_requested_recording_and_trace(&plan, &sim, cli)
                .map_err(simulation_error_without_names)?;
            let control = RunControl {
                finished,
                cancelled,
            };
            sim.compare_reporting_progress(&control, &|run, progress| {
                long.note_progress(run, progress);
            })
            .map_err(|e| simulation_error_without_names(e.into()))
        },
    )
    .inspect_err(|_| {
        arguments::hold_workload_warnings(args.workload_path(), &workload);
    })?;
    hold_notes_on_job_drive_and_runs(args, &machine, &workload, &comparison);
    let of_threads = matches!(workload, Workload::RtApp(_));
    match (chosen, args.format) {
        (Some(line), Format::Table) => out.write_folded(&line, 2)?,
        (Some(line), _) => note!("{line}"),
        (None, _) => {}
    }
    match args.format {
        Format::Json => output::write_json(out, &SimulationFile::new(&machine, comparison)),
        Format::Csv if of_threads => threads::write_tasks_as_csv(out, &comparison),
        Format::Csv => tables::write_runs_as_csv(out, &comparison),
        Format::Table if of_threads => threads::write_rt_app_tables(out, &machine, &comparison),
        Format::Table => {
            let tables = match workload {
                Workload::Server(_) => tables::RequestTables::ServerRequests,
                Workload::Fio(_) | Workload::RtApp(_) | Workload::Tasks(_) => {
                    tables::RequestTables::Ios
                }
            };
            tables::write_request_tables_and_drawing(out, &machine, &comparison, tables)
        }
    }
}

/// JSON output.
#[derive(Serialize)]
struct SimulationFile<'a> {
    machine: SimulatedMachine<'a>,
    results: Vec<PolicyResult>,
}

/// The machine that was simulated.
#[derive(Serialize)]
struct SimulatedMachine<'a> {
    name: &'a str,
    title: &'a str,
    /// How far predictions on a calibrated machine were off.
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<&'a PredictionError>,
}

impl<'a> SimulationFile<'a> {
    fn new(machine: &'a Machine, comparison: SimComparison) -> Self {
        Self {
            machine: SimulatedMachine {
                name: &machine.name,
                title: &machine.title,
                prediction: machine.prediction.as_ref(),
            },
            results: PolicyComparison::from(comparison).results,
        }
    }
}

/// Reads the workload that the arguments name, with their limits on time and their number of copies.
fn load_limited_workload_copies(args: &Args, machine: &Machine) -> anyhow::Result<Workload> {
    let surroundings = FioSurroundings {
        variables: args.variables.iter().cloned().collect(),
        machine: Some(MachineFigures {
            cpus: machine.cpus() as u64,
            memory_mib: machine.page_cache_pages() / (MIB / PAGE_BYTES),
            page_bytes: PAGE_BYTES,
        }),
    };
    let trace_options = BlockTraceOptions {
        disk: args.disk.clone(),
        from: args.from.unwrap_or(Nanoseconds::ZERO),
        is_dependent: args.dependent,
    };
    let trace = match &args.job {
        Some(path) if path.is_file() || path.is_dir() => load_block_trace(path, &trace_options)?,
        _ => None,
    };
    if trace.is_none() && trace_options.any_is_given() {
        bail!("--disk, --from and --dependent are for block traces")
    }
    let read = match (trace, &args.job) {
        (Some(trace), _) => trace,
        (None, Some(path)) => Workload::load_with(path, args.rt_app, &surroundings)?,
        (None, None) if !fio::begins_as_command_line(&args.command) => {
            bail!(
                "behind `--` there is a command line of fio, such as `fio --name=a --rw=randread --size=1g`"
            )
        }
        (None, None) => fio::parse_command_line(&args.command, &surroundings)?.into(),
    };
    if !matches!(read, Workload::RtApp(_)) && args.rt_app.is_some() {
        bail!("--rt-app is for rt-app files, and this is none")
    }
    notes::note_ramps_that_a_limit_cuts(&read, args.seconds);
    let warmed_up = read.with_time_limit_and_fio_warm_up(args.seconds, args.warm_up);
    match args.copies {
        Some(copies) => make_rt_app_copies(warmed_up, copies).context("--copies"),
        None => Ok(warmed_up),
    }
}

/// Prints notes on the job, the drive and the runs, for readers of the tables.
fn hold_notes_on_job_drive_and_runs(
    args: &Args,
    machine: &Machine,
    workload: &Workload,
    comparison: &SimComparison,
) {
    let path = args.workload_path();
    arguments::hold_workload_warnings(path, workload);
    let is_recorded = args.timeline.is_recording_asked_for();
    notes::note_warm_up_and_mostly_paused_jobs(workload, args.format, is_recorded);
    notes::warn_of_late_replays(path, comparison);
    notes::warn_of_requests_beyond_assumed_size(workload, &machine.drive);
    notes::note_drifting_latencies(path, comparison);
    notes::note_percentiles_of_few_requests(comparison, args.format);
    notes::note_jobs_ended_by_time(workload, comparison);
    notes::note_assumed_figures_of_server(workload);
    notes::note_found_depths(workload, comparison);
    threads::warn_of_unexpected_rt_app_outcomes(path, workload, comparison);
    notes::note_use_of_page_cache(machine, comparison);
    notes::note_polling_without_polled_queues(workload, machine);
    notes::note_policies_at_power_limit(comparison);
    let drive = &machine.drive;
    if let Some(note) = &drive.note {
        note!("{note}");
    }
    let declared = drive.power.as_ref().map(|power| &power.declared);
    for contradiction in declared.iter().flat_map(|d| d.find_power_contradictions()) {
        warning!(
            "what {} declares contradicts itself: {contradiction}; its power is partly assumed \
             (`wakepath machine show`)",
            drive.name
        );
    }
    if let Some(warning) = notes::missed_rates_sentence_if_any(workload, comparison) {
        messages::hold_message_until_result(
            MessageKind::Warning,
            Some(&path.display().to_string()),
            warning,
        );
    }
}

/// Removes the names of workload and policy from an error: they are on the command line.
fn simulation_error_without_names(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(StudyError::Simulation { source, .. }) => (*source).into(),
        Ok(other) => other.into(),
        Err(other) => other,
    }
}

/// The policy sets to run, each once; without given sets, the machine's own policies.
fn policies_in_force_each_once(
    machine: &Machine,
    given: &[PolicySet],
) -> anyhow::Result<Vec<PolicySet>> {
    let unchanged = [PolicySet::default()];
    let given = if given.is_empty() { &unchanged } else { given };
    let ran = recorded::find_recorded_system(&machine.name)
        .map(RecordedSystem::kernel_policy_or_stand_in);
    let stands_in = ran.and_then(|ran| ran.stands_in);
    if let Some(told) = stands_in.filter(|_| {
        given
            .iter()
            .any(|set: &PolicySet| set.idle().is_none() || set.frequency().is_none())
    }) {
        messages::hold_message_until_result(MessageKind::Remark, None, told);
    }
    policy_set::note_each_policy_assumption_once(machine, given).context("--policy")?;
    let sets: Result<Vec<PolicySet>, _> = given
        .iter()
        .map(|set| policies_in_force(machine, set))
        .collect();
    Ok(policy_set::remove_and_note_repeated_sets(
        sets.context("--policy")?,
    ))
}

/// The workload with so many copies side by side; only rt-app files can have copies.
fn make_rt_app_copies(workload: Workload, copies: u32) -> anyhow::Result<Workload> {
    match workload {
        Workload::RtApp(file) => match file.with_copies(copies) {
            Ok(file) => Ok(file.into()),
            Err(threads) => bail!("{threads} threads, and there may be 1 to {MAX_THREADS}"),
        },
        Workload::Fio(_) => bail!("for rt-app files; a fio job has numjobs"),
        Workload::Server(_) => bail!("for rt-app files; a server has workers"),
        Workload::Tasks(_) => bail!("for rt-app files; tasks of given steps are there once"),
    }
}
