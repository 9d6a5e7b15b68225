//! What resets each setting: events of a running machine, by the kernel's source or as seen in a guest.

use std::str::FromStr;

use wakepath_system::{At, Root, SettingKey, is_namespace_of_drive};

/// Something after which settings may have other values than wakepath wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResetEvent {
    /// The machine has woken up from suspend or hibernation.
    Resume,
    /// This CPU was switched on.
    CpuOnline(usize),
    /// This drive's controller is ready: after a reset, or since the drive is new.
    DriveReady(String),
    /// Some time has passed. Nothing was reset, but a person or a tool may have changed settings.
    Interval,
}

impl FromStr for ResetEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number_after = |prefix: &str| text.strip_prefix(prefix)?.parse::<usize>().ok();
        match text {
            "resume" => return Ok(Self::Resume),
            "interval" => return Ok(Self::Interval),
            _ => {}
        }
        if let Some(cpu) = number_after("cpu") {
            return Ok(Self::CpuOnline(cpu));
        }
        if number_after("nvme").is_some() {
            return Ok(Self::DriveReady(text.to_owned()));
        }
        Err("expected resume, interval, a CPU such as cpu1, or a drive such as nvme0".to_owned())
    }
}

impl ResetEvent {
    /// Whether the event is about the part of the machine that a setting belongs to.
    pub(crate) fn concerns_place(&self, root: &Root, at: &At) -> bool {
        match (self, at) {
            (Self::Resume, _) => true,
            (Self::CpuOnline(online), At::Cpu(cpu) | At::IdleState { cpu, .. }) => cpu == online,
            (Self::CpuOnline(online), At::CpufreqPolicy(policy)) => {
                let file = format!("sys/devices/system/cpu/cpufreq/policy{policy}/related_cpus");
                let related = root.read_text_if_readable(&file).unwrap_or_default();
                policy == online
                    || related
                        .split_whitespace()
                        .any(|cpu| cpu.parse() == Ok(*online))
            }
            (Self::DriveReady(ready), At::Drive(drive)) => ready == drive,
            (Self::DriveReady(ready), At::Disk(disk)) => is_namespace_of_drive(disk, ready),
            _ => false,
        }
    }

    /// Whether the event may have reset a setting.
    pub(crate) fn may_reset(&self, root: &Root, key: &SettingKey) -> bool {
        let Some(survival) = find_survival(key.setting.name) else {
            return false;
        };
        let effect = match self {
            Self::Resume => survival.resume,
            Self::CpuOnline(_) => survival.cpu_online,
            Self::DriveReady(_) => survival.drive_reset,
            Self::Interval => return false,
        };
        effect == EventEffect::MayReset && self.concerns_place(root, &key.at)
    }
}

/// What an event does to a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventEffect {
    /// The setting keeps its value.
    Keeps,
    /// The setting may have the kernel's or the firmware's value again.
    MayReset,
    /// The event is about another part of the machine.
    Elsewhere,
}

/// By what the effects of events on a setting are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectEvidence {
    /// All of them were seen in a Debian guest, on a value that is not the boot's own.
    Guest,
    /// Files of the kernel's source, Linux 6.1 to 6.16.
    KernelSource(&'static str),
    /// A reset of the controller was seen in a Debian guest, on a value other than the boot's own; the effect of sleep is
    /// from this file of the kernel's source.
    GuestResetAndSource(&'static str),
}

/// Which events a setting survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingSurvival {
    /// Name of the setting.
    pub setting: &'static str,
    /// Suspend and resume.
    pub resume: EventEffect,
    /// A CPU off and on.
    pub cpu_online: EventEffect,
    /// A reset of the drive's controller.
    pub drive_reset: EventEffect,
    /// By what this is known.
    pub evidence: EffectEvidence,
}

impl SettingSurvival {
    /// Whether any event may reset the setting.
    pub(crate) fn may_be_reset(&self) -> bool {
        [self.resume, self.cpu_online, self.drive_reset].contains(&EventEffect::MayReset)
    }
}

const fn survival(
    setting: &'static str,
    [resume, cpu_online, drive_reset]: [EventEffect; 3],
    evidence: EffectEvidence,
) -> SettingSurvival {
    SettingSurvival {
        setting,
        resume,
        cpu_online,
        drive_reset,
        evidence,
    }
}

use EffectEvidence::{Guest, GuestResetAndSource, KernelSource};
use EventEffect::{Elsewhere, Keeps, MayReset};

const PARAMETER: EffectEvidence = KernelSource("kernel/params.c");

/// Which events each setting survives that can be persistent, in the order of [`wakepath_system::setting::SETTINGS`].
#[rustfmt::skip]
pub static SURVIVALS: &[SettingSurvival] = &[
    survival("idle-governor", [Keeps, Keeps, Elsewhere], Guest),
    survival("haltpoll-max", [Keeps, Keeps, Elsewhere], PARAMETER),
    survival("haltpoll-shrink", [Keeps, Keeps, Elsewhere], PARAMETER),
    survival("haltpoll-grow", [Keeps, Keeps, Elsewhere], PARAMETER),
    survival("haltpoll-start", [Keeps, Keeps, Elsewhere], PARAMETER),
    survival("haltpoll-may-shrink", [Keeps, Keeps, Elsewhere], PARAMETER),
    survival("idle-state-off", [Keeps, Keeps, Elsewhere], Guest),
    survival("c1-demotion", [MayReset, MayReset, Elsewhere], KernelSource("drivers/idle/intel_idle.c")),
    survival("cpu-latency", [Keeps, Keeps, Elsewhere], Guest),
    survival("psd-ceiling", [Keeps, Keeps, Elsewhere], PARAMETER),
    survival("psd-timeout", [Keeps, Keeps, Elsewhere], PARAMETER),
    survival("frequency-governor", [Keeps, Keeps, Elsewhere], KernelSource("drivers/cpufreq/cpufreq.c")),
    survival("frequency-boost", [MayReset, MayReset, Elsewhere], KernelSource("drivers/cpufreq/cpufreq.c")),
    survival("no-turbo", [Keeps, Keeps, Elsewhere], KernelSource("drivers/cpufreq/intel_pstate.c")),
    survival("boost", [Keeps, Keeps, Elsewhere], KernelSource("drivers/cpufreq/cpufreq.c")),
    survival("frequency-min", [Keeps, Keeps, Elsewhere], KernelSource("drivers/cpufreq/cpufreq.c")),
    survival("frequency-max", [Keeps, Keeps, Elsewhere], Guest),
    survival("epp", [MayReset, MayReset, Elsewhere], KernelSource("drivers/cpufreq/intel_pstate.c, amd-pstate.c")),
    survival("hwp-dynamic-boost", [Keeps, Keeps, Elsewhere], KernelSource("drivers/cpufreq/intel_pstate.c")),
    survival("drive-latency", [Keeps, Elsewhere, Keeps], GuestResetAndSource("drivers/nvme/host/core.c")),
    survival("apst", [MayReset, Elsewhere, MayReset], GuestResetAndSource("drivers/nvme/host/pci.c")),
    survival("aspm", [Keeps, Keeps, Elsewhere], KernelSource("drivers/pci/pcie/aspm.c")),
    survival("read-ahead", [Keeps, Elsewhere, MayReset], KernelSource("block/genhd.c, blk-settings.c")),
    survival("rq-affinity", [Keeps, Elsewhere, MayReset], KernelSource("block/genhd.c, blk-settings.c")),
];

/// Which events a setting survives; `None` for one that ends with a process.
pub(crate) fn find_survival(setting: &str) -> Option<&'static SettingSurvival> {
    SURVIVALS
        .iter()
        .find(|survival| survival.setting == setting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_system::setting::{Access, SETTINGS, SettingScope};

    #[test]
    fn every_setting_that_can_be_persistent_has_a_row() {
        let persistent: Vec<&str> = SETTINGS
            .iter()
            .filter(|setting| setting.mechanism != Access::Held)
            .map(|setting| setting.name)
            .collect();
        let rows: Vec<&str> = SURVIVALS.iter().map(|row| row.setting).collect();
        assert_eq!(rows, persistent);
    }

    #[test]
    fn only_settings_of_drives_know_resets_of_drives() {
        for row in SURVIVALS {
            let setting = wakepath_system::setting::find_setting(row.setting).unwrap();
            let is_drive = matches!(setting.scope, SettingScope::Drive | SettingScope::Disk);
            assert_eq!(row.drive_reset != Elsewhere, is_drive, "{}", row.setting);
            assert_eq!(row.cpu_online == Elsewhere, is_drive, "{}", row.setting);
            assert_ne!(row.resume, Elsewhere, "{}", row.setting);
        }
    }

    #[test]
    fn events_are_read_from_words() {
        for (text, event) in [
            ("resume", ResetEvent::Resume),
            ("interval", ResetEvent::Interval),
            ("cpu12", ResetEvent::CpuOnline(12)),
            ("nvme0", ResetEvent::DriveReady("nvme0".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(event));
        }
        for text in ["", "cpu", "cpu-1", "nvme", "nvme0n1", "nvme0/../x", "sda"] {
            let error = text.parse::<ResetEvent>().unwrap_err();
            assert!(error.contains("cpu1"), "{error}");
        }
    }
}
