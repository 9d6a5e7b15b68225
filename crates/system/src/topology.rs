//! Finds the parts of a machine: CPUs, idle states, frequency policies, drives.

use wakepath_hardware::idle::is_polling_state_name;
use wakepath_policies::psd::ceiling_just_above_c1;
use wakepath_units::{KernelVersion, Nanoseconds, cpus};

use crate::setting::SettingScope;
use crate::{At, Root, System, SystemFolder};

/// Name prefixes of block devices other than drives.
pub(crate) const VIRTUAL_DISK_PREFIXES: &[&str] = &["loop", "ram", "zram", "dm-", "md", "sr", "fd"];
/// The sysfs directory of the CPUs, below the machine's root.
pub const CPUS: &str = "sys/devices/system/cpu";

/// A CPU's idle state in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateInfo {
    /// Index of the state.
    pub index: usize,
    /// The driver's name for the state.
    pub name: String,
    /// Exit latency that the driver declares, in us.
    pub latency_us: u64,
    /// Declared target residency in us; where the kernel has no file of it, twice the exit latency.
    pub residency_us: u64,
    /// Whether the target residency is assumed.
    pub residency_assumed: bool,
    /// The state polls.
    pub polling: bool,
    /// Whether the driver has the state off by default.
    pub off_by_default: bool,
    /// Whether a user switched the state off.
    pub disabled: bool,
}

impl StateInfo {
    /// Declared exit latency.
    pub const fn exit_latency(&self) -> Nanoseconds {
        Nanoseconds::from_micros(self.latency_us)
    }
}

/// Finds a state by name, ignoring case.
///
/// # Errors
/// No such state; the message lists the existing ones.
pub fn find_state_by_name<'a>(
    states: &'a [StateInfo],
    state_name: &str,
) -> Result<&'a StateInfo, String> {
    let found = states
        .iter()
        .find(|s| s.name.eq_ignore_ascii_case(state_name));
    found.ok_or_else(|| {
        let known: Vec<String> = states
            .iter()
            .map(|s| format!("{} ({} us)", s.name, s.latency_us))
            .collect();
        format!(
            "no idle state '{state_name}'; this machine has {}",
            known.join(", ")
        )
    })
}

/// A latency limit just above C1 and C1E ([`ceiling_just_above_c1`]); `None` if no state sleeps.
pub fn latency_just_above_c1<'a>(
    states: impl Iterator<Item = &'a StateInfo> + Clone,
) -> Option<Nanoseconds> {
    ceiling_just_above_c1(states.filter(|s| !s.polling).map(StateInfo::exit_latency))
}

impl System {
    /// The running kernel's release, as `uname -r` prints it.
    pub fn read_kernel_release(&self) -> Option<String> {
        self.root()
            .read_text_if_readable("proc/sys/kernel/osrelease")
    }

    /// The running kernel's version, or the nearest whose policies are known ([`KernelVersion::nearest_supported`]); 6.12 if the
    /// machine does not tell.
    pub fn nearest_kernel_version(&self) -> KernelVersion {
        let release = self.read_kernel_release().unwrap_or_default();
        KernelVersion::nearest_supported(&release).unwrap_or(KernelVersion::V6_12)
    }

    /// Numbers of online CPUs.
    pub fn cpus(&self) -> Vec<usize> {
        let list = self.root().read_text_if_readable(&format!("{CPUS}/online"));
        let mut present = self.root().list_entry_numbers(CPUS, "cpu");
        if let Some(online) = list.as_deref().and_then(cpus::parse_cpu_list) {
            present.retain(|cpu| online.contains(cpu));
        }
        present
    }

    /// Online threads of a CPU's core, the CPU included; the CPU alone where the machine does not tell.
    pub fn cpus_of_same_core(&self, cpu: usize) -> Vec<usize> {
        let topology = self.root().folder(format!("{CPUS}/cpu{cpu}/topology"));
        // Kernels before 5.3 have the second name alone.
        let lists = ["core_cpus_list", "thread_siblings_list"];
        let mut known = lists
            .into_iter()
            .filter_map(|list| cpus::parse_cpu_list(&topology.read_text_if_readable(list)?))
            .filter(|siblings| siblings.contains(&cpu));
        known.next().unwrap_or_else(|| vec![cpu])
    }

    /// The idle governor in use. Kernels up to 5.7, and those booted without `cpuidle_sysfs_switch`, have it in a
    /// read-only file of another name.
    pub fn read_idle_governor(&self) -> Option<String> {
        let cpuidle = self.root().folder(format!("{CPUS}/cpuidle"));
        cpuidle
            .read_text_if_readable("current_governor")
            .or_else(|| cpuidle.read_text_if_readable("current_governor_ro"))
    }

    /// The idle states of a CPU, shallowest first; empty without cpuidle.
    pub fn read_idle_states(&self, cpu: usize) -> Vec<StateInfo> {
        let directory = format!("{CPUS}/cpu{cpu}/cpuidle");
        let states = self.root().list_entry_numbers(&directory, "state");
        states
            .into_iter()
            .filter_map(|index| {
                let folder = self.root().folder(format!("{directory}/state{index}"));
                read_idle_state(&folder, index)
            })
            .collect()
    }

    /// Frequency policies, by their first CPU. Policies with only offline CPUs are left out: the kernel keeps the
    /// directory and refuses access to its files (`policy_is_inactive()`, `drivers/cpufreq/cpufreq.c`).
    pub fn active_cpufreq_policies(&self) -> Vec<usize> {
        let mut policies = self
            .root()
            .list_entry_numbers(&format!("{CPUS}/cpufreq"), "policy");
        policies.retain(|policy| {
            let cpus = format!("{CPUS}/cpufreq/policy{policy}/affected_cpus");
            !self.root().exists(&cpus)
                || self
                    .root()
                    .read_text_if_readable(&cpus)
                    .is_some_and(|c| !c.is_empty())
        });
        policies
    }

    /// The CPUs in a frequency policy.
    pub fn online_cpus_of_cpufreq_policy(&self, policy: usize) -> Vec<usize> {
        let list = format!("{CPUS}/cpufreq/policy{policy}/affected_cpus");
        let text = self.root().read_text_if_readable(&list).unwrap_or_default();
        text.split_whitespace()
            .filter_map(|cpu| cpu.parse().ok())
            .collect()
    }

    /// Names of the NVMe controllers, such as `nvme0`.
    pub fn nvme_controller_names(&self) -> Vec<String> {
        let numbers = self.root().list_entry_numbers("sys/class/nvme", "nvme");
        numbers.into_iter().map(|n| format!("nvme{n}")).collect()
    }

    /// Names of the block devices that are drives, NVMe first.
    pub fn drive_block_devices(&self) -> Vec<String> {
        let mut disks = self.root().list_names("sys/block");
        disks.retain(|name| {
            !VIRTUAL_DISK_PREFIXES
                .iter()
                .any(|head| name.starts_with(head))
        });
        disks.sort_by_key(|name| !name.starts_with("nvme"));
        disks
    }

    /// Controller for a namespace: `nvme0` for `nvme0n1`.
    pub fn controller_of_namespace(&self, disk: &str) -> Option<String> {
        let mut drives = self.nvme_controller_names().into_iter();
        drives.find(|drive| is_namespace_of_drive(disk, drive))
    }

    /// The interrupts of drives, in the order of `/proc/interrupts`.
    pub fn read_drive_interrupts(&self) -> Vec<DriveInterrupt> {
        let table = self.root().read_text_if_readable("proc/interrupts");
        let table = table.unwrap_or_default();
        table.lines().filter_map(parse_drive_interrupt).collect()
    }

    /// All parts of the machine that settings of a scope belong to.
    pub fn places_in_scope(&self, scope: SettingScope) -> Vec<At> {
        match scope {
            SettingScope::System => vec![At::System],
            SettingScope::Cpu => self.cpus().into_iter().map(At::Cpu).collect(),
            SettingScope::CpufreqPolicy => self
                .active_cpufreq_policies()
                .into_iter()
                .map(At::CpufreqPolicy)
                .collect(),
            SettingScope::Drive => self
                .nvme_controller_names()
                .into_iter()
                .map(At::Drive)
                .collect(),
            SettingScope::Disk => self
                .drive_block_devices()
                .into_iter()
                .map(At::Disk)
                .collect(),
            SettingScope::Interrupt => {
                let all = self.read_drive_interrupts().into_iter();
                all.map(|interrupt| At::Interrupt(interrupt.number))
                    .collect()
            }
            SettingScope::IdleState => self
                .cpus()
                .into_iter()
                .flat_map(|cpu| {
                    let states = self.read_idle_states(cpu).into_iter();
                    states.map(move |s| At::IdleState {
                        cpu,
                        state: s.index,
                    })
                })
                .collect(),
        }
    }
}

/// An interrupt of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveInterrupt {
    /// Its number.
    pub number: u32,
    /// The driver's name for it, such as `nvme0q1` or `ahci[0000:00:17.0]`.
    pub name: String,
}

/// Beginnings of the names that drivers of drives and their controllers give to interrupts (`request_irq()` in `drivers/ata`,
/// `drivers/mmc`, `drivers/nvme`, `drivers/scsi`, Linux 6.12).
const DRIVE_INTERRUPTS: [&str; 11] = [
    "nvme", "ahci", "ata_", "sata", "mmc", "ufshcd", "megasas", "mpt2sas", "mpt3sas", "hpsa",
    "smartpqi",
];

/// Parses a line of `/proc/interrupts`; `None` unless it is of a drive.
fn parse_drive_interrupt(line: &str) -> Option<DriveInterrupt> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim().parse().ok()?;
    let mut names = rest
        .split_whitespace()
        .map(|word| word.trim_end_matches(','));
    let name = names.find(|name| {
        let mut known = DRIVE_INTERRUPTS.iter();
        known.any(|start| name.starts_with(start)) || is_virtio_queue(name)
    })?;
    Some(DriveInterrupt {
        number,
        name: name.to_owned(),
    })
}

/// Whether an interrupt's name is that of a request queue of a virtio disk, such as `virtio0-req.0`.
fn is_virtio_queue(name: &str) -> bool {
    name.starts_with("virtio") && name.contains("-req")
}

impl DriveInterrupt {
    /// Whether the interrupt is that of a request queue of a virtio disk, which shares it with no other queue.
    pub fn is_virtio_queue(&self) -> bool {
        is_virtio_queue(&self.name)
    }

    /// The NVMe controller that the interrupt belongs to, such as `nvme0`.
    pub fn nvme_controller(&self) -> Option<&str> {
        let (controller, _) = self.name.strip_prefix("nvme")?.split_once('q')?;
        self.name.get(.."nvme".len() + controller.len())
    }

    /// Number of the NVMe queue; queue 0 has a controller's own commands, and all I/O where there is no other.
    pub fn nvme_queue(&self) -> Option<u32> {
        let (_, queue) = self.name.strip_prefix("nvme")?.split_once('q')?;
        queue.parse().ok()
    }
}

/// Whether a block device is a namespace of a drive, as `nvme0n1` is of `nvme0`.
pub fn is_namespace_of_drive(disk: &str, drive: &str) -> bool {
    let rest = disk.strip_prefix(drive);
    rest.and_then(|rest| rest.strip_prefix('n'))
        .is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

/// Folders between a disk and the device whose interrupts it has: host, target and logical unit of SCSI, and a port of ATA.
const FOLDERS_TO_CONTROLLER: usize = 6;

/// Whether an interrupt is that of a drive's controller. A drive is an NVMe controller such as `nvme0`, or another disk such as
/// `sda`.
pub fn is_interrupt_of_drive(root: &Root, number: u32, drive: &str) -> bool {
    let class = if drive.starts_with("nvme") {
        "sys/class/nvme"
    } else {
        "sys/block"
    };
    let device = format!("{class}/{drive}/device");
    (0..=FOLDERS_TO_CONTROLLER).any(|above| {
        let folder = format!("{device}{}", "/..".repeat(above));
        root.exists(&format!("{folder}/msi_irqs/{number}"))
            || root.read_number_if_readable(&format!("{folder}/irq")) == Some(u64::from(number))
    })
}

/// Reads an idle state of a CPU; `None` without name or latency.
fn read_idle_state(folder: &SystemFolder<'_>, index: usize) -> Option<StateInfo> {
    let name = folder.read_text_if_readable("name")?;
    let latency_us = folder.read_number_if_readable("latency")?;
    let told = folder.read_number_if_readable("residency");
    Some(StateInfo {
        index,
        latency_us,
        // Old kernels, including phones', lack the file of the target residency. acpi_idle uses this factor
        // (`latency_factor`, `drivers/acpi/processor_idle.c`).
        residency_us: told.unwrap_or(latency_us.saturating_mul(2)),
        residency_assumed: told.is_none(),
        polling: is_polling_state_name(&name),
        off_by_default: folder.read_text_if_readable("default_status").as_deref()
            == Some("disabled"),
        disabled: folder
            .read_text_if_readable("disable")
            .is_some_and(|text| text != "0"),
        name,
    })
}
