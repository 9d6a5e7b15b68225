//! Latency limits of CPUs that leases set, and reasons why a machine cannot have leases.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_policies::psd::{Ceiling, LeaseCeiling, PsdSettings};
use wakepath_settings::{Hold, SettingsError, SettingsPlan, WantedSetting};
use wakepath_system::setting::{format_resume_latency, parse_resume_limit_us};
use wakepath_system::{At, SettingKey, System, find_state_by_name, latency_just_above_c1, setting};
use wakepath_units::Nanoseconds;

use crate::lease::LeaseChange;
use crate::managed_setting::{ManagedSetting, WriteOutcome};

const CPU_LIMIT: &str = "sys/devices/system/cpu/cpuN/power/pm_qos_resume_latency_us";
/// Path of a parameter of the kernel module, which exists while the module is loaded.
const MODULE: &str = "sys/module/wakepath_psd/parameters/timeout_ms";

/// The latency limits of the CPUs that can have leases.
#[derive(Debug)]
pub struct LeaseLimits {
    ceiling: LeaseCeiling,
    /// Limit of each CPU that was looked at; `None`: the CPU gets no leases.
    cpus: BTreeMap<usize, Option<LeaseLimit>>,
}

/// The latency limit of a CPU, and its value during a lease.
#[derive(Debug)]
struct LeaseLimit {
    setting: ManagedSetting,
    /// The limit during a lease, as the kernel writes it.
    value: String,
}

/// Why a CPU gets no leases.
enum NoLease {
    /// The CPU shows no idle states from which the ceiling could be told.
    NoIdleStates,
    /// The CPU has no latency limit that could be set.
    NoLimitFile,
    /// The CPU's limit is as strict as the ceiling already.
    StrictAlready,
}

impl LeaseLimit {
    /// Reads the latency limit of a CPU. Old values of settings in `held` count.
    ///
    /// # Errors
    /// The ceiling means nothing on this CPU.
    fn read_for_cpu(
        system: &System,
        cpu: usize,
        ceiling: &LeaseCeiling,
        held: Option<&Hold>,
    ) -> Result<Result<Self, NoLease>, String> {
        let Some(us) = resolve_ceiling_us(system, cpu, ceiling)? else {
            return Ok(Err(NoLease::NoIdleStates));
        };
        let info = setting::find_setting("cpu-latency");
        let Some(key) = info.and_then(|info| SettingKey::for_matching_scope(info, At::Cpu(cpu)))
        else {
            return Ok(Err(NoLease::NoLimitFile));
        };
        let before = held.and_then(|hold| hold.value_before_hold(&key));
        let Some(old) = before.or_else(|| system.read_setting(&key).ok()) else {
            return Ok(Err(NoLease::NoLimitFile));
        };
        if parse_resume_limit_us(&old).is_some_and(|old| old <= us) {
            return Ok(Err(NoLease::StrictAlready));
        }
        Ok(Ok(Self {
            setting: ManagedSetting::new(key),
            value: format_resume_latency(Some(us)),
        }))
    }

    /// The setting of the limit, with the value that a lease gives it.
    fn setting_and_lease_value(&self) -> (SettingKey, String) {
        (self.setting.key().clone(), self.value.clone())
    }
}

impl LeaseLimits {
    /// Reads the limits of all CPUs of this machine. Old values of settings in `held` count.
    ///
    /// # Errors
    /// The feature that is missing.
    pub fn read_for_online_cpus(
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
            let limit = LeaseLimit::read_for_cpu(system, cpu, ceiling, held)?;
            states_seen |= !matches!(limit, Err(NoLease::NoIdleStates));
            files_seen |= matches!(limit, Ok(_) | Err(NoLease::StrictAlready));
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
        if limits.limits_of_leasable_cpus().next().is_none() {
            return Err(format!(
                "every CPU has a limit already that is as strict as the ceiling (/{CPU_LIMIT})"
            ));
        }
        Ok(limits)
    }

    fn limits_of_leasable_cpus(&self) -> impl Iterator<Item = &LeaseLimit> {
        self.cpus.values().flatten()
    }

    /// The settings with the values that leases give them.
    pub fn settings_with_lease_values(&self) -> impl Iterator<Item = (SettingKey, String)> {
        self.limits_of_leasable_cpus()
            .map(LeaseLimit::setting_and_lease_value)
    }

    /// Number of CPUs and the ceiling in words, for a status line.
    pub fn describe_cpus_and_ceiling(&self) -> String {
        let distinct: BTreeSet<&str> = self
            .limits_of_leasable_cpus()
            .map(|limit| limit.value.as_str())
            .collect();
        let values: Vec<&str> = distinct.into_iter().collect();
        format!(
            "{} CPU(s), ceiling {} us",
            self.limits_of_leasable_cpus().count(),
            values.join(" or ")
        )
    }

    /// Number of CPUs that have a lease.
    pub fn count_given_leases(&self) -> usize {
        self.limits_of_leasable_cpus()
            .filter(|limit| limit.setting.is_own_value_in_force())
            .count()
    }

    /// Adds a CPU to the limits, if it was not online before. Returns a note if the CPU is new.
    ///
    /// # Errors
    /// The old limit cannot be noted.
    pub fn add_cpu_if_new(
        &mut self,
        system: &System,
        hold: &Hold,
        cpu: usize,
    ) -> Result<Option<String>, SettingsError> {
        if self.cpus.contains_key(&cpu) {
            return Ok(None);
        }
        let why = match LeaseLimit::read_for_cpu(system, cpu, &self.ceiling, None) {
            Ok(Ok(limit)) => {
                let wanted = WantedSetting {
                    values: vec![limit.setting_and_lease_value()],
                    notes: Vec::new(),
                };
                hold.reserve_further_settings(&SettingsPlan::from_wanted(system, wanted)?)?;
                self.cpus.insert(cpu, Some(limit));
                let text = format!(
                    "cpu{cpu} has come online: leases on {}",
                    self.describe_cpus_and_ceiling()
                );
                return Ok(Some(text));
            }
            // A CPU without idle states or without a limit can get them later.
            Ok(Err(NoLease::NoIdleStates | NoLease::NoLimitFile)) => return Ok(None),
            Ok(Err(NoLease::StrictAlready)) => "its limit is as strict as the ceiling".to_owned(),
            Err(why) => why,
        };
        self.cpus.insert(cpu, None);
        let text = format!("cpu{cpu} has come online, and gets no leases: {why}");
        Ok(Some(text))
    }

    /// Gives a lease to a CPU, or takes it back.
    pub fn give_or_take_back_lease(&mut self, hold: &Hold, change: LeaseChange) -> WriteOutcome {
        let Some(Some(limit)) = self.cpus.get_mut(&change.cpu) else {
            return WriteOutcome::Unchanged;
        };
        let value = change.give.then_some(limit.value.as_str());
        limit.setting.write_or_put_back_unless_foreign(hold, value)
    }
}

/// The ceiling of leases on a CPU in us; `None` if the CPU has no idle states that tell it.
fn resolve_ceiling_us(
    system: &System,
    cpu: usize,
    ceiling: &LeaseCeiling,
) -> Result<Option<u64>, String> {
    if let LeaseCeiling::Of(Ceiling::Latency(limit)) = ceiling {
        return Ok(Some(limit.as_micros()));
    }
    let states = system.read_idle_states(cpu);
    let Some(first) = states.first() else {
        return Ok(None);
    };
    Ok(match ceiling {
        LeaseCeiling::Auto => latency_just_above_c1(states.iter()).map(Nanoseconds::as_micros),
        LeaseCeiling::Named(name) => Some(
            find_state_by_name(&states, name)
                .map_err(|why| wrong_ceiling_message(&why))?
                .latency_us,
        ),
        LeaseCeiling::Of(Ceiling::State(index)) => {
            let state = states.iter().find(|state| state.index == *index);
            let found = state.ok_or_else(|| {
                wrong_ceiling_message(&format!(
                    "there is no idle state {index}; cpu{cpu} has {}",
                    states.len()
                ))
            });
            Some(found?.latency_us)
        }
        LeaseCeiling::Of(Ceiling::Shallowest) => Some(first.latency_us),
        LeaseCeiling::Of(Ceiling::Latency(limit)) => Some(limit.as_micros()),
    })
}

fn wrong_ceiling_message(why: &str) -> String {
    format!("ceiling: {why}")
}

/// Checks that the ceiling of leases means something on every CPU of this machine.
///
/// # Errors
/// A CPU lacks the idle state in the ceiling; the message lists the states.
pub fn check_ceiling_on_all_cpus(system: &System, ceiling: &LeaseCeiling) -> Result<(), String> {
    let mut cpus = system.cpus().into_iter();
    cpus.try_for_each(|cpu| resolve_ceiling_us(system, cpu, ceiling).map(drop))
}

/// The kernel module's parameters for these leases; `None` if the module is not loaded.
///
/// # Errors
/// The ceiling means nothing on this machine.
pub fn kernel_module_settings_if_loaded(
    system: &System,
    psd: &PsdSettings,
) -> Result<Option<Vec<(SettingKey, String)>>, String> {
    if !system.root().exists(MODULE) {
        return Ok(None);
    }
    let mut lowest: Option<u64> = None;
    for cpu in system.cpus() {
        let us = resolve_ceiling_us(system, cpu, &psd.ceiling)?;
        lowest = [lowest, us].into_iter().flatten().min();
    }
    let us = lowest.ok_or("this machine shows no idle states (no cpuidle driver)")?;
    Ok(Some(vec![
        ("psd-ceiling".parse()?, us.to_string()),
        ("psd-timeout".parse()?, psd.timeout_ms.to_string()),
    ]))
}
