//! Work that the kernel or a program does by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figure;

/// Where background work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Runs {
    /// In a task: the CPU leaves the idle loop and gets its tick back.
    Task,
    /// In a timer interrupt only: the CPU stays in its idle loop.
    Interrupt,
}

/// Kernel timer that triggers background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackgroundTimer {
    /// The timer wheel: it expires with a tick, and within a tick it keeps the tick.
    Wheel,
    /// A high-resolution timer.
    Precise,
    /// Timer of a sleeping task: may fire early with another timer on the same CPU, by the timer slack.
    Sleep,
}

/// Instances of a kind of background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Instances {
    /// An instance on every CPU, which never migrates.
    #[default]
    #[serde(rename = "cpu")]
    PerCpu,
    /// A single task, placed by the scheduler as any other.
    #[serde(rename = "machine")]
    PerMachine,
}

/// Kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// fio jobs.
    Fio,
    /// rt-app threads.
    RtApp,
}

/// Autonomous work.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Name of the modelled work.
    pub name: String,
    /// Mean time between arrivals on a CPU; exponentially distributed unless `periodic`. A single task counts from when
    /// it goes to sleep.
    #[schemars(extend("unit" = "ms"))]
    pub every_ms: Figure,
    /// Arrivals at regular intervals, on each CPU at other times. Absent: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub periodic: bool,
    /// Work per arrival, on the biggest core.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub kcycles: Figure,
    /// Each arrival leaves an RCU callback on its CPU, which keeps the tick until a grace period ends
    /// (`rcu_needs_cpu()`). Absent: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub callbacks: bool,
    /// Where the work runs: `task`, for which the CPU leaves the idle loop, or `interrupt`.
    pub runs: Runs,
    /// Workload kind that comes with this work, such as fio's own housekeeping: `fio` or `rt-app`. Absent: all.
    #[serde(default, rename = "beside", skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadKind>,
    /// Instances: `cpu`, each bound to a CPU, or `machine`, a single task that the scheduler places. Absent: `cpu`.
    #[serde(default, rename = "per", skip_serializing_if = "Instances::is_per_cpu")]
    pub instances: Instances,
    /// Trigger: `wheel`, `precise` or `sleep`. Absent: `wheel` for a task, `precise` for an interrupt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<BackgroundTimer>,
}

impl Instances {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_per_cpu(&self) -> bool {
        *self == Self::PerCpu
    }
}

impl Background {
    /// The timer that triggers the work: the timer wheel for a task, a high-resolution timer for an interrupt, unless
    /// the file says otherwise.
    pub fn given_or_usual_timer(&self) -> BackgroundTimer {
        self.timer.unwrap_or(match self.runs {
            Runs::Task => BackgroundTimer::Wheel,
            Runs::Interrupt => BackgroundTimer::Precise,
        })
    }

    /// Background work that a stock kernel does on every CPU, whatever the machine is for.
    ///
    /// The statistics of the memory management, once a second, are not among it: their timer is deferrable and wakes no idle CPU.
    /// Nor are timers that a kernel has once, not on each CPU.
    pub fn stock_kernel_work() -> Vec<Self> {
        vec![Self {
            name: "soft-lockup watchdog".to_owned(),
            every_ms: Figure::with_own_source(
                4000.0,
                "Linux 6.1 to 6.12 kernel/watchdog.c: a fifth of twice watchdog_thresh, which is 10 s",
            ),
            periodic: true,
            kcycles: Figure::assumed(5.0, "a timer that wakes a short kernel thread"),
            callbacks: false,
            workload: None,
            runs: Runs::Task,
            instances: Instances::PerCpu,
            timer: None,
        }]
    }
}
