//! I/O boost: bursts of I/O raise the minimum performance of their CPU, as HWP dynamic boost does, where the kernel has
//! no such thing.

use std::collections::BTreeSet;

use wakepath_policies::freq::hwp_boost::{HwpBoost, HwpLevels};
use wakepath_settings::Hold;
use wakepath_settings::daemon_config::BoostMode;
use wakepath_system::{At, SettingKey, System, setting};
use wakepath_units::{Nanoseconds, TickRate};

use crate::lease::LeaseChange;
use crate::watch::{Kind, WatchEvent};

/// I/O events needed per burst: the first arms the boost, and there are three steps.
pub(crate) const EVENTS_PER_BURST: u32 = 4;
/// How long a raised minimum is held at least, as in the kernel.
const HOLD_NS: u64 = 3_000_000;
const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy";

/// BoostOwner boosts on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoostOwner {
    /// The kernel, if this setting is 1.
    Kernel(&'static str),
    /// We do.
    Daemon,
}

/// BoostOwner has to boost.
///
/// # Errors
/// Nobody: why it cannot be done, or need not.
pub fn who(system: &System, mode: BoostMode) -> Result<BoostOwner, String> {
    let Some(first) = system.cpufreq_policies().into_iter().next() else {
        return Err(
            "this machine shows no frequency policies (/sys/devices/system/cpu/cpufreq/policy*): it has no cpufreq \
             driver, or its host keeps it"
                .to_owned(),
        );
    };
    let file = |name: &str| {
        let text = system.root().optional(&format!("{POLICY}{first}/{name}"));
        text.unwrap_or_else(|| "none".to_owned())
    };
    let (driver, governor) = (file("scaling_driver"), file("scaling_governor"));
    let hwp = setting::find("hwp-dynamic-boost")
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

/// The boost of one frequency policy.
#[derive(Debug)]
struct PolicyBoost {
    key: SettingKey,
    cpus: Vec<usize>,
    /// In kHz: without boost, half-way to what is guaranteed, that, and the highest.
    rungs: [u64; 4],
    rule: HwpBoost,
    /// The rung in force.
    rung: u8,
    /// CPUs in a burst.
    busy: BTreeSet<usize>,
    /// When to look whether the boost is over.
    due_ns: Option<u64>,
}

/// A minimum to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minimum {
    /// Of which policy.
    pub key: SettingKey,
    /// In kHz; `None`: what it was before.
    pub khz: Option<u64>,
}

/// The boost of all frequency policies.
#[derive(Debug, Default)]
pub struct Boost(Vec<PolicyBoost>);

impl Boost {
    /// The boost of a machine's policies, with the minima that are in force now; with `held`, those that will be in force
    /// when it has been released.
    ///
    /// # Errors
    /// None of them has limits to raise.
    pub fn new(system: &System, tick: TickRate, held: Option<&Hold>) -> Result<Self, String> {
        let policies = system.cpufreq_policies().into_iter();
        let all: Vec<_> = policies
            .filter_map(|policy| PolicyBoost::new(system, policy, tick, held))
            .collect();
        if all.is_empty() {
            return Err("no frequency policy has a minimum below its maximum".to_owned());
        }
        Ok(Self(all))
    }

    /// The settings that it changes, each with its highest value.
    pub fn settings(&self) -> impl Iterator<Item = (SettingKey, String)> {
        let policies = self.0.iter();
        policies.map(|p| (p.key.clone(), p.rungs[3].to_string()))
    }

    /// When [`Boost::handle`] has to be called even if nothing happens.
    pub fn due_ns(&self) -> Option<u64> {
        self.0.iter().filter_map(|policy| policy.due_ns).min()
    }

    /// What bursts that went on (`events`) and ended (`ended`) change.
    pub fn handle(
        &mut self,
        events: &[WatchEvent],
        ended: &[LeaseChange],
        now_ns: u64,
    ) -> Vec<Minimum> {
        let policies = self.0.iter_mut();
        policies
            .filter_map(|policy| policy.handle(events, ended, now_ns))
            .collect()
    }
}

impl PolicyBoost {
    fn new(system: &System, policy: usize, tick: TickRate, held: Option<&Hold>) -> Option<Self> {
        let key = SettingKey::new(setting::find("frequency-min")?, At::CpufreqPolicy(policy))?;
        let cpus = system.policy_cpus(policy);
        let before = held.and_then(|hold| hold.before(&key));
        let base: u64 = before.or_else(|| system.read(&key).ok())?.parse().ok()?;
        let file = |name: &str| system.root().number(&format!("{POLICY}{policy}/{name}"));
        let max = file("scaling_max_freq")?;
        // In MHz, as the firmware tells.
        let nominal = cpus.first().and_then(|cpu| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/acpi_cppc/nominal_freq");
            system.root().number(&path)?.checked_mul(1000)
        });
        if base >= max {
            return None;
        }
        let guaranteed = file("base_frequency").or(nominal).unwrap_or(max);
        let guaranteed = guaranteed.clamp(base, max);
        // Numbers of rungs stand for the levels of the hardware: the rule only compares them.
        let of_guaranteed = if guaranteed > base { 2 } else { 0 };
        let levels = HwpLevels {
            min: 0,
            guaranteed: of_guaranteed,
            max: if max > guaranteed { 3 } else { of_guaranteed },
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

    fn handle(
        &mut self,
        events: &[WatchEvent],
        ended: &[LeaseChange],
        now_ns: u64,
    ) -> Option<Minimum> {
        for event in events {
            if event.kind == Kind::Io && self.cpus.contains(&event.cpu) {
                self.busy.insert(event.cpu);
                self.rule.update(Nanoseconds(event.time_ns), true);
            }
        }
        for change in ended.iter().filter(|change| !change.give) {
            self.busy.remove(&change.cpu);
        }
        if !self.busy.is_empty() {
            self.due_ns = None;
        } else if self.rule.minimum() > 0 && self.due_ns.is_none_or(|due| due <= now_ns) {
            self.rule.update(Nanoseconds(now_ns), false);
            let held = self.rule.minimum() > 0;
            self.due_ns = held.then(|| now_ns + HOLD_NS + 1);
        }
        let rung = self.rule.minimum();
        if rung == self.rung {
            return None;
        }
        self.rung = rung;
        let khz = self.rungs.get(usize::from(rung)).copied();
        Some(Minimum {
            key: self.key.clone(),
            khz: khz.filter(|_| rung > 0),
        })
    }
}
