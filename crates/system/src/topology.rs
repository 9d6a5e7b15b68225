//! Parts of a machine: CPUs, idle states, frequency policies, drives.

use wakepath_hardware::idle::is_polling;
use wakepath_policies::psd::ceiling_just_above_c1;
use wakepath_units::{KernelVersion, Nanoseconds, cpus};

use crate::setting::SettingScope;
use crate::{At, System, SystemFolder};

/// Name prefixes of block devices other than drives.
pub(crate) const VIRTUAL_DISK_PREFIXES: &[&str] = &["loop", "ram", "zram", "dm-", "md", "sr", "fd"];
/// The directory of the CPUs, below the root.
pub const CPUS: &str = "sys/devices/system/cpu";

/// A CPU's idle state in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateInfo {
    /// Index of the state.
    pub index: usize,
    /// The driver's name for the state.
    pub name: String,
    /// Declared exit latency in us.
    pub latency_us: u64,
    /// Declared target residency in us; where the kernel has no file of it, twice the exit latency.
    pub residency_us: u64,
    /// The residency is assumed.
    pub residency_assumed: bool,
    /// The state polls.
    pub polling: bool,
    /// The driver has it off by default.
    pub off_by_default: bool,
    /// A user switched the state off.
    pub disabled: bool,
}

impl StateInfo {
    /// Declared exit latency.
    pub const fn latency(&self) -> Nanoseconds {
        Nanoseconds::from_micros(self.latency_us)
    }
}

/// Finds a state by name, ignoring case.
///
/// # Errors
/// No such state; the message lists the existing ones.
pub fn find_state<'a>(states: &'a [StateInfo], name: &str) -> Result<&'a StateInfo, String> {
    let found = states.iter().find(|s| s.name.eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        let known: Vec<String> = states
            .iter()
            .map(|s| format!("{} ({} us)", s.name, s.latency_us))
            .collect();
        format!(
            "no idle state '{name}'; this machine has {}",
            known.join(", ")
        )
    })
}

/// The latency just above C1 and C1E ([`auto_ceiling`]); `None` if no state sleeps.
pub fn shallow_ceiling<'a>(
    states: impl Iterator<Item = &'a StateInfo> + Clone,
) -> Option<Nanoseconds> {
    ceiling_just_above_c1(states.filter(|s| !s.polling).map(StateInfo::latency))
}

impl System {
    /// The running kernel's release, as `uname -r` prints it.
    pub fn kernel_release(&self) -> Option<String> {
        self.root().optional("proc/sys/kernel/osrelease")
    }

    /// The running kernel, or the nearest whose policies are known ([`KernelVersion::nearest_supported`]); 6.12 if it does not say.
    pub fn kernel_version(&self) -> KernelVersion {
        let release = self.kernel_release().unwrap_or_default();
        KernelVersion::nearest_supported(&release).unwrap_or(KernelVersion::V6_12)
    }

    /// Numbers of online CPUs.
    pub fn cpus(&self) -> Vec<usize> {
        let list = self.root().optional(&format!("{CPUS}/online"));
        let mut present = self.root().numbered(CPUS, "cpu");
        if let Some(online) = list.as_deref().and_then(cpus::parse_cpu_list) {
            present.retain(|cpu| online.contains(cpu));
        }
        present
    }

    /// The idle governor that runs. Kernels up to 5.7, and those booted without `cpuidle_sysfs_switch`, only have the file that
    /// nobody can write.
    pub fn idle_governor(&self) -> Option<String> {
        let cpuidle = self.root().folder(format!("{CPUS}/cpuidle"));
        cpuidle
            .optional("current_governor")
            .or_else(|| cpuidle.optional("current_governor_ro"))
    }

    /// The idle states of a CPU, shallowest first; empty without cpuidle.
    pub fn idle_states(&self, cpu: usize) -> Vec<StateInfo> {
        let directory = format!("{CPUS}/cpu{cpu}/cpuidle");
        let states = self.root().numbered(&directory, "state");
        states
            .into_iter()
            .filter_map(|index| {
                let folder = self.root().folder(format!("{directory}/state{index}"));
                read_state(&folder, index)
            })
            .collect()
    }

    /// Frequency policies, by their first CPU. Policies with only offline CPUs are left out: the kernel keeps the
    /// directory and refuses access to its files (`policy_is_inactive()`, `drivers/cpufreq/cpufreq.c`).
    pub fn cpufreq_policies(&self) -> Vec<usize> {
        let mut policies = self.root().numbered(&format!("{CPUS}/cpufreq"), "policy");
        policies.retain(|policy| {
            let cpus = format!("{CPUS}/cpufreq/policy{policy}/affected_cpus");
            !self.root().exists(&cpus) || self.root().optional(&cpus).is_some_and(|c| !c.is_empty())
        });
        policies
    }

    /// CPUs in a frequency policy.
    pub fn policy_cpus(&self, policy: usize) -> Vec<usize> {
        let list = format!("{CPUS}/cpufreq/policy{policy}/affected_cpus");
        let text = self.root().optional(&list).unwrap_or_default();
        text.split_whitespace()
            .filter_map(|cpu| cpu.parse().ok())
            .collect()
    }

    /// The NVMe controllers by name.
    pub fn drives(&self) -> Vec<String> {
        let numbers = self.root().numbered("sys/class/nvme", "nvme");
        numbers.into_iter().map(|n| format!("nvme{n}")).collect()
    }

    /// Block devices that are drives, NVMe first.
    pub fn disks(&self) -> Vec<String> {
        let mut disks = self.root().names("sys/block");
        disks.retain(|name| {
            !VIRTUAL_DISK_PREFIXES
                .iter()
                .any(|head| name.starts_with(head))
        });
        disks.sort_by_key(|name| !name.starts_with("nvme"));
        disks
    }

    /// Controller for a namespace: `nvme0` for `nvme0n1`.
    pub fn controller(&self, disk: &str) -> Option<String> {
        let mut drives = self.drives().into_iter();
        drives.find(|drive| is_namespace(disk, drive))
    }

    /// All places in a scope.
    pub fn places(&self, scope: SettingScope) -> Vec<At> {
        match scope {
            SettingScope::System => vec![At::System],
            SettingScope::Cpu => self.cpus().into_iter().map(At::Cpu).collect(),
            SettingScope::CpufreqPolicy => self
                .cpufreq_policies()
                .into_iter()
                .map(At::CpufreqPolicy)
                .collect(),
            SettingScope::Drive => self.drives().into_iter().map(At::Drive).collect(),
            SettingScope::IdleState => self
                .cpus()
                .into_iter()
                .flat_map(|cpu| {
                    let states = self.idle_states(cpu).into_iter();
                    states.map(move |s| At::IdleState {
                        cpu,
                        state: s.index,
                    })
                })
                .collect(),
        }
    }
}

/// Whether a block device is a namespace of a drive, as `nvme0n1` is of `nvme0`.
fn is_namespace(disk: &str, drive: &str) -> bool {
    let rest = disk.strip_prefix(drive);
    rest.and_then(|rest| rest.strip_prefix('n'))
        .is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

/// Reads an idle state; `None` without name or latency.
fn read_state(folder: &SystemFolder<'_>, index: usize) -> Option<StateInfo> {
    let name = folder.optional("name")?;
    let latency_us = folder.number("latency")?;
    let told = folder.number("residency");
    Some(StateInfo {
        index,
        latency_us,
        // Old kernels, including phones', lack the file. acpi_idle uses this factor (`latency_factor`,
        // `drivers/acpi/processor_idle.c`).
        residency_us: told.unwrap_or(latency_us.saturating_mul(2)),
        residency_assumed: told.is_none(),
        polling: is_polling(&name),
        off_by_default: folder.optional("default_status").as_deref() == Some("disabled"),
        disabled: folder.optional("disable").is_some_and(|text| text != "0"),
        name,
    })
}
