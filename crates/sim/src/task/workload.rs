//! State of the jobs and threads of a run's workload.

use crate::setup::Setup;
use crate::task::fio::jobs::Jobs;
use crate::task::fio::rates::JobTotals;
use crate::task::ring::Submitter;
use crate::task::rtapp::state::{ThreadTotals, Threads};
use crate::task::server::state::{ServerState, ServerTotals};

/// Jobs and threads of a run, and totals of each job.
#[derive(Debug)]
pub(crate) struct WorkloadState {
    /// Threads of rt-app tasks.
    pub(super) threads: Threads,
    /// State of the fio jobs: which have started and ended.
    pub(super) jobs: Jobs,
    pub(super) job_totals: JobTotals,
    /// Kernel threads that poll for submissions.
    pub(super) submitters: Vec<Submitter>,
    /// State of the server, if the workload is one.
    pub(super) server: Option<Box<ServerState>>,
}

impl WorkloadState {
    /// State of a workload that has not begun.
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            threads: Threads::new(&setup.programs),
            jobs: Jobs::new(&setup.jobs),
            job_totals: JobTotals::new(setup.jobs.len()),
            submitters: Vec::new(),
            server: None,
        }
    }

    /// State of the fio jobs: which have started and ended.
    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// Totals of the server by now, if the workload is one.
    pub(crate) fn server_totals(&self) -> Option<ServerTotals> {
        self.server.as_ref().map(|server| server.totals_at_end())
    }

    /// Totals of threads and jobs; the arguments are facts that the threads do not know themselves.
    pub(crate) fn into_totals(
        self,
        never_ran: Vec<Option<String>>,
        time_capped: bool,
        migrations: u64,
    ) -> (ThreadTotals, JobTotals) {
        let threads = (self.threads).into_totals(never_ran, time_capped, migrations);
        (threads, self.job_totals)
    }
}
