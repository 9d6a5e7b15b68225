//! Runs of a study that the laboratory has made (docs/laboratory.md), as a result directory.
//!
//! The directory of the same study as it was simulated says what was planned; the laboratory's own program runs it in
//! virtual machines and leaves a line of JSON for each run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;

use crate::directory::{MACHINE, MACHINES, Mode, ResultWriter};
use crate::folder::ResultFolder;
use crate::import::{ResultImportError, fio::Output, rt_app};
use crate::layout::STUDY;
use crate::rows::BUSY;
use crate::{Document, Idle, ResultReader, ResultsError, RunKey, RunOrigin, RunRecord};

/// Largest file of measured runs.
const MAX_BYTES: u64 = 1 << 30;

/// A run as the laboratory writes it down.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    key: RunKey,
    /// What fio printed, as JSON with histograms.
    #[serde(default)]
    fio: Option<String>,
    /// What rt-app logged, if it ran.
    #[serde(default)]
    rt_app: Option<rt_app::FirstTask>,
    /// How long the counters were watched, in ns of the guest.
    watched_ns: u64,
    /// Of a job, from when to when.
    #[serde(default)]
    window: Option<Window>,
    idle: Vec<Counted>,
    /// CPUs with these states.
    cpus: u64,
    /// Further metrics.
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
    /// How long the job ran.
    job_ns: u64,
}

/// An idle state over all CPUs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    state: String,
    time_us: u64,
    usage: u64,
    above: u64,
    below: u64,
}

/// Makes a result directory of what the laboratory measured of a simulated study. Returns how many runs it has.
///
/// # Errors
/// The directory of the simulation or the measured runs cannot be read; a run was not planned, is there twice or missing;
/// the new directory cannot be written.
pub fn write(
    simulated: &Path,
    measured: &Path,
    into: &Path,
    mode: Mode,
) -> Result<usize, ResultImportError> {
    let content = |message: String| ResultImportError::Content {
        path: measured.to_owned(),
        message,
    };
    let plan = ResultReader::open(simulated)?;
    let runs = read(measured)?;
    let planned: Vec<RunRecord> = plan.runs()?;
    let place = |key: &RunKey| planned.iter().position(|run| run.key == *key);
    let mut versions = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for run in &runs {
        let Some(index) = place(&run.key) else {
            return Err(content(format!(
                "{}: the study has no such run; simulate it again, then run the laboratory again",
                run.key
            )));
        };
        if !seen.insert(index) {
            return Err(content(format!("{}: there are two of this run", run.key)));
        }
        for (name, version) in &run.tools {
            let known: &mut BTreeSet<String> = versions.entry(name.clone()).or_default();
            known.insert(version.clone());
        }
    }
    if let Some(missing) = planned.iter().enumerate().find(|(i, _)| !seen.contains(i)) {
        return Err(content(format!(
            "{}: this run is missing; run the laboratory again",
            missing.1.key
        )));
    }
    let listed = |(name, versions): (String, BTreeSet<String>)| {
        (name, versions.into_iter().collect::<Vec<_>>().join(", "))
    };
    let mut tools: BTreeMap<String, String> = versions.into_iter().map(listed).collect();
    tools.insert("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let document = Document {
        backend: RunOrigin::Lab,
        tools,
        shard: None,
        notes: vec![
            "measured in virtual machines whose time is the number of instructions run: CPUs that are busy at once take turns"
                .to_owned(),
        ],
        ..plan.document().clone()
    };
    let kind_on = |machine: &str| {
        let machines = plan.document().machines.iter();
        machines
            .filter(|m| m.name == machine)
            .find_map(|m| m.cpu_kinds.first())
            .map_or("cpu", |kind| kind.name.as_str())
    };
    // Nothing is written before all can be read.
    let runs = (0_u32..).zip(runs).map(|(order, measured)| {
        let index = place(&measured.key).unwrap_or_default();
        let kind = kind_on(&measured.key.machine);
        Ok((index, filled(measured, kind, order).map_err(content)?))
    });
    let runs: Vec<(usize, RunRecord)> = runs.collect::<Result<_, ResultImportError>>()?;
    let writer = ResultWriter::open(into, document, &files(simulated)?, mode)?;
    for (index, run) in &runs {
        writer.write_run(*index, run)?;
    }
    writer.finish()?;
    Ok(runs.len())
}

/// The study, machines and workloads of a result directory.
fn files(dir: &Path) -> Result<Vec<(String, Vec<u8>)>, ResultsError> {
    let folder = ResultFolder::open(dir)?;
    let named = [STUDY.to_owned(), MACHINE.to_owned()];
    let has_machines = folder.has(MACHINES);
    let named = named.into_iter().filter(|n| n == STUDY || !has_machines);
    let all = named.chain(folder.copies()?);
    let read = |name: String| {
        let content = folder.read(&name)?;
        Ok((name, content))
    };
    all.map(read).collect()
}

fn read(path: &Path) -> Result<Vec<Measured>, ResultImportError> {
    let unreadable = |source| ResultImportError::Read {
        path: path.to_owned(),
        source,
    };
    let content = |message: String| ResultImportError::Content {
        path: path.to_owned(),
        message,
    };
    let text = wakepath_files::read_text(path, MAX_BYTES).map_err(unreadable)?;
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|e| {
                content(format!(
                    "line {}: no run of the laboratory: {e}",
                    number + 1
                ))
            })
        })
        .collect()
}

/// The run with what was measured.
fn filled(measured: Measured, kind: &str, order: u32) -> Result<RunRecord, String> {
    let repeat = measured.key.repeat;
    let named = |message: String| format!("{}: {message}", measured.key);
    let mut run = RunRecord::new(measured.key.clone(), None, repeat, order);
    match (&measured.fio, &measured.rt_app) {
        (Some(fio), None) => Output::find(fio)
            .ok_or_else(|| "fio has printed no JSON".to_owned())
            .and_then(|output| output?.fill(&mut run)),
        (None, Some(logs)) => logs.fill(&mut run),
        _ => Err("has to have one of `fio` and `rt_app`".to_owned()),
    }
    .map_err(named)?;
    if let Some(window) = &measured.window
        && (window.end_ns.checked_sub(window.begin_ns) != Some(measured.watched_ns)
            || window.end_ns > window.job_ns)
    {
        return Err(named(format!(
            "its counters were watched from {} to {} ns, which is not {} ns of a job of {} ns; measure it again",
            window.begin_ns, window.end_ns, measured.watched_ns, window.job_ns
        )));
    }
    run.metrics.extend(measured.metrics);
    let idle_ns: u64 = measured.idle.iter().map(|s| s.time_us * 1000).sum();
    let busy = Counted {
        state: BUSY.to_owned(),
        time_us: (measured.watched_ns * measured.cpus).saturating_sub(idle_ns) / 1000,
        usage: 0,
        above: 0,
        below: 0,
    };
    let states = measured.idle.into_iter().chain([busy]);
    run.idle = states
        .map(|state| Idle {
            cpu_kind: kind.to_owned(),
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
