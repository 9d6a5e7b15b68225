//! Duties common to every backend, and making runs in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rayon::prelude::*;
use wakepath_results::RunRecord;

use crate::file::StudyError;
use crate::plan::{Cell, Provenance};

/// Makes the runs of a plan: a simulator, a machine, a recording.
pub trait Backend: Sync {
    /// Checks that a cell can be run. Changes nothing.
    ///
    /// # Errors
    /// The cell is impossible; the message names alternatives.
    fn check(&self, cell: Cell) -> Result<(), StudyError>;

    /// Order for runs.
    fn order(&self) -> Order;

    /// Provenance for the results.
    ///
    /// # Errors
    /// The machine cannot be described.
    fn provenance(&self) -> Result<Provenance, StudyError>;

    /// SHA-256 by path, for files named in results without a copy.
    ///
    /// # Errors
    /// A file cannot be read.
    fn sha256(&self) -> Result<BTreeMap<String, String>, StudyError> {
        Ok(BTreeMap::new())
    }

    /// Estimated duration for all runs in sequence, if known. Tries each cell for at most `of_each`, without any program
    /// named in a policy.
    ///
    /// # Errors
    /// A cell that cannot be run.
    fn estimate(&self, of_each: Duration) -> Result<Option<Duration>, StudyError>;

    /// Unexpected findings in finished runs.
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

    /// Makes a cell's run: fills `run`, whose key is set.
    ///
    /// # Errors
    /// Any failure; [`StudyError::Interrupted`] if cut short by `cancelled`.
    fn run(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError>;

    /// Puts all changes back, also after an error.
    ///
    /// # Errors
    /// A change cannot be put back.
    fn end(&self) -> Result<(), StudyError> {
        Ok(())
    }
}

/// Order for a plan's runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// In plan order, on all threads in the current rayon pool.
    Parallel,
    /// In sequence, by index.
    Serial(Vec<usize>),
}

/// Progress reports and cancellation for a study.
pub struct RunControl<'a> {
    /// Called after every finished run, and once for all runs finished earlier.
    pub finished: &'a (dyn Fn(usize) + Sync),
    /// Once set, no further run begins, and those under way are given up.
    pub cancelled: &'a AtomicBool,
}

impl RunControl<'_> {
    /// No reports and no cancellation.
    pub fn for_nobody() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self {
            finished: &|_| (),
            cancelled: &NEVER,
        }
    }
}

/// Calls `one` for each item in order, with `parallel` on all threads in the current rayon pool. Results are in item order.
/// Leaves out [interrupted](StudyError::Interrupted) items. Once `cancelled` is set, no item begins.
///
/// # Errors
/// From the earliest item with another failure; no item begins afterwards.
pub(crate) fn run_each<T: Send, R: Send>(
    items: Vec<T>,
    parallel: bool,
    cancelled: &AtomicBool,
    one: impl Fn(T) -> Result<R, StudyError> + Sync,
) -> Result<Vec<R>, StudyError> {
    // Position after which no item is needed any more.
    let failed = AtomicUsize::new(usize::MAX);
    let is_needed = |position: usize| {
        !cancelled.load(Ordering::Relaxed) && position <= failed.load(Ordering::Relaxed)
    };
    let numbered = items.into_iter().enumerate();
    let mut made: Vec<(usize, Result<R, StudyError>)> = if parallel {
        // The bridge hands items out in order, unlike plain parallel iterators.
        let numbered = numbered.par_bridge();
        let needed = numbered.filter(|(position, _)| is_needed(*position));
        needed
            .filter_map(|(position, item)| note_failure(position, one(item), &failed))
            .collect()
    } else {
        let needed = numbered.filter(|(position, _)| is_needed(*position));
        needed
            .filter_map(|(position, item)| note_failure(position, one(item), &failed))
            .collect()
    };
    made.sort_unstable_by_key(|(position, _)| *position);
    made.into_iter().map(|(_, made)| made).collect()
}

/// Notes the earliest failing position. `None` for an interrupted item.
fn note_failure<R>(
    position: usize,
    made: Result<R, StudyError>,
    failed: &AtomicUsize,
) -> Option<(usize, Result<R, StudyError>)> {
    if let Err(error) = &made {
        if matches!(error, StudyError::Interrupted) {
            return None;
        }
        failed.fetch_min(position, Ordering::Relaxed);
    }
    Some((position, made))
}
