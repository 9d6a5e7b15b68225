//! State of a run's fio jobs: which have started and ended.

use std::collections::BTreeMap;

use wakepath_workloads::fio::{FlowCounter, SteadyStateDetector};

use crate::task::fio::setup::JobSetup;

/// State of a run's fio jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// Number of the next group of jobs to start.
    pub(super) next_group: usize,
    /// By job, the number of processes that have not ended; `None` if the job has not started.
    pub(super) left: Vec<Option<u32>>,
    /// Time in ns from which on the first request counts; `None` before any process has started.
    counts_from: Option<u64>,
    /// Latest time in ns when a started process ends.
    end: u64,
    /// Counters of all flows.
    pub(super) flows: Vec<FlowCounter>,
    /// By number of a group, what judges whether its jobs together are steady.
    pub(super) steady_groups: BTreeMap<usize, SteadyStateDetector>,
}

impl Jobs {
    pub(crate) fn new(jobs: &[JobSetup]) -> Self {
        let flows = jobs.iter().filter_map(|job| job.flow);
        let count = flows.map(|flow| flow.flow + 1).max().unwrap_or(0);
        let mut counters = vec![FlowCounter::default(); count];
        for job in jobs {
            for _ in 0..job.processes {
                if let Some(flow) = job.flow {
                    counters[flow.flow].add_process(flow.weight);
                }
            }
        }
        Self {
            next_group: 0,
            left: vec![None; jobs.len()],
            counts_from: None,
            end: 0,
            flows: counters,
            steady_groups: BTreeMap::new(),
        }
    }

    /// Begins to judge whether a job's group is steady when its first process starts, at the time `started` in ns.
    pub(super) fn begin_steady_group(&mut self, job: &JobSetup, started: u64) {
        if let Some(steady) = &job.steady
            && job.steady_as_group
        {
            self.steady_groups
                .entry(job.report_group)
                .or_insert_with(|| {
                    let mut begun = steady.clone();
                    begun.begin(started);
                    begun
                });
        }
    }

    /// Notes a started process, whose requests count from `counts_from` on, and that ends at `ends` at the latest.
    pub(super) fn note_started_process(&mut self, counts_from: u64, ends: u64) {
        let first = self.counts_from.get_or_insert(counts_from);
        *first = counts_from.min(*first);
        self.end = ends.max(self.end);
    }

    /// Begin and end in ns of the time in which requests count; `None` if some jobs start only in a later group.
    pub(crate) fn span_with_counted_requests(&self, setups: &[JobSetup]) -> Option<(u64, u64)> {
        let all_started = setups.iter().all(|job| job.group == 0);
        all_started.then(|| (self.counts_from.unwrap_or(0), self.end))
    }

    /// Time in ns when the first request may count, from which on all other totals count, too: the end of `ramp_time` and
    /// `startdelay`. `None` if that is at the start.
    pub(crate) fn end_of_warm_up(&self) -> Option<u64> {
        self.counts_from.filter(|from| *from > 0)
    }

    /// Time in ns from which on the first request counts; 0 without jobs.
    pub(crate) fn first_counted_time(&self) -> u64 {
        self.counts_from.unwrap_or(0)
    }
}
