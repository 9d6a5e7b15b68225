//! Runs made by the laboratory (docs/background/laboratory.md), as a result directory.
//!
//! The directory of the same study as it was simulated says what was planned; the laboratory's own program runs it in
//! virtual machines and leaves a line of JSON for each run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::directory::{MACHINE, MACHINES, Mode, ResultWriter};
use crate::folder::ResultFolder;
use crate::import::{ResultImportError, content_error_at, fio::FioOutput, rt_app};
use crate::layout::STUDY;
use crate::rows::BUSY;
use crate::{Document, Idle, ResultReader, ResultsError, RunKey, RunOrigin, RunRecord};

/// Largest accepted file of measured runs, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// A run as the laboratory's program writes it: a line of JSON.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasuredRun {
    key: RunKey,
    /// fio's output: JSON with histograms (`json+`).
    #[serde(default)]
    fio: Option<String>,
    /// rt-app's logs, if the workload is an rt-app file.
    #[serde(default)]
    rt_app: Option<rt_app::FirstTaskLogs>,
    /// How long the idle counters were watched, in ns of the guest's virtual time.
    watched_ns: u64,
    /// The part of the job during which the counters were watched.
    #[serde(default)]
    window: Option<Window>,
    idle: Vec<StateCounts>,
    /// CPU count.
    cpus: u64,
    /// Number of CPUs in the guest.
    #[serde(default)]
    metrics: BTreeMap<String, f64>,
    tools: BTreeMap<String, String>,
}

/// When the counters were watched, in ns since the job's first request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "named as in the file")]
struct Window {
    begin_ns: u64,
    end_ns: u64,
    /// How long the whole job ran, in ns.
    job_ns: u64,
}

/// Counters of an idle state, summed over all CPUs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateCounts {
    state: String,
    time_us: u64,
    usage: u64,
    above: u64,
    below: u64,
}

/// Makes a result directory from the laboratory's measurements of a study that was simulated before. Returns the number
/// of runs.
///
/// # Errors
/// The simulation's directory or the measured runs cannot be read; a run was not planned, is doubled or missing; the
/// new directory cannot be written.
pub fn write_laboratory_results(
    simulated_dir: &Path,
    measured_file: &Path,
    into: &Path,
    mode: Mode,
) -> Result<usize, ResultImportError> {
    let plan = ResultReader::open(simulated_dir)?;
    let runs = read_measured_runs(measured_file)?;
    let planned: Vec<RunRecord> = plan.read_runs()?;
    let indices = match_measured_to_planned_indices(&runs, &planned)
        .map_err(|message| content_error_at(measured_file, message))?;
    let document = Document {
        backend: RunOrigin::Lab,
        tools: join_tool_versions_with_own(&runs),
        shard: None,
        notes: vec![
            "measured in virtual machines whose time is the number of instructions run: CPUs that are busy at once take turns"
                .to_owned(),
        ],
        ..plan.document().clone()
    };
    // All runs are converted before the first is written.
    let mut filled_runs = Vec::with_capacity(runs.len());
    for (order, (index, run)) in (0_u32..).zip(indices.into_iter().zip(runs)) {
        let kind = first_cpu_kind_name_or_default(plan.document(), &run.key.machine);
        let filled = convert_measured_run(run, kind, order)
            .map_err(|message| content_error_at(measured_file, message))?;
        filled_runs.push((index, filled));
    }
    let writer = ResultWriter::open(
        into,
        document,
        &read_study_file_copies(simulated_dir)?,
        mode,
    )?;
    for (index, run) in &filled_runs {
        writer.write_run(*index, run)?;
    }
    writer.write_tables_and_finish()?;
    Ok(filled_runs.len())
}

/// Index of each measured run among the planned runs. An error if a planned run was not measured exactly once.
fn match_measured_to_planned_indices(
    measured: &[MeasuredRun],
    planned: &[RunRecord],
) -> Result<Vec<usize>, String> {
    let mut indices = Vec::with_capacity(measured.len());
    let mut seen = BTreeSet::new();
    for run in measured {
        let position = planned.iter().position(|planned| planned.key == run.key);
        let index = position.ok_or_else(|| {
            format!(
                "{}: the study has no such run; simulate it again, then run the laboratory again",
                run.key
            )
        })?;
        if !seen.insert(index) {
            return Err(format!("{}: there are two of this run", run.key));
        }
        indices.push(index);
    }
    let mut missing = planned.iter().enumerate();
    match missing.find(|(index, _)| !seen.contains(index)) {
        None => Ok(indices),
        Some((_, run)) => Err(format!(
            "{}: this run is missing; run the laboratory again",
            run.key
        )),
    }
}

/// The tools that the runs used, each with all its versions, and this program's version.
fn join_tool_versions_with_own(runs: &[MeasuredRun]) -> BTreeMap<String, String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (tool, version) in runs.iter().flat_map(|run| &run.tools) {
        versions.entry(tool).or_default().insert(version);
    }
    let listed = versions.into_iter().map(|(tool, versions)| {
        let versions: Vec<&str> = versions.into_iter().collect();
        (tool.to_owned(), versions.join(", "))
    });
    let mut tools: BTreeMap<String, String> = listed.collect();
    tools.insert("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    tools
}

/// Name of the first kind of CPU on a machine; `cpu` if no kind is known.
fn first_cpu_kind_name_or_default<'a>(document: &'a Document, machine: &str) -> &'a str {
    let mut machines = document.machines.iter().filter(|m| m.name == machine);
    let kind = machines.find_map(|machine| machine.cpu_kinds.first());
    kind.map_or("cpu", |kind| kind.name.as_str())
}

/// Reads the copies of study, machines and workloads in a result directory.
fn read_study_file_copies(dir: &Path) -> Result<Vec<(String, Vec<u8>)>, ResultsError> {
    let folder = ResultFolder::open(dir)?;
    let mut names = vec![STUDY.to_owned()];
    if !folder.has_file_or_folder(MACHINES) {
        names.push(MACHINE.to_owned());
    }
    names.extend(folder.list_workload_machine_governor_copies()?);
    folder.read_named_files(names)
}

fn read_measured_runs(path: &Path) -> Result<Vec<MeasuredRun>, ResultImportError> {
    let read = wakepath_files::read_text_up_to(path, MAX_BYTES);
    let text = read.map_err(|source| ResultImportError::Read {
        path: path.to_owned(),
        source,
    })?;
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| {
                content_error_at(
                    path,
                    format!("line {number}: no run of the laboratory: {error}"),
                )
            })
        })
        .collect()
}

/// Makes a run's record from a measurement: latencies by fio or rt-app, idle counters, and the derived busy time.
fn convert_measured_run(
    measured: MeasuredRun,
    cpu_kind: &str,
    order: u32,
) -> Result<RunRecord, String> {
    let repeat = measured.key.repeat;
    let mut run = RunRecord::new(measured.key.clone(), None, repeat, order);
    match (&measured.fio, &measured.rt_app) {
        (Some(fio), None) => FioOutput::parse_first_document(fio)
            .ok_or_else(|| "fio has printed no JSON".to_owned())
            .and_then(|output| output?.fill_metrics_and_histogram(&mut run)),
        (None, Some(logs)) => logs.fill_run_metrics_from_logs(&mut run),
        _ => Err("has to have one of `fio` and `rt_app`".to_owned()),
    }
    .map_err(|message| format!("{}: {message}", measured.key))?;
    if let Some(window) = &measured.window
        && (window.end_ns.checked_sub(window.begin_ns) != Some(measured.watched_ns)
            || window.end_ns > window.job_ns)
    {
        return Err(format!(
            "{}: its counters were watched from {} to {} ns, which is not {} ns of a job of {} ns; measure it again",
            measured.key, window.begin_ns, window.end_ns, measured.watched_ns, window.job_ns
        ));
    }
    run.metrics.extend(measured.metrics);
    let idle_ns: u64 = measured.idle.iter().map(|s| s.time_us * 1000).sum();
    let busy = StateCounts {
        state: BUSY.to_owned(),
        time_us: (measured.watched_ns * measured.cpus).saturating_sub(idle_ns) / 1000,
        usage: 0,
        above: 0,
        below: 0,
    };
    let states = measured.idle.into_iter().chain([busy]);
    run.idle = states
        .map(|state| Idle {
            cpu_kind: cpu_kind.to_owned(),
            state: state.state,
            time_ns: state.time_us * 1000,
            entries: state.usage,
            too_deep: state.above,
            too_shallow: state.below,
            above: Some(state.above),
            below: Some(state.below),
            added_latency_ns: None,
            wasted_energy_uj: None,
        })
        .collect();
    Ok(run)
}
