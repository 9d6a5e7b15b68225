//! What a word on the kernel command line decides, as data: the word, its values, what it means, and where the running
//! kernel shows the value.
//!
//! Sources: `Documentation/admin-guide/kernel-parameters.txt` and the modules' parameters, Linux 6.12.

use wakepath_system::System;
use wakepath_units::spelling::suggestion_with_known_names;

use super::parts::{have_same_key, value_of};

/// Values that a word takes.
#[derive(Clone, Copy, Debug)]
enum WordValues {
    /// One of these.
    Named(&'static [&'static str]),
    /// Those of a module's switch; a bare word switches on, too.
    Switch,
    /// A whole number up to this one.
    UpTo(u32),
    /// Anything: the kernel knows the names.
    Any,
}

/// A setting that the kernel takes from its command line at boot.
#[derive(Debug)]
pub struct BootSetting {
    /// The word up to its `=`.
    pub key: &'static str,
    values: WordValues,
    /// Values that exclude each other, where words of other values act beside them. Empty: any two values exclude each other.
    alternatives: &'static [&'static [&'static str]],
    /// What the setting decides.
    pub meaning: &'static str,
    /// File below the root with the value of the running kernel; `None`: the kernel shows it nowhere.
    shown_in: Option<&'static str>,
}

/// Values of a kernel module's switch (`kstrtobool()`, `lib/kstrtox.c`).
const SWITCH_VALUES: &[&str] = &["Y", "N", "y", "n", "yes", "no", "on", "off", "1", "0"];

/// Values that switch a module's switch on.
const SWITCHED_ON: &[&str] = &["Y", "y", "yes", "on", "1"];

/// The mode of amd-pstate (`amd_pstate_param()`, `drivers/cpufreq/amd-pstate.c`).
pub static AMD_PSTATE: BootSetting = BootSetting {
    key: "amd_pstate",
    values: WordValues::Named(&["active", "passive", "guided", "disable"]),
    alternatives: &[],
    meaning: "the mode of the cpufreq driver amd-pstate",
    shown_in: Some("sys/devices/system/cpu/amd_pstate/status"),
};
/// The mode of `intel_pstate`, and HWP (`intel_pstate_setup()`, `drivers/cpufreq/intel_pstate.c`).
pub static INTEL_PSTATE: BootSetting = BootSetting {
    key: "intel_pstate",
    values: WordValues::Named(&[
        "active",
        "passive",
        "disable",
        "no_hwp",
        "hwp_only",
        "force",
        "support_acpi_ppc",
        "per_cpu_perf_limits",
        "no_cas",
    ]),
    alternatives: &[&["active", "passive", "disable"], &["no_hwp", "hwp_only"]],
    meaning: "the mode of the cpufreq driver intel_pstate; no_hwp: clocks are not left to the hardware",
    shown_in: Some("sys/devices/system/cpu/intel_pstate/status"),
};
/// The number of idle states of `intel_idle`.
pub static INTEL_IDLE_STATES: BootSetting = BootSetting {
    key: "intel_idle.max_cstate",
    values: WordValues::UpTo(9),
    alternatives: &[],
    meaning: "how many idle states intel_idle has; 0: the driver stays off, 9: all",
    shown_in: Some("sys/module/intel_idle/parameters/max_cstate"),
};
/// The number of idle states of ACPI: at most 8 (`ACPI_PROCESSOR_MAX_POWER`). 9 also overrides the kernel's list of machines that
/// have fewer (`set_max_cstate()`, `drivers/acpi/processor_idle.c`).
pub static ACPI_IDLE_STATES: BootSetting = BootSetting {
    key: "processor.max_cstate",
    values: WordValues::UpTo(9),
    alternatives: &[],
    meaning: "how many idle states of ACPI there are; 9: all",
    shown_in: Some("sys/module/processor/parameters/max_cstate"),
};
/// The driver of idle states for guests (`drivers/cpuidle/cpuidle-haltpoll.c`).
pub static HALTPOLL_DRIVER: BootSetting = BootSetting {
    key: "cpuidle_haltpoll.force",
    values: WordValues::Switch,
    alternatives: &[],
    meaning: "whether a guest has the idle driver haltpoll though its host does not advise it",
    shown_in: Some("sys/module/cpuidle_haltpoll/parameters/force"),
};
/// ASPM as a whole (`pcie_aspm_disable()`, `drivers/pci/pcie/aspm.c`).
pub static PCIE_ASPM: BootSetting = BootSetting {
    key: "pcie_aspm",
    values: WordValues::Named(&["off", "force"]),
    alternatives: &[],
    meaning: "whether the kernel leaves ASPM alone (off), or manages it though firmware or devices do not allow it (force, which may lock \
              the machine up)",
    shown_in: None,
};
/// Queues of NVMe drives without interrupts (`drivers/nvme/host/pci.c`).
pub static NVME_POLL_QUEUES: BootSetting = BootSetting {
    key: "nvme.poll_queues",
    values: WordValues::UpTo(8192),
    alternatives: &[],
    meaning: "how many queues of each NVMe drive are polled and not interrupted",
    shown_in: Some("sys/module/nvme/parameters/poll_queues"),
};

/// All settings of this kind.
pub static BOOT_SETTINGS: &[&BootSetting] = &[
    &AMD_PSTATE,
    &INTEL_PSTATE,
    &INTEL_IDLE_STATES,
    &ACPI_IDLE_STATES,
    &BootSetting {
        key: "cpuidle.governor",
        values: WordValues::Any,
        alternatives: &[],
        meaning: "the idle governor from the first moment of a boot on",
        shown_in: Some("sys/devices/system/cpu/cpuidle/current_governor"),
    },
    &HALTPOLL_DRIVER,
    &PCIE_ASPM,
    &BootSetting {
        key: "pcie_aspm.policy",
        values: WordValues::Named(&["default", "performance", "powersave", "powersupersave"]),
        alternatives: &[],
        meaning: "how eagerly PCIe links sleep, from the first moment of a boot on",
        shown_in: Some("sys/module/pcie_aspm/parameters/policy"),
    },
    &NVME_POLL_QUEUES,
    &BootSetting {
        key: "nvme_core.default_ps_max_latency_us",
        values: WordValues::UpTo(u32::MAX),
        alternatives: &[],
        meaning: "the longest exit latency in us of power states in APST tables, for drives that the boot finds; 0: no APST",
        shown_in: Some("sys/module/nvme_core/parameters/default_ps_max_latency_us"),
    },
];

impl BootSetting {
    /// The setting that a word decides, by the word up to its `=`; `None`: the word is for something else.
    pub fn for_key(key: &str) -> Option<&'static Self> {
        BOOT_SETTINGS.iter().copied().find(|known| known.key == key)
    }

    /// Checks the value of a word, if the word is known.
    ///
    /// # Errors
    /// The values that the kernel takes.
    pub(super) fn check_word(word: &str) -> Result<(), String> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let Some(known) = Self::for_key(key) else {
            return Ok(());
        };
        match known.values {
            WordValues::Named(names) if value.is_empty() => Err(format!(
                "{key} has no value; expected one of {}",
                names.join(", ")
            )),
            WordValues::Switch if !word.contains('=') => Ok(()),
            WordValues::Any if value.is_empty() => {
                Err(format!("{key} has no value; expected {key}=NAME"))
            }
            WordValues::Any => Ok(()),
            WordValues::UpTo(most) => match value.parse::<u32>() {
                Ok(number) if number <= most => Ok(()),
                _ => Err(format!(
                    "{key} is no `{value}`; expected a whole number from 0 to {most}"
                )),
            },
            WordValues::Named(names) => check_named_value(key, value, names),
            WordValues::Switch => check_named_value(key, value, SWITCH_VALUES),
        }
    }

    /// A value in the simplest form that means the same: a switch that is on, or has no value, is `Y`.
    pub(super) fn simplest_value<'a>(&self, value: Option<&'a str>) -> Option<&'a str> {
        match (self.values, value) {
            (WordValues::Switch, None) => Some("Y"),
            (WordValues::Switch, Some(value)) if SWITCHED_ON.contains(&value) => Some("Y"),
            (WordValues::Switch, Some(value)) if SWITCH_VALUES.contains(&value) => Some("N"),
            _ => value,
        }
    }

    /// Whether of two different values only one can hold.
    pub(super) fn are_alternatives(&self, one: Option<&str>, other: Option<&str>) -> bool {
        let both = [one, other].map(Option::unwrap_or_default);
        let mut groups = self.alternatives.iter();
        self.alternatives.is_empty()
            || groups.any(|group| both.iter().all(|value| group.contains(value)))
    }

    /// The way to a value, for the end of a message.
    pub fn advise_value(&self, value: &str) -> String {
        let Self { key, .. } = self;
        format!(
            "{key}={value} on the kernel command line; `wakepath apply --kernel-word {key}={value}` says how"
        )
    }

    /// The value on the running kernel's command line, the last one of several; `None`: the word is not on it.
    pub fn read_from_command_line(&self, system: &System) -> Option<String> {
        self.list_values_on_command_line(system).pop()
    }

    /// Whether the running kernel's command line has the word with this value. Where the kernel acts on every word of a key, an
    /// earlier one counts beside a later one: `pcie_aspm=off` cannot be taken back, and `intel_pstate` takes several words.
    pub fn is_on_command_line(&self, system: &System, value: &str) -> bool {
        let values = self.list_values_on_command_line(system);
        let wanted = self.simplest_value(Some(value));
        values
            .iter()
            .any(|known| self.simplest_value(Some(known)) == wanted)
    }

    fn list_values_on_command_line(&self, system: &System) -> Vec<String> {
        let line = (system.root())
            .read_text_if_readable("proc/cmdline")
            .unwrap_or_default();
        let words = line.split_ascii_whitespace();
        let own = words.filter(|word| have_same_key(word, self.key));
        let values = own.filter_map(|word| match self.values {
            WordValues::Switch => self.simplest_value(value_of(word)).map(str::to_owned),
            _ => value_of(word).map(str::to_owned),
        });
        values.collect()
    }

    /// The running kernel's value with its file; `None`: the kernel shows none.
    pub fn read_running_value(&self, system: &System) -> Option<(String, String)> {
        let file = self.shown_in?;
        let value = system.root().read_text_if_readable(file)?;
        Some((value, format!("/{file}")))
    }
}

fn check_named_value(key: &str, value: &str, names: &[&str]) -> Result<(), String> {
    if names.contains(&value) {
        return Ok(());
    }
    Err(format!(
        "{key} is no `{value}`{}",
        suggestion_with_known_names(value, names)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_the_kernel_does_not_take_are_refused_with_those_that_it_takes() {
        for (word, part) in [
            (
                "amd_pstate=actve",
                "did you mean `active`? Known: active, passive",
            ),
            (
                "amd_pstate",
                "amd_pstate has no value; expected one of active, passive",
            ),
            ("intel_pstate=off", "Known: active, passive, disable"),
            ("intel_idle.max_cstate=C1", "from 0 to 9"),
            ("processor.max_cstate=10", "from 0 to 9"),
            ("pcie_aspm=on", "Known: off, force"),
            ("pcie_aspm.policy=power", "did you mean `powersave`"),
            ("nvme.poll_queues=-1", "a whole number from 0"),
            (
                "nvme_core.default_ps_max_latency_us=5ms",
                "a whole number from 0",
            ),
            ("cpuidle.governor=", "expected cpuidle.governor=NAME"),
            ("cpuidle_haltpoll.force=maybe", "Known: Y, N"),
        ] {
            let refused = BootSetting::check_word(word).unwrap_err();
            assert!(refused.contains(part), "{word}: {refused}");
        }
    }

    #[test]
    fn every_setting_has_one_row_and_advises_words_that_it_takes() {
        for known in BOOT_SETTINGS {
            let rows = BOOT_SETTINGS.iter().filter(|row| row.key == known.key);
            assert_eq!(rows.count(), 1, "{}", known.key);
            let value = match known.values {
                WordValues::Named(names) => names[0].to_owned(),
                WordValues::Switch => SWITCH_VALUES[0].to_owned(),
                WordValues::UpTo(most) => most.to_string(),
                WordValues::Any => "menu".to_owned(),
            };
            let word = format!("{}={value}", known.key);
            BootSetting::check_word(&word).unwrap();
            let advice = known.advise_value(&value);
            assert!(advice.contains(&format!("`wakepath apply --kernel-word {word}`")));
        }
        // Words for something else are taken as they are.
        for other in ["nosmt", "isolcpus=2-3", "amd_pstate.shared_mem=1"] {
            BootSetting::check_word(other).unwrap();
        }
    }

    #[test]
    fn the_last_number_of_the_running_command_line_counts_and_every_word() {
        let folder = tempfile::tempdir().unwrap();
        let system = System::new(wakepath_system::Root::at_directory(folder.path()));
        assert_eq!(INTEL_IDLE_STATES.read_from_command_line(&system), None);
        assert!(!PCIE_ASPM.is_on_command_line(&system, "off"));
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        let text =
            "quiet intel_idle.max_cstate=2 pcie_aspm=off pcie_aspm=force intel_idle.max_cstate=4\n";
        std::fs::write(folder.path().join("proc/cmdline"), text).unwrap();
        let found = INTEL_IDLE_STATES.read_from_command_line(&system);
        assert_eq!(found.as_deref(), Some("4"));
        assert_eq!(ACPI_IDLE_STATES.read_from_command_line(&system), None);
        assert!(PCIE_ASPM.is_on_command_line(&system, "off"));
        assert!(!AMD_PSTATE.is_on_command_line(&system, "active"));
    }

    #[test]
    fn a_bare_switch_of_the_running_command_line_is_on() {
        let folder = tempfile::tempdir().unwrap();
        let system = System::new(wakepath_system::Root::at_directory(folder.path()));
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        for (line, is_on) in [
            ("quiet cpuidle_haltpoll.force", true),
            ("cpuidle-haltpoll.force=1 quiet", true),
            ("cpuidle_haltpoll.force=off", false),
            ("cpuidle_haltpoll.forced", false),
        ] {
            std::fs::write(folder.path().join("proc/cmdline"), line).unwrap();
            assert_eq!(
                HALTPOLL_DRIVER.is_on_command_line(&system, "Y"),
                is_on,
                "{line}"
            );
        }
        BootSetting::check_word("cpuidle_haltpoll.force").unwrap();
        let empty = BootSetting::check_word("cpuidle_haltpoll.force=").unwrap_err();
        assert!(empty.contains("Known: Y, N"), "{empty}");
    }
}
