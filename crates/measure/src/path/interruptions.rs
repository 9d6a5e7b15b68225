//! What interrupts a thread that spins: ticks, other work, and a virtual machine's host that takes the CPU.

use std::time::{Duration, Instant};

use serde::Serialize;
use wakepath_system::capture::runs_under_hypervisor;
use wakepath_system::{Root, System};

use super::cpu_account::read_cpu_account_ns;
use crate::conditions::read_stolen_ticks;
use crate::summary::{Estimate, LatencySummary, reach_of_count};
use crate::{ExperimentControl, MeasureError, pin};

/// Interruptions of a spinning thread from this length on, in ns, are somebody else's work.
const LEAST_INTERRUPTION: u64 = 700;
/// Shorter interruptions, in ns, are too short for a switch of the host between virtual CPUs.
const LEAST_THEFT: u64 = 10_000;
/// Longest time in ns that a tick's interruption may be taken to last.
const LONGEST_TICK: u64 = 100_000;
/// An interruption is no tick from this factor of the shorter ones on.
const BEYOND_TICKS: u64 = 10;
/// Largest part by which the interruptions may differ from what the kernel counts as stolen.
const MOST_DIFFERENCE: f64 = 0.5;
/// Steps of the kernel's count that one reading may be off, at both ends of the watch.
const STEPS_OFF: f64 = 2.0;

/// Interruptions of a thread that only looks at the clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interruptions {
    /// Number of interruptions.
    pub n: u64,
    /// Interruptions per second.
    pub per_second: f64,
    /// Median length in ns: at about the tick rate, what a tick takes.
    pub median_ns: f64,
    /// Ends of the median's 95 % interval in ns.
    pub median_interval_ns: [f64; 2],
}

/// How a virtual machine's host takes a CPU from a thread that runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CpuThefts {
    /// Number of interruptions by the host that were seen.
    pub n: u64,
    /// Interruptions for each second that the thread ran, those too short to be told from ticks included.
    pub per_running_second: f64,
    /// Ends of the rate's 95 % interval, as of a Poisson process.
    pub per_running_second_interval: [f64; 2],
    /// Mean length, taken to be exponentially distributed.
    pub mean: Estimate,
}

/// What a spinning thread saw.
#[derive(Debug)]
pub(super) struct WatchedThread {
    pub(super) interruptions: Option<Interruptions>,
    /// Thefts by the host, where the kernel counts stolen time; the error says why a count has none.
    pub(super) thefts: Result<Option<CpuThefts>, String>,
}

/// A jump of the clock as a spinning thread sees it.
#[derive(Clone, Copy, Debug)]
struct Jump {
    ns: u64,
    /// Whether another thread of this machine had the CPU meanwhile.
    others_ran: bool,
}

/// The jumps that a thread saw, over a time, with what the kernel counted as stolen.
#[derive(Debug, Default)]
struct Watch {
    jumps: Vec<Jump>,
    ns: u64,
    /// Time in ns that the kernel counted as stolen, in whole steps; `None` outside virtual machines.
    stolen_ns: Option<u64>,
}

/// Length in ns of a step of the times in `/proc/stat`.
fn count_step_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

/// Watches the clock on a CPU for jumps: work of others, at rest mostly ticks; in a virtual machine also stolen time.
pub(super) fn watch_interruptions(
    system: &System,
    cpu: usize,
    time: Duration,
    control: ExperimentControl<'_>,
) -> Result<WatchedThread, MeasureError> {
    let root = system.root();
    let watched = std::thread::scope(|scope| {
        let spinner = std::thread::Builder::new().name("spinner".to_owned());
        let started = spinner.spawn_scoped(scope, || -> Result<Watch, MeasureError> {
            pin::pin_to(cpu)?;
            let before = read_stolen_ns(root, cpu);
            let mut watch = spin_and_watch(time, control);
            let both = before.zip(read_stolen_ns(root, cpu));
            watch.stolen_ns = both.map(|(then, now)| now.saturating_sub(then));
            Ok(watch)
        });
        started.map(std::thread::ScopedJoinHandle::join)
    });
    let watch = match watched {
        Ok(Ok(result)) => result?,
        // The thread could not be run.
        Ok(Err(_)) | Err(_) => Watch::default(),
    };
    Ok(WatchedThread {
        interruptions: watch.summarise_interruptions(),
        thefts: watch.find_thefts(count_step_ns()),
    })
}

/// Time in ns that the host took a CPU since boot, by the kernel; `None` outside virtual machines.
fn read_stolen_ns(root: &Root, cpu: usize) -> Option<u64> {
    let is_guest = runs_under_hypervisor(root);
    let ticks = is_guest.then(|| read_stolen_ticks(root, cpu)).flatten()?;
    Some(ticks.saturating_mul(count_step_ns()))
}

fn spin_and_watch(time: Duration, control: ExperimentControl<'_>) -> Watch {
    let mut jumps = Vec::new();
    let mut waited = read_wait_ns();
    let began = Instant::now();
    let mut last = began;
    while last.duration_since(began) < time && !control.is_cancelled() {
        let now = Instant::now();
        let ns = now.duration_since(last).as_nanos() as u64;
        last = now;
        if ns < LEAST_INTERRUPTION {
            continue;
        }
        let mut others_ran = false;
        if ns >= LEAST_THEFT {
            let waited_now = read_wait_ns();
            others_ran = waited_now != waited;
            waited = waited_now;
            // Reading the account takes time of its own.
            last = Instant::now();
        }
        jumps.push(Jump { ns, others_ran });
    }
    Watch {
        jumps,
        ns: last.duration_since(began).as_nanos() as u64,
        stolen_ns: None,
    }
}

/// Time in ns that the calling thread could run and another one did; `None`: the kernel keeps no account.
fn read_wait_ns() -> Option<u64> {
    read_cpu_account_ns().map(|[_, waited]| waited)
}

impl Watch {
    fn summarise_interruptions(&self) -> Option<Interruptions> {
        let all: Vec<u64> = self.jumps.iter().map(|jump| jump.ns).collect();
        let lengths = LatencySummary::new(&all)?;
        Some(Interruptions {
            n: lengths.n,
            per_second: lengths.n as f64 * 1e9 / self.ns.max(1) as f64,
            median_ns: lengths.median.ns,
            median_interval_ns: [lengths.median.low, lengths.median.high],
        })
    }

    /// Tells the host's interruptions from ticks and from other threads, where the kernel's count of stolen time moved by
    /// whole steps of `step_ns`. `None`: the count does not exist, or did not move.
    ///
    /// Interruptions as short as ticks cannot be told from them. As the others are exponential above any limit, they say how
    /// many there are below, and how long all are in the mean.
    fn find_thefts(&self, step_ns: u64) -> Result<Option<CpuThefts>, String> {
        let Some(counted) = self.stolen_ns.filter(|ns| *ns > 0) else {
            return Ok(None);
        };
        let all: Vec<u64> = self.jumps.iter().map(|jump| jump.ns).collect();
        let shorter = LatencySummary::new(&all).map_or(0, |lengths| lengths.p10.0);
        let limit = (shorter * BEYOND_TICKS).clamp(LEAST_THEFT, LONGEST_TICK);
        let beyond = (self.jumps.iter()).filter(|jump| jump.ns >= limit && !jump.others_ran);
        let lengths: Vec<u64> = beyond.map(|jump| jump.ns).collect();
        let sum: u64 = lengths.iter().sum();
        let most = counted as f64 * MOST_DIFFERENCE + STEPS_OFF * step_ns as f64;
        if sum.abs_diff(counted) as f64 > most {
            return Err(format!(
                "the kernel counts {:.0} ms as stolen, and the interruptions of a spinning thread add up to {:.0} ms",
                counted as f64 / 1e6,
                sum as f64 / 1e6
            ));
        }
        let n = lengths.len() as f64;
        let reach = reach_of_count(n);
        let summary = LatencySummary::new(&lengths).filter(|_| n > reach);
        let Some(lengths_beyond) = summary else {
            return Err(format!(
                "the host took the CPU {n} times, which are too few"
            ));
        };
        let below = limit as f64;
        let Estimate { ns, low, high } = lengths_beyond.mean;
        let mean = Estimate {
            ns: ns - below,
            low: low - below,
            high: high - below,
        };
        if mean.low <= 0.0 {
            return Err("the host took the CPU for times as short as ticks".to_owned());
        }
        let too_short = (below / mean.ns).exp();
        let stolen_in_all = n * too_short * mean.ns;
        let running_seconds = (self.ns as f64 - stolen_in_all).max(1.0) / 1e9;
        // The mean, and with it the number of those too short, is no better known than the number of the others.
        let reach_in_all = reach * 1.0_f64.hypot(below / mean.ns);
        let [rate, least, highest] = [n, n - reach_in_all, n + reach_in_all]
            .map(|n| n.max(0.0) * too_short / running_seconds);
        Ok(Some(CpuThefts {
            n: lengths_beyond.n,
            per_running_second: rate,
            per_running_second_interval: [least, highest],
            mean,
        }))
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    const STEP: u64 = 10_000_000;

    fn draw_exponential(random: &mut Pcg64Mcg, mean: f64) -> f64 {
        -mean * (1.0 - random.random::<f64>()).ln()
    }

    /// A jump without another thread.
    fn jump_alone(ns: f64) -> Jump {
        Jump {
            ns: ns as u64,
            others_ran: false,
        }
    }

    /// Jumps at exponential gaps of so many seconds in the mean, each after the running time at which it comes.
    fn draw_jumps(
        random: &mut Pcg64Mcg,
        (seconds, gap): (f64, f64),
        draw: impl Fn(&mut Pcg64Mcg) -> Jump,
    ) -> Vec<(f64, Jump)> {
        let mut jumps = Vec::new();
        let mut at = draw_exponential(random, gap);
        while at < seconds {
            jumps.push((at, draw(random)));
            at += draw_exponential(random, gap);
        }
        jumps
    }

    /// A thread that runs for so many seconds, under 250 ticks per s of 1.5 to 3 us, 20 longer turns of other threads per s, and a
    /// host that takes the CPU `per_s` times for each of them.
    fn watch_guest(seed: u64, running_seconds: f64, per_s: f64, mean_ns: f64) -> Watch {
        let random = &mut Pcg64Mcg::seed_from_u64(seed);
        let ticks = draw_jumps(random, (running_seconds, 1.0 / 250.0), |random| {
            jump_alone(random.random_range(1_500.0..3_000.0))
        });
        let turns = draw_jumps(random, (running_seconds, 1.0 / 20.0), |random| Jump {
            others_ran: true,
            ..jump_alone(random.random_range(20_000.0..2e6))
        });
        let thefts = draw_jumps(random, (running_seconds, 1.0 / per_s), |random| {
            jump_alone(draw_exponential(random, mean_ns))
        });
        let stolen: u64 = thefts.iter().map(|(_, jump)| jump.ns).sum();
        let mut jumps = [ticks, turns, thefts].concat();
        jumps.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Watch {
            jumps: jumps.into_iter().map(|(_, jump)| jump).collect(),
            ns: (running_seconds * 1e9) as u64 + stolen,
            stolen_ns: Some(stolen / STEP * STEP),
        }
    }

    #[test]
    fn thefts_are_told_from_ticks_and_other_threads() {
        for (per_s, mean_ns) in [(40.0, 3e6), (100.0, 800_000.0), (1_500.0, 60_000.0)] {
            let (mut rates, mut means) = (0, 0);
            for seed in 0..60 {
                let watch = watch_guest(seed, 10.0, per_s, mean_ns);
                let thefts = watch.find_thefts(STEP).unwrap().unwrap();
                let [low, high] = thefts.per_running_second_interval;
                rates += u32::from((low..=high).contains(&per_s));
                means += u32::from(thefts.mean.covers(mean_ns));
                let share = thefts.per_running_second * thefts.mean.ns / (per_s * mean_ns);
                assert!((share - 1.0).abs() < 0.25, "{thefts:?}");
            }
            // Of intervals of 95 %, three standard deviations fewer.
            assert!(rates >= 52 && means >= 52, "{per_s}: {rates} {means}");
        }
    }

    #[test]
    fn without_stolen_time_there_are_no_thefts() {
        let quiet = watch_guest(1, 20.0, 0.0, 0.0);
        assert_eq!(quiet.stolen_ns, Some(0));
        assert_eq!(quiet.find_thefts(STEP), Ok(None));
        // Long interruptions of a machine that has no host.
        let hardware = Watch {
            stolen_ns: None,
            ..watch_guest(1, 20.0, 100.0, 1e6)
        };
        assert_eq!(hardware.find_thefts(STEP), Ok(None));
        let seen = hardware.summarise_interruptions().unwrap();
        assert!((330.0..400.0).contains(&seen.per_second), "{seen:?}");
    }

    #[test]
    fn interruptions_that_the_count_does_not_explain_are_no_figure() {
        let counted_more = Watch {
            stolen_ns: Some(9_000_000_000),
            ..watch_guest(1, 20.0, 100.0, 1e6)
        };
        let why = counted_more.find_thefts(STEP).unwrap_err();
        assert!(why.contains("counts 9000 ms as stolen"), "{why}");
        let few = Watch {
            jumps: vec![jump_alone(5e6); 2],
            ns: 1_000_000_000,
            stolen_ns: Some(STEP),
        };
        assert!(few.find_thefts(STEP).unwrap_err().contains("2 times"));
    }

    #[test]
    fn a_thread_sees_its_interruptions() {
        let none = |_: usize| {};
        let go = std::sync::atomic::AtomicBool::new(false);
        let control = ExperimentControl::new(&none, &go);
        let cpu = rustix::thread::sched_getcpu();
        let time = Duration::from_millis(200);
        let found = watch_interruptions(&System::live(), cpu, time, control).unwrap();
        let seen = found.interruptions.unwrap();
        // A CPU that spins has a tick at least, at 100 Hz or more.
        assert!(seen.n >= 10 && seen.median_ns >= 700.0, "{seen:?}");
    }
}
