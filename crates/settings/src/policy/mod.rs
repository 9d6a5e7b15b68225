//! What a policy set changes on a machine.

mod apst;
mod idle;
mod latency;
mod profile;

use wakepath_policies::PolicySet;
use wakepath_policies::freq::FreqPolicy;
use wakepath_policies::freq::amd_pstate::{AmdMode, AmdPstateSettings};
use wakepath_policies::freq::epp::{Epp, busy_under_performance};
use wakepath_policies::freq::limits::FrequencyLimits;
use wakepath_policies::idle::IdlePolicy;
use wakepath_policies::mechanism::Policy;
use wakepath_policies::spec::PolicySpec;

use wakepath_system::capture::is_virtual;
use wakepath_system::setting::{self, NO_LATENCY_LIMIT_US, SettingInfo, SettingScope};
use wakepath_system::{At, SettingKey, System};

use wakepath_units::Nanoseconds;

use crate::{SettingsError, WantedSetting};

/// The mode of amd-pstate.
const AMD_PSTATE_STATUS: &str = "sys/devices/system/cpu/amd_pstate/status";

/// The driver amd-pstate in active mode.
const ACTIVE_AMD_DRIVER: &str = "amd-pstate-epp";

/// Which CPUs and drives a policy is for.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    /// Only these CPUs; `None`: all. Of CPUs that share a clock, one is enough.
    pub cpus: Option<Vec<usize>>,
    /// Only these drives, such as `nvme0`; `None`: all.
    pub drives: Option<Vec<String>>,
    /// Use power states that the kernel avoids on this drive because they are known to break it.
    pub force: bool,
}

/// What the set changes on this machine. Policies that it does not name stay as they are; of a profile, what the machine
/// does not have is left out with a note.
///
/// # Errors
/// The machine cannot do it; the message says what it can.
pub fn resolve(
    system: &System,
    set: &PolicySet,
    selection: &Targets,
) -> Result<WantedSetting, SettingsError> {
    check_selection(system, selection)?;
    let expanded = profile::expanded(system, set)?;
    let mut wanted = WantedSetting {
        notes: expanded.notes,
        ..WantedSetting::default()
    };
    for spec in expanded.set.policies() {
        let mut target = Target {
            system,
            selection,
            set: &expanded.set,
            spec,
            wanted: &mut wanted,
        };
        target.set()?;
    }
    Ok(wanted)
}

/// The CPUs and drives that are asked for must exist: a typing error must not select nothing.
fn check_selection(system: &System, selection: &Targets) -> Result<(), SettingsError> {
    let missing = |policy: &str, why: String| {
        Err(SettingsError::Policy {
            policy: policy.to_owned(),
            why,
        })
    };
    if let Some(cpus) = &selection.cpus {
        check_cpus(system, cpus).or_else(|why| missing("--cpus", why))?;
    }
    let drives = system.drives();
    if let Some(drive) = selection
        .drives
        .iter()
        .flatten()
        .find(|d| !drives.contains(d))
    {
        let known = if drives.is_empty() {
            "this machine shows no NVMe drive".to_owned()
        } else {
            format!("there are {}", drives.join(", "))
        };
        return missing("--drives", format!("no drive {drive}; {known}"));
    }
    Ok(())
}

/// All of these CPUs have to be online.
fn check_cpus(system: &System, cpus: &[usize]) -> Result<(), String> {
    let online = system.cpus();
    cpus.iter()
        .find(|cpu| !online.contains(cpu))
        .map_or(Ok(()), |cpu| {
            let last = online.last().copied().unwrap_or(0);
            Err(format!("no CPU {cpu} is online; the last is {last}"))
        })
}

/// A file of the first frequency policy.
fn cpufreq_file(system: &System, name: &str) -> Option<String> {
    let first = system.cpufreq_policies().into_iter().next()?;
    let path = format!("{}/cpufreq/policy{first}/{name}", wakepath_system::CPUS);
    system.root().optional(&path)
}

/// A policy being turned into settings.
pub(crate) struct Target<'a> {
    pub(crate) system: &'a System,
    pub(crate) selection: &'a Targets,
    /// The whole set.
    set: &'a PolicySet,
    spec: &'a PolicySpec,
    wanted: &'a mut WantedSetting,
}

impl Target<'_> {
    pub(crate) fn error(&self, why: impl Into<String>) -> SettingsError {
        SettingsError::Policy {
            policy: self.spec.to_string(),
            why: why.into(),
        }
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.wanted.notes.contains(&note) {
            self.wanted.notes.push(note);
        }
    }

    /// Wants a value of the setting `name` of something.
    pub(crate) fn want(&mut self, name: &str, at: At, value: impl Into<String>) {
        if let Some(key) = SettingKey::new(setting::known(name), at) {
            self.wanted.values.push((key, value.into()));
        }
    }

    /// Wants a value everywhere that the setting exists and is selected.
    fn want_everywhere(&mut self, name: &str, value: &str) -> Result<(), SettingsError> {
        for at in self.places(name, |_| true)? {
            self.want(name, at, value);
        }
        Ok(())
    }

    /// Where a setting exists, is selected, and a test holds; nowhere is an error.
    fn places(&self, name: &str, test: impl Fn(&At) -> bool) -> Result<Vec<At>, SettingsError> {
        let info = setting::known(name);
        let places = self.system.places(info.scope).into_iter();
        let places: Vec<At> = places
            .filter(|at| self.selected(at) && test(at))
            .filter(|at| {
                SettingKey::new(info, at.clone())
                    .is_some_and(|key| self.system.root().exists(&key.path()))
            })
            .collect();
        if places.is_empty() {
            return Err(self.error(self.why_missing(info.name)));
        }
        Ok(places)
    }

    fn selected(&self, at: &At) -> bool {
        let cpus = self.selection.cpus.as_ref();
        let drives = self.selection.drives.as_ref();
        match at {
            At::System => true,
            At::Cpu(cpu) | At::IdleState { cpu, .. } => cpus.is_none_or(|c| c.contains(cpu)),
            At::CpufreqPolicy(policy) => cpus.is_none_or(|cpus| {
                let of = self.system.policy_cpus(*policy);
                of.iter().any(|cpu| cpus.contains(cpu))
            }),
            At::Drive(drive) => drives.is_none_or(|d| d.contains(drive)),
        }
    }

    /// The selected CPUs.
    pub(crate) fn cpus(&self) -> Vec<usize> {
        let all = self.system.places(SettingScope::Cpu).into_iter();
        all.filter(|at| self.selected(at))
            .filter_map(|at| match at {
                At::Cpu(cpu) => Some(cpu),
                _ => None,
            })
            .collect()
    }

    /// The selected drives.
    pub(crate) fn drives(&self) -> Vec<String> {
        let all = self.system.drives().into_iter();
        all.filter(|d| self.selected(&At::Drive(d.clone())))
            .collect()
    }

    fn why_missing(&self, name: &str) -> String {
        let what = match setting::known(name).scope {
            SettingScope::CpufreqPolicy => "this machine offers no cpufreq setting of that kind",
            SettingScope::Drive => "this machine shows no NVMe drive with that setting",
            _ => "this machine has no such setting",
        };
        let path = setting::known(name).path;
        let hypervisor = if is_virtual(self.system.root()) {
            "; it is a virtual machine, whose host keeps it"
        } else {
            ""
        };
        format!("{what} (/{path}){hypervisor}")
    }

    /// What the policy sets.
    fn set(&mut self) -> Result<(), SettingsError> {
        match self.spec.policy() {
            Policy::Idle(policy) => self.idle_governor(policy),
            Policy::IdleStates(limit) => self.idle_states(limit),
            Policy::CpuLatency(latency) => self.cpu_latency(latency),
            Policy::Frequency(_) => self.frequency(),
            Policy::FrequencyLimits(limits) => self.frequency_limits(*limits),
            Policy::Epp(epp) => self.preference(&epp.to_string()),
            Policy::HwpBoost(on) => self.boost(*on),
            Policy::C1Demotion(on) => {
                self.want_everywhere("c1-demotion", if *on { "1" } else { "0" })
            }
            Policy::WakeupLatency(limit) => {
                let us = limit.map_or(NO_LATENCY_LIMIT_US, Nanoseconds::as_micros);
                self.want_everywhere("wakeup-latency", &us.to_string())
            }
            Policy::Apst(settings) => self.apst(settings),
            Policy::DriveLatency(tolerance) => {
                self.want_everywhere("drive-latency", &tolerance.to_string())
            }
            Policy::Psd(_) => Err(self.error(
                "a lease follows each burst of I/O, so a process has to run: `wakepath daemon` does that. \
                 A limit that stays is cpu-latency[limit=20us,cpus=all]",
            )),
            Policy::Poll(_) => Err(self.error(
                "stock kernels take the polling limit from the idle states; switching a state off moves it: \
                 idle-states[ceiling=...]",
            )),
            Policy::IoUring(_) => Err(self.error(
                "exists only in the simulator: on a real machine each program asks io_uring for it",
            )),
            Policy::KernelConfig(_) => Err(self.error(
                "exists only in the simulator: on a real machine it takes another kernel",
            )),
        }
    }

    fn idle_governor(&mut self, policy: &IdlePolicy) -> Result<(), SettingsError> {
        let spec = self.spec;
        let name = spec.mechanism().name;
        if matches!(
            policy,
            IdlePolicy::Shallowest | IdlePolicy::Deepest | IdlePolicy::Oracle(_)
        ) {
            return Err(self.error(
                "exists only in the simulator; a limit on a real machine is idle-states[ceiling=20us]",
            ));
        }
        if let IdlePolicy::Program(_) = policy {
            return Err(self.error(
                "runs in sim, replay and study; on a real machine a governor is part of its kernel",
            ));
        }
        self.want("idle-governor", At::System, name);
        if !spec.is_bare() && spec.version() != Some(self.system.kernel_version()) {
            let running = self
                .system
                .kernel_release()
                .unwrap_or_else(|| "unknown".to_owned());
            self.note(format!(
                "{spec}: the running kernel ({running}) has its own version of {name}; that is the one that runs"
            ));
        }
        for (key, value) in spec.given() {
            let value = match value {
                "on" => "Y",
                "off" => "N",
                number => number,
            };
            if let Some(info) = SettingInfo::of_haltpoll(key) {
                self.want(info.name, At::System, value);
            }
        }
        Ok(())
    }

    fn frequency_limits(&mut self, limits: FrequencyLimits) -> Result<(), SettingsError> {
        for (name, limit) in [("frequency-min", limits.min), ("frequency-max", limits.max)] {
            if let Some(khz) = limit {
                self.want_everywhere(name, &khz.0.to_string())?;
            }
        }
        Ok(())
    }

    fn frequency(&mut self) -> Result<(), SettingsError> {
        let spec = self.spec;
        if let Policy::Frequency(FreqPolicy::AmdPstate(of)) = spec.policy() {
            return self.amd_pstate(*of);
        }
        let name = spec.mechanism().name;
        let driver = cpufreq_file(self.system, "scaling_driver");
        // These drivers choose frequencies themselves, and give the two names another meaning.
        let active = matches!(driver.as_deref(), Some("intel_pstate" | ACTIVE_AMD_DRIVER));
        match name {
            "intel_pstate" | "intel_pstate-hwp" => {
                if driver.as_deref() != Some("intel_pstate") {
                    let driver = driver.unwrap_or_else(|| "none".to_owned());
                    return Err(self.error(format!(
                        "needs the cpufreq driver intel_pstate in active mode; this machine's driver is {driver}"
                    )));
                }
                self.want_everywhere("frequency-governor", "powersave")?;
                for (key, value) in spec.given() {
                    match (key, value) {
                        ("epp", value) => self.preference(value)?,
                        ("hwp_dynamic_boost", value) => self.boost(value == "on")?,
                        (key, _) => return Err(self.error(format!("no running kernel lets `{key}` be set"))),
                    }
                }
                Ok(())
            }
            "powersave" if active => Err(self.error(
                "this driver's powersave scales with the load; intel_pstate-hwp or epp[value=power] asks for \
                 that, frequency[max=...] for the lowest frequency",
            )),
            _ => {
                if let Some((key, _)) = spec.given().next() {
                    return Err(self.error(format!(
                        "no running kernel lets `{key}` be set; it exists in the simulator"
                    )));
                }
                self.want_everywhere("frequency-governor", name)
            }
        }
    }

    /// Wants an energy-performance preference, where the governor that will be in force lets the kernel take it.
    fn preference(&mut self, value: &str) -> Result<(), SettingsError> {
        let comes_with_performance = Epp::parse(value).and_then(Epp::number) == Some(0);
        let instead = match self.driver().as_deref() {
            Some("intel_pstate") => "intel_pstate-hwp",
            Some(ACTIVE_AMD_DRIVER) => "amd-pstate[governor=powersave]",
            _ => return self.want_everywhere("epp", value),
        };
        if !comes_with_performance && self.has_governor_performance()? {
            return Err(self.error(busy_under_performance(instead)));
        }
        self.want_everywhere("epp", value)
    }

    /// Whether a CPU whose preference is to be set will be under the governor `performance`.
    fn has_governor_performance(&self) -> Result<bool, SettingsError> {
        Ok(match self.set.frequency() {
            Some(FreqPolicy::Performance) => true,
            Some(FreqPolicy::AmdPstate(of)) => of.is_active_performance(),
            Some(_) => false,
            None => {
                let runs = |at: &At| {
                    let governor =
                        SettingKey::new(setting::known("frequency-governor"), at.clone());
                    let path = governor.map(|key| key.path()).unwrap_or_default();
                    self.system.root().optional(&path).as_deref() == Some("performance")
                };
                self.places("epp", |_| true)?.iter().any(runs)
            }
        })
    }

    /// The driver of the first frequency policy.
    fn driver(&self) -> Option<String> {
        cpufreq_file(self.system, "scaling_driver")
    }

    /// The driver's mode stays: changing it makes all frequency policies anew, with other values in everything they have.
    fn amd_pstate(&mut self, of: AmdPstateSettings) -> Result<(), SettingsError> {
        let mode = self.system.root().optional(AMD_PSTATE_STATUS);
        // The driver has a name of its own in this mode, whatever else is captured.
        let by_driver = || {
            let driver = self.driver().filter(|driver| driver == ACTIVE_AMD_DRIVER);
            driver.map(|_| AmdMode::Active.name().to_owned())
        };
        let mode = mode.or_else(by_driver);
        if mode.as_deref() != Some(of.mode.name()) {
            let has = match mode.as_deref() {
                None => format!("this machine does not run amd-pstate (no /{AMD_PSTATE_STATUS})"),
                Some(mode) => format!("this machine's amd-pstate is in the mode {mode}"),
            };
            return Err(self.error(format!(
                "needs amd-pstate in {} mode; {has}. The mode is chosen at boot: amd_pstate={} on the kernel command line",
                of.mode.name(),
                of.mode.name()
            )));
        }
        self.want_everywhere("frequency-governor", of.governor.name())?;
        for (key, value) in self.spec.given() {
            match key {
                "epp" => self.preference(value)?,
                "boost" => {
                    self.want_everywhere("frequency-boost", if value == "on" { "1" } else { "0" })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn boost(&mut self, on: bool) -> Result<(), SettingsError> {
        self.want_everywhere("hwp-dynamic-boost", if on { "1" } else { "0" })
    }
}
