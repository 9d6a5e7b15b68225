//! Which jobs of a run have started and ended.

use crate::task::fio::setup::JobSetup;

/// The jobs of a run.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// The next group to start.
    pub(super) next_group: usize,
    /// `exitall` ends the present group.
    pub(in crate::task) ending: bool,
    /// Processes of each job that have not ended; `None`: it has not started.
    pub(super) left: Vec<Option<u32>>,
    /// From when on the first request counts.
    counts_from: Option<u64>,
    /// When the last of those that have started ends at the latest.
    end: u64,
}

impl Jobs {
    pub(crate) fn new(jobs: usize) -> Self {
        Self {
            next_group: 0,
            ending: false,
            left: vec![None; jobs],
            counts_from: None,
            end: 0,
        }
    }

    /// A process starts whose requests count from one time on, and that ends at another at the latest.
    pub(super) fn note_process(&mut self, counts_from: u64, ends: u64) {
        let first = self.counts_from.get_or_insert(counts_from);
        *first = counts_from.min(*first);
        self.end = ends.max(self.end);
    }

    /// From when to when requests count, if all jobs have started.
    pub(crate) fn counted_span(&self, setups: &[JobSetup]) -> Option<(u64, u64)> {
        let all_started = setups.iter().all(|job| job.group == 0);
        all_started.then(|| (self.counts_from.unwrap_or(0), self.end))
    }

    /// When the warm-up ends: when the first request counts. `None` if no job has one.
    pub(crate) fn end_of_warm_up(&self, setups: &[JobSetup]) -> Option<u64> {
        let has_warm_up = setups.iter().any(|job| job.ramp > 0);
        self.counts_from.filter(|from| has_warm_up && *from > 0)
    }

    /// From when on requests count.
    pub(crate) fn counts_from(&self) -> u64 {
        self.counts_from.unwrap_or(0)
    }
}
