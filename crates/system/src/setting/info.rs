//! What is known of each setting: scope, access, unit, values.

/// The kind of part that a setting belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SettingScope {
    /// The whole machine.
    System,
    /// Each CPU.
    Cpu,
    /// Each idle state of each CPU.
    IdleState,
    /// Each frequency policy: CPUs that share a clock.
    CpufreqPolicy,
    /// Each drive.
    Drive,
    /// Each disk: a block device of a drive.
    Disk,
    /// Each interrupt of a drive.
    Interrupt,
}

impl SettingScope {
    /// The scope's name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Cpu => "CPU",
            Self::IdleState => "idle state",
            Self::CpufreqPolicy => "policy",
            Self::Drive => "drive",
            Self::Disk => "disk",
            Self::Interrupt => "interrupt",
        }
    }
}

/// How a setting is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A text file of sysfs.
    Text,
    /// A device that holds a request for as long as it is open: four bytes, a signed number in the
    /// machine's byte order. The kernel takes the request back when the process ends, however it ends.
    Held,
    /// An NVMe feature of this number, by Get and Set Features.
    NvmeFeature(u8),
}

/// The values that a setting may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of the words in a file of this name, beside the setting's own.
    Listed(&'static str),
    /// One of the words in a file beside the setting's own, or a whole number up to this maximum.
    ListedOrUpTo(&'static str, u64),
    /// One of the words in the setting's own file, where the present one stands in brackets.
    Bracketed,
    /// A whole number from the first to the second, both included.
    Between(u64, u64),
    /// A whole number between the numbers in two files beside the setting's own.
    BetweenFiles(&'static str, &'static str),
    /// `N` or `Y`, or 0 or 1.
    YesNo,
    /// A resume latency limit: whole microseconds, 0 for no limit, `n/a` for no latency at all.
    ResumeLatency,
    /// A drive's latency tolerance: whole microseconds, `any`, or `auto` for the drive's default.
    Tolerance,
    /// CPUs such as `0-3,8`, at least one.
    CpuList,
    /// `on` or `off`, a colon, and the 256 bytes of the table in hexadecimal.
    ApstTable,
}

/// A setting.
#[derive(Debug)]
pub struct SettingInfo {
    /// Its name.
    pub name: &'static str,
    /// The kind of part that the setting belongs to.
    pub scope: SettingScope,
    /// Path of the setting, below the machine's root: `{n}` is the number of the CPU, policy or interrupt, or the drive's name,
    /// `{state}` the index of the idle state.
    pub path: &'static str,
    /// How the setting is read and written.
    pub mechanism: Access,
    /// The unit of the setting's numbers; empty if it has none.
    pub unit: &'static str,
    /// The values that the setting may have.
    pub values: Values,
    /// What it means.
    pub meaning: &'static str,
    /// Settings that the kernel changes along with this setting. Their old values are kept, too, and are written after
    /// this setting when it is put back.
    pub changes: &'static [&'static str],
    /// Whether the kernel takes a new value up in a work item, after the write has returned (`cpufreq_notifier_max()`,
    /// `drivers/cpufreq/cpufreq.c`).
    pub is_taken_up_later: bool,
}

impl SettingInfo {
    /// Absolute path of the setting at whatever place, with `*` for what differs between places.
    pub fn path_pattern(&self) -> String {
        format!("/{}", self.path.replace("{n}", "*").replace("{state}", "*"))
    }
}

impl PartialEq for SettingInfo {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SettingInfo {}
