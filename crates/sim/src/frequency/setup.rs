//! A machine's clusters and their clocks, compiled.

use wakepath_hardware::Machine;
use wakepath_hardware::hwp::EPP32_SHARE;
use wakepath_hardware::machine::{self, Cppc};
use wakepath_policies::freq::amd_pstate::{AmdGovernor, PerfScale};
use wakepath_policies::freq::limits::FrequencyLimits;
use wakepath_policies::freq::{FreqPolicy, FrequencyTable};
use wakepath_units::{Kilohertz, TickRate};

use crate::core::basics::{CpuId, Cycles};
use crate::core::topology::Topology;
use crate::error::SimError;
use crate::frequency::clocks::Domain;
use crate::frequency::clocks::cluster::{ClusterSetup, CppcSetup, HwpSetup};

/// A machine's clocks under the frequency policy.
#[derive(Clone, Debug)]
pub(crate) struct FrequencySetup {
    pub(super) clusters: Vec<ClusterSetup>,
    policy: FreqPolicy,
    /// The frequency policy as users write it, for messages.
    name: String,
    tick: TickRate,
    /// Whether time in interrupts counts for no task (`CONFIG_IRQ_TIME_ACCOUNTING`).
    irq_time_accounting: bool,
    /// Whether the number of runnable tasks raises the frequency.
    counts_runnable: bool,
    /// Work of schedutil's thread for each frequency change; `None` if the driver needs no thread.
    pub(super) sugov: Option<Cycles>,
    sugov_interrupt: Cycles,
}

impl FrequencySetup {
    /// A machine's clocks under a policy with this `name` for people, within `limits`.
    ///
    /// # Errors
    /// A cluster has no frequency.
    pub(crate) fn new(
        machine: &Machine,
        topology: &Topology,
        policy: FreqPolicy,
        name: String,
        limits: ClockLimits,
    ) -> Result<Self, SimError> {
        let scheduler = &machine.scheduler;
        let has_thread = scheduler.sugov_kcycles.is_given();
        Ok(Self {
            clusters: compile_clusters(machine, topology, &policy, limits)?,
            policy,
            name,
            tick: machine.tick_rate(),
            irq_time_accounting: machine.irq_time_accounting.value > 0.0,
            counts_runnable: runnable_tasks_raise_frequency(machine, &policy),
            sugov: (has_thread && matches!(policy, FreqPolicy::Schedutil(_)))
                .then(|| scheduler.sugov_kcycles.kilocycles_to_cycles()),
            sugov_interrupt: scheduler.sugov_interrupt_kcycles.kilocycles_to_cycles(),
        })
    }

    /// Creates the state of all clocks, before anything runs.
    ///
    /// # Errors
    /// A cluster does not say what the policy needs.
    pub(crate) fn create_clocks(&self) -> Result<Vec<Domain>, SimError> {
        let mut clocks = Vec::new();
        for (number, cluster) in self.clusters.iter().enumerate() {
            for cpus in cluster.shape.cpus_by_clock() {
                clocks.push(Domain::new(
                    cluster,
                    number,
                    cpus,
                    (self.policy, &self.name),
                    self.tick,
                    self.irq_time_accounting,
                )?);
            }
        }
        Ok(clocks)
    }

    /// The clocks' figures of the cluster with this number.
    #[inline(always)]
    pub(crate) fn cluster(&self, number: usize) -> &ClusterSetup {
        &self.clusters[number]
    }

    /// Number of operating points by cluster.
    pub(crate) fn operating_point_counts(&self) -> Vec<usize> {
        let tables = self.clusters.iter().map(|cluster| &cluster.table);
        tables.map(|table| table.as_slice().len()).collect()
    }

    /// Speed of the machine's fastest CPU in kHz: thousands of cycles on the biggest core per second.
    pub(crate) fn fastest_cpu_khz(&self) -> u32 {
        let speeds = self.clusters.iter().filter_map(|c| c.speed.last());
        speeds.copied().max().unwrap_or(1)
    }

    /// Thousands of cycles on the biggest core done by a CPU in a second, at the highest own frequency.
    pub(crate) fn top_speed_khz(&self, cpu: CpuId) -> Option<u64> {
        let mut clusters = self.clusters.iter();
        let cluster = clusters.find(|cluster| cluster.shape.cpus().contains(&cpu))?;
        let speed = u64::from(cluster.speed.last().copied().unwrap_or(1));
        if cluster.fixed_speed {
            return Some(speed);
        }
        let [own, highest] = [
            cluster.highest_frequency_of_cpu(cpu),
            cluster.table.highest(),
        ]
        .map(|f| u64::from(f.0));
        Some((speed * own / highest.max(1)).max(1))
    }

    /// Thousands of cycles on the biggest core done by a CPU in a second at a clock, or at its highest frequency; `None`: there is
    /// no such CPU.
    pub(crate) fn speed_khz_at_clock(&self, cpu: CpuId, clock: Option<Kilohertz>) -> Option<u64> {
        let mut clusters = self.clusters.iter();
        let cluster = clusters.find(|cluster| cluster.shape.cpus().contains(&cpu))?;
        let Some(clock) = clock.filter(|_| !cluster.fixed_speed) else {
            return self.top_speed_khz(cpu);
        };
        let top_speed = u64::from(cluster.speed.last().copied().unwrap_or(1));
        let highest = u64::from(cluster.table.highest().0);
        Some((top_speed * u64::from(clock.0) / highest.max(1)).max(1))
    }

    /// Whether the number of runnable tasks raises the frequency.
    #[inline(always)]
    pub(crate) fn runnable_tasks_raise_frequency(&self) -> bool {
        self.counts_runnable
    }

    /// Work of schedutil's thread for each frequency change; `None` if the driver needs no thread.
    pub(crate) fn sugov_thread_work(&self) -> Option<Cycles> {
        self.sugov
    }

    /// Work in cycles of the interrupt that wakes schedutil's thread.
    pub(crate) fn sugov_interrupt_work(&self) -> Cycles {
        self.sugov_interrupt
    }
}

/// The first kernel whose schedutil looks at `runnable_avg`, too (`cpu_util_cfs_boost()`).
const BOOSTS_RUNNABLE: (u16, u16, u16) = (6, 5, 0);

/// Whether the number of runnable tasks raises the frequency: schedutil from [`BOOSTS_RUNNABLE`] on. An unknown kernel
/// is as Linux 6.12.
fn runnable_tasks_raise_frequency(machine: &Machine, frequency: &FreqPolicy) -> bool {
    let schedutil = match frequency {
        FreqPolicy::Schedutil(_) => true,
        FreqPolicy::AmdPstate(amd) => amd.governor == AmdGovernor::Schedutil,
        _ => false,
    };
    schedutil && (machine.kernel).is_none_or(|kernel| kernel.release() >= BOOSTS_RUNNABLE)
}

/// The first kernel whose amd-pstate tells the scheduler how cores are ranked.
const FIRST_WITH_PREFERRED_CORES: (u16, u16, u16) = (6, 9, 0);

/// Limits on the clocks of all clusters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockLimits {
    /// The range that was asked for; `None`: everything that the machine can.
    asked: Option<FrequencyLimits>,
    /// Whether clocks above a cluster's base clock may be used.
    has_turbo: bool,
}

impl ClockLimits {
    pub(crate) fn new(asked: Option<FrequencyLimits>, has_turbo: bool) -> Self {
        Self { asked, has_turbo }
    }

    /// The limits on a cluster. Without turbo the base clock is the highest: cpufreq's upper limit then ends there
    /// (`intel_pstate_update_policies()` in `drivers/cpufreq/intel_pstate.c`, Linux 6.12).
    ///
    /// # Errors
    /// The cluster's base clock is not known.
    fn limits_of_cluster(
        self,
        cluster: &machine::Cluster,
    ) -> Result<Option<FrequencyLimits>, SimError> {
        if self.has_turbo {
            return Ok(self.asked);
        }
        if !cluster.base_mhz.is_given() {
            return Err(SimError::NoClock {
                cluster: cluster.name.clone(),
                policy: "turbo[value=off]".to_owned(),
                what: "base_mhz".to_owned(),
            });
        }
        let base = Kilohertz((cluster.base_mhz.value * 1e3).round() as u32);
        let asked_max = self.asked.and_then(|limits| limits.max);
        let asked_min = self.asked.and_then(|limits| limits.min);
        Ok(Some(FrequencyLimits {
            min: asked_min.map(|min| min.min(base)),
            max: Some(asked_max.map_or(base, |max| max.min(base))),
        }))
    }
}

/// A core's speed per clock relative to the biggest core is capacity per kHz over the biggest core's capacity per kHz.
fn compile_clusters(
    machine: &Machine,
    topology: &Topology,
    frequency: &FreqPolicy,
    clock_limits: ClockLimits,
) -> Result<Vec<ClusterSetup>, SimError> {
    let biggest = machine
        .cluster
        .iter()
        .max_by_key(|c| c.capacity)
        .map_or(1.0, capacity_per_khz);
    let ranks = matches!(frequency, FreqPolicy::AmdPstate(amd) if amd.kernel.release() >= FIRST_WITH_PREFERRED_CORES);
    let clusters = machine.cluster.iter().zip(topology.clusters());
    clusters
        .map(|(c, shape)| {
            let limits = clock_limits.limits_of_cluster(c)?;
            let relative = capacity_per_khz(c) / biggest;
            let table = FrequencyTable::new(c.frequencies())
                .ok_or_else(|| SimError::NoFrequency(c.name.clone()))?;
            let hwp = c.hwp_ramp_ms.is_given().then(|| HwpSetup {
                ramp: c.hwp_ramp_ms.millis_to_time(),
                full_at: c.hwp_full_at_percent.value / 100.0,
                epp32_share: if c.hwp_epp32_percent.is_given() {
                    c.hwp_epp32_percent.value / 100.0
                } else {
                    EPP32_SHARE
                },
            });
            let base = Kilohertz((c.base_mhz.value * 1e3).round() as u32);
            Ok(ClusterSetup {
                name: c.name.clone(),
                shape: shape.clone(),
                allowed: limits.map_or_else(
                    || table.clone(),
                    |limits| limits.allowed_frequencies(&table),
                ),
                limits,
                table,
                speed: c
                    .opps
                    .iter()
                    .map(|o| {
                        let khz = if c.fixed_speed {
                            c.max_frequency().0
                        } else {
                            o.khz
                        };
                        (f64::from(khz) * relative).round().max(1.0) as u32
                    })
                    .collect(),
                fixed_speed: c.fixed_speed,
                transition_latency: c.transition_latency_us.micros_to_time().0,
                stall: c.clock_stall_us.micros_to_time().0,
                slot: c.clock_slot_us.micros_to_time().0,
                turbo: c
                    .turbo
                    .iter()
                    .map(|t| (t.active_cores, Kilohertz(t.khz)))
                    .collect(),
                base: c.base_mhz.is_given().then_some(base),
                hwp,
                cppc: c.cppc.as_ref().map(compile_cppc),
                ranking: (c.cppc.iter())
                    .flat_map(|cppc| {
                        cppc.ranking
                            .iter()
                            .map(|rank| cppc.frequency_at_performance(*rank))
                    })
                    .collect(),
                prefers_cores: ranks
                    && (c.cppc.as_ref())
                        .is_some_and(|cppc| cppc.preferred_cores && !cppc.ranking.is_empty()),
            })
        })
        .collect()
}

fn capacity_per_khz(cluster: &machine::Cluster) -> f64 {
    f64::from(cluster.capacity) / f64::from(cluster.max_frequency().0)
}

fn compile_cppc(figures: &Cppc) -> CppcSetup {
    CppcSetup {
        scale: PerfScale {
            highest: figures.highest,
            nominal: figures.nominal,
            lowest_nonlinear: figures.lowest_nonlinear,
            lowest: figures.lowest,
            nominal_khz: figures.nominal_mhz * 1000,
            lowest_khz: figures.lowest_mhz * 1000,
            firmware_minimum: 0,
        },
        registers: figures.registers,
        hardware: HwpSetup {
            ramp: figures.ramp_ms.millis_to_time(),
            full_at: figures.full_at_percent.value / 100.0,
            epp32_share: EPP32_SHARE,
        },
    }
}
