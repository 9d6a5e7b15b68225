//! Checks the values of a cluster.

use crate::machine::Cluster;
use crate::machine::fault::{Fault, fail_check};

/// Checks a cluster.
pub(super) fn check_cluster(cluster: &Cluster) -> Result<(), Fault> {
    let checks = [
        check_cpus_cores_and_capacity,
        check_operating_points_and_voltages,
        check_cluster_powers,
        check_base_and_turbo_clocks,
        check_hwp_and_cppc,
    ];
    checks
        .iter()
        .try_for_each(|check| check(cluster))
        .map_err(|(key, message)| (format!("cluster.{}.{key}", cluster.name), message))
}

/// Checks CPUs, cores and their capacity.
fn check_cpus_cores_and_capacity(c: &Cluster) -> Result<(), Fault> {
    if c.cpus == 0 || c.cpus > 4096 {
        return fail_check("cpus", "a cluster has 1 to 4096 CPUs");
    }
    if !divides_evenly(c.threads_per_core, c.cpus) {
        return fail_check("threads_per_core", "the CPUs do not make whole cores");
    }
    let speedup = c.smt_speedup.value;
    if c.smt_speedup.is_given() && !(1.0..=c.threads_per_core as f64).contains(&speedup) {
        return fail_check(
            "smt_speedup",
            "between 1 and the number of threads of a core",
        );
    }
    if c.smt_poll_loss.value >= 1.0 {
        return fail_check("smt_poll_loss", "a share below 1");
    }
    if let Some(clock) = c.clock_cpus
        && (!divides_evenly(clock, c.cpus) || !divides_evenly(c.threads_per_core, clock))
    {
        return fail_check(
            "clock_cpus",
            "a clock drives whole cores, and each clock equally many",
        );
    }
    if c.capacity == 0 || c.capacity > 1024 {
        return fail_check("capacity", "a capacity is between 1 and 1024");
    }
    Ok(())
}

/// Checks the operating points and their voltages.
fn check_operating_points_and_voltages(c: &Cluster) -> Result<(), Fault> {
    if c.opps.is_empty() || c.opps[0].khz == 0 {
        return fail_check("opps", "at least one operating point, each above 0 kHz");
    }
    if c.opps.windows(2).any(|w| w[0].khz >= w[1].khz) {
        return fail_check("opps", "operating points go from slow to fast, each once");
    }
    if c.opps.iter().any(|o| f64::from(o.uv) > 1e7) {
        return fail_check("opps", "a voltage above 10 V");
    }
    if c.lowest_uv.is_given() != c.highest_uv.is_given() {
        return fail_check("lowest_uv", "give both lowest_uv and highest_uv, or none");
    }
    if c.lowest_uv.value > c.highest_uv.value {
        return fail_check("lowest_uv", "the slowest point has the lowest voltage");
    }
    Ok(())
}

/// Checks the powers of CPUs and cluster.
fn check_cluster_powers(c: &Cluster) -> Result<(), Fault> {
    if c.dynamic_power_uw_per_mhz_v2.value > 0.0 && c.opps.iter().any(|o| c.volts_at(o).is_none()) {
        return fail_check(
            "dynamic_power_uw_per_mhz_v2",
            "needs voltages: uv in every operating point, or lowest_uv and highest_uv",
        );
    }
    if c.cluster_off_mw.value > c.cluster_on_mw.value {
        return fail_check("cluster_off_mw", "more than while it is on");
    }
    Ok(())
}

/// Checks the base clock and the limits of turbo.
fn check_base_and_turbo_clocks(c: &Cluster) -> Result<(), Fault> {
    if c.base_mhz.is_given() {
        let (lowest, highest) = (c.opps[0].khz, c.max_frequency().0);
        let base = c.base_mhz.value * 1e3;
        if !(f64::from(lowest)..=f64::from(highest)).contains(&base) {
            return fail_check("base_mhz", "between the lowest and the highest frequency");
        }
        if f64::from(highest) >= 25.6e6 {
            return fail_check("opps", "P-states count in steps of 100 MHz up to 25.5 GHz");
        }
    }
    if c.turbo
        .windows(2)
        .any(|w| w[0].active_cores >= w[1].active_cores || w[0].khz < w[1].khz)
        || c.turbo
            .iter()
            .any(|t| t.active_cores == 0 || t.khz < c.opps[0].khz)
    {
        return fail_check(
            "turbo",
            "limits go from few to many active cores, each at most the one before and an operating point",
        );
    }
    Ok(())
}

/// Checks the hardware's own control of the clock: HWP and CPPC.
fn check_hwp_and_cppc(c: &Cluster) -> Result<(), Fault> {
    let hwp = [&c.hwp_ramp_ms, &c.hwp_full_at_percent];
    let has_whole_hwp = hwp.iter().all(|f| f.is_given()) && c.base_mhz.is_given();
    if hwp.iter().any(|f| f.is_given()) && !has_whole_hwp {
        return fail_check(
            "hwp_ramp_ms",
            "HWP takes base_mhz, hwp_ramp_ms and hwp_full_at_percent together",
        );
    }
    if c.hwp_epp32_percent.is_given() && !has_whole_hwp {
        return fail_check("hwp_epp32_percent", "needs hwp_ramp_ms");
    }
    if let Some(cppc) = &c.cppc
        && let Some((key, message)) = cppc.first_invalid_key_and_reason(c.cpus / c.threads_per_core)
    {
        return fail_check(&format!("cppc.{key}"), message);
    }
    let controller = hwp[0].is_given() || c.cppc.is_some();
    if (!c.turbo.is_empty() || controller) && !c.clock_slot_us.is_given() {
        return fail_check("clock_slot_us", "turbo limits, HWP and CPPC need it");
    }
    Ok(())
}

/// Whether a whole consists of parts of this size, without a rest.
const fn divides_evenly(part: usize, whole: usize) -> bool {
    part > 0 && whole.is_multiple_of(part)
}
