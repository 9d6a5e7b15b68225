//! What every backend has to do, and running items in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rayon::prelude::*;
use wakepath_results::RunRecord;

use crate::file::StudyError;
use crate::plan::{Cell, Provenance};

/// A backend makes the runs of a plan: the simulator, this machine, or a replay.
pub trait Backend: Sync {
    /// Checks that a cell can be run. Changes nothing.
    ///
    /// # Errors
    /// The cell is impossible; the message names alternatives.
    fn check_cell(&self, cell: Cell) -> Result<(), StudyError>;

    /// Order for runs.
    fn run_order(&self) -> Order;

    /// Where the runs come from, for the results.
    ///
    /// # Errors
    /// The machine cannot be described.
    fn provenance(&self) -> Result<Provenance, StudyError>;

    /// SHA-256 by path, for files that results name without a copy.
    ///
    /// # Errors
    /// A file cannot be read.
    fn hash_files_named_without_copy(&self) -> Result<BTreeMap<String, String>, StudyError> {
        Ok(BTreeMap::new())
    }

    /// Estimates how long all runs take one after the other, if that can be known. Tries each cell for at most
    /// `of_each`, without any program that a policy names.
    ///
    /// # Errors
    /// A cell cannot be run.
    fn estimate_duration(&self, of_each: Duration) -> Result<Option<Duration>, StudyError>;

    /// Sentences about unexpected findings in the runs so far.
    fn list_unexpected_findings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Acquires what the runs need, such as the right to change settings, before anything is written.
    ///
    /// # Errors
    /// Something cannot be had.
    fn acquire_rights(&self) -> Result<(), StudyError> {
        Ok(())
    }

    /// Makes the run of a cell: fills `run`, whose key is set.
    ///
    /// # Errors
    /// Any failure; [`StudyError::Interrupted`] if `cancelled` cut the run short.
    fn run_cell(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError>;

    /// Puts all changes to the machine back, also after an error.
    ///
    /// # Errors
    /// A change cannot be put back.
    fn restore_machine(&self) -> Result<(), StudyError> {
        Ok(())
    }
}

/// In which order a plan's runs are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// In plan order, on all threads in the current rayon pool.
    Parallel,
    /// One after the other, in this order of indices.
    Serial(Vec<usize>),
}

/// Progress reports and cancellation for running a study.
pub struct RunControl<'a> {
    /// Called after every finished run with 1, and once with the number of runs that were finished earlier.
    pub finished: &'a (dyn Fn(usize) + Sync),
    /// Set to cancel: no further run begins, and runs under way are given up.
    pub cancelled: &'a AtomicBool,
}

impl RunControl<'_> {
    /// Control without reports and without cancellation.
    pub fn without_reports_or_cancellation() -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self {
            finished: &|_| (),
            cancelled: &NEVER,
        }
    }
}

/// Calls `run_item` for each item in order, with `parallel` on all threads in the current rayon pool. Results are in item order.
/// Leaves out [interrupted](StudyError::Interrupted) items. Once `cancelled` is set, no item begins.
///
/// # Errors
/// From the earliest item with another failure; no item begins afterwards.
pub(crate) fn run_items_in_order<T: Send, R: Send>(
    items: Vec<T>,
    parallel: bool,
    cancelled: &AtomicBool,
    run_item: impl Fn(T) -> Result<R, StudyError> + Sync,
) -> Result<Vec<R>, StudyError> {
    // Position of the earliest failure: later items are not needed.
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
            .filter_map(|(position, item)| {
                note_failure_and_drop_interrupted(position, run_item(item), &failed)
            })
            .collect()
    } else {
        let needed = numbered.filter(|(position, _)| is_needed(*position));
        needed
            .filter_map(|(position, item)| {
                note_failure_and_drop_interrupted(position, run_item(item), &failed)
            })
            .collect()
    };
    made.sort_unstable_by_key(|(position, _)| *position);
    made.into_iter().map(|(_, made)| made).collect()
}

/// Notes the position of a failed item if no earlier item failed. `None` for an interrupted item.
fn note_failure_and_drop_interrupted<R>(
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
