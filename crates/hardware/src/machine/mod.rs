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
mod from_recorded;
mod isolation;
mod kinds;
mod latency;
mod library;
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
pub use from_recorded::Captured;
pub use isolation::Isolation;
pub use kinds::{CoreKind, EFFICIENCY_CAPACITY};
pub use latency::{LatencyRequest, MAX_LATENCY_REQUEST_US};
pub use library::{MachineError, builtin_names};
pub use page_cache::PageCache;
pub use platform::Platform;
pub use power::{EXIT_NOT_KNOWN, Package, PackageSleep, PowerScope, Uncore};
pub use power_limit::PowerLimit;
pub use prediction::PredictionError;
pub use rcu::Rcu;

use serde::{Deserialize, Serialize};
use wakepath_units::{KernelVersion, Kilohertz, Nanoseconds, TickRate};

use self::validate::Fault;
use crate::idle::IdleStates;

/// A machine description.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Version of the file format: 1.
    pub schema: u32,
    /// Short name for `--machine`.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// Kernel version, `7.3` or `6.12.48`; absent: the default version of each policy. Decides versions of policies,
    /// not build configuration such as `hz`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelVersion>,
    /// Where that is known from; what is only taken to be so begins with `assumed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_from: Option<String>,
    /// Default policy set, such as `menu + amd-pstate[mode=active]`; absent: menu and schedutil, or the recorded
    /// policies of a system with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<String>,
    /// Why nothing here tells what the machine draws, if nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_power: Option<String>,
    /// How far predictions on this machine were from what it did; absent: nobody compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<PredictionError>,
    /// Tick rate in Hz (`CONFIG_HZ`).
    pub hz: Figure,
    /// Whether interrupt time counts as utilisation (`CONFIG_IRQ_TIME_ACCOUNTING`): 1 or 0; absent: 0.
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
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Short name.
    pub name: String,
    /// Core type.
    pub core: String,
    /// Number of CPUs (hardware threads).
    pub cpus: usize,
    /// Hardware threads per core.
    #[serde(default = "one")]
    pub threads_per_core: usize,
    /// Throughput of a core with all threads busy, relative to one busy thread; absent: threads do not slow each
    /// other down.
    #[serde(default)]
    pub smt_speedup: Figure,
    /// Share of speed that a thread loses while a sibling polls; absent: none.
    #[serde(default)]
    pub smt_poll_loss: Figure,
    /// Number of consecutive CPUs with a shared clock; absent: the whole cluster.
    #[serde(default)]
    pub clock_cpus: Option<usize>,
    /// Capacity at the highest operating point; the biggest cluster of a machine has 1024.
    pub capacity: u32,
    /// The CPUs of a virtual machine: they take requests for frequencies and always run at the speed of the fastest operating
    /// point. Without APERF and MPERF the kernel's utilisation is not frequency-invariant there
    /// (`arch_scale_freq_invariant()`).
    #[serde(default)]
    pub fixed_speed: bool,
    /// Time from when the hardware takes up a frequency request until the CPUs run at it.
    pub transition_latency_us: Figure,
    /// How often the hardware looks at requests, at turbo limits and, under HWP, at the load;
    /// absent: it takes up every request at once.
    #[serde(default)]
    pub clock_slot_us: Figure,
    /// How long a CPU stands still when its frequency changes.
    #[serde(default)]
    pub clock_stall_us: Figure,
    /// Highest frequency without turbo, called guaranteed by HWP. intel_pstate needs this figure.
    #[serde(default)]
    pub base_mhz: Figure,
    /// Highest frequencies by the number of active cores; empty: no such limits.
    #[serde(default)]
    pub turbo: Vec<TurboLimit>,
    /// Reason for assumed turbo limits.
    #[serde(default)]
    pub turbo_assumed: Option<String>,
    /// The HWP controller, with EPP 128: time from the lowest to the highest frequency after a
    /// long idle time, under full load. Machines with HWP have it.
    #[serde(default)]
    pub hwp_ramp_ms: Figure,
    /// The HWP controller, with EPP 128: the share of its highest performance, in percent, from
    /// which on a CPU gets the highest frequency.
    #[serde(default)]
    pub hwp_full_at_percent: Figure,
    /// The performance scale that amd-pstate needs; absent: the driver is not for this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cppc: Option<Cppc>,
    /// Operating points, slowest first.
    pub opps: Vec<Opp>,
    /// Reason for assumed operating points.
    #[serde(default)]
    pub opps_assumed: Option<String>,
    /// Voltage at the slowest operating point, for points without a voltage.
    #[serde(default)]
    pub lowest_uv: Figure,
    /// Voltage at the fastest operating point; in between it is linear in the frequency.
    #[serde(default)]
    pub highest_uv: Figure,
    /// Switching power of a running CPU in uW over MHz x V^2 (`dynamic-power-coefficient` of a
    /// device tree).
    #[serde(default)]
    pub dynamic_power_uw_per_mhz_v2: Figure,
    /// What a running CPU draws besides, at any frequency.
    #[serde(default)]
    pub static_mw: Figure,
    /// Cluster power besides the CPUs, while the cluster is up.
    #[serde(default)]
    pub cluster_on_mw: Figure,
    /// Cluster power in a cluster idle state.
    #[serde(default)]
    pub cluster_off_mw: Figure,
    /// Overrides for idle states on these CPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_state: Vec<ClusterIdleState>,
    /// Default source for the table's figures.
    pub source: String,
}

/// An operating point.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Opp {
    /// Frequency.
    pub khz: u32,
    /// Supply voltage in microvolts; 0 is not stated.
    #[serde(default)]
    pub uv: u32,
}

/// The highest frequency while a certain number of cores is active.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
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
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MachineIdleState {
    /// The driver's name for the state.
    pub name: String,
    /// Scope of the state.
    #[serde(default)]
    pub scope: Scope,
    /// The CPU spins.
    #[serde(default)]
    pub polling: bool,
    /// The CPU watches its need-resched flag (MONITOR and MWAIT): another CPU wakes it by a store, without an
    /// inter-processor interrupt.
    #[serde(default)]
    pub mwait: bool,
    /// Switched off, as by writing 1 to its `disable` file in sysfs.
    #[serde(default)]
    pub disabled: bool,
    /// Declared exit latency (an upper bound).
    pub exit_latency_us: Figure,
    /// Declared target residency.
    pub target_residency_us: Figure,
    /// Time until the state is reached; a wake-up meanwhile waits for its end.
    #[serde(default)]
    pub true_entry_us: Figure,
    /// Mean time that leaving the state really takes.
    pub true_exit_us: Figure,
    /// Standard deviation of the exit time over the mean.
    #[serde(default)]
    pub exit_spread: Figure,
    /// Extra work after a wake-up with cold caches and predictors, in thousands of cycles on the biggest core.
    #[serde(default)]
    pub cold_start_kcycles: Figure,
    /// Power of a CPU in the state. A polling state without this figure costs as much as running.
    #[serde(default)]
    pub power_mw: Figure,
    /// Power of a CPU that enters or leaves the state; default: [`Cluster::transition_power`].
    #[serde(default)]
    pub transition_mw: Figure,
    /// Default source for the table's figures.
    pub source: String,
}

/// What the scheduler does to a waking task.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// The cluster on which a task starts.
    pub home: Home,
    /// Time until another CPU sees an inter-processor interrupt.
    pub ipi_us: Figure,
    /// Work per tick, in thousands of cycles on the biggest core.
    pub tick_kcycles: Figure,
    /// Work to refill caches after a migration, in thousands of cycles on the biggest core; absent: none.
    #[serde(default)]
    pub migration_kcycles: Figure,
    /// Work to refill caches that other tasks used since the task last ran on the core, in thousands of cycles on the
    /// biggest core; absent: none.
    #[serde(default)]
    pub switch_kcycles: Figure,
    /// How much later than asked for a sleep ends (`/proc/PID/timerslack_ns`), in us: fio's, or that of an rt-app
    /// thread. fio then spins for pauses that are too short to sleep. Absent: sleeps end in time.
    #[serde(default)]
    pub timer_slack_us: Figure,
    /// Work of schedutil's thread (`sugov:0`) per frequency change, in thousands of cycles on the biggest core;
    /// absent: fast switching, without a thread.
    #[serde(default)]
    pub sugov_kcycles: Figure,
    /// Work of the interrupt that wakes the thread (`irq_work`), likewise.
    #[serde(default)]
    pub sugov_interrupt_kcycles: Figure,
    /// Work of the menu governor for each further pass over the last idle intervals in search of a repeated one,
    /// likewise. Idle time is measured only afterwards, so equal periods may differ by a microsecond.
    #[serde(default)]
    pub menu_round_kcycles: Figure,
}

/// Where tasks start.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Home {
    /// Name of a cluster.
    pub cluster: String,
    /// Why.
    pub assumed: String,
}

/// CPU work for an I/O, and the CPUs that do the work.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IoPath {
    /// Total CPU work per I/O, in thousands of cycles on the biggest core.
    pub kcycles_per_io: Figure,
    /// Extra work per KiB beyond 4 before submission: pinning and mapping pages, or copying; absent: none.
    #[serde(default)]
    pub kcycles_per_kib: Figure,
    /// Extra cost of a buffered 4-KiB read: finding, allocating, mapping and copying a page of the page cache, in
    /// thousands of cycles on the biggest core; absent: none.
    #[serde(default)]
    pub page_cache_kcycles: Figure,
    /// Work by the program between two I/Os, outside both latencies, in thousands of cycles on the biggest core;
    /// absent: none.
    #[serde(default)]
    pub program_kcycles: Figure,
    /// Extra cost per I/O of an asynchronous engine with a system call each for submission and completion. In
    /// thousands of cycles on the biggest core, half before submission and half after completion. Absent: none.
    #[serde(default)]
    pub asynchronous_kcycles: Figure,
    /// Extra cost of a flush over a read before submission: a kernel thread sends the flush (`kworker/N:1H`,
    /// `blk_mq_requeue_work()`). In thousands of cycles on the biggest core. Absent: none.
    #[serde(default)]
    pub flush_kcycles: Figure,
    /// Share spent by the task until the drive has the request and the task sleeps.
    pub submission_share: Figure,
    /// Part of `submission_share` for going to sleep, spent only by a task that waits. Absent: 0; every submission
    /// costs the same.
    #[serde(default)]
    pub deactivation_share: Figure,
    /// Share spent in the completion interrupt, waking the task included.
    pub interrupt_share: Figure,
    /// Part of `interrupt_share` for waking the task, spent only if the task sleeps. Absent: 0.
    #[serde(default)]
    pub reactivation_share: Figure,
    /// Share spent by the woken task until it is back in user space.
    pub resume_share: Figure,
    /// Part of `resume_share`: the context switch, once for all requests that are completed when the task
    /// runs again. Absent: 0.
    #[serde(default)]
    pub switch_share: Figure,
    /// CPU for the completion interrupt.
    pub completion: Completion,
    /// Default source for the table's figures.
    pub source: String,
}

/// CPU for the completion interrupt.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// A fixed CPU; absent: chosen by the queue.
    #[serde(default)]
    pub cpu: Option<usize>,
    /// Hardware queues per drive, each with an interrupt; absent: one per CPU. With fewer queues each serves
    /// consecutive CPUs, and interrupts one of them.
    #[serde(default)]
    pub queues: Option<usize>,
    /// Share of completions, 0 to 1, on the queue's CPU; the rest go to any other CPU in the cluster. Absent: all.
    #[serde(default)]
    pub same_cpu_share: Figure,
    /// Completions that a queue collects before it interrupts (NVMe feature 08h, aggregation
    /// threshold). Not given: 1.
    #[serde(default)]
    pub coalesce: Figure,
    /// Longest wait for the first completion (aggregation time).
    #[serde(default)]
    pub coalesce_us: Figure,
    /// Why.
    pub assumed: String,
}

/// Demotion by the hardware, which the kernel does not see. It watches how often a CPU wakes up. Above some rate it
/// answers requests for deep states with a shallow one. Linux: `intel_idle` with C1 demotion; MSR
/// `PKG_CST_CONFIG_CONTROL`, bits 26 and 28.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct C1Demotion {
    /// Name of the state entered instead.
    pub to: String,
    /// Names of the demoted states.
    pub states: Vec<String>,
    /// A request is demoted when the CPU's last so many wake-ups ...
    pub wake_ups: Figure,
    /// ... occur within this time.
    pub within_us: Figure,
    /// After so long in the shallow state the CPU goes on to what was asked for; 0: never.
    pub undemote_us: Figure,
    /// Default source for the table's figures.
    pub source: String,
}

/// Where background work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Runs {
    /// In a task: the CPU leaves the idle loop and gets its tick back.
    Task,
    /// In a timer interrupt only: the CPU stays in its idle loop.
    Interrupt,
}

/// Kernel timer that triggers background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// An instance on every CPU, which never migrates.
    #[default]
    Cpu,
    /// A single task, placed by the scheduler as any other.
    Machine,
}

/// Kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
    /// fio jobs.
    Fio,
    /// rt-app threads.
    RtApp,
}

/// Autonomous work.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Name of the modelled work.
    pub name: String,
    /// Mean time between arrivals on a CPU; exponentially distributed unless `periodic`. For a single task, counted
    /// from when the task goes to sleep.
    pub every_ms: Figure,
    /// It arrives at regular intervals, on each CPU at other times.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub periodic: bool,
    /// Work per arrival, in thousands of cycles on the biggest core.
    pub kcycles: Figure,
    /// Each arrival leaves an RCU callback on its CPU, which keeps the tick until a grace period ends
    /// (`rcu_needs_cpu()`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub callbacks: bool,
    /// Where the work runs.
    pub runs: Runs,
    /// Workload kinds that come with this work, such as fio's own housekeeping; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// Number of instances.
    #[serde(default, skip_serializing_if = "Per::is_cpu")]
    pub per: Per,
    /// Trigger. Default: see [`Background::timer`].
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

    /// The source given in the table with a figure, by the figure's key from [`Self::figures`].
    pub fn table_source(&self, key: &str) -> Option<&str> {
        let (table, rest) = key.split_once('.')?;
        let name = rest.rsplit_once('.').map_or(rest, |(name, _)| name);
        let of_cluster = name.split_once(".idle_state.");
        let source = match table {
            "cluster" if let Some((cluster, state)) = of_cluster => {
                let cluster = self.cluster.iter().find(|c| c.name == cluster)?;
                &cluster.idle_state.iter().find(|s| s.name == state)?.source
            }
            "cluster" => &self.cluster.iter().find(|c| c.name == name)?.source,
            "idle_state" => &self.idle_state.iter().find(|s| s.name == name)?.source,
            "io_path" => &self.io_path.source,
            "page_cache" => &self.page_cache.source,
            "drive" => &self.drive.source,
            "package" => &self.package.as_ref()?.source,
            "platform" => &self.platform.as_ref()?.source,
            "uncore" => &self.uncore.as_ref()?.source,
            "power_limit" => &self.power_limit.as_ref()?.source,
            "emulator" => &self.emulator.as_ref()?.source,
            "rcu" => &self.rcu.as_ref()?.source,
            "c1_demotion" => &self.c1_demotion.as_ref()?.source,
            _ => return None,
        };
        Some(source)
    }

    /// Every figure with the naming key.
    pub fn figures(&self) -> Vec<(String, &Figure)> {
        let mut all = vec![
            ("hz".to_owned(), &self.hz),
            ("irq_time_accounting".to_owned(), &self.irq_time_accounting),
        ];
        for c in &self.cluster {
            for (key, figure) in [
                ("smt_speedup", &c.smt_speedup),
                ("smt_poll_loss", &c.smt_poll_loss),
                ("transition_latency_us", &c.transition_latency_us),
                ("clock_slot_us", &c.clock_slot_us),
                ("clock_stall_us", &c.clock_stall_us),
                ("base_mhz", &c.base_mhz),
                ("hwp_ramp_ms", &c.hwp_ramp_ms),
                ("hwp_full_at_percent", &c.hwp_full_at_percent),
                ("lowest_uv", &c.lowest_uv),
                ("highest_uv", &c.highest_uv),
                (
                    "dynamic_power_uw_per_mhz_v2",
                    &c.dynamic_power_uw_per_mhz_v2,
                ),
                ("static_mw", &c.static_mw),
                ("cluster_on_mw", &c.cluster_on_mw),
                ("cluster_off_mw", &c.cluster_off_mw),
            ] {
                all.push((format!("cluster.{}.{key}", c.name), figure));
            }
            if let Some(cppc) = &c.cppc {
                all.push((format!("cluster.{}.cppc_ramp_ms", c.name), &cppc.ramp_ms));
                let full = &cppc.full_at_percent;
                all.push((format!("cluster.{}.cppc_full_at_percent", c.name), full));
            }
            for state in &c.idle_state {
                for (key, figure) in state.figures() {
                    let key = format!("cluster.{}.idle_state.{}.{key}", c.name, state.name);
                    all.push((key, figure));
                }
            }
        }
        for s in &self.idle_state {
            for (key, figure) in [
                ("exit_latency_us", &s.exit_latency_us),
                ("target_residency_us", &s.target_residency_us),
                ("true_entry_us", &s.true_entry_us),
                ("true_exit_us", &s.true_exit_us),
                ("exit_spread", &s.exit_spread),
                ("cold_start_kcycles", &s.cold_start_kcycles),
                ("power_mw", &s.power_mw),
                ("transition_mw", &s.transition_mw),
            ] {
                all.push((format!("idle_state.{}.{key}", s.name), figure));
            }
        }
        let (sched, io) = (&self.scheduler, &self.io_path);
        for (key, figure) in [
            ("scheduler.ipi_us", &sched.ipi_us),
            ("scheduler.tick_kcycles", &sched.tick_kcycles),
            ("scheduler.migration_kcycles", &sched.migration_kcycles),
            ("scheduler.switch_kcycles", &sched.switch_kcycles),
            ("scheduler.timer_slack_us", &sched.timer_slack_us),
            ("scheduler.sugov_kcycles", &sched.sugov_kcycles),
            ("scheduler.menu_round_kcycles", &sched.menu_round_kcycles),
            (
                "scheduler.sugov_interrupt_kcycles",
                &sched.sugov_interrupt_kcycles,
            ),
            ("io_path.kcycles_per_io", &io.kcycles_per_io),
            ("io_path.kcycles_per_kib", &io.kcycles_per_kib),
            ("io_path.page_cache_kcycles", &io.page_cache_kcycles),
            ("io_path.program_kcycles", &io.program_kcycles),
            ("io_path.asynchronous_kcycles", &io.asynchronous_kcycles),
            ("io_path.flush_kcycles", &io.flush_kcycles),
            ("io_path.submission_share", &io.submission_share),
            ("io_path.deactivation_share", &io.deactivation_share),
            ("io_path.interrupt_share", &io.interrupt_share),
            ("io_path.reactivation_share", &io.reactivation_share),
            ("io_path.resume_share", &io.resume_share),
            ("io_path.switch_share", &io.switch_share),
            (
                "io_path.completion.same_cpu_share",
                &io.completion.same_cpu_share,
            ),
            ("io_path.completion.coalesce", &io.completion.coalesce),
            ("io_path.completion.coalesce_us", &io.completion.coalesce_us),
        ] {
            all.push((key.to_owned(), figure));
        }
        if !self.page_cache.is_assumed() {
            for (key, figure) in self.page_cache.figures() {
                all.push((format!("page_cache.{key}"), figure));
            }
        }
        all.extend(self.drive.figures());
        if let Some(package) = &self.package {
            for (key, figure) in [
                ("idle_mw", &package.idle_mw),
                ("active_mw", &package.active_mw),
                ("hysteresis_us", &package.hysteresis_us),
                ("entry_us", &package.entry_us),
                ("exit_us", &package.exit_us),
            ] {
                all.push((format!("package.{key}"), figure));
            }
        }
        if let Some(platform) = &self.platform {
            let own = platform.figures().into_iter();
            all.extend(own.map(|(key, figure)| (format!("platform.{key}"), figure)));
        }
        if let Some(uncore) = &self.uncore {
            for (key, figure) in [
                ("min_mhz", &uncore.min_mhz),
                ("max_mhz", &uncore.max_mhz),
                ("slot_us", &uncore.slot_us),
                ("lowest_uv", &uncore.lowest_uv),
                ("highest_uv", &uncore.highest_uv),
                (
                    "dynamic_power_uw_per_mhz_v2",
                    &uncore.dynamic_power_uw_per_mhz_v2,
                ),
            ] {
                all.push((format!("uncore.{key}"), figure));
            }
        }
        if let Some(limit) = &self.power_limit {
            for (key, figure) in limit.figures() {
                all.push((format!("power_limit.{key}"), figure));
            }
        }
        if let Some(emulator) = &self.emulator {
            for (key, figure) in emulator.figures() {
                all.push((format!("emulator.{key}"), figure));
            }
        }
        if let Some(rcu) = &self.rcu {
            for (key, figure) in rcu.figures() {
                all.push((format!("rcu.{key}"), figure));
            }
        }
        if let Some(demotion) = &self.c1_demotion {
            for (key, figure) in [
                ("wake_ups", &demotion.wake_ups),
                ("within_us", &demotion.within_us),
                ("undemote_us", &demotion.undemote_us),
            ] {
                all.push((format!("c1_demotion.{key}"), figure));
            }
        }
        if !self.isolation.nohz_full.is_empty() {
            let cost = &self.isolation.syscall_kcycles;
            all.push(("isolation.syscall_kcycles".to_owned(), cost));
        }
        for b in &self.background {
            all.push((format!("background.{}.every_ms", b.name), &b.every_ms));
            all.push((format!("background.{}.kcycles", b.name), &b.kcycles));
        }
        all
    }
}
