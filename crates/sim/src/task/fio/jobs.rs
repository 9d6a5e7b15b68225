//! Which jobs of a run have started and ended.

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
    pub(crate) counts_from: Option<u64>,
    /// When the last of those that have started ends at the latest.
    pub(crate) end: u64,
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
}
