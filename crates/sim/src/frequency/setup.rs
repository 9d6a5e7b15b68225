//! What becomes of the clusters of a machine and their clocks.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Cluster, Cppc};
use wakepath_policies::freq::amd_pstate::{AmdGovernor, PerfScale};
use wakepath_policies::freq::{FreqPolicy, FrequencyTable};
use wakepath_units::Kilohertz;

use crate::core::basics::FULL_SHARE;
use crate::error::SimError;
use crate::frequency::clocks::cluster::{ClusterSetup, CppcSetup, HwpSetup};

pub(crate) fn share(of_one: f64) -> u64 {
    ((of_one * FULL_SHARE as f64).round() as u64).clamp(1, FULL_SHARE)
}

/// The first kernel whose schedutil looks at `runnable_avg`, too (`cpu_util_cfs_boost()`).
const BOOSTS_RUNNABLE: (u16, u16, u16) = (6, 5, 0);

/// Whether the number of runnable tasks raises the frequency: schedutil from [`BOOSTS_RUNNABLE`] on. An unknown kernel
/// is as Linux 6.12.
pub(crate) fn counts_runnable(machine: &Machine, frequency: &FreqPolicy) -> bool {
    let schedutil = match frequency {
        FreqPolicy::Schedutil(_) => true,
        FreqPolicy::AmdPstate(of) => of.governor == AmdGovernor::Schedutil,
        _ => false,
    };
    schedutil && (machine.kernel).is_none_or(|kernel| kernel.release() >= BOOSTS_RUNNABLE)
}

/// The first kernel whose amd-pstate tells the scheduler how cores are ranked.
const FIRST_WITH_PREFERRED_CORES: (u16, u16, u16) = (6, 9, 0);

/// How much of the biggest core each core does per clock is its capacity per kHz over the biggest
/// core's capacity per kHz.
pub(crate) fn clusters(
    machine: &Machine,
    frequency: &FreqPolicy,
) -> Result<Vec<ClusterSetup>, SimError> {
    let per_khz = |c: &Cluster| f64::from(c.capacity) / f64::from(c.max_frequency().0);
    let biggest = machine
        .cluster
        .iter()
        .max_by_key(|c| c.capacity)
        .map_or(1.0, per_khz);
    let ranks = matches!(frequency, FreqPolicy::AmdPstate(of) if of.kernel.release() >= FIRST_WITH_PREFERRED_CORES);
    let mut first_cpu = 0;
    machine
        .cluster
        .iter()
        .map(|c| {
            let relative = per_khz(c) / biggest;
            let table = FrequencyTable::new(c.frequencies())
                .ok_or_else(|| SimError::NoFrequency(c.name.clone()))?;
            let hwp = c.hwp_ramp_ms.is_given().then(|| HwpSetup {
                ramp: c.hwp_ramp_ms.millis(),
                full_at: c.hwp_full_at_percent.value / 100.0,
            });
            let base = Kilohertz((c.base_mhz.value * 1e3).round() as u32);
            let setup = ClusterSetup {
                name: c.name.clone(),
                first_cpu,
                cpus: c.cpus,
                capacity: c.capacity,
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
                transition_latency: c.transition_latency_us.micros().0,
                stall: c.clock_stall_us.micros().0,
                threads_per_core: c.threads_per_core,
                busy_share: if c.smt_speedup.is_given() {
                    share(c.smt_speedup.value / c.threads_per_core as f64)
                } else {
                    FULL_SHARE
                },
                poll_share: share(1.0 - c.smt_poll_loss.value),
                cpus_per_clock: c.cpus_per_clock(),
                slot: c.clock_slot_us.micros().0,
                turbo: c
                    .turbo
                    .iter()
                    .map(|t| (t.active_cores, Kilohertz(t.khz)))
                    .collect(),
                base: c.base_mhz.is_given().then_some(base),
                hwp,
                cppc: c.cppc.as_ref().map(cppc),
                ranking: (c.cppc.iter())
                    .flat_map(|cppc| cppc.ranking.iter().map(|rank| cppc.frequency(*rank)))
                    .collect(),
                prefers_cores: ranks
                    && (c.cppc.as_ref())
                        .is_some_and(|cppc| cppc.preferred_cores && !cppc.ranking.is_empty()),
            };
            first_cpu += c.cpus;
            Ok(setup)
        })
        .collect()
}

fn cppc(of: &Cppc) -> CppcSetup {
    CppcSetup {
        scale: PerfScale {
            highest: of.highest,
            nominal: of.nominal,
            lowest_nonlinear: of.lowest_nonlinear,
            lowest: of.lowest,
            nominal_khz: of.nominal_mhz * 1000,
            lowest_khz: of.lowest_mhz * 1000,
            firmware_minimum: 0,
        },
        registers: of.registers,
        hardware: HwpSetup {
            ramp: of.ramp_ms.millis(),
            full_at: of.full_at_percent.value / 100.0,
        },
    }
}
