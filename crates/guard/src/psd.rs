//! What leases set, and which kernel feature is missing for it.

use std::collections::BTreeMap;

use wakepath_live::setting::NO_LATENCY_LIMIT_US;
use wakepath_live::{At, Guard, Key, System, setting, shallow_ceiling_us};

use crate::config::{Ceiling, PsdConfig};
use crate::lease::Change;
use crate::own::{Outcome, Own};

const CPU_LIMIT: &str = "sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us";
/// The kernel module's parameter.
const MODULE: &str = "sys/module/wakepath_psd/parameters/timeout_ms";

/// The limits of the CPUs that can have leases.
#[derive(Debug)]
pub struct Limits(BTreeMap<usize, Limit>);

#[derive(Debug)]
struct Limit {
    own: Own,
    /// Of a lease, as the kernel writes it.
    value: String,
}

impl Limits {
    /// The limits that leases set on this machine.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(system: &System, ceiling: &Ceiling) -> Result<Self, String> {
        let Some(setting) = setting::find("cpu-latency") else {
            return Ok(Self(BTreeMap::new()));
        };
        let mut limits = BTreeMap::new();
        let (mut states_seen, mut files_seen) = (false, false);
        for cpu in system.cpus() {
            let Some(us) = ceiling_us(system, cpu, ceiling)? else {
                continue;
            };
            states_seen = true;
            let Some((key, old)) = Key::new(setting, At::Cpu(cpu))
                .and_then(|key| system.read(&key).ok().map(|old| (key, old)))
            else {
                continue;
            };
            files_seen = true;
            // A limit that is stricter stays.
            if limit_us(&old) <= us {
                continue;
            }
            let value = match us {
                0 => "n/a".to_owned(),
                us => us.to_string(),
            };
            limits.insert(
                cpu,
                Limit {
                    own: Own::new(key),
                    value,
                },
            );
        }
        if !states_seen {
            return Err(
                "this machine shows no idle states (/sys/devices/system/cpu/cpu*/cpuidle): it has no cpuidle driver, or \
                 its host keeps them; a ceiling in us, such as \"20us\", sets limits all the same"
                    .to_owned(),
            );
        }
        if !files_seen {
            return Err(format!(
                "this kernel has no latency limit per CPU (/{CPU_LIMIT}), which needs CONFIG_PM"
            ));
        }
        if limits.is_empty() {
            return Err(format!(
                "every CPU has a limit already that is as strict as the ceiling (/{CPU_LIMIT})"
            ));
        }
        Ok(Self(limits))
    }

    /// The settings with the values that a lease gives them.
    pub fn settings(&self) -> impl Iterator<Item = (Key, String)> {
        let limits = self.0.values();
        limits.map(|limit| (limit.own.key().clone(), limit.value.clone()))
    }

    /// How many CPUs, and the ceiling, in words.
    pub fn describe(&self) -> String {
        let values: std::collections::BTreeSet<&str> =
            self.0.values().map(|limit| limit.value.as_str()).collect();
        let values: Vec<&str> = values.into_iter().collect();
        format!(
            "{} CPU(s), ceiling {} us",
            self.0.len(),
            values.join(" or ")
        )
    }

    /// Gives a lease, or takes it back.
    pub fn change(&mut self, guard: &Guard, change: Change) -> Outcome {
        let Some(limit) = self.0.get_mut(&change.cpu) else {
            return Outcome::Nothing;
        };
        let value = change.give.then_some(limit.value.as_str());
        limit.own.set(guard, value)
    }
}

/// A limit of a CPU in us, as the kernel writes it.
fn limit_us(text: &str) -> u64 {
    match text {
        "n/a" => 0,
        "0" => NO_LATENCY_LIMIT_US,
        us => us.parse().unwrap_or(NO_LATENCY_LIMIT_US),
    }
}

/// The ceiling on a CPU; `None` if it has no idle states that tell.
fn ceiling_us(system: &System, cpu: usize, ceiling: &Ceiling) -> Result<Option<u64>, String> {
    let states = system.idle_states(cpu);
    match ceiling {
        Ceiling::State(_) if states.is_empty() => Ok(None),
        // 0 would be polling, whatever a driver declares.
        Ceiling::Auto => Ok(shallow_ceiling_us(states.iter()).map(|us| us.max(1))),
        Ceiling::Latency(us) => Ok(Some(*us)),
        Ceiling::State(name) => {
            let state = states.iter().find(|s| s.name.eq_ignore_ascii_case(name));
            let known = || {
                let names = states
                    .iter()
                    .map(|s| format!("{} ({} us)", s.name, s.latency_us));
                names.collect::<Vec<_>>().join(", ")
            };
            state.map(|s| Some(s.latency_us)).ok_or_else(|| {
                format!(
                    "ceiling: no idle state '{name}'; this machine has {}",
                    known()
                )
            })
        }
    }
}

/// The parameters of the kernel module, if it is loaded and shall be used.
pub fn module_settings(
    system: &System,
    config: &PsdConfig,
) -> Result<Option<Vec<(Key, String)>>, String> {
    if !config.kernel_module || !system.root().exists(MODULE) {
        return Ok(None);
    }
    let mut lowest: Option<u64> = None;
    for cpu in system.cpus() {
        let us = ceiling_us(system, cpu, &config.ceiling)?;
        lowest = [lowest, us].into_iter().flatten().min();
    }
    let us = lowest.ok_or("this machine shows no idle states (no cpuidle driver)")?;
    let ms = config.timeout.0.as_micros().div_ceil(1000);
    let key = |name: &str| name.parse::<Key>();
    Ok(Some(vec![
        (key("psd-ceiling")?, us.to_string()),
        (key("psd-timeout")?, ms.to_string()),
    ]))
}
