//! Policies in force on a machine, as far as the simulator has them.

use wakepath_hardware::Machine;
use wakepath_policies::spec::SpecError;
use wakepath_policies::{PolicySet, PolicySpec};

use crate::topology::CPUS;
use crate::{HaltpollAsSet, Root, System, setting};

/// Simulated frequency governors.
const GOVERNORS: [&str; 4] = ["performance", "powersave", "ondemand", "schedutil"];

/// Policies in force on a machine.
#[derive(Clone, Debug)]
pub struct RunningPolicies {
    /// The set of idle governor and frequency policy, without versions. Without cpufreq, the set has no frequency
    /// policy.
    pub set: PolicySet,
    /// Notes about substitutes for policies that are not simulated.
    pub notes: Vec<String>,
}

impl RunningPolicies {
    /// Reads the policies in force; clocks come from the first cpufreq policy.
    ///
    /// # Errors
    /// The machine has a value that no policy knows, such as an EPP.
    pub fn read(system: &System, machine: &Machine) -> Result<Self, SpecError> {
        let mut notes = Vec::new();
        let idle = read_idle_governor_as_policy(system, &mut notes)?;
        let frequency = match system.active_cpufreq_policies().into_iter().next() {
            Some(first) => Some(read_simulated_frequency_policy(
                system, machine, first, &mut notes,
            )?),
            None => None,
        };
        let set = PolicySet::new([idle].into_iter().chain(frequency))?;
        Ok(Self { set, notes })
    }

    /// The policy set as a machine file has it: without versions, which are the running kernel's.
    pub fn to_machine_file_text(&self) -> String {
        let policies = self.set.policies().iter().map(|policy| {
            let keys: Vec<String> = policy
                .given_keys()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            match keys.join(",") {
                keys if keys.is_empty() => policy.mechanism().name.to_owned(),
                keys => format!("{}[{keys}]", policy.mechanism().name),
            }
        });
        policies.collect::<Vec<_>>().join(" + ")
    }
}

/// Reads the idle governor in force, as a policy.
fn read_idle_governor_as_policy(
    system: &System,
    notes: &mut Vec<String>,
) -> Result<PolicySpec, SpecError> {
    let governor = system.read_idle_governor();
    match governor.as_deref() {
        Some("haltpoll") => {
            let as_set = HaltpollAsSet::from_settings(system.nearest_kernel_version(), |name| {
                system
                    .root()
                    .read_text_if_readable(setting::find_setting(name)?.path)
            })?;
            let mut given = as_set.policy.given_keys();
            given.try_fold("haltpoll".parse::<PolicySpec>()?, |policy, (key, value)| {
                policy.with_key(key, value)
            })
        }
        Some(name @ ("menu" | "teo" | "ladder")) => name.parse(),
        Some(other) if other != "none" => {
            notes.push(format!(
                "the idle governor {other} is not simulated; menu stands in for it"
            ));
            "menu".parse()
        }
        _ => "menu".parse(),
    }
}

/// Reads what chooses the clocks of a cpufreq policy's CPUs, as a policy. `notes` receives substitutes for policies
/// that are not simulated.
///
/// # Errors
/// A value that no policy accepts.
pub fn read_simulated_frequency_policy(
    system: &System,
    machine: &Machine,
    policy: usize,
    notes: &mut Vec<String>,
) -> Result<PolicySpec, SpecError> {
    let root = system.root();
    let folder = root.folder(format!("{CPUS}/cpufreq/policy{policy}"));
    let driver = folder
        .read_text_if_readable("scaling_driver")
        .unwrap_or_default();
    let governor = folder
        .read_text_if_readable("scaling_governor")
        .unwrap_or_default();
    let epp = folder
        .read_text_if_readable("energy_performance_preference")
        .unwrap_or_default();
    let has_base = machine.cluster.iter().all(|c| c.base_mhz.is_given());
    let has_scale = machine.cluster.iter().all(|c| c.cppc.is_some());
    match (driver.as_str(), governor.as_str()) {
        ("amd-pstate-epp", governor) if has_scale => {
            active_amd_pstate_policy(system, governor, &epp)
        }
        ("amd-pstate", name @ ("schedutil" | "performance" | "powersave")) if has_scale => {
            let mode = root.read_text_if_readable("sys/devices/system/cpu/amd_pstate/status");
            let amd: PolicySpec = match mode.as_deref() {
                Some("guided") => "amd-pstate[mode=guided]",
                _ => "amd-pstate[mode=passive]",
            }
            .parse()?;
            with_boost_off_if_off(system, amd.with_key("governor", name)?)
        }
        (_, "performance") => "performance".parse(),
        ("intel_pstate", _) if !has_base => {
            notes.push(
                "intel_pstate is not simulated, because nothing tells the base clock (base_frequency); schedutil stands in for it"
                    .to_owned(),
            );
            "schedutil".parse()
        }
        // Without an EPP file, the hardware has no HWP, or the kernel does not use it.
        ("intel_pstate", _) if epp.is_empty() => "intel_pstate".parse(),
        ("intel_pstate", _) => read_intel_hwp_policy(root, &epp),
        (_, name) if GOVERNORS.contains(&name) => name.parse(),
        (driver, name) => {
            notes.push(format!(
                "{driver} with the governor {name} is not simulated; schedutil stands in for it"
            ));
            "schedutil".parse()
        }
    }
}

/// The policy for amd-pstate in active mode.
fn active_amd_pstate_policy(
    system: &System,
    governor: &str,
    epp: &str,
) -> Result<PolicySpec, SpecError> {
    let active: PolicySpec = "amd-pstate[mode=active]".parse()?;
    let amd = match (governor, epp) {
        ("performance", _) => active.with_key("governor", "performance")?,
        (_, "" | "default") => active,
        (_, epp) => active.with_key("epp", epp)?,
    };
    with_boost_off_if_off(system, amd)
}

/// The policy for intel_pstate with clocks chosen by the hardware.
fn read_intel_hwp_policy(root: &Root, epp: &str) -> Result<PolicySpec, SpecError> {
    let boost = setting::find_setting("hwp-dynamic-boost")
        .and_then(|info| root.read_number_if_readable(info.path));
    // The EPP is the firmware's default, whose value no file reports.
    let preference = match epp {
        "default" => "balance_performance",
        epp => epp,
    };
    let hwp: PolicySpec = "intel_pstate-hwp".parse()?;
    hwp.with_key(
        "hwp_dynamic_boost",
        if boost == Some(1) { "on" } else { "off" },
    )?
    .with_key("epp", preference)
}

/// The policy for amd-pstate, with `boost=off` where boost is off.
fn with_boost_off_if_off(system: &System, policy: PolicySpec) -> Result<PolicySpec, SpecError> {
    if system.may_boost() == Some(false) {
        policy.with_key("boost", "off")
    } else {
        Ok(policy)
    }
}

impl System {
    /// Whether the settings let the processor run above its base clock; `None`: no file tells.
    pub fn may_boost(&self) -> Option<bool> {
        let cpus = self.root().folder(CPUS);
        if let Some(no_turbo) = cpus.read_number_if_readable("intel_pstate/no_turbo") {
            return Some(no_turbo == 0);
        }
        let boost = cpus
            .read_number_if_readable("cpufreq/boost")
            .or_else(|| cpus.read_number_if_readable("cpufreq/policy0/boost"));
        boost.map(|boost| boost != 0)
    }
}
