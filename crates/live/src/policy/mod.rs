//! What a policy name sets on a machine.
//!
//! The names are those of every other command (`menu`, `teo`, `schedutil`, `intel_pstate-hwp[epp=power]`,
//! `apst[rule=legacy]`), and in the same form those that exist only on a real machine ([`names::NAMES`]),
//! such as `idle-states[ceiling=20us]`.

mod apst;
mod haltpoll;
mod idle;
pub mod names;

use wakepath_policies::idle::IdlePolicy;
use wakepath_policies::mechanism::Policy;
use wakepath_policies::spec::PolicySpec;

use crate::capture::is_virtual;
use crate::setting::{self, NO_SYSTEM_LATENCY_LIMIT_US, Scope};
use crate::{At, Key, LiveError, System, Wanted};
pub use apst::{kernel_apst, place};
pub use haltpoll::HaltpollAsSet;
use names::LiveSetting;

/// Which CPUs and drives a policy is for.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only these CPUs; `None`: all. Of CPUs that share a clock, one is enough.
    pub cpus: Option<Vec<usize>>,
    /// Only these drives, such as `nvme0`; `None`: all.
    pub drives: Option<Vec<String>>,
    /// Use power states that the kernel avoids on this drive because they are known to break it.
    pub force: bool,
}

/// What the policies set on this machine. A later one wins where two set the same.
///
/// # Errors
/// A name is unknown, or the machine cannot do it; the message says what it can.
pub fn resolve(
    system: &System,
    policies: &[&str],
    selection: &Selection,
) -> Result<Wanted, LiveError> {
    check_selection(system, selection)?;
    let mut wanted = Wanted::default();
    for text in policies {
        let mut target = Target {
            system,
            selection,
            text,
            wanted: &mut wanted,
        };
        match names::parse(text).map_err(|why| target.error(why))? {
            Some(own) => target.own(&own)?,
            None => target.known(&text.parse().map_err(|e| target.unknown(&e))?)?,
        }
    }
    Ok(wanted)
}

/// The CPUs and drives that are asked for must exist: a typing error must not select nothing.
fn check_selection(system: &System, selection: &Selection) -> Result<(), LiveError> {
    let missing = |policy: &str, why: String| {
        Err(LiveError::Policy {
            policy: policy.to_owned(),
            why,
        })
    };
    let cpus = system.cpus();
    if let Some(cpu) = selection.cpus.iter().flatten().find(|c| !cpus.contains(c)) {
        let last = cpus.last().copied().unwrap_or(0);
        return missing(
            "--cpus",
            format!("no CPU {cpu} is online; the last is {last}"),
        );
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

/// A policy being turned into settings.
pub(crate) struct Target<'a> {
    pub(crate) system: &'a System,
    pub(crate) selection: &'a Selection,
    /// As the user wrote it.
    text: &'a str,
    wanted: &'a mut Wanted,
}

impl Target<'_> {
    pub(crate) fn error(&self, why: impl Into<String>) -> LiveError {
        LiveError::Policy {
            policy: self.text.to_owned(),
            why: why.into(),
        }
    }

    /// An unknown name: the nearest one may be a policy or a live setting.
    fn unknown(&self, error: &wakepath_policies::spec::SpecError) -> LiveError {
        let own: Vec<&str> = names::NAMES.iter().map(|n| n.name).collect();
        self.error(format!(
            "{error}; on a real machine also {}",
            own.join(", ")
        ))
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.wanted.notes.contains(&note) {
            self.wanted.notes.push(note);
        }
    }

    /// Wants a value of the setting `name` of something.
    pub(crate) fn want(&mut self, name: &str, at: At, value: impl Into<String>) {
        if let Some(key) = Key::new(setting::known(name), at) {
            self.wanted.values.push((key, value.into()));
        }
    }

    /// Wants a value everywhere that the setting exists and is selected.
    fn want_everywhere(&mut self, name: &str, value: &str) -> Result<(), LiveError> {
        let info = setting::known(name);
        let places: Vec<At> = self
            .system
            .places(info.scope)
            .into_iter()
            .filter(|at| self.selected(at))
            .filter(|at| {
                Key::new(info, at.clone()).is_some_and(|key| self.system.root().exists(&key.path()))
            })
            .collect();
        if places.is_empty() {
            return Err(self.error(self.why_missing(info.name)));
        }
        for at in places {
            self.want(name, at, value);
        }
        Ok(())
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
        let all = self.system.places(Scope::Cpu).into_iter();
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
            Scope::CpufreqPolicy => "this machine offers no cpufreq setting of that kind",
            Scope::Drive => "this machine shows no NVMe drive with that setting",
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

    /// A policy that the simulator knows, too.
    fn known(&mut self, spec: &PolicySpec) -> Result<(), LiveError> {
        match spec.policy() {
            Policy::Idle(policy) => self.idle_governor(spec, *policy),
            Policy::Frequency(_) => self.frequency(spec),
            Policy::Apst(settings) => self.apst(settings),
            Policy::Psd(_) => Err(self.error(
                "a lease follows each burst of I/O, so a process has to run: `wakepath daemon` does that. \
                 A limit that stays is cpu-latency[limit=20us]",
            )),
            Policy::Poll(_) => Err(self.error(
                "stock kernels take the polling limit from the idle states; switching a state off moves it: \
                 idle-states[ceiling=...]",
            )),
            Policy::IoUring(_) => Err(self.error(
                "exists only in the simulator: on a real machine each program asks io_uring for it",
            )),
            Policy::IdleStates(_)
            | Policy::CpuLatency(_)
            | Policy::FrequencyLimits(_)
            | Policy::Epp(_)
            | Policy::HwpBoost(_)
            | Policy::DriveLatency(_) => Err(self.error("is written by a name of `names`")),
        }
    }

    fn idle_governor(&mut self, spec: &PolicySpec, policy: IdlePolicy) -> Result<(), LiveError> {
        let name = spec.mechanism().name;
        if matches!(
            policy,
            IdlePolicy::Shallowest | IdlePolicy::Deepest | IdlePolicy::Oracle(_)
        ) {
            return Err(self.error(
                "exists only in the simulator; a limit on a real machine is idle-states[ceiling=20us]",
            ));
        }
        self.want("idle-governor", At::System, name);
        if self.text.contains('@') {
            let running = self.system.root().optional("proc/sys/kernel/osrelease");
            let running = running.unwrap_or_else(|| "unknown".to_owned());
            self.note(format!(
                "{spec}: the running kernel ({running}) has its own version of {name}; that is the one that runs"
            ));
        }
        for (key, value) in spec.given() {
            let info = setting::SETTINGS
                .iter()
                .find(|s| s.haltpoll_parameter() == Some(key));
            let value = match value {
                "on" => "Y",
                "off" => "N",
                number => number,
            };
            if let Some(info) = info {
                self.want(info.name, At::System, value);
            }
        }
        Ok(())
    }

    fn frequency(&mut self, spec: &PolicySpec) -> Result<(), LiveError> {
        let name = spec.mechanism().name;
        let driver = self.frequency_driver();
        // These drivers choose frequencies themselves, and give the two names another meaning.
        let active = matches!(driver.as_deref(), Some("intel_pstate" | "amd-pstate-epp"));
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
                        ("epp", value) => self.want_everywhere("epp", value)?,
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

    fn frequency_driver(&self) -> Option<String> {
        let first = self.system.cpufreq_policies().into_iter().next()?;
        let path = format!(
            "{}/cpufreq/policy{first}/scaling_driver",
            crate::topology::CPUS
        );
        self.system.root().optional(&path)
    }

    fn boost(&mut self, on: bool) -> Result<(), LiveError> {
        self.want_everywhere("hwp-dynamic-boost", if on { "1" } else { "0" })
    }

    /// A policy that exists only on a real machine.
    fn own(&mut self, own: &LiveSetting) -> Result<(), LiveError> {
        match own {
            LiveSetting::IdleStates(ceiling) => self.idle_states(ceiling),
            LiveSetting::CpuLatency(limit) => {
                // In this file 0 means no limit; no latency at all is `n/a`.
                let value = match limit {
                    None => "0".to_owned(),
                    Some(0) => "n/a".to_owned(),
                    Some(us) => us.to_string(),
                };
                self.want_everywhere("cpu-latency", &value)
            }
            LiveSetting::SystemLatency(limit) => {
                let us = limit.unwrap_or(NO_SYSTEM_LATENCY_LIMIT_US);
                self.want_everywhere("system-latency", &us.to_string())
            }
            LiveSetting::Frequency { min, max } => {
                for (name, limit) in [("frequency-min", min), ("frequency-max", max)] {
                    if let Some(khz) = limit {
                        self.want_everywhere(name, &khz.to_string())?;
                    }
                }
                Ok(())
            }
            LiveSetting::Epp(value) => self.want_everywhere("epp", value),
            LiveSetting::HwpBoost(on) => self.boost(*on),
            LiveSetting::DriveLatency(value) => self.want_everywhere("drive-latency", value),
        }
    }
}
