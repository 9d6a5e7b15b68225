//! What leases set, and which kernel feature is missing for it.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_live::setting::NO_LATENCY_LIMIT_US;
use wakepath_live::{At, Hold, Key, LiveError, Plan, System, Wanted, setting, shallow_ceiling_us};

use crate::config::{Ceiling, PsdConfig};
use crate::lease::Change;
use crate::managed_setting::{ManagedSetting, Outcome};

const CPU_LIMIT: &str = "sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us";
/// The kernel module's parameter.
const MODULE: &str = "sys/module/wakepath_psd/parameters/timeout_ms";

/// The limits of the CPUs that can have leases.
#[derive(Debug)]
pub struct Limits {
    ceiling: Ceiling,
    /// Of every CPU that was looked at; `None`: it gets no leases.
    cpus: BTreeMap<usize, Option<Limit>>,
}

#[derive(Debug)]
struct Limit {
    own: ManagedSetting,
    /// Of a lease, as the kernel writes it.
    value: String,
}

/// Why a CPU gets no leases.
enum Without {
    /// It shows no idle states that tell the ceiling.
    States,
    /// It has no limit that could be set.
    File,
    /// Its limit is as strict as the ceiling already.
    Need,
}

impl Limit {
    fn of(system: &System, cpu: usize, ceiling: &Ceiling) -> Result<Result<Self, Without>, String> {
        let Some(us) = ceiling_us(system, cpu, ceiling)? else {
            return Ok(Err(Without::States));
        };
        let key = setting::find("cpu-latency").and_then(|of| Key::new(of, At::Cpu(cpu)));
        let old = key.and_then(|key| system.read(&key).ok().map(|old| (key, old)));
        let Some((key, old)) = old else {
            return Ok(Err(Without::File));
        };
        if limit_us(&old) <= us {
            return Ok(Err(Without::Need));
        }
        let value = match us {
            0 => "n/a".to_owned(),
            us => us.to_string(),
        };
        Ok(Ok(Self {
            own: ManagedSetting::new(key),
            value,
        }))
    }

    fn setting(&self) -> (Key, String) {
        (self.own.key().clone(), self.value.clone())
    }
}

impl Limits {
    /// The limits that leases set on this machine.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(system: &System, ceiling: &Ceiling) -> Result<Self, String> {
        let mut limits = Self {
            ceiling: ceiling.clone(),
            cpus: BTreeMap::new(),
        };
        let (mut states_seen, mut files_seen) = (false, false);
        for cpu in system.cpus() {
            let limit = Limit::of(system, cpu, ceiling)?;
            states_seen |= !matches!(limit, Err(Without::States));
            files_seen |= matches!(limit, Ok(_) | Err(Without::Need));
            limits.cpus.insert(cpu, limit.ok());
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
        if limits.limits().next().is_none() {
            return Err(format!(
                "every CPU has a limit already that is as strict as the ceiling (/{CPU_LIMIT})"
            ));
        }
        Ok(limits)
    }

    fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.cpus.values().flatten()
    }

    /// The settings with the values that a lease gives them.
    pub fn settings(&self) -> impl Iterator<Item = (Key, String)> {
        self.limits().map(Limit::setting)
    }

    /// How many CPUs, and the ceiling, in words.
    pub fn describe(&self) -> String {
        let values: BTreeSet<&str> = self.limits().map(|limit| limit.value.as_str()).collect();
        let values: Vec<&str> = values.into_iter().collect();
        format!(
            "{} CPU(s), ceiling {} us",
            self.limits().count(),
            values.join(" or ")
        )
    }

    /// How many CPUs have a lease.
    pub fn given(&self) -> usize {
        self.limits().filter(|limit| limit.own.in_force()).count()
    }

    /// Looks at a CPU that was not online before, and says what comes of it.
    ///
    /// # Errors
    /// Its old limit cannot be noted.
    pub fn join(
        &mut self,
        system: &System,
        hold: &Hold,
        cpu: usize,
    ) -> Result<Option<String>, LiveError> {
        if self.cpus.contains_key(&cpu) {
            return Ok(None);
        }
        let why = match Limit::of(system, cpu, &self.ceiling) {
            Ok(Ok(limit)) => {
                let wanted = Wanted {
                    values: vec![limit.setting()],
                    notes: Vec::new(),
                };
                hold.add(&Plan::new(system, wanted)?)?;
                self.cpus.insert(cpu, Some(limit));
                let text = format!("cpu{cpu} has come online: leases on {}", self.describe());
                return Ok(Some(text));
            }
            // They can still come.
            Ok(Err(Without::States | Without::File)) => return Ok(None),
            Ok(Err(Without::Need)) => "its limit is as strict as the ceiling".to_owned(),
            Err(why) => why,
        };
        self.cpus.insert(cpu, None);
        let text = format!("cpu{cpu} has come online, and gets no leases: {why}");
        Ok(Some(text))
    }

    /// Gives a lease, or takes it back.
    pub fn change(&mut self, hold: &Hold, change: Change) -> Outcome {
        let Some(Some(limit)) = self.cpus.get_mut(&change.cpu) else {
            return Outcome::Nothing;
        };
        let value = change.give.then_some(limit.value.as_str());
        limit.own.set(hold, value)
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

/// Whether the ceiling means something on every CPU of this machine.
///
/// # Errors
/// It names an idle state that a CPU has not; the message says which it has.
pub fn check_ceiling(system: &System, ceiling: &Ceiling) -> Result<(), String> {
    let mut cpus = system.cpus().into_iter();
    cpus.try_for_each(|cpu| ceiling_us(system, cpu, ceiling).map(drop))
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
