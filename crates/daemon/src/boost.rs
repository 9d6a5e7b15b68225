//! I/O boost for machines whose kernel has none: bursts of I/O raise a CPU's minimum performance, as HWP dynamic boost does.

use std::collections::BTreeSet;

use wakepath_policies::freq::hwp_boost::{HwpBoost, HwpLevels};
use wakepath_settings::Hold;
use wakepath_settings::daemon_config::BoostMode;
use wakepath_system::{At, SettingKey, System, setting};
use wakepath_units::{Nanoseconds, TickRate};

use crate::lease::LeaseChange;
use crate::watch::{BurstEvent, WatchEvent};

/// Number of I/O events of a burst that the programs tell: the first arms the boost, and three steps follow.
pub(crate) const EVENTS_PER_BURST: u32 = 4;
/// How long a raised minimum is held at least, as in the kernel.
const HOLD_NS: u64 = 3_000_000;
const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy";

/// Who boosts the frequency during I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoostOwner {
    /// The kernel boosts, if this setting is 1.
    Kernel(&'static str),
    /// The daemon.
    Daemon,
}

/// Chooses who boosts during I/O: kernel or daemon.
///
/// # Errors
/// Nobody can, or need: the reason.
pub fn choose_boost_owner(system: &System, mode: BoostMode) -> Result<BoostOwner, String> {
    let Some(first) = system.active_cpufreq_policies().into_iter().next() else {
        return Err(
            "this machine shows no frequency policies (/sys/devices/system/cpu/cpufreq/policy*): it has no cpufreq \
             driver, or its host keeps it"
                .to_owned(),
        );
    };
    let driver = read_policy_file_or_word_none(system, first, "scaling_driver");
    let governor = read_policy_file_or_word_none(system, first, "scaling_governor");
    let hwp = setting::find_setting("hwp-dynamic-boost")
        .is_some_and(|setting| system.root().exists(setting.path));
    match (mode, driver.as_str(), governor.as_str()) {
        (BoostMode::On, ..) | (_, "amd-pstate-epp", "powersave") => Ok(BoostOwner::Daemon),
        (_, "intel_pstate", "powersave") if hwp => Ok(BoostOwner::Kernel("hwp-dynamic-boost")),
        (_, driver, governor) => Err(format!(
            "not needed with the driver {driver} and the governor {governor}. The kernel boosts by itself, or \
             frequencies do not follow the load. mode = \"on\" does it anyway"
        )),
    }
}

/// Reads a file of a frequency policy for a message; `none` if it cannot be read.
fn read_policy_file_or_word_none(system: &System, policy: usize, file: &str) -> String {
    let text = system
        .root()
        .read_text_if_readable(&format!("{POLICY}{policy}/{file}"));
    text.unwrap_or_else(|| "none".to_owned())
}

/// The I/O boost of one frequency policy.
#[derive(Debug)]
struct PolicyBoost {
    key: SettingKey,
    cpus: Vec<usize>,
    /// Minimum frequencies in kHz that the boost steps through: without boost, half-way to guaranteed, guaranteed,
    /// highest.
    rungs: [u64; 4],
    rule: HwpBoost,
    /// Index of the minimum frequency in force.
    rung: u8,
    /// The policy's CPUs that are in a burst of I/O.
    busy: BTreeSet<usize>,
    /// When to check whether the boost is over, in ns on the clock of the events.
    due_ns: Option<u64>,
}

/// A change of a policy's minimum frequency that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinimumChange {
    /// Key of the minimum frequency's setting.
    pub key: SettingKey,
    /// The new minimum in kHz; `None`: the value before the boost.
    pub khz: Option<u64>,
}

/// I/O boost of all cpufreq policies: their minimum frequencies rise during bursts of I/O.
#[derive(Debug, Default)]
pub struct Boost(Vec<PolicyBoost>);

impl Boost {
    /// The boost of a machine's frequency policies, on top of the minima in force. With `held`, old values of these
    /// settings count.
    ///
    /// # Errors
    /// No policy has limits to raise.
    pub fn new(system: &System, tick: TickRate, held: Option<&Hold>) -> Result<Self, String> {
        let policies = system.active_cpufreq_policies().into_iter();
        let all: Vec<_> = policies
            .filter_map(|policy| PolicyBoost::new(system, policy, tick, held))
            .collect();
        if all.is_empty() {
            return Err("no frequency policy has a minimum below its maximum".to_owned());
        }
        Ok(Self(all))
    }

    /// The settings that the boost changes, each with its highest value.
    pub fn minimum_settings_with_highest_values(
        &self,
    ) -> impl Iterator<Item = (SettingKey, String)> {
        let policies = self.0.iter();
        policies.map(|p| (p.key.clone(), p.rungs[3].to_string()))
    }

    /// When [`Boost::choose_minimum_changes`] has to be called even if nothing happens.
    pub fn next_call_due_ns(&self) -> Option<u64> {
        self.0.iter().filter_map(|policy| policy.due_ns).min()
    }

    /// Changes of minima by bursts that went on (`events`) and ended (`ended`).
    pub fn choose_minimum_changes(
        &mut self,
        events: &[WatchEvent],
        ended: &[LeaseChange],
        now_ns: u64,
    ) -> Vec<MinimumChange> {
        let policies = self.0.iter_mut();
        policies
            .filter_map(|policy| policy.choose_minimum_changes(events, ended, now_ns))
            .collect()
    }
}

impl PolicyBoost {
    fn new(system: &System, policy: usize, tick: TickRate, held: Option<&Hold>) -> Option<Self> {
        let key = SettingKey::for_matching_scope(
            setting::find_setting("frequency-min")?,
            At::CpufreqPolicy(policy),
        )?;
        let cpus = system.online_cpus_of_cpufreq_policy(policy);
        let before = held.and_then(|hold| hold.value_before_hold(&key));
        let base: u64 = before
            .or_else(|| system.read_setting(&key).ok())?
            .parse()
            .ok()?;
        let folder = format!("{POLICY}{policy}");
        let max = system
            .root()
            .read_number_if_readable(&format!("{folder}/scaling_max_freq"))?;
        let declared = system
            .root()
            .read_number_if_readable(&format!("{folder}/base_frequency"));
        // Firmware gives the frequency in MHz.
        let nominal = cpus.first().and_then(|cpu| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/acpi_cppc/nominal_freq");
            system
                .root()
                .read_number_if_readable(&path)?
                .checked_mul(1000)
        });
        if base >= max {
            return None;
        }
        let guaranteed = declared.or(nominal).unwrap_or(max).clamp(base, max);
        // The kernel's boost rule gets indices of minima as levels: the rule only compares levels.
        let guaranteed_rung = if guaranteed > base { 2 } else { 0 };
        let levels = HwpLevels {
            min: 0,
            guaranteed: guaranteed_rung,
            max: if max > guaranteed { 3 } else { guaranteed_rung },
        };
        Some(Self {
            key,
            cpus,
            rungs: [base, u64::midpoint(base, guaranteed), guaranteed, max],
            rule: HwpBoost::new(levels, tick),
            rung: 0,
            busy: BTreeSet::new(),
            due_ns: None,
        })
    }

    fn choose_minimum_changes(
        &mut self,
        events: &[WatchEvent],
        ended: &[LeaseChange],
        now_ns: u64,
    ) -> Option<MinimumChange> {
        for event in events {
            if event.kind == BurstEvent::Io && self.cpus.contains(&event.cpu) {
                self.busy.insert(event.cpu);
                self.rule.update_minimum(Nanoseconds(event.time_ns), true);
            }
        }
        for change in ended.iter().filter(|change| !change.give) {
            self.busy.remove(&change.cpu);
        }
        if !self.busy.is_empty() {
            self.due_ns = None;
        } else if self.rule.minimum_in_force() > 0 && self.due_ns.is_none_or(|due| due <= now_ns) {
            self.rule.update_minimum(Nanoseconds(now_ns), false);
            let held = self.rule.minimum_in_force() > 0;
            self.due_ns = held.then(|| now_ns + HOLD_NS + 1);
        }
        let rung = self.rule.minimum_in_force();
        if rung == self.rung {
            return None;
        }
        self.rung = rung;
        let khz = self.rungs.get(usize::from(rung)).copied();
        Some(MinimumChange {
            key: self.key.clone(),
            khz: khz.filter(|_| rung > 0),
        })
    }
}
