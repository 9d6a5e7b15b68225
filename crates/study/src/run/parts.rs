//! A study whose runs are made by several processes, such as the workers of a cluster: one begins, each makes some of the
//! runs in the same directory, and the first one finishes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use wakepath_results::{Document, Mode, ResultReader, ResultWriter, RunOrigin, directory};

use super::backend::{Backend, Order, RunControl, each};
use super::{Files, Session, backend, check, run_of};
use crate::file::StudyError;
use crate::plan::Plan;

/// A result directory that nobody else begins or finishes while this exists.
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
        let backend = parallel(plan)?;
        check(plan, &*backend)?;
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

    /// The indices of the runs that were not there when it began.
    pub fn missing(&self) -> &[usize] {
        &self.missing
    }

    /// Makes the tables, once all runs of its plan are there.
    ///
    /// # Errors
    /// The file system refuses, or a run is missing.
    pub fn finish(self, plan: &Plan) -> Result<(), StudyError> {
        let finished = self.writer.finished()?;
        let absent = |index: &usize| finished.binary_search(index).is_err();
        if let Some(index) = self.missing.into_iter().find(absent) {
            return Err(StudyError::Missing(plan.key(index)));
        }
        Ok(self.writer.finish()?)
    }
}

/// The files from which a plan can be made again elsewhere: `study.toml` and what it names.
///
/// # Errors
/// What the results would say cannot be found out.
pub fn files(plan: &Plan) -> Result<Files, StudyError> {
    Ok(Session::new(plan, &*backend(plan)?)?.files)
}

/// Runs in groups that one process makes best: those of a recording on a machine, which is gone
/// through once for all of them; all runs
/// of a simulation, in any parts.
pub fn together(plan: &Plan, runs: &[usize]) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for index in runs {
        let cell = plan.cell(*index);
        let group = match plan.target {
            RunOrigin::Replay => (cell.machine, cell.workload),
            _ => (0, 0),
        };
        groups.entry(group).or_default().push(*index);
    }
    groups.into_values().collect()
}

/// Makes these runs of a plan in a directory that another process has begun; those that are there already stay.
///
/// # Errors
/// No such run; the first run that fails; a measurement; the file system refuses.
pub fn make(plan: &Plan, runs: &[usize], dir: &Path) -> Result<(), StudyError> {
    let backend = parallel(plan)?;
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
            let run = run_of(plan, &*backend, *index, *index as u32, &goes_on)?;
            directory::write_run(dir, *index, &run)?;
        }
    }
    Ok(())
}

/// All runs of a plan, as if a result directory held them; on all threads of the current rayon pool.
///
/// # Errors
/// A run that fails; a measurement; [`StudyError::Interrupted`].
pub fn in_memory(plan: &Plan, control: &RunControl<'_>) -> Result<ResultReader, StudyError> {
    of_backend(plan, &*parallel(plan)?, control)
}

/// The same with a backend of the plan that is there already.
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
    let make = |index: usize| {
        let run = run_of(plan, backend, index, index as u32, control.cancelled)?;
        (control.finished)(1);
        Ok(run)
    };
    let runs = each((0..plan.runs()).collect(), true, control.cancelled, make)?;
    if runs.len() < plan.runs() {
        return Err(StudyError::Interrupted);
    }
    Ok(ResultReader::of_runs(&plan.origin, document, runs))
}

/// Writes results of a plan that are in memory to a directory, with the bytes that [`run`](super::run) leaves.
///
/// # Errors
/// Results of another plan; the directory.
pub fn write(
    plan: &Plan,
    results: &ResultReader,
    dir: &Path,
    mode: Mode,
) -> Result<(), StudyError> {
    let backend = parallel(plan)?;
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

/// The backend of a plan whose runs do not depend on where and when they are made.
fn parallel(plan: &Plan) -> Result<Box<dyn Backend + '_>, StudyError> {
    let backend = backend(plan)?;
    match backend.order() {
        Order::Parallel => Ok(backend),
        Order::Serial(_) => Err(StudyError::Settings(format!(
            "{}: a measurement takes its runs in an order of its own, on one machine, into a directory",
            plan.origin
        ))),
    }
}
