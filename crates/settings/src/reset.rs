//! What resets each setting: events of a running machine, by the kernel's source or as seen in a guest.

use std::str::FromStr;

use wakepath_system::{At, Root, SettingKey, is_interrupt_of_drive, is_namespace_of_drive};

/// Something after which settings may have other values than wakepath wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResetEvent {
    /// The machine has woken up from suspend or hibernation.
    Resume,
    /// This CPU was switched on.
    CpuOnline(usize),
    /// This drive's controller is ready, or one of its disks is there: after a reset, or since the drive is new. Drives other than
    /// NVMe go by their disk.
    DriveReady(String),
    /// Some time has passed. Nothing was reset, but a person or a tool may have changed settings.
    Interval,
}

impl FromStr for ResetEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "resume" => return Ok(Self::Resume),
            "interval" => return Ok(Self::Interval),
            _ => {}
        }
        if let Some(cpu) = text.strip_prefix("cpu").and_then(parse_digits) {
            return Ok(Self::CpuOnline(cpu));
        }
        // A disk of the drive: the kernel finds disks only after the controller is ready.
        let drive = match text.rsplit_once('n') {
            Some((drive, namespace)) if parse_digits(namespace).is_some() => drive,
            _ => text,
        };
        let number = drive.strip_prefix("nvme").and_then(parse_digits);
        if number.is_some() {
            return Ok(Self::DriveReady(drive.to_owned()));
        }
        if is_disk_without_controller(text) {
            return Ok(Self::DriveReady(text.to_owned()));
        }
        Err(
            "expected resume, interval, a CPU such as cpu1, a drive such as nvme0, its disk nvme0n1, or a disk such as sda or mmcblk0"
                .to_owned(),
        )
    }
}

/// Whether a name is that of a disk of another kind than NVMe, as in the package's rule for udev.
fn is_disk_without_controller(name: &str) -> bool {
    let letters = ["sd", "vd", "xvd"];
    let mut lettered = letters.iter().filter_map(|head| name.strip_prefix(head));
    lettered.any(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_lowercase()))
        || name
            .strip_prefix("mmcblk")
            .is_some_and(|rest| parse_digits(rest).is_some())
}

/// A number of nothing but digits: `parse` takes a sign, too, which no name of the kernel has.
fn parse_digits(text: &str) -> Option<usize> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

impl ResetEvent {
    /// Whether the event is about the part of the machine that a setting belongs to.
    pub(crate) fn concerns_place(&self, root: &Root, at: &At) -> bool {
        match (self, at) {
            // The kernel moves interrupts off a CPU that goes, and does not move them back.
            (Self::Resume, _) | (Self::CpuOnline(_), At::Interrupt(_)) => true,
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
            (Self::DriveReady(ready), At::Disk(disk)) => {
                disk == ready || is_namespace_of_drive(disk, ready)
            }
            // A controller that is new has asked the kernel for its interrupts anew.
            (Self::DriveReady(ready), At::Interrupt(number)) => {
                is_interrupt_of_drive(root, *number, ready)
            }
            _ => false,
        }
    }

    /// Whether the event may have reset a setting.
    pub(crate) fn may_reset(&self, root: &Root, key: &SettingKey) -> bool {
        let Some(survival) = find_survival(key.setting.name) else {
            return false;
        };
        let happened: &[SurvivalEvent] = match self {
            Self::Resume => &[SurvivalEvent::Sleep],
            Self::CpuOnline(_) => &[SurvivalEvent::CpuOffAndOn, SurvivalEvent::HotPlug],
            Self::DriveReady(_) => &[SurvivalEvent::DriveReset, SurvivalEvent::HotPlug],
            Self::Interval => &[],
        };
        let may_be_reset = |event: &SurvivalEvent| survival.effect(*event) == EventEffect::MayReset;
        happened.iter().any(may_be_reset) && self.concerns_place(root, &key.at)
    }
}

/// Something that settings survive or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SurvivalEvent {
    /// Suspend and resume.
    Sleep,
    /// A CPU off and on.
    CpuOffAndOn,
    /// The plug of the power supply, pulled or put in.
    SupplyChange,
    /// A reset of the drive's controller.
    DriveReset,
    /// The drive or the CPU itself is taken out, and is there again as a new one.
    HotPlug,
}

impl SurvivalEvent {
    /// All events, in the order of the table.
    pub const ALL: [Self; 5] = [
        Self::Sleep,
        Self::CpuOffAndOn,
        Self::SupplyChange,
        Self::DriveReset,
        Self::HotPlug,
    ];

    /// A word or two for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::CpuOffAndOn => "CPU off, on",
            Self::SupplyChange => "plug",
            Self::DriveReset => "drive reset",
            Self::HotPlug => "hot-plug",
        }
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

/// Which events a setting survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingSurvival {
    /// Name of the setting.
    pub setting: &'static str,
    /// Effects of the events, as in [`SurvivalEvent::ALL`].
    effects: [EventEffect; 5],
    /// Events whose effect was seen in a Debian guest, on a value that is not the boot's own.
    seen: &'static [SurvivalEvent],
    /// Files of the kernel's source by which the other effects are known, Linux 6.1 to 6.16: all code that writes the setting.
    /// Empty: each was seen.
    pub source: &'static str,
}

impl SettingSurvival {
    /// What an event does to the setting.
    pub fn effect(&self, event: SurvivalEvent) -> EventEffect {
        self.effects[event as usize]
    }

    /// Whether the effect of an event was seen in a guest.
    pub fn is_seen_in_guest(&self, event: SurvivalEvent) -> bool {
        self.seen.contains(&event)
    }

    /// Whether any event of every day may reset the setting; CPUs are taken out of few machines.
    pub(crate) fn may_be_reset(&self) -> bool {
        let is_drive = self.effect(SurvivalEvent::DriveReset) != EventEffect::Elsewhere;
        let mut events = SurvivalEvent::ALL.into_iter();
        events.any(|event| {
            self.effect(event) == EventEffect::MayReset
                && (is_drive || event != SurvivalEvent::HotPlug)
        })
    }
}

const fn survival(
    setting: &'static str,
    effects: [EventEffect; 5],
    seen: &'static [SurvivalEvent],
    source: &'static str,
) -> SettingSurvival {
    SettingSurvival {
        setting,
        effects,
        seen,
        source,
    }
}

use EventEffect::{Elsewhere, Keeps, MayReset};
use SurvivalEvent::{CpuOffAndOn, DriveReset, HotPlug, Sleep, SupplyChange};

const SYSTEM: [EventEffect; 5] = [Keeps, Keeps, Keeps, Elsewhere, Elsewhere];
/// Kept by a CPU that is off for a while, and gone with the CPU.
const KEPT_BY_CPU: [EventEffect; 5] = [Keeps, Keeps, Keeps, Elsewhere, MayReset];
const LOST_BY_CPU: [EventEffect; 5] = [MayReset, MayReset, Keeps, Elsewhere, MayReset];
/// Kept by the kernel's object of a drive or a disk.
const KEPT_BY_DRIVE: [EventEffect; 5] = [Keeps, Elsewhere, Keeps, Keeps, MayReset];
/// Kept by the drive's own controller.
const IN_DRIVE: [EventEffect; 5] = [MayReset, Elsewhere, Keeps, MayReset, MayReset];
/// Lost when the CPUs go to which the interrupt may go, and when the drive asks for interrupts anew.
const INTERRUPT: [EventEffect; 5] = [MayReset, MayReset, Keeps, MayReset, MayReset];
/// A disk's limits, which drivers set anew when they look at the disk again: NVMe does after sleep, too.
const DISK_LIMIT: [EventEffect; 5] = [MayReset, Elsewhere, Keeps, MayReset, MayReset];

/// Seen by the test of the package about sleep, CPUs and the power supply.
const SEEN_ON_CPUS: &[SurvivalEvent] = &[Sleep, CpuOffAndOn, SupplyChange];
/// Seen by the tests of the package about a drive with APST that is reset, or comes after the boot.
const SEEN_ON_DRIVES: &[SurvivalEvent] = &[DriveReset, HotPlug];
/// Seen by the tests of the package about interrupts.
const SEEN_ON_INTERRUPTS: &[SurvivalEvent] = &[CpuOffAndOn, SupplyChange, HotPlug];
const PARAMETER: &str = "kernel/params.c";
const CPUFREQ: &str = "drivers/cpufreq/cpufreq.c";
const INTEL_PSTATE: &str = "drivers/cpufreq/intel_pstate.c";

/// Which events each setting survives that can be persistent, in the order of [`wakepath_system::setting::SETTINGS`].
#[rustfmt::skip]
pub static SURVIVALS: &[SettingSurvival] = &[
    survival("idle-governor", SYSTEM, SEEN_ON_CPUS, ""),
    survival("haltpoll-max", SYSTEM, &[], PARAMETER),
    survival("haltpoll-shrink", SYSTEM, &[], PARAMETER),
    survival("haltpoll-grow", SYSTEM, &[], PARAMETER),
    survival("haltpoll-start", SYSTEM, &[], PARAMETER),
    survival("haltpoll-may-shrink", SYSTEM, &[], PARAMETER),
    survival("idle-state-off", KEPT_BY_CPU, SEEN_ON_CPUS, "drivers/cpuidle/cpuidle.c"),
    survival("c1-demotion", LOST_BY_CPU, &[], "drivers/idle/intel_idle.c"),
    survival("cpu-latency", KEPT_BY_CPU, SEEN_ON_CPUS, "drivers/base/power/qos.c"),
    survival("psd-ceiling", SYSTEM, &[], PARAMETER),
    survival("psd-timeout", SYSTEM, &[], PARAMETER),
    survival("frequency-governor", KEPT_BY_CPU, &[], CPUFREQ),
    survival("frequency-boost", LOST_BY_CPU, &[], CPUFREQ),
    survival("no-turbo", SYSTEM, &[], INTEL_PSTATE),
    survival("boost", SYSTEM, &[], CPUFREQ),
    survival("frequency-min", KEPT_BY_CPU, &[], CPUFREQ),
    survival("frequency-max", KEPT_BY_CPU, SEEN_ON_CPUS, CPUFREQ),
    survival("epp", LOST_BY_CPU, &[], "drivers/cpufreq/intel_pstate.c, amd-pstate.c"),
    survival("hwp-dynamic-boost", SYSTEM, &[], INTEL_PSTATE),
    survival("drive-latency", KEPT_BY_DRIVE, SEEN_ON_DRIVES, "drivers/nvme/host/core.c"),
    survival("apst", IN_DRIVE, SEEN_ON_DRIVES, "drivers/nvme/host/pci.c"),
    survival("aspm", SYSTEM, &[], "drivers/pci/pcie/aspm.c"),
    survival("read-ahead", DISK_LIMIT, &[SupplyChange, DriveReset, HotPlug], "drivers/nvme/host/core.c"),
    survival("rq-affinity", KEPT_BY_DRIVE, &[Sleep, SupplyChange, DriveReset, HotPlug], ""),
    survival("irq-affinity", INTERRUPT, SEEN_ON_INTERRUPTS, "kernel/irq/cpuhotplug.c, drivers/nvme/host/pci.c"),
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
    fn effects_fit_the_part_of_the_machine_that_a_setting_belongs_to() {
        for row in SURVIVALS {
            let name = row.setting;
            let scope = wakepath_system::setting::find_setting(name).unwrap().scope;
            let is_drive = matches!(scope, SettingScope::Drive | SettingScope::Disk);
            let has_driver = is_drive || scope == SettingScope::Interrupt;
            assert_eq!(row.effect(DriveReset) != Elsewhere, has_driver, "{name}");
            assert_eq!(row.effect(CpuOffAndOn) == Elsewhere, is_drive, "{name}");
            assert_ne!(row.effect(Sleep), Elsewhere, "{name}");
            // Whatever belongs to a part of the machine goes with the part.
            assert!(
                scope == SettingScope::System || row.effect(HotPlug) == MayReset,
                "{name}"
            );
        }
    }

    #[test]
    fn each_effect_was_seen_or_has_a_source() {
        for row in SURVIVALS {
            for event in SurvivalEvent::ALL {
                let applies = row.effect(event) != Elsewhere;
                let is_known = row.is_seen_in_guest(event) || !row.source.is_empty();
                assert!(is_known || !applies, "{}: {}", row.setting, event.title());
                assert!(applies || !row.is_seen_in_guest(event), "{}", row.setting);
            }
        }
    }

    #[test]
    fn a_new_drive_or_cpu_has_lost_what_a_reset_keeps() {
        let root = Root::at_directory("/nonexistent");
        let may_reset = |event: &str, name: &str, at: At| {
            let setting = wakepath_system::setting::find_setting(name).unwrap();
            let event: ResetEvent = event.parse().unwrap();
            event.may_reset(&root, &SettingKey { setting, at })
        };
        let drive = || At::Drive("nvme1".to_owned());
        assert!(may_reset("nvme1", "drive-latency", drive()));
        assert!(!may_reset("nvme0", "drive-latency", drive()));
        assert!(!may_reset("resume", "drive-latency", drive()));
        assert!(may_reset("cpu3", "cpu-latency", At::Cpu(3)));
        assert!(!may_reset("cpu3", "idle-governor", At::System));
        assert!(!may_reset("interval", "apst", drive()));
    }

    #[test]
    fn events_are_read_from_words() {
        for (text, event) in [
            ("resume", ResetEvent::Resume),
            ("interval", ResetEvent::Interval),
            ("cpu12", ResetEvent::CpuOnline(12)),
            ("nvme0", ResetEvent::DriveReady("nvme0".to_owned())),
            ("nvme12n3", ResetEvent::DriveReady("nvme12".to_owned())),
            ("sda", ResetEvent::DriveReady("sda".to_owned())),
            ("xvdab", ResetEvent::DriveReady("xvdab".to_owned())),
            ("mmcblk0", ResetEvent::DriveReady("mmcblk0".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(event));
        }
        for text in [
            "",
            "cpu",
            "cpu-1",
            "nvme",
            "nvme0n",
            "nvmen1",
            "nvme0c1n1",
            "nvme0n1p1",
            "nvme0/../x",
            "sd",
            "sda1",
            "sdA",
            "mmcblk0p1",
            "mmcblk+5",
            "cpu+5",
            "nvme+0",
            "nvme0n+1",
            "mmcblk0boot0",
            "loop0",
        ] {
            let error = text.parse::<ResetEvent>().unwrap_err();
            assert!(error.contains("cpu1"), "{error}");
        }
    }
}
