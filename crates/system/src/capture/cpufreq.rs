//! Frequency policies of a captured machine.

use wakepath_hardware::recorded::RecordedPolicy;
use wakepath_units::{Kilohertz, Nanoseconds};

use super::clocks;
use crate::topology::CPUS;
use crate::{Root, System, SystemFolder};

/// The clock that is assumed where nothing tells one: 2 GHz.
const ANY_CLOCK: Kilohertz = Kilohertz(2_000_000);

/// Frequency policies of a captured machine.
pub(super) struct ReadOrAssumedPolicies {
    pub(super) policies: Vec<RecordedPolicy>,
    /// Why the only policy is assumed; `None` for policies that cpufreq tells.
    pub(super) assumed_because: Option<String>,
}

/// Reads the frequency policies; without any, assumes one policy at a single clock.
pub(super) fn read_or_assume_frequency_policies(
    system: &System,
    notes: &mut Vec<String>,
) -> ReadOrAssumedPolicies {
    let policies: Vec<RecordedPolicy> = system
        .active_cpufreq_policies()
        .into_iter()
        .filter_map(|number| read_recorded_frequency_policy(system.root(), number))
        .collect();
    if !policies.is_empty() {
        return ReadOrAssumedPolicies {
            policies,
            assumed_because: None,
        };
    }
    let told = read_first_cpuinfo_clock(system.root());
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
    ReadOrAssumedPolicies {
        policies: vec![only],
        assumed_because: Some(why),
    }
}

/// Reads a frequency policy by its number; `None` without plausible limits.
pub(super) fn read_recorded_frequency_policy(
    root: &Root,
    policy_number: usize,
) -> Option<RecordedPolicy> {
    let folder = root.folder(format!("{CPUS}/cpufreq/policy{policy_number}"));
    let min = read_clock_in_either_file(&folder, ["cpuinfo_min_freq", "scaling_min_freq"])?;
    let max = read_clock_in_either_file(&folder, ["cpuinfo_max_freq", "scaling_max_freq"])?;
    if min.0 == 0 || min > max {
        return None;
    }
    let listed = folder.read_text_if_readable("scaling_available_frequencies");
    let mut available: Vec<Kilohertz> = listed
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|khz| khz.parse().ok().map(Kilohertz))
        .collect();
    available.sort_unstable();
    let driver = folder
        .read_text_if_readable("scaling_driver")
        .unwrap_or_default();
    let is_intel = ["intel_pstate", "intel_cpufreq"].contains(&driver.as_str());
    let told_base = folder.read_small_number("base_frequency").map(Kilohertz);
    let base = told_base.or_else(|| {
        clocks::base_clock_from_firmware_or_name(root, policy_number).filter(|_| is_intel)
    });
    let latency = folder.read_number_if_readable("cpuinfo_transition_latency");
    Some(RecordedPolicy {
        policy: policy_number,
        driver,
        governor: folder
            .read_text_if_readable("scaling_governor")
            .unwrap_or_default(),
        min,
        max,
        base: base.filter(|base| (min..=max).contains(base)),
        // Drivers that know no transition latency report all bits set (`CPUFREQ_ETERNAL`).
        transition_latency: Nanoseconds(latency.filter(|ns| *ns < 1_000_000_000).unwrap_or(0)),
        available,
        epp: folder.read_text_if_readable("energy_performance_preference"),
        highest_performance: root
            .folder(format!("{CPUS}/cpu{policy_number}/acpi_cppc"))
            .read_small_number("highest_perf"),
    })
}

/// The first CPU's clock from `/proc/cpuinfo`, which x86 and POWER have.
fn read_first_cpuinfo_clock(root: &Root) -> Option<Kilohertz> {
    let text = root
        .read_text_if_readable("proc/cpuinfo")
        .unwrap_or_default();
    let told = text.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let mhz = value.trim().trim_end_matches("MHz");
        matches!(key.trim(), "cpu MHz" | "clock").then(|| mhz.parse::<f64>().ok())
    });
    let mhz = told.flatten().next()?;
    (1.0..25_000.0)
        .contains(&mhz)
        .then_some(Kilohertz((mhz * 1e3) as u32))
}

/// The clock in the first of two files that has one.
fn read_clock_in_either_file(folder: &SystemFolder<'_>, files: [&str; 2]) -> Option<Kilohertz> {
    let mut clocks = files
        .into_iter()
        .filter_map(|file| folder.read_small_number(file));
    clocks.next().map(Kilohertz)
}
