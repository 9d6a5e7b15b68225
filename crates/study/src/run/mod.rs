//! Running a plan.
//!
//! [`run_plan`] owns everything common to all backends: result directory, missing runs, order, first error, cancellation,
//! shards. A [`Backend`] checks a cell and makes its run.

mod backend;
pub mod drive_io;
pub mod live;
pub mod parts;
pub mod replay;
pub mod rows;
pub mod sim;
mod sim_observers;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use wakepath_results::{Document, Mode, ResultWriter, RunOrigin, RunRecord, Shard};

pub use self::backend::{Backend, Order, RunControl};

pub(crate) use self::backend::run_items_in_order;
use self::live::Live;
use self::replay::Replay;
use self::sim::Sim;
use crate::file::StudyError;
use crate::plan::Plan;

/// Makes the backend for a plan's target.
///
/// # Errors
/// No machine to simulate; a policy impossible on this machine; fio is missing; a recording cannot be read.
pub fn make_backend(plan: &Plan) -> Result<Box<dyn Backend + '_>, StudyError> {
    match plan.target {
        RunOrigin::Sim => Ok(Box::new(Sim::new(plan)?)),
        RunOrigin::Live => Ok(Box::new(Live::new(plan)?)),
        RunOrigin::Replay => Ok(Box::new(Replay::new(plan)?)),
        RunOrigin::Lab | RunOrigin::Import | RunOrigin::Traced => {
            Err(StudyError::Settings(format!(
                "{}: runs only in the simulator, live and on recordings",
                plan.origin
            )))
        }
    }
}

/// Checks that every cell can be run. Changes nothing, and runs no program that a policy names.
///
/// # Errors
/// From the first impossible cell.
pub fn check_cells(plan: &Plan, backend: &dyn Backend) -> Result<(), StudyError> {
    plan.cells_of_first_repeat()
        .iter()
        .try_for_each(|cell| backend.check_cell(*cell))
}

/// Makes the missing runs of a plan, or of a shard, in the result directory `dir`. Bytes depend neither on threads nor
/// on interruptions, if the backend's runs do not.
///
/// # Errors
/// An impossible cell, before anything is written; the earliest failing run; the directory;
/// [`StudyError::Interrupted`].
pub fn run_plan(
    plan: &Plan,
    backend: &dyn Backend,
    shard: Option<Shard>,
    dir: &Path,
    mode: Mode,
    control: &RunControl<'_>,
) -> Result<(), StudyError> {
    plan.check_programs_allowed()?;
    check_cells(plan, backend)?;
    let session = Session::new(plan, backend)?;
    let mut document = session.document.clone();
    document.shard = shard;
    backend.acquire_rights()?;
    let made = make_runs(&session, document, dir, mode, control);
    let ended = backend.restore_machine();
    let writer = made?;
    ended?;
    match shard {
        // A shard has no tables: they are made when all shards are merged.
        Some(_) => Ok(()),
        None => Ok(writer.write_tables_and_finish()?),
    }
}

/// Makes the runs that are missing in the directory: all, or those of the document's shard.
fn make_runs(
    session: &Session<'_>,
    document: Document,
    dir: &Path,
    mode: Mode,
    control: &RunControl<'_>,
) -> Result<ResultWriter, StudyError> {
    let (plan, shard) = (session.plan, document.shard);
    let (parallel, order) = match session.backend.run_order() {
        Order::Parallel => (true, (0..plan.run_count()).collect()),
        Order::Serial(order) => (false, order),
    };
    let writer = ResultWriter::open(dir, document, &session.files, mode)?;
    let mut planned = 0;
    let mut missing = Vec::new();
    for (position, index) in (0_u32..).zip(order) {
        if shard.is_none_or(|shard| shard.includes_run(index)) {
            planned += 1;
            if !writer.was_finished_at_start(index, &plan.key_at(index))? {
                missing.push((position, index));
            }
        }
    }
    (control.finished)(planned - missing.len());
    run_items_in_order(
        missing,
        parallel,
        control.cancelled,
        |(position, index): (u32, usize)| {
            let run = make_run(plan, session.backend, index, position, control.cancelled)?;
            writer.write_run(index, &run)?;
            (control.finished)(1);
            Ok(())
        },
    )?;
    if control.cancelled.load(Ordering::Relaxed) {
        return Err(StudyError::Interrupted);
    }
    Ok(writer)
}

/// A plan with its backend, and with what results will hold beside runs.
struct Session<'a> {
    plan: &'a Plan,
    backend: &'a dyn Backend,
    /// The document for `result.json`.
    document: Document,
    /// Files to keep with the results, such as the study.
    files: Files,
}

/// Files for a result directory: each a path inside the directory, and a content.
pub type Files = Vec<(String, Vec<u8>)>;

impl<'a> Session<'a> {
    fn new(plan: &'a Plan, backend: &'a dyn Backend) -> Result<Self, StudyError> {
        let provenance = backend.provenance()?;
        let sha256 = backend.hash_files_named_without_copy()?;
        Ok(Self {
            plan,
            backend,
            files: plan.list_result_files(provenance.machine_files.clone(), &sha256)?,
            document: Document {
                sha256,
                ..plan.make_document(provenance)
            },
        })
    }
}

/// Makes the run with an index, which is number `position` in the session.
fn make_run(
    plan: &Plan,
    backend: &dyn Backend,
    index: usize,
    position: u32,
    cancelled: &AtomicBool,
) -> Result<RunRecord, StudyError> {
    plan.check_programs_allowed()?;
    let cell = plan.cell_at(index);
    let mut run = RunRecord::new(plan.key_at(index), None, cell.repeat, position);
    backend.run_cell(cell, &mut run, cancelled)?;
    Ok(run)
}
