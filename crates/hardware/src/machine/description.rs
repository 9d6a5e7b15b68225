//! A machine as a file describes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wakepath_units::{KernelVersion, Nanoseconds, TickRate};

use super::{
    Background, C1Demotion, CalibratedOn, Cluster, DriveModel, Emulator, Figure, FileSystem,
    IoPath, Isolation, LatencyRequest, MachineIdleState, Package, PageCache, Platform, PowerLimit,
    PowerScope, PredictionError, Rcu, Scheduler, StolenCpuTime, Uncore,
};

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
    /// Idle governors that the kernel offers (`available_governors`), such as `["menu"]`: `tune` and `fleet` propose no
    /// others. Absent: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle_governors: Vec<String>,
    /// Frequency governors that the kernel offers (`scaling_available_governors`), likewise. Absent: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frequency_governors: Vec<String>,
    /// Why nothing tells what the machine draws, if nothing does: a captured guest, or a class without published
    /// powers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_power: Option<String>,
    /// How far predictions on this machine were from what it did; `wakepath calibrate` writes it. Absent: nobody compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("see" = "guides/calibrate.md"))]
    pub prediction: Option<PredictionError>,
    /// What the figures of `wakepath calibrate` were measured on. Absent: nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("see" = "guides/calibrate.md#when-a-calibration-is-stale"))]
    pub calibrated_on: Option<CalibratedOn>,
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
    #[serde(default, skip_serializing_if = "Isolation::isolates_no_cpu")]
    pub isolation: Isolation,
    /// CPU work for an I/O, and the CPUs that do the work.
    pub io_path: IoPath,
    /// Size of the page cache, and the cost of writing into the cache.
    #[serde(default, skip_serializing_if = "PageCache::is_default")]
    pub page_cache: PageCache,
    /// The file system of plain files; absent: `fsync` waits for data and a flush only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystem>,
    /// The drive that the workload uses.
    pub drive: DriveModel,
    /// Further drives of a captured machine, known to [`Machine::find_own_or_known_drive`].
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
    /// CPU time that the host of a virtual machine takes; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen: Option<StolenCpuTime>,
    /// Demotion of deep idle states by the hardware, if any.
    #[serde(default)]
    pub c1_demotion: Option<C1Demotion>,
    /// What else runs on the machine. Not given: [`Background::stock_kernel_work`].
    #[serde(default = "Background::stock_kernel_work")]
    pub background: Vec<Background>,
}

impl Machine {
    /// Number of CPUs.
    pub fn cpus(&self) -> usize {
        self.cluster.iter().map(|c| c.cpus).sum()
    }

    /// The cluster that a CPU belongs to.
    pub fn cluster_of(&self, cpu: usize) -> Option<&Cluster> {
        let mut end = 0;
        self.cluster.iter().find(|cluster| {
            end += cluster.cpus;
            cpu < end
        })
    }

    /// The kernel's tick rate. 250 Hz if the value is out of range, which a loaded machine never has.
    pub fn tick_rate(&self) -> TickRate {
        TickRate::new(self.hz.value as u32).unwrap_or_default()
    }

    /// Scope of the machine's power figures; `None` without a package, where no figure exceeds a cluster.
    pub fn power_scope(&self) -> Option<PowerScope> {
        self.package.as_ref().map(|package| package.scope)
    }

    /// Memory available to the page cache, in pages of 4 KiB.
    pub fn page_cache_pages(&self) -> u64 {
        (self.page_cache.memory_gib.value * f64::from(1 << 18)) as u64
    }

    /// The CPU that does `cpu`'s work for others: itself, or for a `nohz_full` CPU the next housekeeping CPU.
    pub fn housekeeping_cpu_for(&self, cpu: usize) -> usize {
        if !self.isolation.nohz_full.contains(&cpu) {
            return cpu;
        }
        let cpus = self.cpus();
        let mut all = (cpu..cpus).chain(0..cpu);
        all.find(|cpu| self.isolation.is_housekeeping(*cpu))
            .unwrap_or(cpu)
    }

    /// The smallest latency request that applies to a CPU; `None` without requests (`cpuidle_governor_latency_req()`,
    /// `drivers/cpuidle/governor.c`, Linux 6.1 and 6.12).
    pub fn smallest_latency_request(&self, cpu: usize) -> Option<Nanoseconds> {
        let requests = self
            .latency_requests
            .iter()
            .filter(|r| r.applies_to_cpu(cpu));
        requests.map(|r| Nanoseconds::from_micros(r.us)).min()
    }

    /// Replaces the latency request of these CPUs, in us, or removes it, as writing `pm_qos_resume_latency_us` does.
    /// System-wide requests stay in force.
    pub fn replace_latency_request_of_cpus(&mut self, cpus: &[usize], us: Option<u64>) {
        self.latency_requests.retain_mut(|request| {
            let of_system = request.cpus.is_empty();
            request.cpus.retain(|cpu| !cpus.contains(cpu));
            of_system || !request.cpus.is_empty()
        });
        self.latency_requests.extend(us.map(|us| LatencyRequest {
            us,
            cpus: cpus.to_vec(),
        }));
    }

    /// Makes a controller's drive the first, as `nvme0`; `None` is the drive without a captured controller. Returns whether the
    /// machine has such a drive.
    pub fn make_drive_of_controller_first(&mut self, controller: Option<&str>) -> bool {
        if self.drive.device.as_deref() == controller {
            return true;
        }
        let mut others = self.other_drives.iter_mut();
        let Some(found) = others.find(|drive| drive.device.as_deref() == controller) else {
            return false;
        };
        std::mem::swap(&mut self.drive, found);
        true
    }

    /// How far predictions on the machine were off, for readers of a simulation; `None` if nobody compared.
    pub fn describe_prediction_error(&self) -> Option<String> {
        let error = self.prediction.as_ref()?;
        Some(format!("predictions on this machine: {error}"))
    }

    /// Replaces the machine's drives, keeping their number. Predictions with another drive were never compared with the machine.
    pub fn replace_drive_keeping_count(&mut self, drive: DriveModel) {
        if drive.device.is_none() || drive.device != self.drive.device {
            self.prediction = None;
        }
        self.drive = DriveModel {
            count: self.drive.count,
            chunk_kib: self.drive.chunk_kib.clone(),
            ..drive
        };
    }
}
