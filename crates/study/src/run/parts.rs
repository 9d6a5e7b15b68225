//! A study run by several processes, such as workers in a cluster. The first process begins, each makes runs in the
//! shared directory, and the first finishes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use wakepath_results::{Document, Mode, ResultReader, ResultWriter, RunOrigin, directory};

use super::backend::{Backend, Order, RunControl, run_items_in_order};
use super::{Files, Session, check_cells, make_backend, make_run};
use crate::file::StudyError;
use crate::plan::Plan;

/// A result directory for several processes, locked so that nobody else begins or finishes it.
#[derive(Debug)]
pub struct Parts {
    writer: ResultWriter,
    missing: Vec<usize>,
}

impl Parts {
    /// Begins a result directory for several processes, or resumes it.
    ///
    /// # Errors
    /// A cell that cannot be run; a measurement; the directory.
    pub fn begin(plan: &Plan, dir: &Path, mode: Mode) -> Result<Self, StudyError> {
        plan.check_programs_allowed()?;
        let backend = make_backend_for_parallel_runs(plan)?;
        check_cells(plan, &*backend)?;
        let session = Session::new(plan, &*backend)?;
        let writer = ResultWriter::open(dir, session.document.clone(), &session.files, mode)?;
        let there = writer.finished_run_indices()?;
        let mut missing = Vec::new();
        for index in 0..plan.run_count() {
            if there.binary_search(&index).is_err()
                || !writer.was_finished_at_start(index, &plan.key_at(index))?
            {
                missing.push(index);
            }
        }
        Ok(Self { writer, missing })
    }

    /// Indices of runs that were missing when this process began.
    pub fn missing_runs(&self) -> &[usize] {
        &self.missing
    }

    /// Makes the tables, once all runs are finished, and marks the results as complete.
    ///
    /// # Errors
    /// The file system refused, or a run is missing.
    pub fn write_tables(self, plan: &Plan) -> Result<(), StudyError> {
        let finished = self.writer.finished_run_indices()?;
        if let Some(index) = self
            .missing
            .into_iter()
            .find(|index: &usize| finished.binary_search(index).is_err())
        {
            return Err(StudyError::Missing(plan.key_at(index)));
        }
        Ok(self.writer.write_tables_and_finish()?)
    }
}

/// Files for planning the study again elsewhere: `study.toml` and the files that it names.
///
/// # Errors
/// The results' provenance cannot be found out.
pub fn list_study_files(plan: &Plan) -> Result<Files, StudyError> {
    Ok(Session::new(plan, &*make_backend(plan)?)?.files)
}

/// Groups runs that one process should make: a recording on a machine is replayed once for its whole group. All
/// simulated runs are in a single group, which may be divided in any way.
pub fn group_runs_by_recording(plan: &Plan, runs: &[usize]) -> Vec<Vec<usize>> {
    let mut by_machine: BTreeMap<usize, BTreeMap<usize, Vec<usize>>> = BTreeMap::new();
    for index in runs {
        let cell = plan.cell_at(*index);
        let is_replayed = plan.target == RunOrigin::Replay;
        let machine = if is_replayed { cell.machine } else { 0 };
        let workload = if is_replayed { cell.workload } else { 0 };
        let by_workload = by_machine.entry(machine).or_default();
        by_workload.entry(workload).or_default().push(*index);
    }
    let groups = by_machine.into_values();
    groups.flat_map(BTreeMap::into_values).collect()
}

/// Makes runs in a result directory that another process began; finished runs are not made again.
///
/// # Errors
/// No such run; the first failing run; a measurement; or the file system refused.
pub fn make_runs_in_part(plan: &Plan, runs: &[usize], dir: &Path) -> Result<(), StudyError> {
    let backend = make_backend_for_parallel_runs(plan)?;
    let goes_on = AtomicBool::new(false);
    for index in runs {
        if *index >= plan.run_count() {
            return Err(StudyError::Settings(format!(
                "{}: no run {index}; it has {}",
                plan.origin,
                plan.run_count()
            )));
        }
        if !directory::run_path(dir, *index).exists() {
            let run = make_run(plan, &*backend, *index, *index as u32, &goes_on)?;
            directory::write_run_into_begun_directory(dir, *index, &run)?;
        }
    }
    Ok(())
}

/// Makes a plan's runs in memory, as a result directory would hold them. Uses all threads in the current rayon pool.
///
/// # Errors
/// A failing run; a measurement; [`StudyError::Interrupted`].
pub fn run_in_memory(plan: &Plan, control: &RunControl<'_>) -> Result<ResultReader, StudyError> {
    run_backend_in_memory(plan, &*make_backend_for_parallel_runs(plan)?, control)
}

/// As [`run_in_memory`], with a given backend.
///
/// # Errors
/// As [`run_in_memory`].
pub fn run_backend_in_memory(
    plan: &Plan,
    backend: &dyn Backend,
    control: &RunControl<'_>,
) -> Result<ResultReader, StudyError> {
    let document = Document {
        complete: true,
        ..plan.make_document(backend.provenance()?)
    };
    let runs = run_items_in_order(
        (0..plan.run_count()).collect(),
        true,
        control.cancelled,
        |index: usize| {
            let run = make_run(plan, backend, index, index as u32, control.cancelled)?;
            (control.finished)(1);
            Ok(run)
        },
    )?;
    if runs.len() < plan.run_count() {
        return Err(StudyError::Interrupted);
    }
    Ok(ResultReader::for_imported_runs(
        &plan.origin,
        document,
        runs,
    ))
}

/// Writes a plan's results from memory into a directory, with the same bytes as [`run_plan`](super::run_plan).
///
/// # Errors
/// Another study's results; the directory.
pub fn write_results_from_memory(
    plan: &Plan,
    results: &ResultReader,
    dir: &Path,
    mode: Mode,
) -> Result<(), StudyError> {
    let backend = make_backend_for_parallel_runs(plan)?;
    let session = Session::new(plan, &*backend)?;
    let runs = results.read_runs()?;
    let planned = (0..plan.run_count()).map(|index| plan.key_at(index));
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
    Ok(writer.write_tables_and_finish()?)
}

/// Makes a plan's backend; refused if its runs depend on time or place, as a measurement's do.
fn make_backend_for_parallel_runs(plan: &Plan) -> Result<Box<dyn Backend + '_>, StudyError> {
    let backend = make_backend(plan)?;
    match backend.run_order() {
        Order::Parallel => Ok(backend),
        Order::Serial(_) => Err(StudyError::Settings(format!(
            "{}: a measurement takes its runs in an order of its own, on one machine, into a directory",
            plan.origin
        ))),
    }
}
