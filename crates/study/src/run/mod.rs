//! Running a plan.
//!
//! [`run_plan`] owns everything common to all backends: result directory, missing runs, order, first error, cancellation,
//! shards. A [`Backend`] checks a cell and makes its run.

mod backend;
pub mod live;
pub mod parts;
pub mod replay;
pub mod rows;
pub mod sim;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use wakepath_results::{Document, Mode, ResultWriter, RunOrigin, RunRecord, Shard};

pub use self::backend::{Backend, Order, RunControl};

pub(crate) use self::backend::run_each;
use self::live::Live;
use self::replay::Replay;
use self::sim::Sim;
use crate::file::StudyError;
use crate::plan::Plan;

/// A plan's backend.
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

/// Checks that every cell can be run. Changes nothing, and runs no program named in a policy.
///
/// # Errors
/// From the first impossible cell.
pub fn check_cells(plan: &Plan, backend: &dyn Backend) -> Result<(), StudyError> {
    plan.cells()
        .iter()
        .try_for_each(|cell| backend.check(*cell))
}

/// Makes the missing runs of a plan, or a shard, in `dir`. Bytes depend neither on threads nor on interruptions, if the
/// backend's runs do not.
///
/// # Errors
/// An impossible cell, before anything is written; the earliest failing run; the directory; [`StudyError::Interrupted`].
pub fn run_plan(
    plan: &Plan,
    backend: &dyn Backend,
    shard: Option<Shard>,
    dir: &Path,
    mode: Mode,
    control: &RunControl<'_>,
) -> Result<(), StudyError> {
    plan.may_run()?;
    check_cells(plan, backend)?;
    let session = Session::new(plan, backend)?;
    let mut document = session.document.clone();
    document.shard = shard;
    backend.begin()?;
    let made = make_runs(&session, document, dir, mode, control);
    let ended = backend.end();
    let writer = made?;
    ended?;
    match shard {
        // Tables are made after merging all shards.
        Some(_) => Ok(()),
        None => Ok(writer.finish()?),
    }
}

/// Makes missing runs, all or for the document's shard.
fn make_runs(
    session: &Session<'_>,
    document: Document,
    dir: &Path,
    mode: Mode,
    control: &RunControl<'_>,
) -> Result<ResultWriter, StudyError> {
    let (plan, shard) = (session.plan, document.shard);
    let (parallel, order) = match session.backend.order() {
        Order::Parallel => (true, (0..plan.runs()).collect()),
        Order::Serial(order) => (false, order),
    };
    let writer = ResultWriter::open(dir, document, &session.files, mode)?;
    let mut planned = 0;
    let mut missing = Vec::new();
    for (position, index) in (0_u32..).zip(order) {
        if shard.is_none_or(|shard| shard.has(index)) {
            planned += 1;
            if !writer.has(index, &plan.key(index))? {
                missing.push((position, index));
            }
        }
    }
    (control.finished)(planned - missing.len());
    run_each(
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

/// A plan with its backend.
struct Session<'a> {
    plan: &'a Plan,
    backend: &'a dyn Backend,
    /// Content for `result.json`.
    document: Document,
    /// Files to keep with the results.
    files: Files,
}

/// A path inside the result directory and a content each.
pub type Files = Vec<(String, Vec<u8>)>;

impl<'a> Session<'a> {
    fn new(plan: &'a Plan, backend: &'a dyn Backend) -> Result<Self, StudyError> {
        let provenance = backend.provenance()?;
        let sha256 = backend.sha256()?;
        Ok(Self {
            plan,
            backend,
            files: plan.files(provenance.machine_files.clone(), &sha256)?,
            document: Document {
                sha256,
                ..plan.document(provenance)
            },
        })
    }
}

/// Makes the run with an index, at `position` in the session.
fn make_run(
    plan: &Plan,
    backend: &dyn Backend,
    index: usize,
    position: u32,
    cancelled: &AtomicBool,
) -> Result<RunRecord, StudyError> {
    plan.may_run()?;
    let cell = plan.cell(index);
    let mut run = RunRecord::new(plan.key(index), None, cell.repeat, position);
    backend.run(cell, &mut run, cancelled)?;
    Ok(run)
}
