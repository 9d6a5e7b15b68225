//! What leases set, and which kernel feature is missing for it.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_policies::psd::{Ceiling, LeaseCeiling, PsdSettings};
use wakepath_settings::{Hold, SettingsError, SettingsPlan, WantedSetting};
use wakepath_system::setting::{resume_latency, resume_limit_us};
use wakepath_system::{At, SettingKey, System, find_state, setting, shallow_ceiling};
use wakepath_units::Nanoseconds;

use crate::lease::LeaseChange;
use crate::managed_setting::{ManagedSetting, WriteOutcome};

const CPU_LIMIT: &str = "sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us";
/// The kernel module's parameter.
const MODULE: &str = "sys/module/wakepath_psd/parameters/timeout_ms";

/// The limits of the CPUs that can have leases.
#[derive(Debug)]
pub struct LeaseLimits {
    ceiling: LeaseCeiling,
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
    fn of(
        system: &System,
        cpu: usize,
        ceiling: &LeaseCeiling,
        held: Option<&Hold>,
    ) -> Result<Result<Self, Without>, String> {
        let Some(us) = ceiling_us(system, cpu, ceiling)? else {
            return Ok(Err(Without::States));
        };
        let key = setting::find("cpu-latency").and_then(|of| SettingKey::new(of, At::Cpu(cpu)));
        let old = key.and_then(|key| {
            let before = held.and_then(|hold| hold.before(&key));
            let old = before.or_else(|| system.read(&key).ok())?;
            Some((key, old))
        });
        let Some((key, old)) = old else {
            return Ok(Err(Without::File));
        };
        if resume_limit_us(&old).is_some_and(|old| old <= us) {
            return Ok(Err(Without::Need));
        }
        Ok(Ok(Self {
            own: ManagedSetting::new(key),
            value: resume_latency(Some(us)),
        }))
    }

    fn setting(&self) -> (SettingKey, String) {
        (self.own.key().clone(), self.value.clone())
    }
}

impl LeaseLimits {
    /// The limits that leases set on this machine. With `held`, those that they would set when it has been released.
    ///
    /// # Errors
    /// What is missing.
    pub fn new(
        system: &System,
        ceiling: &LeaseCeiling,
        held: Option<&Hold>,
    ) -> Result<Self, String> {
        let mut limits = Self {
            ceiling: ceiling.clone(),
            cpus: BTreeMap::new(),
        };
        let (mut states_seen, mut files_seen) = (false, false);
        for cpu in system.cpus() {
            let limit = Limit::of(system, cpu, ceiling, held)?;
            states_seen |= !matches!(limit, Err(Without::States));
            files_seen |= matches!(limit, Ok(_) | Err(Without::Need));
            limits.cpus.insert(cpu, limit.ok());
        }
        if !states_seen {
            return Err(
                "this machine shows no idle states (/sys/devices/system/cpu/cpu*/cpuidle): it has no cpuidle driver, or \
                 its host keeps them. A ceiling in us, such as \"20us\", sets limits all the same"
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
    pub fn settings(&self) -> impl Iterator<Item = (SettingKey, String)> {
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
    ) -> Result<Option<String>, SettingsError> {
        if self.cpus.contains_key(&cpu) {
            return Ok(None);
        }
        let why = match Limit::of(system, cpu, &self.ceiling, None) {
            Ok(Ok(limit)) => {
                let wanted = WantedSetting {
                    values: vec![limit.setting()],
                    notes: Vec::new(),
                };
                hold.add(&SettingsPlan::new(system, wanted)?)?;
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
    pub fn change(&mut self, hold: &Hold, change: LeaseChange) -> WriteOutcome {
        let Some(Some(limit)) = self.cpus.get_mut(&change.cpu) else {
            return WriteOutcome::Nothing;
        };
        let value = change.give.then_some(limit.value.as_str());
        limit.own.set(hold, value)
    }
}

/// The ceiling on a CPU in us; `None` if it has no idle states that tell.
fn ceiling_us(system: &System, cpu: usize, ceiling: &LeaseCeiling) -> Result<Option<u64>, String> {
    if let LeaseCeiling::Of(Ceiling::Latency(limit)) = ceiling {
        return Ok(Some(limit.as_micros()));
    }
    let states = system.idle_states(cpu);
    let Some(first) = states.first() else {
        return Ok(None);
    };
    let wrong = |why: String| format!("ceiling: {why}");
    Ok(match ceiling {
        LeaseCeiling::Auto => shallow_ceiling(states.iter()).map(Nanoseconds::as_micros),
        LeaseCeiling::Named(name) => Some(find_state(&states, name).map_err(wrong)?.latency_us),
        LeaseCeiling::Of(Ceiling::State(index)) => {
            let state = states.iter().find(|state| state.index == *index);
            let missing = || {
                wrong(format!(
                    "there is no idle state {index}; cpu{cpu} has {}",
                    states.len()
                ))
            };
            Some(state.ok_or_else(missing)?.latency_us)
        }
        LeaseCeiling::Of(Ceiling::Shallowest) => Some(first.latency_us),
        LeaseCeiling::Of(Ceiling::Latency(limit)) => Some(limit.as_micros()),
    })
}

/// Whether the ceiling means something on every CPU of this machine.
///
/// # Errors
/// It names an idle state that a CPU has not; the message says which it has.
pub fn check_ceiling(system: &System, ceiling: &LeaseCeiling) -> Result<(), String> {
    let mut cpus = system.cpus().into_iter();
    cpus.try_for_each(|cpu| ceiling_us(system, cpu, ceiling).map(drop))
}

/// The parameters of the kernel module, if it is loaded.
///
/// # Errors
/// The ceiling means nothing on this machine.
pub fn module_settings(
    system: &System,
    psd: &PsdSettings,
) -> Result<Option<Vec<(SettingKey, String)>>, String> {
    if !system.root().exists(MODULE) {
        return Ok(None);
    }
    let mut lowest: Option<u64> = None;
    for cpu in system.cpus() {
        let us = ceiling_us(system, cpu, &psd.ceiling)?;
        lowest = [lowest, us].into_iter().flatten().min();
    }
    let us = lowest.ok_or("this machine shows no idle states (no cpuidle driver)")?;
    let key = |name: &str| name.parse::<SettingKey>();
    Ok(Some(vec![
        (key("psd-ceiling")?, us.to_string()),
        (key("psd-timeout")?, psd.timeout_ms.to_string()),
    ]))
}
