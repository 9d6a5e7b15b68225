//! Machines: CPUs in clusters, idle states declared and true, operating points, the I/O path and
//! the drive, with the origin of every figure.
//!
//! A machine is a TOML file. The built-in ones are in `data/machines`.

mod borrowed;
mod cluster_states;
mod cppc;
mod drive;
mod emulator;
mod figure;
mod figures;
mod from_recorded;
mod isolation;
mod keys;
mod kinds;
mod latency;
mod library;
mod like;
mod page_cache;
mod platform;
mod power;
mod power_limit;
mod prediction;
mod rcu;
mod to_toml;
mod validate;

pub use cluster_states::ClusterIdleState;
pub use cppc::Cppc;
pub use drive::{
    DriveBackground, DriveInForce, DriveModel, DrivePower, Transition, TruePowerState, WriteBuffer,
};
pub use emulator::Emulator;
pub use figure::{Figure, Measurement, Origin};
pub use figures::MachineFigure;
pub use from_recorded::Captured;
pub use isolation::Isolation;
pub use keys::{MachineKey, schema};
pub use kinds::{CoreKind, EFFICIENCY_CAPACITY, EFFICIENCY_CAPACITY_WHY};
pub use latency::{LatencyRequest, MAX_LATENCY_REQUEST_US};
pub use library::{MachineError, builtin_names};
pub use page_cache::PageCache;
pub use platform::Platform;
pub use power::{EXIT_NOT_KNOWN, Package, PackageSleep, PowerScope, Uncore};
pub use power_limit::PowerLimit;
pub use prediction::PredictionError;
pub use rcu::Rcu;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wakepath_units::{KernelVersion, Kilohertz, Nanoseconds, TickRate};

use self::validate::Fault;
use crate::idle::IdleStates;

/// A machine description.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Version of the file format: 1.
    pub schema: u32,
    /// Short name for `--machine`.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// Kernel version, such as `7.3` or `6.12.48`: the version of policies whose names say none. Build configuration
    /// such as `hz` does not follow from it. Absent: the default version of each policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub kernel: Option<KernelVersion>,
    /// Where the kernel is known from; begins with `assumed` if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_from: Option<String>,
    /// Policy set that the kernel runs by itself, such as `menu + amd-pstate[mode=active]`. Absent: `menu + schedutil`,
    /// or the recorded policies of a system with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<String>,
    /// Why nothing tells what the machine draws, if nothing does: a captured guest, or a class without published
    /// powers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_power: Option<String>,
    /// How far predictions on this machine were from what it did; `wakepath calibrate` writes it. Absent: nobody compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("see" = "measure.md#your-machine-in-ten-minutes"))]
    pub prediction: Option<PredictionError>,
    /// Tick rate (`CONFIG_HZ`), a whole number.
    #[schemars(extend("unit" = "Hz", "minimum" = 1.0, "maximum" = 6250.0))]
    pub hz: Figure,
    /// Whether interrupt time counts as utilisation (`CONFIG_IRQ_TIME_ACCOUNTING`): 1 or 0. Absent: 0.
    #[schemars(extend("maximum" = 1.0))]
    #[serde(default)]
    pub irq_time_accounting: Figure,
    /// CPUs that share a cache and, if they have a cluster idle state, a power domain. CPUs are
    /// numbered through the clusters in order.
    pub cluster: Vec<Cluster>,
    /// Idle states of every CPU, shallowest first; [`Cluster::idle_state`] says where a kind of core differs.
    pub idle_state: Vec<MachineIdleState>,
    /// How long leaving an idle state may take, as the kernel's users ask for it.
    #[serde(
        default,
        rename = "latency_request",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub latency_requests: Vec<LatencyRequest>,
    /// What the scheduler does to a waking task.
    pub scheduler: Scheduler,
    /// CPUs kept free for some tasks.
    #[serde(default, skip_serializing_if = "Isolation::is_none")]
    pub isolation: Isolation,
    /// CPU work for an I/O, and the CPUs that do the work.
    pub io_path: IoPath,
    /// Size of the page cache, and the cost of writing into the cache.
    #[serde(default, skip_serializing_if = "PageCache::is_assumed")]
    pub page_cache: PageCache,
    /// The drive that the workload uses.
    pub drive: DriveModel,
    /// Further drives of a captured machine, known to [`Machine::find_drive`].
    #[serde(default, rename = "other_drive", skip_serializing_if = "Vec::is_empty")]
    pub other_drives: Vec<DriveModel>,
    /// Power that belongs to no CPU or cluster.
    #[serde(default)]
    pub package: Option<Package>,
    /// Power of the whole machine at rest, beside that of its packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Interconnect and last-level cache with a separate clock.
    #[serde(default)]
    pub uncore: Option<Uncore>,
    /// Power limits per processor; absent: unlimited.
    #[serde(default)]
    pub power_limit: Option<PowerLimit>,
    /// Emulator that runs the CPUs in turn; absent: CPUs run in parallel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<Emulator>,
    /// What RCU's grace periods cost; absent: nobody waits for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rcu: Option<Rcu>,
    /// Demotion of deep idle states by the hardware, if any.
    #[serde(default)]
    pub c1_demotion: Option<C1Demotion>,
    /// What else runs on the machine. Not given: [`Background::of_every_kernel`].
    #[serde(default = "Background::of_every_kernel")]
    pub background: Vec<Background>,
}

/// CPUs with the same core type and a shared cache, mostly also a shared clock.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Short name.
    pub name: String,
    /// Core type.
    pub core: String,
    /// Number of CPUs (hardware threads), 1 to 4096.
    pub cpus: usize,
    /// Hardware threads per core. Absent: 1.
    #[serde(default = "one")]
    pub threads_per_core: usize,
    /// Throughput of a core with all threads busy, relative to one busy thread. Absent: threads do not slow each other
    /// down.
    #[serde(default)]
    pub smt_speedup: Figure,
    /// Share of speed that a thread loses while a sibling polls. Absent: 0.
    #[serde(default)]
    pub smt_poll_loss: Figure,
    /// Number of consecutive CPUs with a shared clock. Absent: the whole cluster.
    #[serde(default)]
    pub clock_cpus: Option<usize>,
    /// Capacity at the highest operating point, of 1024; the biggest cluster has 1024.
    pub capacity: u32,
    /// Reason for an assumed capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_assumed: Option<String>,
    /// The CPUs of a virtual machine: they take requests for frequencies and always run at the speed of the fastest
    /// operating point. Without APERF and MPERF the kernel's utilisation is not frequency-invariant there
    /// (`arch_scale_freq_invariant()`). Absent: `false`.
    #[schemars(extend("see" = "frequency.md#policies"))]
    #[serde(default)]
    pub fixed_speed: bool,
    /// Time from when the hardware takes up a frequency request until the CPUs run at it.
    #[schemars(extend("unit" = "us"))]
    pub transition_latency_us: Figure,
    /// How often the hardware looks at requests, at turbo limits and, under HWP, at the load. Absent: it takes up every
    /// request at once.
    #[schemars(extend("unit" = "us", "minimum" = 1.0, "maximum" = 1e6))]
    #[serde(default)]
    pub clock_slot_us: Figure,
    /// How long a CPU stands still when its frequency changes. Absent: 0.
    #[schemars(extend("unit" = "us", "maximum" = 1e6))]
    #[serde(default)]
    pub clock_stall_us: Figure,
    /// Highest frequency without turbo, called guaranteed by HWP. intel_pstate needs this figure.
    #[schemars(extend("unit" = "MHz"))]
    #[serde(default)]
    pub base_mhz: Figure,
    /// Highest frequencies by active cores, such as `{ active_cores = 2, khz = 3700000 }`, few cores first; needs
    /// `clock_slot_us`. Absent: no such limits.
    #[serde(default)]
    pub turbo: Vec<TurboLimit>,
    /// Reason for assumed turbo limits.
    #[serde(default)]
    pub turbo_assumed: Option<String>,
    /// HWP controller with EPP 128: time from the lowest to the highest frequency after a long idle time, under full
    /// load. Needs `hwp_full_at_percent`, `base_mhz` and `clock_slot_us`. Absent: no HWP.
    #[schemars(extend("unit" = "ms", "minimum" = 0.01, "maximum" = 1e4, "see" = "frequency.md"))]
    #[serde(default)]
    pub hwp_ramp_ms: Figure,
    /// HWP controller with EPP 128: share of its highest performance from which on a CPU gets the highest frequency.
    /// Absent: no HWP.
    #[schemars(extend("unit" = "%", "minimum" = 1.0, "maximum" = 99.0))]
    #[serde(default)]
    pub hwp_full_at_percent: Figure,
    /// Performance scale that amd-pstate needs, with `clock_slot_us`. Absent: the driver is not for this machine.
    #[schemars(extend("see" = "frequency.md#amd-pstate"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cppc: Option<Cppc>,
    /// Operating points, slowest first: `{ khz = 600000, uv = 825000 }`; `uv` may be left out.
    pub opps: Vec<Opp>,
    /// Reason for assumed operating points.
    #[serde(default)]
    pub opps_assumed: Option<String>,
    /// Voltage at the slowest operating point, for points without a voltage.
    #[schemars(extend("unit" = "uV"))]
    #[serde(default)]
    pub lowest_uv: Figure,
    /// Voltage at the fastest operating point; in between it is linear in the frequency.
    #[schemars(extend("unit" = "uV"))]
    #[serde(default)]
    pub highest_uv: Figure,
    /// Switching power of a running CPU (`dynamic-power-coefficient` of a device tree); needs voltages. Absent: 0.
    #[schemars(extend("unit" = "uW/(MHz V²)"))]
    #[serde(default)]
    pub dynamic_power_uw_per_mhz_v2: Figure,
    /// Power of a running CPU besides, at any frequency. Absent: 0.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub static_mw: Figure,
    /// Cluster power besides the CPUs, while the cluster is up. Absent: 0.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub cluster_on_mw: Figure,
    /// Cluster power in a cluster idle state. Absent: 0.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub cluster_off_mw: Figure,
    /// Idle states that differ on these CPUs. Absent: as on the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_state: Vec<ClusterIdleState>,
    /// Source of the table's plain figures.
    pub source: String,
}

/// An operating point.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Opp {
    /// Frequency.
    pub khz: u32,
    /// Supply voltage in microvolts; 0 is not stated.
    #[serde(default)]
    pub uv: u32,
}

/// The highest frequency while a certain number of cores is active.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TurboLimit {
    /// Up to this many active cores in the cluster.
    pub active_cores: usize,
    /// The highest frequency then.
    pub khz: u32,
}

impl Cluster {
    /// Operating points in kHz, slowest first.
    pub fn frequencies(&self) -> Vec<Kilohertz> {
        self.opps.iter().map(|o| Kilohertz(o.khz)).collect()
    }

    /// The highest operating point.
    pub fn max_frequency(&self) -> Kilohertz {
        Kilohertz(self.opps.last().map_or(1, |o| o.khz))
    }

    /// How many CPUs, in order, share a clock.
    pub fn cpus_per_clock(&self) -> usize {
        self.clock_cpus.unwrap_or(self.cpus)
    }
}

/// How far an idle state reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The CPU alone.
    #[default]
    Cpu,
    /// The whole cluster, once all CPUs ask for the state; until then a CPU waits in its deepest state with scope
    /// `cpu`.
    Cluster,
}

/// An idle state as declared to the kernel and as it really is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineIdleState {
    /// Name that the driver gives the state.
    pub name: String,
    /// Reach of the state: `cpu`, or `cluster`, which all CPUs of the cluster have to ask for. Absent: `cpu`.
    #[serde(default)]
    pub scope: Scope,
    /// The CPU spins in the state. Absent: `false`.
    #[serde(default)]
    pub polling: bool,
    /// The CPU watches its need-resched flag (MONITOR and MWAIT): another CPU wakes it by a store, without an
    /// inter-processor interrupt. Absent: `false`.
    #[serde(default)]
    pub mwait: bool,
    /// Switched off, as by writing 1 to its `disable` file in sysfs. Absent: `false`.
    #[serde(default)]
    pub disabled: bool,
    /// Declared exit latency (an upper bound).
    #[schemars(extend("unit" = "us"))]
    pub exit_latency_us: Figure,
    /// Declared target residency.
    #[schemars(extend("unit" = "us"))]
    pub target_residency_us: Figure,
    /// Time until the state is reached; a wake-up meanwhile waits for its end. Absent: 0.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub true_entry_us: Figure,
    /// Mean time that leaving the state really takes.
    #[schemars(extend("unit" = "us"))]
    pub true_exit_us: Figure,
    /// Standard deviation of the exit time over the mean. Absent: 0.
    #[schemars(extend("maximum" = 10.0))]
    #[serde(default)]
    pub exit_spread: Figure,
    /// Extra work after a wake-up with cold caches and predictors, on the biggest core. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub cold_start_kcycles: Figure,
    /// Power of a CPU in the state; of `scope = "cluster"`, while the cluster is down. Absent: 0; a polling state costs
    /// as much as running.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub power_mw: Figure,
    /// Power of a CPU that enters or leaves the state, at least `power_mw`. Absent: `static_mw`, at least `power_mw`
    /// (assumed).
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub transition_mw: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}

/// What the scheduler does to a waking task.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// Cluster on which tasks start: `{ cluster = "big", assumed = "why" }`.
    pub home: Home,
    /// Time until another CPU sees an inter-processor interrupt.
    #[schemars(extend("unit" = "us"))]
    pub ipi_us: Figure,
    /// Work per tick, on the biggest core.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub tick_kcycles: Figure,
    /// Work to refill caches after a migration. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub migration_kcycles: Figure,
    /// Work to refill caches that other tasks used since the task last ran on the core. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub switch_kcycles: Figure,
    /// How much later than asked for a sleep ends (`/proc/PID/timerslack_ns`): fio's, or that of an rt-app thread. fio
    /// then spins for pauses that are too short to sleep. Absent: 0; sleeps end in time.
    #[schemars(extend("unit" = "us", "see" = "model.md#how-fio-sleeps"))]
    #[serde(default)]
    pub timer_slack_us: Figure,
    /// Work of schedutil's thread (`sugov:0`) per frequency change. Absent: fast switching, without a thread.
    #[schemars(extend("unit" = "1000 cycles", "see" = "schedutil.md#where-the-driver-does-not-switch-fast"))]
    #[serde(default)]
    pub sugov_kcycles: Figure,
    /// Work of the interrupt that wakes that thread (`irq_work`). Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub sugov_interrupt_kcycles: Figure,
    /// Work of the menu governor for each further pass over the last idle intervals in search of a repeated one. Idle
    /// time is measured only afterwards, so equal periods may differ by a microsecond. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles", "see" = "model.md#idle-loop"))]
    #[serde(default)]
    pub menu_round_kcycles: Figure,
}

/// Where tasks start.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Home {
    /// Name of a cluster.
    pub cluster: String,
    /// Why tasks start there.
    pub assumed: String,
}

/// CPU work for an I/O, and the CPUs that do the work.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IoPath {
    /// CPU work per I/O, in cycles of the biggest core.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub kcycles_per_io: Figure,
    /// Extra work per KiB beyond 4 before submission: pinning and mapping pages, or copying. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles/KiB", "maximum" = 1e3))]
    #[serde(default)]
    pub kcycles_per_kib: Figure,
    /// Extra cost of a buffered 4-KiB read: finding, allocating, mapping and copying a page of the page cache. Absent:
    /// 0.
    #[schemars(extend("unit" = "1000 cycles", "see" = "model.md#the-page-cache"))]
    #[serde(default)]
    pub page_cache_kcycles: Figure,
    /// Work by the program between two I/Os, outside both latencies. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub program_kcycles: Figure,
    /// Extra cost per I/O of an asynchronous engine with a system call each for submission and completion: half before
    /// submission and half after completion. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub asynchronous_kcycles: Figure,
    /// Extra cost of a flush over a read before submission: a kernel thread sends the flush (`kworker/N:1H`,
    /// `blk_mq_requeue_work()`). Absent: 0.
    #[schemars(extend("unit" = "1000 cycles", "see" = "model.md#flushes"))]
    #[serde(default)]
    pub flush_kcycles: Figure,
    /// Share of the work by the task until the drive has the request and the task sleeps. The three shares add up to 1.
    #[schemars(extend("maximum" = 1.0))]
    pub submission_share: Figure,
    /// Part of `submission_share` for going to sleep, spent only by a task that waits. Absent: 0; every submission
    /// costs the same.
    #[schemars(extend("maximum" = 1.0, "see" = "model.md#work-at-depth"))]
    #[serde(default)]
    pub deactivation_share: Figure,
    /// Share in the completion interrupt, waking the task included.
    #[schemars(extend("maximum" = 1.0))]
    pub interrupt_share: Figure,
    /// Part of `interrupt_share` for waking the task, spent only if the task sleeps. Absent: 0.
    #[schemars(extend("maximum" = 1.0))]
    #[serde(default)]
    pub reactivation_share: Figure,
    /// Share by the woken task until it is back in user space.
    #[schemars(extend("maximum" = 1.0))]
    pub resume_share: Figure,
    /// Part of `resume_share`: the context switch, once for all requests that are completed when the task runs again.
    /// Absent: 0.
    #[schemars(extend("maximum" = 1.0))]
    #[serde(default)]
    pub switch_share: Figure,
    /// CPU for the completion interrupt.
    pub completion: Completion,
    /// Source of the table's plain figures.
    pub source: String,
}

/// CPU for the completion interrupt.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// A fixed CPU that takes all completions. Absent: chosen by the queue.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Hardware queues per drive, each with an interrupt. With fewer queues than CPUs each serves consecutive CPUs, and
    /// interrupts one of them. Absent: one per CPU.
    #[serde(default)]
    pub queues: Option<usize>,
    /// Share of completions on the queue's CPU; the rest go to any other CPU in the cluster. Absent: 1.
    #[schemars(extend("maximum" = 1.0))]
    #[serde(default)]
    pub same_cpu_share: Figure,
    /// Completions that a queue collects before it interrupts (NVMe feature 08h, aggregation threshold), a whole
    /// number. Absent: 1.
    #[schemars(extend("minimum" = 1.0, "maximum" = 256.0))]
    #[serde(default)]
    pub coalesce: Figure,
    /// Longest wait for the first completion (aggregation time). Absent: 0.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub coalesce_us: Figure,
    /// Why completions go there.
    pub assumed: String,
}

/// Demotion by the hardware, which the kernel does not see. It watches how often a CPU wakes up. Above some rate it
/// answers requests for deep states with a shallow one. Linux: `intel_idle` with C1 demotion; MSR
/// `PKG_CST_CONFIG_CONTROL`, bits 26 and 28.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct C1Demotion {
    /// Name of the state entered instead.
    pub to: String,
    /// Names of the demoted states.
    pub states: Vec<String>,
    /// Wake-ups of a CPU that have to lie within `within_us`, so that its requests are demoted; a whole number.
    #[schemars(extend("minimum" = 1.0, "maximum" = 1000.0))]
    pub wake_ups: Figure,
    /// Time for that many wake-ups.
    #[schemars(extend("unit" = "us"))]
    pub within_us: Figure,
    /// Time in the shallow state after which the CPU goes on to what was asked for; 0: never.
    #[schemars(extend("unit" = "us"))]
    pub undemote_us: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}

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
pub enum Per {
    /// An instance on every CPU, which never migrates.
    #[default]
    Cpu,
    /// A single task, placed by the scheduler as any other.
    Machine,
}

/// Kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Instances: `cpu`, each bound to a CPU, or `machine`, a single task that the scheduler places. Absent: `cpu`.
    #[serde(default, skip_serializing_if = "Per::is_cpu")]
    pub per: Per,
    /// Trigger: `wheel`, `precise` or `sleep`. Absent: `wheel` for a task, `precise` for an interrupt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<BackgroundTimer>,
}

impl Per {
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_cpu(&self) -> bool {
        *self == Self::Cpu
    }
}

impl Background {
    /// What brings it: the timer wheel a task, a high-resolution timer an interrupt, unless the file says otherwise.
    pub fn timer(&self) -> BackgroundTimer {
        self.timer.unwrap_or(match self.runs {
            Runs::Task => BackgroundTimer::Wheel,
            Runs::Interrupt => BackgroundTimer::Precise,
        })
    }

    /// What a stock kernel does on every CPU, whatever the machine is for.
    ///
    /// The statistics of the memory management, once a second, are not among it: their timer is deferrable and wakes no idle CPU.
    /// Nor are timers that a kernel has once, not on each CPU.
    pub fn of_every_kernel() -> Vec<Self> {
        vec![Self {
            name: "soft-lockup watchdog".to_owned(),
            every_ms: Figure::sourced(
                4000.0,
                "Linux 6.1 to 6.12 kernel/watchdog.c: a fifth of twice watchdog_thresh, which is 10 s",
            ),
            periodic: true,
            kcycles: Figure::assumed(5.0, "a timer that wakes a short kernel thread"),
            callbacks: false,
            beside: None,
            runs: Runs::Task,
            per: Per::Cpu,
            timer: None,
        }]
    }
}

const fn one() -> usize {
    1
}

/// A time in microseconds as whole nanoseconds.
pub(crate) fn nanoseconds(us: f64) -> Nanoseconds {
    Nanoseconds((us * 1e3).round() as u64)
}

impl Figure {
    /// The figure as a time, its value being in microseconds.
    pub fn micros(&self) -> Nanoseconds {
        nanoseconds(self.value)
    }

    /// The figure as a time, its value being in milliseconds.
    pub fn millis(&self) -> Nanoseconds {
        nanoseconds(self.value * 1e3)
    }

    /// A figure in thousands of cycles as cycles.
    pub fn kilocycles(&self) -> u64 {
        (self.value * 1e3).round() as u64
    }
}

impl Machine {
    /// The tick rate. 250 Hz if the value is out of range, which a loaded machine never has.
    pub fn tick_rate(&self) -> TickRate {
        TickRate::new(self.hz.value as u32).unwrap_or_default()
    }

    /// Idle states as declared to a governor, without overrides per core type ([`Self::declared_idle_states_of`]).
    ///
    /// # Errors
    /// The states form no valid table; impossible on a checked machine.
    pub fn declared_idle_states(&self) -> Result<IdleStates, crate::idle::IdleStatesError> {
        cluster_states::declared(&self.idle_state)
    }

    /// Switches idle states off, as writing 1 to their `disable` files in sysfs does on every CPU:
    /// governors see them, and do not use them.
    ///
    /// # Errors
    /// No state has this name, or none would remain.
    pub fn disable_idle_states(&mut self, names: &[&str]) -> Result<(), MachineError> {
        self.can_disable(&self.cluster, names)?;
        for state in &mut self.idle_state {
            state.disabled |= names.contains(&state.name.as_str());
        }
        Ok(())
    }

    /// Finds a captured drive by the kernel's controller name, or any drive known to [`DriveModel::find`].
    ///
    /// # Errors
    /// As [`DriveModel::find`].
    pub fn find_drive(&self, name: &str) -> Result<DriveModel, MachineError> {
        let mut own = std::iter::once(&self.drive).chain(&self.other_drives);
        match own.find(|drive| drive.device.as_deref() == Some(name)) {
            Some(drive) => Ok(drive.clone()),
            None => DriveModel::find(name),
        }
    }

    /// Replaces the machine's drives, keeping their number.
    pub fn replace_drive(&mut self, drive: DriveModel) {
        self.drive = DriveModel {
            count: self.drive.count,
            chunk_kib: self.drive.chunk_kib.clone(),
            ..drive
        };
    }

    /// Checks a changed machine for impossible values.
    ///
    /// # Errors
    /// The first impossible value, with its key.
    pub fn check(&self) -> Result<(), MachineError> {
        validate::check(self).map_err(|(key, message)| MachineError::Invalid {
            origin: self.name.clone(),
            key,
            message,
        })
    }

    /// Scope of the machine's power figures; `None` without a package, where no figure exceeds a cluster.
    pub fn power_scope(&self) -> Option<PowerScope> {
        self.package.as_ref().map(|package| package.scope)
    }

    /// Number of CPUs.
    pub fn cpus(&self) -> usize {
        self.cluster.iter().map(|c| c.cpus).sum()
    }
}
