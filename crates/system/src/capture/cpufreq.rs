//! Frequency policies of a captured machine.

use wakepath_hardware::recorded::RecordedPolicy;
use wakepath_units::{Kilohertz, Nanoseconds};

use super::clocks;
use crate::topology::CPUS;
use crate::{Root, System};

/// A clock to assume where nothing tells one.
const ANY_CLOCK: Kilohertz = Kilohertz(2_000_000);

/// Frequency policies, with the reason if assumed.
pub(super) fn frequencies(
    system: &System,
    notes: &mut Vec<String>,
) -> (Vec<RecordedPolicy>, Option<String>) {
    let policies: Vec<RecordedPolicy> = system
        .cpufreq_policies()
        .into_iter()
        .filter_map(|number| frequency_policy(system.root(), number))
        .collect();
    if !policies.is_empty() {
        return (policies, None);
    }
    let told = clock(system.root());
    let clock = told.unwrap_or(ANY_CLOCK);
    let why = match told {
        Some(_) => "no cpufreq driver: the clock that /proc/cpuinfo tells, and no other".to_owned(),
        None => "nothing tells a frequency: 2 GHz".to_owned(),
    };
    notes.push(why.clone());
    let only = RecordedPolicy {
        policy: 0,
        driver: "none".to_owned(),
        governor: "none".to_owned(),
        min: clock,
        max: clock,
        base: None,
        transition_latency: Nanoseconds::ZERO,
        available: vec![clock],
        epp: None,
        highest_performance: None,
    };
    (vec![only], Some(why))
}

/// A frequency policy by its number; `None` without plausible limits.
pub(super) fn frequency_policy(root: &Root, number: usize) -> Option<RecordedPolicy> {
    let file = |name: &str| root.optional(&format!("{CPUS}/cpufreq/policy{number}/{name}"));
    let khz = |name: &str| Some(Kilohertz(file(name)?.parse().ok()?));
    let bound = |hardware: &str, set: &str| khz(hardware).or_else(|| khz(set));
    let min = bound("cpuinfo_min_freq", "scaling_min_freq")?;
    let max = bound("cpuinfo_max_freq", "scaling_max_freq")?;
    if min.0 == 0 || min > max {
        return None;
    }
    let listed = file("scaling_available_frequencies").unwrap_or_default();
    let mut available: Vec<Kilohertz> = listed
        .split_whitespace()
        .filter_map(|f| f.parse().ok().map(Kilohertz))
        .collect();
    available.sort_unstable();
    let is_intel =
        file("scaling_driver").is_some_and(|d| ["intel_pstate", "intel_cpufreq"].contains(&&*d));
    let untold = || clocks::untold_base(root, number).filter(|_| is_intel);
    let base = khz("base_frequency").or_else(untold);
    let latency = file("cpuinfo_transition_latency").and_then(|t| t.parse().ok());
    Some(RecordedPolicy {
        policy: number,
        driver: file("scaling_driver").unwrap_or_default(),
        governor: file("scaling_governor").unwrap_or_default(),
        min,
        max,
        base: base.filter(|base| (min..=max).contains(base)),
        // Drivers without a value report all bits set (`CPUFREQ_ETERNAL`).
        transition_latency: Nanoseconds(latency.filter(|ns| *ns < 1_000_000_000).unwrap_or(0)),
        available,
        epp: file("energy_performance_preference"),
        highest_performance: root
            .number(&format!("{CPUS}/cpu{number}/acpi_cppc/highest_perf"))
            .and_then(|n| u32::try_from(n).ok()),
    })
}

/// The clock that `/proc/cpuinfo` tells: x86 and POWER.
fn clock(root: &Root) -> Option<Kilohertz> {
    let text = root.optional("proc/cpuinfo").unwrap_or_default();
    let told = text.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let value = value.trim().trim_end_matches("MHz");
        matches!(key.trim(), "cpu MHz" | "clock").then(|| value.parse::<f64>().ok())
    });
    let mhz = told.flatten().next()?;
    (1.0..25_000.0)
        .contains(&mhz)
        .then_some(Kilohertz((mhz * 1e3) as u32))
}
