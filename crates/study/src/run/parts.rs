//! A study run by several processes, such as workers in a cluster. One begins, each makes runs in the shared directory, and
//! the first one finishes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use wakepath_results::{Document, Mode, ResultReader, ResultWriter, RunOrigin, directory};

use super::backend::{Backend, Order, RunControl, run_each};
use super::{Files, Session, check_cells, make_backend, make_run};
use crate::file::StudyError;
use crate::plan::Plan;

/// A result directory, locked against other beginnings and endings.
#[derive(Debug)]
pub struct Parts {
    writer: ResultWriter,
    missing: Vec<usize>,
}

impl Parts {
    /// Begins, or goes on with, a directory of results.
    ///
    /// # Errors
    /// A cell that cannot be run; a measurement; the directory.
    pub fn begin(plan: &Plan, dir: &Path, mode: Mode) -> Result<Self, StudyError> {
        plan.may_run()?;
        let backend = require_parallel(plan)?;
        check_cells(plan, &*backend)?;
        let session = Session::new(plan, &*backend)?;
        let writer = ResultWriter::open(dir, session.document.clone(), &session.files, mode)?;
        let there = writer.finished()?;
        let mut missing = Vec::new();
        for index in 0..plan.runs() {
            if there.binary_search(&index).is_err() || !writer.has(index, &plan.key(index))? {
                missing.push(index);
            }
        }
        Ok(Self { writer, missing })
    }

    /// Indices without a run at the beginning.
    pub fn missing(&self) -> &[usize] {
        &self.missing
    }

    /// Makes the tables, once all runs are finished.
    ///
    /// # Errors
    /// The file system refuses, or a run is missing.
    pub fn finish(self, plan: &Plan) -> Result<(), StudyError> {
        let finished = self.writer.finished()?;
        if let Some(index) = self
            .missing
            .into_iter()
            .find(|index: &usize| finished.binary_search(index).is_err())
        {
            return Err(StudyError::Missing(plan.key(index)));
        }
        Ok(self.writer.finish()?)
    }
}

/// Files for planning the study again elsewhere: `study.toml` and the files named there.
///
/// # Errors
/// The results' provenance cannot be found out.
pub fn study_files(plan: &Plan) -> Result<Files, StudyError> {
    Ok(Session::new(plan, &*make_backend(plan)?)?.files)
}

/// Runs in groups to be made by one process. A recording on a machine is replayed once for its whole group; simulated runs
/// have no preference.
pub fn estimate_parts(plan: &Plan, runs: &[usize]) -> Vec<Vec<usize>> {
    let mut by_machine: BTreeMap<usize, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for index in runs {
        let cell = plan.cell(*index);
        let is_replayed = plan.target == RunOrigin::Replay;
        let machine = if is_replayed { cell.machine } else { 0 };
        let workload = if is_replayed { cell.workload } else { 0 };
        let by_workload = by_machine.entry(machine).or_default();
        by_workload.entry(workload).or_default().push(*index);
    }
    let groups = by_machine.into_values();
    groups.flat_map(BTreeMap::into_values).collect()
}

/// Makes runs in a directory begun by another process; finished runs stay.
///
/// # Errors
/// No such run; the first failing run; a measurement; the file system refuses.
pub fn make_part(plan: &Plan, runs: &[usize], dir: &Path) -> Result<(), StudyError> {
    let backend = require_parallel(plan)?;
    let goes_on = AtomicBool::new(false);
    for index in runs {
        if *index >= plan.runs() {
            return Err(StudyError::Settings(format!(
                "{}: no run {index}; it has {}",
                plan.origin,
                plan.runs()
            )));
        }
        if !directory::run_path(dir, *index).exists() {
            let run = make_run(plan, &*backend, *index, *index as u32, &goes_on)?;
            directory::write_run(dir, *index, &run)?;
        }
    }
    Ok(())
}

/// A plan's runs in memory, as a result directory would hold them. Uses all threads in the current rayon pool.
///
/// # Errors
/// A failing run; a measurement; [`StudyError::Interrupted`].
pub fn in_memory(plan: &Plan, control: &RunControl<'_>) -> Result<ResultReader, StudyError> {
    of_backend(plan, &*require_parallel(plan)?, control)
}

/// As [`in_memory`], with a given backend.
///
/// # Errors
/// As [`in_memory`].
pub fn of_backend(
    plan: &Plan,
    backend: &dyn Backend,
    control: &RunControl<'_>,
) -> Result<ResultReader, StudyError> {
    let document = Document {
        complete: true,
        ..plan.document(backend.provenance()?)
    };
    let runs = run_each(
        (0..plan.runs()).collect(),
        true,
        control.cancelled,
        |index: usize| {
            let run = make_run(plan, backend, index, index as u32, control.cancelled)?;
            (control.finished)(1);
            Ok(run)
        },
    )?;
    if runs.len() < plan.runs() {
        return Err(StudyError::Interrupted);
    }
    Ok(ResultReader::of_runs(&plan.origin, document, runs))
}

/// Writes a plan's results from memory, with the same bytes as [`run_plan`](super::run_plan).
///
/// # Errors
/// Another study's results; the directory.
pub fn write_results(
    plan: &Plan,
    results: &ResultReader,
    dir: &Path,
    mode: Mode,
) -> Result<(), StudyError> {
    let backend = require_parallel(plan)?;
    let session = Session::new(plan, &*backend)?;
    let runs = results.runs()?;
    let planned = (0..plan.runs()).map(|index| plan.key(index));
    if !runs.iter().map(|run| run.key.clone()).eq(planned) {
        return Err(StudyError::Settings(format!(
            "{}: these results are of another study",
            plan.origin
        )));
    }
    let writer = ResultWriter::open(dir, session.document.clone(), &session.files, mode)?;
    for (index, run) in runs.iter().enumerate() {
        writer.write_run(index, run)?;
    }
    Ok(writer.finish()?)
}

/// A plan's backend, if its runs are independent from time and place.
fn require_parallel(plan: &Plan) -> Result<Box<dyn Backend + '_>, StudyError> {
    let backend = make_backend(plan)?;
    match backend.order() {
        Order::Parallel => Ok(backend),
        Order::Serial(_) => Err(StudyError::Settings(format!(
            "{}: a measurement takes its runs in an order of its own, on one machine, into a directory",
            plan.origin
        ))),
    }
}
