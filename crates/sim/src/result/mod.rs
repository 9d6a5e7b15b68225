//! The result of a simulated run.

pub mod details;
pub(crate) mod job;
pub(crate) mod summary;

use serde::Serialize;
use wakepath_hardware::{IdleStates, Machine};
use wakepath_workloads::Workload;

pub use crate::cpu::result::{CpuTime, StateTime};
use crate::drive::result::DriveRun;
use crate::engine::Finished;
use crate::frequency::clocks::Domain;
pub use crate::frequency::result::{ClockTime, FrequencyTime};
use crate::observe::batches::Drift;
use crate::observe::latency::{FsyncCalls, Latency, LatencyParts};
use crate::page_cache::result::PageCacheRun;
use crate::power::energy::Energy;
use crate::result::details::Details;
use crate::result::job::JobRun;
use crate::task::fio::rates::{FoundDepth, RateRun};
use crate::task::fio::replay::ReplayRun;
use crate::task::rtapp::program::Programs;
use crate::task::rtapp::result::ThreadsRun;
use crate::task::server::result::ServerRun;
use crate::task::server::setup::ServerSetup;

/// One run: one policy combination, one seed.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Seed for random numbers.
    pub seed: u64,
    /// Finished requests per second.
    pub iops: f64,
    /// Finished requests: I/Os of jobs, or replies of a server.
    pub requests: u64,
    /// Events handled by the simulator, a measure for the run's own cost.
    pub events: u64,
    /// Number of reads among the finished requests.
    pub reads: u64,
    /// Number of writes among the finished requests.
    pub writes: u64,
    /// Bytes of the finished reads.
    pub read_bytes: u64,
    /// Bytes of the finished writes.
    pub written_bytes: u64,
    /// Simulated time in seconds, without the warm-up.
    pub seconds: f64,
    /// Time before any figure counts, in seconds: until the first counted request, where jobs have a `ramp_time` or a
    /// `startdelay`.
    /// Requested rates and the page cache cover the whole run.
    pub warm_up_seconds: f64,
    /// How mean latency changed within the run, where its requests are enough to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Share of completion interrupts, 0 to 1, on the submitting CPU.
    pub same_cpu_share: f64,
    /// Latency from the system call's start to its return; of a server's request, from its arrival to its reply.
    pub latency_us: Latency,
    /// Figures of each job by itself; absent for a single job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobRun>,
    /// Latency by part.
    pub attribution: LatencyParts,
    /// Calls of fsync and fdatasync; absent if jobs made none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fsyncs: Option<FsyncCalls>,
    /// Energy by component; absent if the machine's description has no power figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// Mean frequency in MHz while tasks ran, weighted by run time.
    pub mean_mhz: f64,
    /// Idle states over all CPUs, shallowest first.
    pub idle_states: Vec<StateTime>,
    /// Idle periods too short for their state although a shallower state was enabled, by the time from entry to the
    /// ending event.
    pub too_deep: u64,
    /// Idle periods that a deeper enabled state would have fitted, likewise.
    pub too_shallow: u64,
    /// Idle periods counted as too deep by the kernel (`above` in sysfs), by the kernel's own measure.
    pub above: u64,
    /// Idle periods counted as too shallow by the kernel (`below` in sysfs).
    pub below: u64,
    /// Figures of each CPU.
    pub cpus: Vec<CpuTime>,
    /// Figures of each clock, through the clusters in order.
    pub clocks: Vec<ClockTime>,
    /// Figures of the threads, if the workload is an rt-app file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadsRun>,
    /// Arrivals and replies, if the workload is a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerRun>,
    /// Jobs, by place in the file, that were simulated for the longest time and had more to do: see
    /// [`LONGEST_UNTIMED`](crate::LONGEST_UNTIMED).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cut_jobs: Vec<usize>,
    /// Depths that jobs with a `latency_target` ended with, one for each process, in file order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub found_depths: Vec<FoundDepth>,
    /// How well replays of block traces kept the traces' times, in file order; dependent replays have no times to keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replays: Vec<ReplayRun>,
    /// Rates requested by jobs, in file order, reads before writes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateRun>,
    /// Figures of the drive, summed over several drives; absent if drives have no power states.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveRun>,
    /// Figures of the page cache; absent if no job wrote into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheRun>,
    /// Distributions, which JSON leaves out.
    #[serde(skip)]
    pub details: Details,
}

impl Run {
    pub(crate) fn new(
        seed: u64,
        machine: &Machine,
        workload: &Workload,
        states: &IdleStates,
        (programs, server_setup): (&Programs, Option<&ServerSetup>),
        finished: &Finished,
    ) -> Self {
        let seconds = finished.span.time_after_warm_up() as f64 / 1e9;
        let (now, time) = (
            finished.span.end_of_run(),
            finished.span.time_after_warm_up(),
        );
        let counted_seconds = finished.span.time_with_counted_requests() as f64 / 1e9;
        let recorder = &finished.recorder;
        let [reads, writes] = recorder.counted_requests();
        let [read_bytes, written_bytes] = recorder.counted_bytes();
        let requests = reads + writes;
        let server = (server_setup.zip(finished.server_totals()))
            .map(|(setup, totals)| ServerRun::new(setup, totals, requests));
        // A request to a server is neither a read nor a write, whatever disk calls it makes.
        let [reads, writes] = if server.is_some() {
            [0, 0]
        } else {
            [reads, writes]
        };
        let idle_states = StateTime::for_all_states(states, &finished.cpus);
        let cpus = (finished.cpus.iter().enumerate())
            .map(|(cpu, totals)| CpuTime::new(cpu, totals))
            .collect();
        // Loops of given steps are no operations of a program.
        let has_rtapp_tasks = programs.task_count() > 0 && !programs.have_given_steps();
        let threads = has_rtapp_tasks.then(|| ThreadsRun::new(programs, &finished.threads, time));
        let busy: u64 = finished.domains.iter().map(Domain::task_time).sum();
        let khz_time: u128 = finished.domains.iter().map(Domain::task_khz_time).sum();
        Self {
            seed,
            iops: if counted_seconds > 0.0 {
                requests as f64 / counted_seconds
            } else {
                0.0
            },
            requests,
            events: finished.span.event_count(),
            reads,
            writes,
            read_bytes,
            written_bytes,
            seconds,
            warm_up_seconds: finished.span.end_of_warm_up() as f64 / 1e9,
            drift: recorder.latency_drift(),
            same_cpu_share: recorder.same_cpu_share(),
            latency_us: match server {
                None => recorder.latency_summary(),
                Some(_) => Latency {
                    read_mean: 0.0,
                    ..recorder.latency_summary()
                },
            },
            fsyncs: recorder.fsync_summary(counted_seconds),
            energy: Energy::new(
                machine,
                finished,
                threads
                    .as_ref()
                    .map_or(recorder.finished_request_count(), |t| t.operations),
            ),
            threads,
            jobs: JobRun::list(workload, recorder.jobs(), counted_seconds),
            attribution: recorder.latency_parts(),
            mean_mhz: khz_time as f64 / busy.max(1) as f64 / 1e3,
            too_deep: idle_states.iter().map(|s| s.too_deep).sum(),
            too_shallow: idle_states.iter().map(|s| s.too_shallow).sum(),
            above: idle_states.iter().map(|s| s.above).sum(),
            below: idle_states.iter().map(|s| s.below).sum(),
            idle_states,
            cpus,
            clocks: finished
                .domains
                .iter()
                .map(|d| ClockTime::new(d, &finished.cpus, time, now))
                .collect(),
            cut_jobs: finished.jobs.cut_jobs(),
            found_depths: finished.jobs.found_depths(),
            replays: finished.jobs.replay_runs(),
            rates: match &server {
                Some(server) => RateRun::for_server(server).into_iter().collect(),
                None => finished.jobs.rate_runs(workload),
            },
            server,
            drive: finished.drives.as_ref().map(|d| DriveRun::new(d, time)),
            page_cache: finished.page_cache.as_ref().map(PageCacheRun::new),
            details: Details::new(machine, finished),
        }
    }
}
