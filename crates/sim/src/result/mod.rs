//! What a simulation says.

pub mod details;
pub(crate) mod summary;

use serde::Serialize;
use wakepath_hardware::{IdleStates, Machine};
use wakepath_workloads::Workload;

pub use crate::cpu::result::{CpuTime, StateTime};
use crate::drive::DriveTotals;
use crate::engine::Finished;
use crate::frequency::clocks::Domain;
pub use crate::frequency::result::{ClockTime, FrequencyTime};
use crate::observe::attribution::Attribution;
use crate::observe::batches::Drift;
use crate::observe::recorder::Recorder;
use crate::page_cache::state::{PAGE, Totals};
use crate::power::energy::Energy;
use crate::result::details::Details;
use crate::task::fio::rates::RateRun;
use crate::task::rtapp::program::Programs;
use crate::task::rtapp::result::ThreadsRun;

/// One run: one policy combination, one seed.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Seed of its random numbers.
    pub seed: u64,
    /// Finished requests per second.
    pub iops: f64,
    /// Finished requests.
    pub requests: u64,
    /// Events that the simulator handled; says what the run cost to simulate.
    pub events: u64,
    /// Those of them that were reads.
    pub reads: u64,
    /// Those that were writes.
    pub writes: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Simulated time in seconds, without the warm-up.
    pub seconds: f64,
    /// Time before that which no figure counts, in seconds: until the first request counted, where jobs have a `ramp_time`.
    /// Rates that were asked for and the page cache are those of the whole run.
    pub warm_up_seconds: f64,
    /// How mean latency changed within the run, where its requests are enough to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Share of the completion interrupts, 0 to 1, on the CPU that had submitted the request.
    pub same_cpu_share: f64,
    /// Latency from the start of the system call to its return.
    pub latency_us: Latency,
    /// What the latency is made of.
    pub attribution: LatencyParts,
    /// Energy by component; absent if the machine's description has no power figures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// Mean frequency in MHz at which tasks ran, weighted by the time that they ran.
    pub mean_mhz: f64,
    /// Idle states over all CPUs, shallowest first.
    pub idle_states: Vec<StateTime>,
    /// Idle periods that were too short for their state although a shallower one was enabled, by the time from entry to the event
    /// that ended them.
    pub too_deep: u64,
    /// Idle periods that a deeper enabled state would have fitted, likewise.
    pub too_shallow: u64,
    /// Idle periods that the kernel counts as too deep (`above` in sysfs), by its own measure of their length.
    pub above: u64,
    /// Idle periods that the kernel counts as too shallow (`below` in sysfs).
    pub below: u64,
    /// Each CPU.
    pub cpus: Vec<CpuTime>,
    /// Each clock, through the clusters in order.
    pub clocks: Vec<ClockTime>,
    /// The threads, if the workload is an rt-app file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<ThreadsRun>,
    /// Jobs, by their place in the file, that were simulated for the longest time and had more to do: see
    /// [`LONGEST_UNTIMED`](crate::LONGEST_UNTIMED).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cut_jobs: Vec<usize>,
    /// The rates that jobs ask for, in the order of the file, reads before writes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateRun>,
    /// The drive, if it has power states; of several, the sum over them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drive: Option<DriveRun>,
    /// The page cache, if somebody wrote into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheRun>,
    /// Distributions, which JSON leaves out.
    #[serde(skip)]
    pub details: Details,
}

/// What the page cache did.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PageCacheRun {
    /// Bytes of pages that became dirty; a page that is dirty already does not count again.
    pub dirtied_bytes: u64,
    /// Bytes of pages that were written back. What was dirtied has been written back or is left.
    pub written_back_bytes: u64,
    /// Bytes of pages that were dirty or on their way at the end of the run.
    pub left_bytes: u64,
    /// Seconds for which writers were held back because there were too many dirty pages, summed over them.
    pub held_back_seconds: f64,
}

impl PageCacheRun {
    fn new(totals: &Totals) -> Self {
        Self {
            dirtied_bytes: totals.dirtied * PAGE,
            written_back_bytes: totals.written * PAGE,
            left_bytes: totals.left * PAGE,
            held_back_seconds: totals.paused as f64 / 1e9,
        }
    }
}

/// What the drive did.
#[derive(Clone, Debug, Serialize)]
pub struct DriveRun {
    /// Average power in mW.
    pub average_mw: f64,
    /// Energy in picojoules.
    pub energy_pj: u64,
    /// Seconds spent serving requests or emptying the write buffer.
    pub active_seconds: f64,
    /// Seconds spent between power states.
    pub transition_seconds: f64,
    /// Seconds of its own work while asleep; part of the time in its power states.
    pub background_seconds: f64,
    /// Power states with nothing to do, PS0 first. Together with active and transition time they
    /// make the run.
    pub states: Vec<DriveStateTime>,
    /// Requests that found the drive asleep, or falling asleep.
    pub wake_ups: u64,
    /// Mean time that those waited for the drive, in microseconds.
    pub mean_wake_us: f64,
}

/// Time in a power state of a drive.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DriveStateTime {
    /// Its number.
    pub state: usize,
    /// Seconds in it with nothing to do.
    pub seconds: f64,
    /// Times that the drive fell asleep into it.
    pub entries: u64,
}

impl DriveRun {
    fn new(totals: &DriveTotals, end: u64) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        Self {
            // 1 fJ / 1 ns = 1 uW
            average_mw: totals.energy as f64 / end.max(1) as f64 / 1e3,
            energy_pj: u64::try_from(totals.energy / 1000).unwrap_or(u64::MAX),
            active_seconds: seconds(totals.active),
            transition_seconds: seconds(totals.transition),
            background_seconds: seconds(totals.background),
            states: totals
                .states
                .iter()
                .zip(&totals.entries)
                .enumerate()
                .map(|(state, (time, entries))| DriveStateTime {
                    state,
                    seconds: seconds(*time),
                    entries: *entries,
                })
                .collect(),
            wake_ups: totals.wake_ups,
            mean_wake_us: totals.waited as f64 / totals.wake_ups.max(1) as f64 / 1e3,
        }
    }
}

/// Latency of the requests of a run in microseconds. Percentiles are within 0.1 %.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// That of the reads; 0 if there were none.
    pub read_mean: f64,
    /// That of the writes; 0 if there were none.
    pub write_mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// What the latency of the requests is made of, in microseconds. The parts add up to the latency.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyParts {
    /// Mean over all requests.
    pub mean: Attribution,
    /// Mean over the requests within 3 % of the median.
    pub p50: Attribution,
    /// Mean over the requests within 3 % of the 90th percentile.
    pub p90: Attribution,
    /// Mean over the requests within 3 % of the 99th percentile.
    pub p99: Attribution,
    /// Mean over the requests within 3 % of the 99.9th percentile.
    pub p999: Attribution,
}

impl Run {
    pub(crate) fn new(
        seed: u64,
        machine: &Machine,
        workload: &Workload,
        states: &IdleStates,
        programs: &Programs,
        finished: &Finished,
    ) -> Self {
        let seconds = finished.span.time() as f64 / 1e9;
        let (now, time) = (finished.span.end(), finished.span.time());
        let counted_seconds = finished.span.counted_time() as f64 / 1e9;
        let recorder = &finished.recorder;
        let requests = recorder.reads + recorder.writes;
        let idle_states = StateTime::all(states, &finished.cpus);
        let cpus = finished.cpus.iter().enumerate();
        let cpus = cpus
            .map(|(cpu, totals)| CpuTime::new(cpu, totals))
            .collect();
        let threads = (!programs.tasks.is_empty())
            .then(|| ThreadsRun::new(programs, &finished.threads, time));
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
            events: finished.span.events(),
            reads: recorder.reads,
            writes: recorder.writes,
            read_bytes: recorder.read_bytes,
            written_bytes: recorder.written_bytes,
            seconds,
            warm_up_seconds: finished.span.begin() as f64 / 1e9,
            drift: recorder.batches.drift(),
            same_cpu_share: recorder.same_cpu as f64 / recorder.completions.max(1) as f64,
            latency_us: Latency::new(recorder),
            energy: Energy::new(
                machine,
                finished,
                threads
                    .as_ref()
                    .map_or(requests + recorder.ramped, |t| t.operations),
            ),
            threads,
            attribution: LatencyParts {
                mean: recorder.parts.mean(),
                p50: recorder.parts.at_quantile(0.5),
                p90: recorder.parts.at_quantile(0.9),
                p99: recorder.parts.at_quantile(0.99),
                p999: recorder.parts.at_quantile(0.999),
            },
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
            rates: finished.jobs.rates(workload),
            drive: finished
                .drives
                .as_ref()
                .map(|d| DriveRun::new(&DriveTotals::sum(d), time)),
            page_cache: finished.page_cache.as_ref().map(PageCacheRun::new),
            details: Details::new(machine, finished),
        }
    }
}

impl Latency {
    fn new(recorder: &Recorder) -> Self {
        let h = recorder.histogram();
        let at = |quantile| h.value_at_quantile(quantile) as f64 / 1e3;
        let requests = h.len().max(1) as f64;
        let mean = |direction: usize, requests: u64| {
            recorder.latency_sums[direction] as f64 / requests.max(1) as f64 / 1e3
        };
        Self {
            mean: recorder.latency_sums.iter().sum::<u128>() as f64 / requests / 1e3,
            read_mean: mean(0, recorder.reads),
            write_mean: mean(1, recorder.writes),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: h.max() as f64 / 1e3,
        }
    }
}
