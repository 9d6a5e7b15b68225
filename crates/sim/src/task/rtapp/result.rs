//! A run's figures about rt-app threads.

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::task::rtapp::program::Programs;
use crate::task::rtapp::state::{TaskStats, ThreadTotals};

/// Figures of an rt-app workload's threads.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadsRun {
    /// Loops completed by the first-named task's threads, per second.
    pub operations_per_second: f64,
    /// Number of loops completed by the first-named task's threads.
    pub operations: u64,
    /// How often a task changed its CPU.
    pub migrations: u64,
    /// Figures of each task in the file, all its threads together.
    pub tasks: Vec<TaskRun>,
    /// The end of the run was imposed by `--seconds` or a default, not by the file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub time_capped: bool,
    /// When every thread not ended began to wait for another one, if the run went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halted: Option<Halted>,
}

/// A halt of all threads: from when on nothing happened any more.
#[derive(Clone, Debug, Serialize)]
pub struct Halted {
    /// Seconds from the run's start until the halt.
    pub after_seconds: f64,
    /// Which thread waits for what.
    pub waits: String,
}

/// Figures of one rt-app task, all its threads together.
#[derive(Clone, Debug, Serialize)]
pub struct TaskRun {
    /// Task name.
    pub name: String,
    /// Number of threads.
    pub threads: u64,
    /// How often threads completed a loop through the task's phases.
    pub loops: u64,
    /// Completed loops per second.
    pub loops_per_second: f64,
    /// A loop's duration, in microseconds.
    pub loop_us: Spread,
    /// How often a thread of the task was woken up.
    pub wake_ups: u64,
    /// From the cause of a wake-up (the time for which a timer is set, the waker's call) until the thread has a
    /// CPU, in microseconds.
    pub wake_us: Spread,
    /// Parts of the mean wake-up latency.
    pub wake_parts: WakeAttribution,
    /// Why the task has neither worked nor completed a loop; absent if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub never_ran: Option<String>,
}

/// Mean, percentiles and maximum of a distribution of times. Percentiles are within 1 %.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// The mean parts of wake-up latencies in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WakeAttribution {
    /// Part in which timers expire later than asked for (`scheduler.timer_slack_us`).
    pub timer_slack: f64,
    /// Part for inter-processor interrupts; a polling CPU needs none.
    pub interrupt_delivery: f64,
    /// Part in which CPUs leave idle states.
    pub idle_exit: f64,
    /// Part in which threads wait for a CPU that does something else.
    pub waiting_to_run: f64,
}

impl ThreadsRun {
    /// Figures of the threads in a run that lasted for `time` ns.
    pub(crate) fn new(programs: &Programs, totals: &ThreadTotals, time: u64) -> Self {
        let seconds = time.saturating_sub(programs.warm_up) as f64 / 1e9;
        let tasks: Vec<TaskRun> = programs
            .tasks
            .iter()
            .zip(&totals.stats)
            .zip(&totals.never_ran)
            .map(|((program, stats), never_ran)| {
                let threads = u64::from(program.instances) * u64::from(programs.copies);
                TaskRun {
                    never_ran: never_ran.clone(),
                    ..TaskRun::new(program.name.clone(), threads, stats, seconds)
                }
            })
            .collect();
        let first = tasks.first();
        Self {
            operations_per_second: first.map_or(0.0, |t| t.loops_per_second),
            operations: first.map_or(0, |t| t.loops),
            migrations: totals.migrations,
            tasks,
            time_capped: totals.time_capped,
            halted: totals.halt.as_ref().map(|halt| Halted {
                after_seconds: halt.at as f64 / 1e9,
                waits: halt.waits.clone(),
            }),
        }
    }
}

impl TaskRun {
    fn new(name: String, threads: u64, stats: &TaskStats, seconds: f64) -> Self {
        let part =
            |index: usize| stats.wake_parts[index] as f64 / stats.wake_ups.max(1) as f64 / 1e3;
        Self {
            name,
            threads,
            loops: stats.loops,
            loops_per_second: if seconds > 0.0 {
                stats.loops as f64 / seconds
            } else {
                0.0
            },
            loop_us: Spread::new(&stats.loop_times, stats.loop_sum),
            wake_ups: stats.wake_ups,
            wake_us: Spread::new(&stats.wake_times, stats.wake_sum),
            never_ran: None,
            wake_parts: WakeAttribution {
                timer_slack: part(0),
                interrupt_delivery: part(1),
                idle_exit: part(2),
                waiting_to_run: part(3),
            },
        }
    }
}

impl Spread {
    fn new(times: &Histogram<u64>, sum: u128) -> Self {
        let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            mean: sum as f64 / times.len().max(1) as f64 / 1e3,
            p50: at(0.5),
            p99: at(0.99),
            max: times.max() as f64 / 1e3,
        }
    }
}
