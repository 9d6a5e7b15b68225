//! What every backend does, and making runs in an order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rayon::prelude::*;
use wakepath_results::RunRecord;

use crate::file::StudyError;
use crate::plan::{Cell, Provenance};

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
