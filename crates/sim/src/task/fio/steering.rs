//! State of processes whose load follows what is measured: the depth by a latency, the end by a steady state, the ratio of a
//! flow.

use wakepath_workloads::fio::{DepthSearch, DepthStep, SteadyStateDetector};

use crate::core::basics::RequestId;
use crate::task::fio::replay::ReplaySetup;
use crate::task::fio::setup::JobSetup;

/// What the ends of a process's requests decide.
#[derive(Clone, Debug, Default)]
pub(in crate::task) struct Steering {
    pub(super) search: Option<Box<DepthSearch>>,
    /// What the search asked for at the last requests' ends, and whether the process waits for all in flight.
    pub(super) next_step: Option<DepthStep>,
    pub(super) drains: bool,
    pub(super) steady: Option<Box<SteadyStateDetector>>,
    /// Bytes of each request that ended since the last look.
    pub(super) ended: Vec<u64>,
    /// Requests whose data helpers check, and the bytes of those that ended since the last look.
    pub(super) to_check: Vec<RequestId>,
    pub(super) read: Vec<u64>,
    /// The search or the steady state ended the process.
    pub(super) is_satisfied: bool,
    /// I/Os begun in the job's flow, and whether the flow lets the next one begin.
    pub(super) flow_ios: u64,
    pub(super) flow_lets_begin: bool,
}

impl Steering {
    /// The steering of a process that starts at the time `started` in ns, and whose requests count after `ramp` ns.
    pub(super) fn new(job: &JobSetup, started: u64) -> Self {
        let mut steering = Self {
            search: job.search.clone().map(Box::new),
            ..Self::default()
        };
        if let Some(search) = &mut steering.search {
            search.begin(started + job.ramp);
        }
        if let Some(mut steady) = job.steady.clone().filter(|_| !job.steady_as_group) {
            steady.begin(started);
            steering.steady = Some(Box::new(steady));
        }
        steering
    }

    /// How many requests may be in flight, of `most` that the engine allows.
    pub(super) fn depth(&self, most: u32) -> u32 {
        let depth = self.search.as_ref().map(|search| search.depth());
        depth.map_or(most, |depth| depth.min(most))
    }

    /// Notes a submitted read whose data helpers will check.
    pub(super) fn note_read_to_check(&mut self, request: RequestId) {
        self.to_check.push(request);
    }

    /// The I/O that the flow had let begin has begun: for the next one the flow is asked again.
    pub(super) fn forget_leave_of_flow(&mut self) {
        self.flow_lets_begin = false;
    }
}

/// Whether the ends of a job's requests decide something.
pub(super) fn ends_of_requests_matter(job: &JobSetup) -> bool {
    let checks = job.checks_by_helpers();
    let is_dependent = (job.replay.as_ref()).is_some_and(ReplaySetup::is_dependent);
    job.read_back.is_some()
        || job.search.is_some()
        || job.steady.is_some()
        || checks
        || is_dependent
}
