//! Clock range that a captured machine's settings allow, and substitutes for an unknown base clock.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Cluster, Figure};
use wakepath_units::Kilohertz;

use crate::topology::CPUS;
use crate::{Root, System};

/// The base clock of a processor whose driver tells none: `intel_pstate` does so with HWP alone. Firmware tells it, or
/// else the processor's name, as in `Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz`.
pub(super) fn base_clock_from_firmware_or_name(root: &Root, cpu: usize) -> Option<Kilohertz> {
    let nominal_mhz =
        root.read_number_if_readable(&format!("{CPUS}/cpu{cpu}/acpi_cppc/nominal_freq"));
    let by_firmware = nominal_mhz
        .filter(|mhz| (1..25_000).contains(mhz))
        .map(|mhz| Kilohertz(mhz as u32 * 1000));
    by_firmware.or_else(|| clock_in_model_name(&root.read_text_if_readable("proc/cpuinfo")?))
}

/// The clock at the end of the first `model name` in `/proc/cpuinfo`.
fn clock_in_model_name(cpuinfo: &str) -> Option<Kilohertz> {
    let name = cpuinfo.lines().find_map(|line| {
        let (key, name) = line.split_once(':')?;
        (key.trim() == "model name").then_some(name)
    })?;
    let clock = name.rsplit_once('@')?.1.trim();
    let khz = match clock.strip_suffix("GHz") {
        Some(number) => number.trim().parse::<f64>().ok()? * 1e6,
        None => clock.strip_suffix("MHz")?.trim().parse::<f64>().ok()? * 1e3,
    };
    (1e5..2.5e7)
        .contains(&khz)
        .then(|| Kilohertz(khz.round() as u32))
}

/// Removes the clocks above the base clock from a machine whose boost is switched off. Returns a note if any were
/// removed.
pub(super) fn remove_boost_clocks_if_off(system: &System, machine: &mut Machine) -> Option<String> {
    // For amd-pstate, the policy's key `boost` switches boost off instead.
    if system.may_boost() != Some(false) || machine.cluster.iter().any(|c| c.cppc.is_some()) {
        return None;
    }
    let bases: Vec<Option<u32>> = machine
        .cluster
        .iter()
        .map(|cluster| cluster.base_mhz.value)
        .map(|mhz| (mhz > 0.0).then(|| (mhz * 1e3).round() as u32))
        .collect();
    let highest = limit_clocks_returning_highest_left(machine, &bases)?.ok()?;
    Some(format!(
        "turbo is off (no_turbo or boost): clocks end at {} MHz",
        highest / 1000
    ))
}

/// Removes the clocks above `scaling_max_freq` and intel_pstate's `max_perf_pct`. Returns a note if any were removed.
pub(super) fn remove_clocks_above_limits(system: &System, machine: &mut Machine) -> Option<String> {
    const NAMES: &str = "scaling_max_freq or max_perf_pct";
    let limits: Vec<Option<u32>> = first_cpu_of_each_cluster(system, machine)
        .into_iter()
        .zip(&machine.cluster)
        .map(|(cpu, cluster)| {
            let highest = cluster.opps.last()?.khz;
            highest_allowed_khz(system, cpu?).filter(|limit| *limit < highest)
        })
        .collect();
    if let Some(cluster) = machine.cluster.iter().find(|c| c.cppc.is_some()) {
        let limit = limits.first().copied()??;
        // Without boost the kernel ends amd-pstate's clocks at the nominal clock, and the key `boost=off` says so.
        let nominal_mhz = cluster.cppc.as_ref().map_or(0, |cppc| cppc.nominal_mhz);
        if system.may_boost() == Some(false) && limit / 1000 + 1 >= nominal_mhz {
            return None;
        }
        return Some(format!(
            "clocks are limited to {} MHz ({NAMES}), which is not simulated with amd-pstate",
            limit / 1000
        ));
    }
    Some(
        match limit_clocks_returning_highest_left(machine, &limits)? {
            Ok(highest) => format!("clocks end at {} MHz ({NAMES})", highest / 1000),
            Err(why) => format!("limits of the clocks ({NAMES}) are not simulated: {why}"),
        },
    )
}

/// The first online CPU of each cluster.
fn first_cpu_of_each_cluster(system: &System, machine: &Machine) -> Vec<Option<usize>> {
    let online = system.cpus();
    let mut first = 0;
    let clusters = machine.cluster.iter();
    clusters
        .map(|cluster| {
            let cpu = online.get(first).copied();
            first += cluster.cpus;
            cpu
        })
        .collect()
}

/// The highest clock, in kHz, that the settings allow for a CPU.
fn highest_allowed_khz(system: &System, cpu: usize) -> Option<u32> {
    let policies = system.active_cpufreq_policies();
    let mut own = policies.iter().copied();
    let policy = own.find(|policy| {
        *policy == cpu || system.online_cpus_of_cpufreq_policy(*policy).contains(&cpu)
    })?;
    let folder = system
        .root()
        .folder(format!("{CPUS}/cpufreq/policy{policy}"));
    let percent = system
        .root()
        .read_number_if_readable(&format!("{CPUS}/intel_pstate/max_perf_pct"));
    let by_percent = percent
        .filter(|percent| (1..100).contains(percent))
        .zip(folder.read_small_number::<u32>("cpuinfo_max_freq"))
        .map(|(percent, highest)| (u64::from(highest) * percent / 100) as u32);
    let set = folder
        .read_small_number::<u32>("scaling_max_freq")
        .filter(|khz| *khz > 0);
    set.into_iter().chain(by_percent).min()
}

/// Removes clocks above the limit of each cluster, and returns the highest clock left in clusters with a
/// limit. `None` without any limit.
fn limit_clocks_returning_highest_left(
    machine: &mut Machine,
    limits: &[Option<u32>],
) -> Option<Result<u32, String>> {
    let mut tried = machine.clone();
    let highest = tried
        .cluster
        .iter_mut()
        .zip(limits)
        .filter_map(|(cluster, limit)| remove_points_above_but_lowest(cluster, (*limit)?))
        .max()?;
    if let Err(why) = tried.check() {
        return Some(Err(why.to_string()));
    }
    *machine = tried;
    Some(Ok(highest))
}

/// Removes a cluster's operating points above a clock, but keeps at least the lowest. Voltages stay. Returns the
/// highest clock that is left.
fn remove_points_above_but_lowest(cluster: &mut Cluster, limit_khz: u32) -> Option<u32> {
    let lowest = cluster.opps.first()?.khz;
    let last = cluster
        .opps
        .iter()
        .rfind(|opp| opp.khz <= limit_khz.max(lowest))?;
    let (end, volts) = (last.khz, cluster.volts_at(last));
    if let Some(volts) = volts.filter(|_| cluster.highest_uv.is_given()) {
        let uv = (volts * 1e6).round();
        cluster.highest_uv =
            Figure::assumed(uv, "the voltage at the highest clock that is allowed");
    }
    cluster.opps.retain(|opp| opp.khz <= end);
    cluster.turbo.clear();
    if cluster.base_mhz.value * 1e3 > f64::from(end) {
        cluster.base_mhz.value = f64::from(end) / 1e3;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_processors_have_their_base_clock_at_the_end() {
        for (name, khz) in [
            ("Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz", Some(2_600_000)),
            ("Intel(R) Atom(TM) CPU N270 @ 800MHz", Some(800_000)),
            ("13th Gen Intel(R) Core(TM) i9-13900K", None),
            ("Genuine Intel(R) CPU 0000 @ GHz", None),
        ] {
            let cpuinfo = format!("processor : 0\nmodel name\t: {name}\n");
            assert_eq!(
                clock_in_model_name(&cpuinfo).map(|clock| clock.0),
                khz,
                "{name}"
            );
        }
    }
}
