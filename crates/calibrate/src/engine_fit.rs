//! The work of fio and libaio, fitted to separate jobs.
//!
//! At depth 1 an engine's work is a difference between two long times, and pauses of the machine count as work. With many
//! requests in flight the job's CPU never rests, so the time between two requests is work alone. The deep job gives the work
//! of requests without sleep. The jobs at depth 1 divide that work between fio and the engine.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, IoPath, Origin};
use wakepath_results::RunRecord;
use wakepath_units::median;

use crate::figures::{highest_khz, time_of_work_us, work_in_kilocycles};
use crate::job_list::{DEEP, FEW};
use crate::prediction::find_metric;

/// From this share on, a job's CPU counts as always busy: fio's own account leaves some work out.
const BUSY_SHARE: f64 = 0.9;

/// A run of a fitting job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FittingRun {
    /// Mean latency in us.
    pub(crate) mean_us: f64,
    /// Time from a request to the next in us.
    pub(crate) apart_us: f64,
    /// CPU time of fio's job over the time of the job.
    pub(crate) busy_share: f64,
    /// How often the job slept, for each request; 0 where fio does not tell.
    pub(crate) switches_per_request: f64,
}

impl FittingRun {
    /// Reads a run's figures; `None` if fio told no latency.
    pub(crate) fn from_run(run: &RunRecord, seconds: f64) -> Option<Self> {
        let apart_us = 1e6 / find_metric(run, "iops")?;
        let cpu_seconds = find_metric(run, "user_s")? + find_metric(run, "system_s")?;
        Some(Self {
            mean_us: find_metric(run, "mean_us")?,
            apart_us,
            busy_share: cpu_seconds / seconds,
            switches_per_request: find_metric(run, "switches_per_s").unwrap_or(0.0) * apart_us
                / 1e6,
        })
    }
}

/// Runs of the fitting jobs in turn, equally many for each job.
#[derive(Clone, Debug)]
pub(crate) struct FittingRuns {
    /// psync.
    pub(crate) synchronous: Vec<FittingRun>,
    /// libaio at depth 1.
    pub(crate) asynchronous: Vec<FittingRun>,
    /// libaio with few requests in flight.
    pub(crate) few: Vec<FittingRun>,
    /// libaio with so many requests in flight that a CPU may be busy all the time.
    pub(crate) deep: Vec<FittingRun>,
}

/// Times in us between two requests, without sleep.
struct EngineTimes {
    program: f64,
    /// libaio at depth 1 beyond psync.
    asynchronous: f64,
    /// libaio where the CPU never rests; `None`: the drive or another CPU limits it.
    busy: Option<f64>,
}

/// The deep job, in medians over the turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeepTimes {
    /// Mean latency in us.
    pub(crate) mean_us: f64,
    /// The same of libaio at depth 1.
    pub(crate) alone_us: f64,
    /// CPU time of each request in us.
    pub(crate) cpu_us: f64,
    pub(crate) busy_share: f64,
    /// How often the job sleeps for each round of its requests.
    pub(crate) sleeps_per_round: f64,
    /// The same of the job with few requests in flight.
    pub(crate) sleeps_per_round_of_few: f64,
}

impl DeepTimes {
    /// Whether the CPU limits the job, and not the drive.
    pub(crate) fn keeps_cpu_busy(self) -> bool {
        self.busy_share >= BUSY_SHARE
    }
}

impl FittingRuns {
    /// The deep job; `None` without runs.
    pub(crate) fn deep_times(&self) -> Option<DeepTimes> {
        let deep = self.deep.iter();
        Some(DeepTimes {
            mean_us: median(deep.clone().map(|run| run.mean_us))?,
            alone_us: median(self.asynchronous.iter().map(|run| run.mean_us))?,
            cpu_us: median(deep.clone().map(|run| run.busy_share * run.apart_us))?,
            busy_share: median(deep.map(|run| run.busy_share))?,
            sleeps_per_round: DEEP as f64 * median_switches(&self.deep)?,
            sleeps_per_round_of_few: FEW as f64 * median_switches(&self.few)?,
        })
    }

    /// Medians over the turns. What compares two jobs is taken within a turn.
    fn engine_times(&self) -> Option<EngineTimes> {
        let turns = self.synchronous.iter().zip(&self.asynchronous);
        let extra = turns.map(|(alone, behind)| behind.apart_us - alone.apart_us);
        let program = self
            .synchronous
            .iter()
            .map(|run| run.apart_us - run.mean_us);
        let keeps_busy = self.deep_times()?.keeps_cpu_busy();
        let apart = median(self.deep.iter().map(|run| run.apart_us))?;
        Some(EngineTimes {
            program: median(program)?.max(0.0),
            asynchronous: median(extra)?.max(0.0),
            busy: keeps_busy.then_some(apart),
        })
    }
}

/// Median of how often a job slept for each request.
fn median_switches(runs: &[FittingRun]) -> Option<f64> {
    median(runs.iter().map(|run| run.switches_per_request))
}

/// Fits the work of the program between two requests, and that of an asynchronous engine.
///
/// Where a CPU never rests in the deep job, fits as well the shares of a request's work that only a sleeping task costs.
///
/// # Errors
/// Fio told no latency, or the machine's clock is not known.
pub(crate) fn fit_engine_work(machine: &mut Machine, runs: &FittingRuns) -> Result<(), String> {
    let khz = highest_khz(machine)?;
    let times = runs.engine_times().ok_or("fio told no latency")?;
    let work = |us: f64, what: &str| Figure {
        value: work_in_kilocycles(us, khz),
        origin: Origin::Fitted(format!("{what}: {us:.2} us at {} MHz", khz / 1000)),
    };
    let own_interrupts = completes_on_the_submitting_cpu(machine);
    let path = &mut machine.io_path;
    path.program_kcycles = work(
        times.program,
        "time between two 4 KiB reads of fio's psync at depth 1, less their mean latency",
    );
    path.asynchronous_kcycles = work(
        times.asynchronous,
        "time between two 4 KiB reads of fio's libaio at depth 1, less that of psync",
    );
    if let (Some(busy_us), true, Some(_)) =
        (times.busy, own_interrupts, path.kcycles_per_io.fitted_to())
    {
        let request_us = time_of_work_us(path.kcycles_per_io.value, khz);
        let asleep_us = request_us + times.program + times.asynchronous;
        if busy_us > asleep_us {
            path.asynchronous_kcycles = work(
                times.asynchronous + busy_us - asleep_us,
                "time between two 4 KiB reads of fio's libaio on a CPU that never rests, less the work of psync's",
            );
        }
        share_out_savings(path, (asleep_us - busy_us).max(0.0) / request_us, busy_us);
    }
    Ok(())
}

/// Whether the CPU that submits a request does all of its work.
pub(crate) fn completes_on_the_submitting_cpu(machine: &Machine) -> bool {
    let completion = &machine.io_path.completion;
    let cpus: usize = machine.cluster.iter().map(|cluster| cluster.cpus).sum();
    completion.cpu.is_none() && completion.queues.is_none_or(|queues| queues >= cpus)
}

/// Gives the share of the work that a task's sleep costs to its parts: the context switch first, then waking.
///
/// Nothing is left for going to sleep. The drive works meanwhile, so that no latency has that work, and the whole was fitted to a
/// latency.
fn share_out_savings(path: &mut IoPath, saved: f64, busy_us: f64) {
    let fitted = |value: f64| Figure {
        value: (value * 1e3).floor() / 1e3,
        origin: Origin::Fitted(format!(
            "what 4 KiB reads of fio's libaio take less where their CPU never rests: {busy_us:.2} us from one to the next"
        )),
    };
    let switch = saved.min(path.resume_share.value);
    let waking = (saved - switch).min(path.interrupt_share.value);
    path.switch_share = fitted(switch);
    path.deactivation_share = fitted(0.0);
    path.reactivation_share = fitted(waking);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run at depth 1 of a CPU that rests.
    fn rested(mean_us: f64, apart_us: f64) -> FittingRun {
        FittingRun {
            mean_us,
            apart_us,
            busy_share: 0.2,
            switches_per_request: 1.0,
        }
    }

    /// Reads of 80 us with 1 us between them, 3 us more by libaio, and so much at depth.
    fn runs(deep_us: f64, busy_share: f64) -> FittingRuns {
        FittingRuns {
            // The second turn met a pause of the machine.
            synchronous: vec![rested(80.0, 81.0), rested(95.0, 97.5), rested(80.0, 81.0)],
            asynchronous: vec![rested(82.0, 84.0), rested(82.0, 84.0), rested(82.0, 84.0)],
            few: vec![rested(82.0, 30.0)],
            deep: vec![
                FittingRun {
                    mean_us: 32.0 * deep_us,
                    apart_us: deep_us,
                    busy_share,
                    switches_per_request: 0.5,
                };
                3
            ],
        }
    }

    /// A board where a request takes 20 us of work, a fifth after the interrupt.
    fn board() -> Machine {
        let mut machine = Machine::find("rk3399").unwrap();
        machine.io_path.completion.cpu = None;
        machine.io_path.completion.queues = None;
        let shares = [
            (&mut machine.io_path.submission_share, 0.4),
            (&mut machine.io_path.interrupt_share, 0.4),
            (&mut machine.io_path.resume_share, 0.2),
        ];
        for (share, value) in shares {
            share.value = value;
        }
        let khz = highest_khz(&machine).unwrap();
        machine.io_path.kcycles_per_io = Figure {
            value: work_in_kilocycles(20.0, khz),
            origin: Origin::Fitted("reads".to_owned()),
        };
        machine
    }

    /// Work in us at the highest clock.
    fn microseconds(machine: &Machine, work: &Figure) -> f64 {
        time_of_work_us(work.value, highest_khz(machine).unwrap())
    }

    #[test]
    fn the_work_of_fio_and_of_its_engine_is_fitted_to_the_time_between_requests() {
        let mut machine = board();
        let before = machine.io_path.clone();
        // The drive limits the deep job.
        fit_engine_work(&mut machine, &runs(10.0, 0.5)).unwrap();
        let path = &machine.io_path;
        assert!((microseconds(&machine, &path.program_kcycles) - 1.0).abs() < 0.01);
        assert!((microseconds(&machine, &path.asynchronous_kcycles) - 3.0).abs() < 0.01);
        assert!(path.program_kcycles.fitted_to().is_some());
        assert_eq!(path.switch_share, before.switch_share);
    }

    #[test]
    fn a_cpu_that_never_rests_tells_what_sleep_costs() {
        // 20, 1 and 3 us, of which 21.6 are left: 2.4 us are the switch, 12 % of 20.
        for (deep_us, shares) in [
            (21.6, [0.12, 0.0, 0.0]),
            (16.0, [0.2, 0.0, 0.2]),
            (24.0, [0.0, 0.0, 0.0]),
        ] {
            let mut machine = board();
            fit_engine_work(&mut machine, &runs(deep_us, 1.0)).unwrap();
            let path = &machine.io_path;
            let found = [
                &path.switch_share,
                &path.deactivation_share,
                &path.reactivation_share,
            ];
            for (figure, share) in found.into_iter().zip(shares) {
                assert!(
                    (figure.value - share).abs() < 0.002,
                    "{deep_us}: {figure:?}"
                );
                assert!(figure.fitted_to().is_some());
            }
            assert!((microseconds(&machine, &path.asynchronous_kcycles) - 3.0).abs() < 0.02);
            machine.check().unwrap();
        }
    }

    #[test]
    fn work_that_depth_1_does_not_show_is_the_engines() {
        let mut machine = board();
        fit_engine_work(&mut machine, &runs(29.0, 1.0)).unwrap();
        let path = &machine.io_path;
        assert!((microseconds(&machine, &path.asynchronous_kcycles) - 8.0).abs() < 0.02);
        assert!(path.switch_share.value < 0.001);
        // Interrupts on another CPU are not in the job's time.
        let mut apart = board();
        apart.io_path.completion.cpu = Some(0);
        fit_engine_work(&mut apart, &runs(29.0, 1.0)).unwrap();
        let asynchronous = &apart.io_path.asynchronous_kcycles;
        assert!((microseconds(&apart, asynchronous) - 3.0).abs() < 0.01);
    }
}
