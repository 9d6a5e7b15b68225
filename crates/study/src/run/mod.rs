//! Running a plan.
//!
//! [`run`] owns what is the same on every backend: the result directory, which runs are missing, their order, the first
//! error, cancellation, shards. A [`Backend`] checks a cell and makes its run.

pub mod live;
pub mod parts;
pub mod replay;
pub mod rows;
pub mod sim;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rayon::prelude::*;
use wakepath_results::{Document, Mode, ResultWriter, RunOrigin, RunRecord, Shard};

use self::live::Live;
use self::replay::Replay;
use self::sim::Sim;
use crate::file::StudyError;
use crate::plan::{Cell, Plan, Provenance};

/// Makes the runs of a plan: a simulator, a machine, a recording.
pub trait Backend: Sync {
    /// Whether the workload of a cell can be run under its policy. Changes nothing.
    ///
    /// # Errors
    /// It cannot; the message says what can.
    fn check(&self, cell: Cell) -> Result<(), StudyError>;

    /// In which order the runs are made.
    fn order(&self) -> Order;

    /// What the results say of where their numbers come from.
    ///
    /// # Errors
    /// The machine cannot be described.
    fn provenance(&self) -> Result<Provenance, StudyError>;

    /// SHA-256 by path of the files that results name and have no copy of.
    ///
    /// # Errors
    /// A file cannot be read.
    fn sha256(&self) -> Result<BTreeMap<String, String>, StudyError> {
        Ok(BTreeMap::new())
    }

    /// How long all runs take one after another, if that can be said; trying each cell for at most `of_each`, with nothing
    /// that a policy names.
    ///
    /// # Errors
    /// A cell that cannot be run.
    fn estimate(&self, of_each: Duration) -> Result<Option<Duration>, StudyError>;

    /// What came out otherwise than the workloads lead one to expect, of the runs made so far.
    fn surprises(&self) -> Vec<String> {
        Vec::new()
    }

    /// Takes what the runs need, such as the right to change settings, before anything is written.
    ///
    /// # Errors
    /// It cannot be had.
    fn begin(&self) -> Result<(), StudyError> {
        Ok(())
    }

    /// Makes the run of a cell: fills `run`, which has its key.
    ///
    /// # Errors
    /// What failed, or [`StudyError::Interrupted`] if it was cut short because `cancelled` is set.
    fn run(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError>;

    /// Puts back what the runs have changed, also after an error.
    ///
    /// # Errors
    /// It cannot be put back.
    fn end(&self) -> Result<(), StudyError> {
        Ok(())
    }
}

/// In which order the runs of a plan are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// In that of the plan, on all threads of the current rayon pool.
    Parallel,
    /// One after another, in this order of their indices.
    Serial(Vec<usize>),
}

/// Who waits for a study: is told of progress, and may call it off.
pub struct RunControl<'a> {
    /// Called after every finished run, and once for those that were there before.
    pub finished: &'a (dyn Fn(usize) + Sync),
    /// Once set, no further run begins, and those under way are given up.
    pub cancelled: &'a AtomicBool,
}

impl RunControl<'_> {
    /// Nobody waits, and nobody calls it off.
    pub fn for_nobody() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self {
            finished: &|_| (),
            cancelled: &NEVER,
        }
    }
}

/// The backend of a plan.
///
/// # Errors
/// It has no machine to simulate; this machine cannot have its policies; fio is missing; a recording cannot be read.
pub fn backend(plan: &Plan) -> Result<Box<dyn Backend + '_>, StudyError> {
    match plan.target {
        RunOrigin::Sim => Ok(Box::new(Sim::new(plan)?)),
        RunOrigin::Live => Ok(Box::new(Live::new(plan)?)),
        RunOrigin::Replay => Ok(Box::new(Replay::new(plan)?)),
        RunOrigin::Lab | RunOrigin::Import => Err(StudyError::Settings(format!(
            "{}: runs only in the simulator, live and on recordings",
            plan.origin
        ))),
    }
}

/// Whether every cell of a plan can be run. Changes nothing, and runs nothing that a policy names.
///
/// # Errors
/// The first that cannot.
pub fn check(plan: &Plan, backend: &dyn Backend) -> Result<(), StudyError> {
    plan.cells()
        .iter()
        .try_for_each(|cell| backend.check(*cell))
}

/// Runs what is missing of a plan, or of a shard of it, in `dir`. The bytes written do not depend on the number of
/// threads, nor on how often the study was interrupted, if the runs of the backend do not.
///
/// # Errors
/// A cell that cannot be run, before anything is written; the earliest run that fails; the directory;
/// [`StudyError::Interrupted`].
pub fn run(
    plan: &Plan,
    backend: &dyn Backend,
    shard: Option<Shard>,
    dir: &Path,
    mode: Mode,
    control: &RunControl<'_>,
) -> Result<(), StudyError> {
    plan.may_run()?;
    check(plan, backend)?;
    let session = Session::new(plan, backend)?;
    let mut document = session.document.clone();
    document.shard = shard;
    backend.begin()?;
    let made = make(&session, document, dir, mode, control);
    let ended = backend.end();
    let writer = made?;
    ended?;
    match shard {
        // Its tables are made when all are merged.
        Some(_) => Ok(()),
        None => Ok(writer.finish()?),
    }
}

/// Makes the missing runs of a plan, or of the shard that the document names.
fn make(
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
    let one = |(position, index): (u32, usize)| {
        let run = run_of(plan, session.backend, index, position, control.cancelled)?;
        writer.write_run(index, &run)?;
        (control.finished)(1);
        Ok(())
    };
    each(missing, parallel, control.cancelled, one)?;
    if control.cancelled.load(Ordering::Relaxed) {
        return Err(StudyError::Interrupted);
    }
    Ok(writer)
}

/// A plan and what makes its runs.
struct Session<'a> {
    plan: &'a Plan,
    backend: &'a dyn Backend,
    /// What the results say.
    document: Document,
    /// The files that are kept with them.
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

/// The run of an index of a plan, which comes at this place of the session.
fn run_of(
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

/// Does `one` of each item, in their order; side by side on the threads of the current rayon pool if `parallel`. Returns
/// what was made, in the order of the items; what was [interrupted](StudyError::Interrupted) is left out, and once
/// `cancelled` is set, none begins.
///
/// # Errors
/// Of the earliest item that fails otherwise, after which none begins.
pub(crate) fn each<T: Send, R: Send>(
    items: Vec<T>,
    parallel: bool,
    cancelled: &AtomicBool,
    one: impl Fn(T) -> Result<R, StudyError> + Sync,
) -> Result<Vec<R>, StudyError> {
    // The earliest that has failed: what comes after it need not be done.
    let failed = AtomicUsize::new(usize::MAX);
    let one = |(position, item): (usize, T)| {
        if cancelled.load(Ordering::Relaxed) || position > failed.load(Ordering::Relaxed) {
            return None;
        }
        let made = one(item);
        if let Err(error) = &made {
            if matches!(error, StudyError::Interrupted) {
                return None;
            }
            failed.fetch_min(position, Ordering::Relaxed);
        }
        Some((position, made))
    };
    let items = items.into_iter().enumerate();
    let mut made: Vec<(usize, Result<R, StudyError>)> = if parallel {
        // The bridge hands them out in order, which plain parallel iterators do not.
        items.par_bridge().filter_map(one).collect()
    } else {
        items.filter_map(one).collect()
    };
    made.sort_unstable_by_key(|(position, _)| *position);
    made.into_iter().map(|(_, made)| made).collect()
}
