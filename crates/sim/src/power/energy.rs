//! Energy by component.
//!
//! The engine only takes times. A power is constant between two state changes, so energy is time in each state times
//! the state's power, added up at the end, in whole femtojoules (1 uW for 1 ns).

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{PowerScope, Scope};
use wakepath_units::{Kilohertz, Microwatts, Nanoseconds};

use crate::drive::DriveTotals;
use crate::engine::Finished;
use crate::power::cpu_power::CpuPower;

/// A run's energy in millijoules, by component, with means derived.
#[derive(Clone, Debug, Serialize)]
pub struct Energy {
    /// Energy of each CPU.
    pub cpus_mj: Vec<f64>,
    /// Energy of each cluster, besides its CPUs.
    pub clusters_mj: Vec<f64>,
    /// Energy of each cluster's uncore (interconnect and last-level cache), if separately clocked.
    pub uncores_mj: Vec<f64>,
    /// Energy of the package, besides its clusters.
    pub package_mj: f64,
    /// Energy of each drive, if it has power states.
    pub drives_mj: Vec<f64>,
    /// Sum over components.
    pub total_mj: f64,
    /// The milliwatts' scope; absent where the machine's description has no package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<PowerScope>,
    /// Mean power in milliwatts.
    pub mean_mw: f64,
    /// Energy per finished request, or per thread operation, in microjoules; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_io_uj: Option<f64>,
    /// The uncore's mean clock in MHz while on; absent if the machine's description has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncore_mhz: Option<f64>,
    /// Share of time with a power limit holding a clock down, for the most limited cluster, in percent; absent if the
    /// machine's description has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limited_percent: Option<f64>,
    /// The machine's power in milliwatts while nothing happens: every CPU in the deepest enabled state, clusters and
    /// package down, drives in their last state.
    pub idle_mw: f64,
}

fn millijoules(femtojoules: u128) -> f64 {
    femtojoules as f64 / 1e12
}

impl Energy {
    /// `None` if the machine's description gives no power except the drives': drives alone are not the machine.
    pub(crate) fn new(machine: &Machine, finished: &Finished, requests: u64) -> Option<Self> {
        if !machine.has_cpu_or_package_power() {
            return None;
        }
        let powers: Vec<CpuPower> = (machine.cluster.iter())
            .map(|cluster| CpuPower::new(machine, cluster))
            .collect();
        let sizes = machine.cluster.iter().map(|cluster| cluster.cpus);
        let power_of_cpu =
            (powers.iter().zip(sizes)).flat_map(|(power, cpus)| std::iter::repeat_n(power, cpus));
        let cpus: Vec<u128> = (finished.cpus.iter().zip(power_of_cpu))
            .map(|(cpu, power)| power.energy_drawn(cpu).total_fj())
            .collect();
        let time = finished.span.time_after_warm_up();
        let clusters: Vec<u128> = finished
            .power
            .clusters
            .iter()
            .zip(&machine.cluster)
            .map(|(down, cluster)| {
                let (down, up) = down.time_down_and_up(time);
                cluster.power_when_down().femtojoules_over(down)
                    + cluster.power_when_up().femtojoules_over(up)
            })
            .collect();
        let package = machine.package.as_ref().map_or(0, |package| {
            let (_, up) = finished.power.package.time_down_and_up(time);
            package.idle_power().femtojoules_over(Nanoseconds(time))
                + package.active_power().femtojoules_over(up)
        });
        let drives: Vec<u128> = finished
            .drives
            .iter()
            .flatten()
            .map(DriveTotals::energy_fj)
            .collect();
        let uncore = &finished.power.uncore;
        let uncores: Vec<u128> = (uncore.energy_per_cluster().into_iter())
            .flat_map(|of_one| std::iter::repeat_n(of_one, machine.cluster.len()))
            .collect();
        let components = cpus.iter().chain(&clusters).chain(&uncores).chain(&drives);
        let total = components.sum::<u128>() + package;
        (total > 0).then(|| Self {
            cpus_mj: cpus.into_iter().map(millijoules).collect(),
            clusters_mj: clusters.into_iter().map(millijoules).collect(),
            uncore_mhz: uncore.energy_per_cluster().map(|_| uncore.mean_mhz()),
            power_limited_percent: (finished.power.packages.longest_limited_time())
                .map(|limited| 100.0 * limited as f64 / time.max(1) as f64),
            uncores_mj: uncores.into_iter().map(millijoules).collect(),
            scope: machine.power_scope(),
            package_mj: millijoules(package),
            drives_mj: drives.into_iter().map(millijoules).collect(),
            idle_mw: machine_power_at_rest(machine, finished).0 as f64 / 1e3,
            total_mj: millijoules(total),
            mean_mw: total as f64 / time.max(1) as f64 / 1e3,
            per_io_uj: (requests > 0).then(|| millijoules(total) * 1e3 / requests as f64),
        })
    }
}

/// The whole machine's power in microwatts while nothing happens any more.
fn machine_power_at_rest(machine: &Machine, finished: &Finished) -> Microwatts {
    // The package is down only while all CPUs are in the machine's deepest idle state.
    let last = machine.idle_state.len().checked_sub(1);
    let package_up = (0..machine.cpus()).any(|cpu| machine.deepest_allowed_idle_state(cpu) != last);
    let mut first_cpu = 0;
    let clusters = machine.cluster.iter().map(|c| {
        let cpus = first_cpu..first_cpu + c.cpus;
        first_cpu = cpus.end;
        let table = machine.idle_states_of(c);
        let states = cpus.filter_map(|cpu| Some(&table[machine.deepest_allowed_idle_state(cpu)?]));
        let cluster_down = states.clone().all(|s| s.scope == Scope::Cluster);
        let besides = if cluster_down {
            c.power_when_down()
        } else {
            c.power_when_up()
        };
        // A CPU without a sleep state polls at the lowest clock.
        let lowest = c.opps.first();
        let of_cpus = states.filter_map(|state| Some(c.idle_power(state, lowest?).0));
        besides.0 + of_cpus.sum::<u64>()
    });
    let package = machine.package.as_ref().map_or(0, |p| {
        p.idle_power().0 + if package_up { p.active_power().0 } else { 0 }
    });
    let uncores = machine
        .uncore
        .as_ref()
        .filter(|_| package_up)
        .map_or(0, |u| {
            u.power_at_clock(u.clock_within_limits(Kilohertz(0))).0 * machine.cluster.len() as u64
        });
    let drives = finished
        .drives
        .iter()
        .flatten()
        .map(|d| d.power_at_rest().0);
    Microwatts(clusters.chain(drives).sum::<u64>() + package + uncores)
}
