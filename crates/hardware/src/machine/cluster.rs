//! CPUs of one kind that share a cache: their clocks and powers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wakepath_units::Kilohertz;

use super::{ClusterIdleState, Cppc, Figure};

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
    #[serde(default = "one_thread_per_core")]
    pub threads_per_core: usize,
    /// Throughput of a core with all threads busy, relative to one busy thread. Absent: threads do not slow each other
    /// down.
    #[serde(default)]
    pub smt_speedup: Figure,
    /// Share of speed that a thread loses while a sibling polls. Absent: 0.
    #[serde(default)]
    pub smt_poll_loss: Figure,
    /// A core sleeps as its thread in the shallowest state does. Absent: `false`; each thread sleeps for itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub threads_sleep_together: bool,
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
    #[schemars(extend("see" = "background/frequency.md#policies"))]
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
    #[schemars(extend("unit" = "ms", "minimum" = 0.01, "maximum" = 1e4, "see" = "background/frequency.md"))]
    #[serde(default)]
    pub hwp_ramp_ms: Figure,
    /// HWP controller with EPP 128: share of its highest performance from which on a CPU gets the highest frequency.
    /// Absent: no HWP.
    #[schemars(extend("unit" = "%", "minimum" = 1.0, "maximum" = 99.0))]
    #[serde(default)]
    pub hwp_full_at_percent: Figure,
    /// HWP controller with EPP 32: where the range of its frequencies begins, as a share of the way from the lowest to the highest.
    /// It begins at the highest with EPP 0, at the lowest with EPP 128, and in between on lines. Absent: 75, on one line.
    #[schemars(extend("unit" = "%", "minimum" = 0.0, "maximum" = 100.0, "see" = "background/frequency.md#what-epp-does"))]
    #[serde(default)]
    pub hwp_epp32_percent: Figure,
    /// Performance scale that amd-pstate needs, with `clock_slot_us`. Absent: the driver is not for this machine.
    #[schemars(extend("see" = "background/frequency.md#amd-pstate"))]
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
    /// Frequencies of the operating points, slowest first.
    pub fn frequencies(&self) -> Vec<Kilohertz> {
        self.opps.iter().map(|o| Kilohertz(o.khz)).collect()
    }

    /// Frequency of the highest operating point.
    pub fn max_frequency(&self) -> Kilohertz {
        Kilohertz(self.opps.last().map_or(1, |o| o.khz))
    }

    /// Number of consecutive CPUs that share a clock.
    pub fn cpus_per_clock(&self) -> usize {
        self.clock_cpus.unwrap_or(self.cpus)
    }
}

const fn one_thread_per_core() -> usize {
    1
}
