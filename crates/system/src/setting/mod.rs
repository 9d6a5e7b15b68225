//! Every setting as data: name, scope, path, unit, possible values, and settings that change along with it.

mod info;
mod value;

pub use info::{Access, SettingInfo, SettingScope, Values};
pub(crate) use value::word_in_brackets;
pub use value::{
    NO_LATENCY_LIMIT_US, NO_SYSTEM_LATENCY_LIMIT_US, format_resume_latency, have_same_meaning,
    parse_resume_limit_us,
};

const CPUIDLE: &str = "sys/devices/system/cpu/cpuidle/current_governor";
const HALTPOLL: &str = "sys/module/haltpoll/parameters/";

const fn text_file_setting(
    name: &'static str,
    scope: SettingScope,
    path: &'static str,
    values: Values,
    unit: &'static str,
    meaning: &'static str,
) -> SettingInfo {
    SettingInfo {
        name,
        scope,
        path,
        mechanism: Access::Text,
        unit,
        values,
        meaning,
        changes: &[],
        is_taken_up_later: false,
    }
}

const U32: Values = Values::Between(0, u32::MAX as u64);

/// All settings, in the order in which they are written: a setting that changes others comes before them.
#[rustfmt::skip]
pub static SETTINGS: &[SettingInfo] = &[
    text_file_setting("idle-governor", SettingScope::System, CPUIDLE,
        Values::Listed("available_governors"), "", "which governor picks idle states"),
    text_file_setting("haltpoll-max", SettingScope::System, "sys/module/haltpoll/parameters/guest_halt_poll_ns",
        U32, "ns", "the longest time that haltpoll polls"),
    text_file_setting("haltpoll-shrink", SettingScope::System, "sys/module/haltpoll/parameters/guest_halt_poll_shrink",
        U32, "", "what haltpoll's time to poll is divided by after a long halt"),
    text_file_setting("haltpoll-grow", SettingScope::System, "sys/module/haltpoll/parameters/guest_halt_poll_grow",
        U32, "", "what haltpoll's time to poll is multiplied with after a short halt"),
    text_file_setting("haltpoll-start", SettingScope::System, "sys/module/haltpoll/parameters/guest_halt_poll_grow_start",
        U32, "ns", "the shortest time to poll that haltpoll grows from"),
    text_file_setting("haltpoll-may-shrink", SettingScope::System, "sys/module/haltpoll/parameters/guest_halt_poll_allow_shrink",
        Values::YesNo, "", "whether haltpoll's time to poll may shrink"),
    text_file_setting("idle-state-off", SettingScope::IdleState, "sys/devices/system/cpu/cpu{n}/cpuidle/state{state}/disable",
        Values::Between(0, 1), "", "1: no governor may pick this idle state"),
    SettingInfo {
        mechanism: Access::Held,
        ..text_file_setting("system-latency", SettingScope::System, "dev/cpu_dma_latency",
            Values::Between(0, NO_SYSTEM_LATENCY_LIMIT_US), "us",
            "no CPU enters an idle state with a longer exit latency, while a process holds the request")
    },
    SettingInfo {
        mechanism: Access::Held,
        ..text_file_setting("wakeup-latency", SettingScope::System, "dev/cpu_wakeup_latency",
            Values::Between(0, NO_LATENCY_LIMIT_US), "us",
            "during suspend-to-idle no CPU enters an idle state with a longer exit latency, while a process holds the request")
    },
    text_file_setting("c1-demotion", SettingScope::System, "sys/devices/system/cpu/cpuidle/intel_c1_demotion",
        Values::Between(0, 1), "", "1: the firmware answers requests for deep idle states with C1 while wake-ups are frequent"),
    text_file_setting("cpu-latency", SettingScope::Cpu, "sys/devices/system/cpu/cpu{n}/power/pm_qos_resume_latency_us",
        Values::ResumeLatency, "us", "this CPU enters no idle state with a longer exit latency"),
    text_file_setting("psd-ceiling", SettingScope::System, "sys/module/wakepath_psd/parameters/ceiling_us",
        Values::Between(0, NO_LATENCY_LIMIT_US - 1), "us", "the exit latency that the kernel module's leases allow"),
    text_file_setting("psd-timeout", SettingScope::System, "sys/module/wakepath_psd/parameters/timeout_ms",
        U32, "ms", "how long the kernel module's leases outlast the last I/O; 0: no leases"),
    SettingInfo {
        changes: &["epp"],
        ..text_file_setting("frequency-governor", SettingScope::CpufreqPolicy, "sys/devices/system/cpu/cpufreq/policy{n}/scaling_governor",
            Values::Listed("scaling_available_governors"), "", "which governor picks frequencies")
    },
    SettingInfo {
        changes: &["frequency-max"],
        ..text_file_setting("frequency-boost", SettingScope::CpufreqPolicy, "sys/devices/system/cpu/cpufreq/policy{n}/boost",
            Values::Between(0, 1), "", "1: frequencies above the nominal one may be used")
    },
    text_file_setting("no-turbo", SettingScope::System, "sys/devices/system/cpu/intel_pstate/no_turbo",
        Values::Between(0, 1), "", "1: no clocks above the base clock (intel_pstate)"),
    text_file_setting("boost", SettingScope::System, "sys/devices/system/cpu/cpufreq/boost",
        Values::Between(0, 1), "", "1: clocks above the base clock may be used (other drivers)"),
    SettingInfo {
        is_taken_up_later: true,
        ..text_file_setting("frequency-min", SettingScope::CpufreqPolicy, "sys/devices/system/cpu/cpufreq/policy{n}/scaling_min_freq",
            Values::BetweenFiles("cpuinfo_min_freq", "cpuinfo_max_freq"), "kHz", "the lowest frequency to use")
    },
    SettingInfo {
        is_taken_up_later: true,
        ..text_file_setting("frequency-max", SettingScope::CpufreqPolicy, "sys/devices/system/cpu/cpufreq/policy{n}/scaling_max_freq",
            Values::BetweenFiles("cpuinfo_min_freq", "cpuinfo_max_freq"), "kHz", "the highest frequency to use")
    },
    text_file_setting("epp", SettingScope::CpufreqPolicy, "sys/devices/system/cpu/cpufreq/policy{n}/energy_performance_preference",
        Values::ListedOrUpTo("energy_performance_available_preferences", 255), "",
        "energy-performance preference of the hardware: 0 performance, 255 power"),
    text_file_setting("hwp-dynamic-boost", SettingScope::System, "sys/devices/system/cpu/intel_pstate/hwp_dynamic_boost",
        Values::Between(0, 1), "", "1: wake-ups from I/O wait raise the minimum performance"),
    SettingInfo {
        changes: &["apst"],
        ..text_file_setting("drive-latency", SettingScope::Drive, "sys/class/nvme/{n}/power/pm_qos_latency_tolerance_us",
            Values::Tolerance, "us", "the exit latency that the kernel's APST table may use")
    },
    SettingInfo {
        mechanism: Access::NvmeFeature(0x0c),
        ..text_file_setting("apst", SettingScope::Drive, "dev/{n}", Values::ApstTable, "",
            "which power states the drive enters by itself, and after how long")
    },
    text_file_setting("aspm", SettingScope::System, "sys/module/pcie_aspm/parameters/policy",
        Values::Bracketed, "", "how eagerly PCIe links sleep"),
    text_file_setting("read-ahead", SettingScope::Disk, "sys/block/{n}/queue/read_ahead_kb",
        Values::Between(0, 1 << 20), "KiB", "how far the kernel reads ahead of sequential readers"),
    text_file_setting("rq-affinity", SettingScope::Disk, "sys/block/{n}/queue/rq_affinity",
        Values::Between(0, 2), "", "which CPU completes requests"),
    text_file_setting("irq-affinity", SettingScope::Interrupt, "proc/irq/{n}/smp_affinity_list",
        Values::CpuList, "", "which CPUs an interrupt of a drive may go to"),
];

/// Finds a setting by its name.
pub fn find_setting(name: &str) -> Option<&'static SettingInfo> {
    SETTINGS.iter().find(|s| s.name == name)
}

/// The setting of a name that is known to exist; the first one otherwise, which a test excludes.
pub fn setting_known_to_exist(name: &str) -> &'static SettingInfo {
    find_setting(name).unwrap_or(&SETTINGS[0])
}

impl SettingInfo {
    /// The setting's place in the order of writing.
    pub fn writing_order(&self) -> usize {
        SETTINGS.iter().position(|s| s == self).unwrap_or(0)
    }

    /// Finds a parameter of haltpoll as a setting, by the name that policies and the kernel use.
    pub fn find_haltpoll_parameter(parameter: &str) -> Option<&'static Self> {
        SETTINGS
            .iter()
            .find(|info| info.path.strip_prefix(HALTPOLL) == Some(parameter))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_what_changes_others_comes_before_them() {
        for (i, setting) in SETTINGS.iter().enumerate() {
            assert_eq!(setting.writing_order(), i, "{}", setting.name);
            for other in setting.changes {
                assert!(
                    setting_known_to_exist(other).writing_order() > i,
                    "{} before {other}",
                    setting.name
                );
                assert_eq!(setting_known_to_exist(other).scope, setting.scope);
                assert_eq!(setting_known_to_exist(other).name, *other);
            }
        }
    }

    #[test]
    fn no_setting_reaches_thermal_or_critical_limits() {
        // What can be expressed is this list; a new entry has to be looked at here.
        for setting in SETTINGS {
            for word in ["thermal", "trip", "crit", "watchdog", "powercap", "hwmon"] {
                assert!(!setting.path.contains(word), "{}", setting.path);
            }
        }
    }
}
