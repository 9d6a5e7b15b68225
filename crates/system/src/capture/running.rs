//! Policies in force on a machine, as far as the simulator has them.

use wakepath_hardware::Machine;
use wakepath_policies::spec::SpecError;
use wakepath_policies::{PolicySet, PolicySpec};

use crate::topology::CPUS;
use crate::{HaltpollAsSet, System, setting};

/// Simulated frequency governors.
const GOVERNORS: [&str; 4] = ["performance", "powersave", "ondemand", "schedutil"];

/// Policies in force on a machine.
#[derive(Clone, Debug)]
pub struct RunningPolicies {
    /// Idle governor and what chooses the clocks, without versions. The latter is not there without cpufreq.
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
        let idle = idle(system, &mut notes)?;
        let frequency = match system.cpufreq_policies().into_iter().next() {
            Some(first) => Some(frequency(system, machine, first, &mut notes)?),
            None => None,
        };
        let set = PolicySet::new([idle].into_iter().chain(frequency))?;
        Ok(Self { set, notes })
    }

    /// The set as a machine file has it: without versions, which are the running kernel's.
    pub fn text(&self) -> String {
        let policies = self.set.policies().iter().map(|policy| {
            let keys: Vec<String> = policy
                .given()
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

/// The idle governor in force.
fn idle(system: &System, notes: &mut Vec<String>) -> Result<PolicySpec, SpecError> {
    let governor = system.idle_governor();
    match governor.as_deref() {
        Some("haltpoll") => {
            let root = system.root();
            let value = |name: &str| root.optional(setting::find(name)?.path);
            let as_set = HaltpollAsSet::of(system.kernel_version(), value)?.policy;
            let mut given = as_set.given();
            given.try_fold("haltpoll".parse::<PolicySpec>()?, |policy, (key, value)| {
                policy.with(key, value)
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

/// The frequency policy for a cpufreq policy's CPUs. `notes` receives substitutes for policies that are not
/// simulated.
///
/// # Errors
/// A value that no policy accepts.
pub fn frequency(
    system: &System,
    machine: &Machine,
    policy: usize,
    notes: &mut Vec<String>,
) -> Result<PolicySpec, SpecError> {
    let root = system.root();
    let file = |name: &str| {
        let path = format!("{CPUS}/cpufreq/policy{policy}/{name}");
        root.optional(&path).unwrap_or_default()
    };
    let governor = file("scaling_governor");
    let epp = file("energy_performance_preference");
    let has_base = machine.cluster.iter().all(|c| c.base_mhz.is_given());
    let has_scale = machine.cluster.iter().all(|c| c.cppc.is_some());
    match (file("scaling_driver").as_str(), governor.as_str()) {
        ("amd-pstate-epp", governor) if has_scale => {
            let amd: PolicySpec = "amd-pstate[mode=active]".parse()?;
            let amd = match (governor, &*epp) {
                ("performance", _) => amd.with("governor", "performance")?,
                (_, "" | "default") => amd,
                (_, epp) => amd.with("epp", epp)?,
            };
            with_boost(system, amd)
        }
        ("amd-pstate", name @ ("schedutil" | "performance" | "powersave")) if has_scale => {
            let mode = root.optional("sys/devices/system/cpu/amd_pstate/status");
            let amd: PolicySpec = match mode.as_deref() {
                Some("guided") => "amd-pstate[mode=guided]",
                _ => "amd-pstate[mode=passive]",
            }
            .parse()?;
            with_boost(system, amd.with("governor", name)?)
        }
        (_, "performance") => "performance".parse(),
        ("intel_pstate", _) if !has_base => {
            notes.push(
                "intel_pstate is not simulated, because nothing tells the base clock (base_frequency); schedutil stands in for it"
                    .to_owned(),
            );
            "schedutil".parse()
        }
        // Without EPP its hardware has no HWP, or the kernel does not use it.
        ("intel_pstate", _) if epp.is_empty() => "intel_pstate".parse(),
        ("intel_pstate", _) => {
            let boost = setting::find("hwp-dynamic-boost").map(|s| root.optional(s.path));
            let boost = boost.flatten().as_deref() == Some("1");
            // The firmware's default, whose value no file reports.
            let epp = match epp.as_str() {
                "default" => "balance_performance",
                epp => epp,
            };
            let hwp: PolicySpec = "intel_pstate-hwp".parse()?;
            hwp.with("hwp_dynamic_boost", if boost { "on" } else { "off" })?
                .with("epp", epp)
        }
        (_, name) if GOVERNORS.contains(&name) => name.parse(),
        (driver, name) => {
            notes.push(format!(
                "{driver} with the governor {name} is not simulated; schedutil stands in for it"
            ));
            "schedutil".parse()
        }
    }
}

/// amd-pstate with boost off, where it is off.
fn with_boost(system: &System, policy: PolicySpec) -> Result<PolicySpec, SpecError> {
    if system.boosts() == Some(false) {
        policy.with("boost", "off")
    } else {
        Ok(policy)
    }
}

impl System {
    /// Whether the processor may run above its base clock; `None`: nothing tells.
    pub fn boosts(&self) -> Option<bool> {
        let number = |file: &str| self.root().number(&format!("{CPUS}/{file}"));
        let off = number("intel_pstate/no_turbo").map(|n| n == 0);
        off.or_else(|| number("cpufreq/boost").map(|n| n != 0))
            .or_else(|| number("cpufreq/policy0/boost").map(|n| n != 0))
    }
}
