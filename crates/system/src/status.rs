//! Activity of CPUs and drives: idle states, latency limits, frequencies, I/O rates, power states.
//!
//! A [`StatusSample`] has the kernel's counters at a moment; [`Status`] has the activity between two samples.

use serde::{Serialize, Serializer};

use crate::CPUS;
use crate::counters::{StateCount, is_more_than_entries};
use crate::nvme::{self, ApstFeature};
use crate::setting::parse_resume_limit_us;
use crate::{SettingKey, System, journal};

/// Size of the sectors in block statistics in bytes, whatever the drive's own (`Documentation/block/stat.rst`).
const SECTOR: u64 = 512;
/// Identifier of the NVMe feature Power Management: bits 4:0 of dword 0 are the power state (NVMe Base Specification,
/// Feature 02h).
const POWER_MANAGEMENT: u8 = 0x02;

/// A machine's counters at a moment; all 0 stands for boot.
#[derive(Clone, Debug, Default)]
pub struct StatusSample {
    cpus: Vec<(usize, Vec<StateCount>)>,
    disks: Vec<(String, DiskCount)>,
}

/// Counters of a block device since boot.
#[derive(Clone, Copy, Debug, Default)]
struct DiskCount {
    reads: u64,
    read_sectors: u64,
    read_ms: u64,
    writes: u64,
    written_sectors: u64,
}

/// What CPUs and drives did in a span of time, and the settings in force.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// Length of the span in seconds; `None`: the time since the start is not known.
    pub seconds: Option<f64>,
    /// The idle governor, and the driver of idle states.
    pub governor: String,
    /// The latency limit on `/dev/cpu_dma_latency` in us; `None`: not readable.
    pub system_latency_us: Option<u64>,
    /// Whether wakepath has changed settings that wait for a restore; `None`: only root can see that.
    pub applied: Option<bool>,
    /// Process with the right to change settings, such as a running daemon; 0: a process with unknown number.
    pub holder: Option<u32>,
    /// Online CPUs.
    pub cpus: Vec<CpuStatus>,
    /// The drives.
    pub drives: Vec<DriveStatus>,
}

/// A CPU.
#[derive(Clone, Debug, Serialize)]
pub struct CpuStatus {
    /// Number of the CPU.
    pub cpu: usize,
    /// The CPU's latency limit as the kernel writes it: us, 0 for none, n/a for no latency at all. JSON has a number of
    /// us, and null for none.
    #[serde(serialize_with = "serialize_limit_us")]
    pub latency_limit: Option<String>,
    /// Whether the CPU's latency limit is a lease of `wakepath daemon`; `None`: the journal cannot be read, which needs
    /// root.
    pub lease: Option<bool>,
    /// The CPU's present frequency in kHz.
    pub khz: Option<u64>,
    /// The CPU's idle states, shallowest first.
    pub states: Vec<StateStatus>,
}

#[expect(clippy::ref_option, reason = "as serde calls it")]
fn serialize_limit_us<S: Serializer>(
    limit: &Option<String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    limit
        .as_deref()
        .and_then(parse_resume_limit_us)
        .serialize(serializer)
}

/// What a CPU did in an idle state during the span.
#[derive(Clone, Debug, Serialize)]
pub struct StateStatus {
    /// The driver's name for the state.
    pub name: String,
    /// Whether the idle state is switched off.
    pub disabled: bool,
    /// Share of the span that the CPU spent in the state, 0 to 1; like all rates `None` if the span is not known. The
    /// kernel counts an idle period when it ends.
    pub share: Option<f64>,
    /// Entries per second.
    pub entries_per_s: Option<f64>,
    /// Idle periods per second that were too short for the state.
    pub too_deep_per_s: Option<f64>,
    /// Idle periods per second that were long enough for a deeper state.
    pub too_shallow_per_s: Option<f64>,
}

/// A drive.
#[derive(Clone, Debug, Serialize)]
pub struct DriveStatus {
    /// Name of the block device.
    pub name: String,
    /// Reads per second.
    pub reads_per_s: Option<f64>,
    /// The drive's read rate in 10^6 bytes per second.
    pub read_mb_per_s: Option<f64>,
    /// Mean time per read in us; `None` without reads in the span.
    pub read_us: Option<f64>,
    /// Writes per second.
    pub writes_per_s: Option<f64>,
    /// The drive's write rate in 10^6 bytes per second.
    pub write_mb_per_s: Option<f64>,
    /// The drive's latency tolerance as the kernel writes it.
    pub latency_tolerance: Option<String>,
    /// Whether the drive's APST is on; `None`: not readable, or not asked for.
    pub apst: Option<bool>,
    /// The power state that the drive reports; `None`: not readable, or not asked for.
    pub power_state: Option<u8>,
}

impl StatusSample {
    /// Reads the counters.
    pub fn take_now(system: &System) -> Self {
        Self {
            cpus: system
                .cpus()
                .into_iter()
                .map(|cpu| (cpu, system.read_idle_counts(cpu)))
                .collect(),
            disks: system
                .drive_block_devices()
                .into_iter()
                .filter_map(|disk| {
                    let count = read_disk_counters(system, &disk)?;
                    Some((disk, count))
                })
                .collect(),
        }
    }

    fn find_state_count(&self, cpu: usize, state_name: &str) -> Option<&StateCount> {
        let (_, states) = self.cpus.iter().find(|(number, _)| *number == cpu)?;
        states.iter().find(|s| s.state.name == state_name)
    }

    fn disk_count_or_zero(&self, disk_name: &str) -> DiskCount {
        let found = self.disks.iter().find(|(disk, _)| disk == disk_name);
        found.map(|(_, count)| *count).unwrap_or_default()
    }
}

fn read_disk_counters(system: &System, disk: &str) -> Option<DiskCount> {
    let text = system
        .root()
        .read_text_if_readable(&format!("sys/block/{disk}/stat"))?;
    let fields: Vec<u64> = text
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0))
        .collect();
    let [
        reads,
        _,
        read_sectors,
        read_ms,
        writes,
        _,
        written_sectors,
        ..,
    ] = fields[..]
    else {
        return None;
    };
    Some(DiskCount {
        reads,
        read_sectors,
        read_ms,
        writes,
        written_sectors,
    })
}

impl Status {
    /// Activity from `before` to `after`, `seconds` later. `ask_drives`: read APST and power state from the drives, by
    /// admin commands, which may wake them.
    pub fn activity_between(
        system: &System,
        before: &StatusSample,
        after: &StatusSample,
        seconds: Option<f64>,
        ask_drives: bool,
    ) -> Self {
        let root = system.root();
        let interval = Interval { before, seconds };
        let held = journal::list_held_settings_and_new_values(root);
        let cpus = after.cpus.iter().map(|(cpu, states)| {
            let (latency_limit, lease) =
                read_latency_limit_and_if_lease(system, *cpu, held.as_deref());
            CpuStatus {
                cpu: *cpu,
                latency_limit,
                lease,
                khz: root
                    .read_number_if_readable(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_cur_freq")),
                states: states
                    .iter()
                    .map(|state| interval.activity_in_state(*cpu, state))
                    .collect(),
            }
        });
        let drives = after
            .disks
            .iter()
            .map(|(name, now)| interval.activity_of_drive(system, name, now, ask_drives));
        let governor = system.read_idle_governor();
        let driver = root.read_text_if_readable(&format!("{CPUS}/cpuidle/current_driver"));
        Self {
            seconds,
            governor: format!(
                "{} ({})",
                governor.as_deref().unwrap_or("none"),
                driver.as_deref().unwrap_or("none")
            ),
            system_latency_us: read_setting_by_key_text(system, "system-latency")
                .and_then(|us| us.parse().ok()),
            applied: journal::has_pending_restore(root),
            holder: journal::lock_holder_pid(root),
            cpus: cpus.collect(),
            drives: drives.collect(),
        }
    }

    /// Activity since boot.
    pub fn activity_since_boot(system: &System, ask_drives: bool) -> Self {
        let uptime = system.root().read_text_if_readable("proc/uptime");
        let seconds = uptime
            .as_deref()
            .and_then(|text| text.split_whitespace().next()?.parse().ok());
        let now = StatusSample::take_now(system);
        Self::activity_between(system, &StatusSample::default(), &now, seconds, ask_drives)
    }
}

/// The span of time between two samples of counters.
struct Interval<'a> {
    before: &'a StatusSample,
    /// Length of the span in seconds, if known.
    seconds: Option<f64>,
}

impl Interval<'_> {
    /// Increase of a counter per second of the span.
    fn rate_per_second(&self, count_now: u64, count_then: u64) -> Option<f64> {
        let count = count_now.saturating_sub(count_then) as f64;
        self.seconds.map(|seconds| count / seconds.max(1e-9))
    }

    /// Increase of a counter of 512-byte sectors, in 10^6 bytes per second.
    fn megabytes_per_second_of_sectors(&self, sectors_now: u64, sectors_then: u64) -> Option<f64> {
        Some(self.rate_per_second(sectors_now, sectors_then)? * SECTOR as f64 / 1e6)
    }

    /// What a CPU did in an idle state during the span.
    fn activity_in_state(&self, cpu: usize, now: &StateCount) -> StateStatus {
        let known = self.before.find_state_count(cpu, &now.state.name);
        let then = StateCounters::from_count_or_zero(known);
        let counters = StateCounters::from_count_or_zero(Some(now));
        // An idle period counts entirely in the span in which it ends.
        let share = self
            .rate_per_second(counters.time_us, then.time_us)
            .map(|us| (us / 1e6).min(1.0));
        StateStatus {
            name: now.state.name.clone(),
            disabled: now.state.disabled,
            share,
            entries_per_s: self.rate_per_second(counters.usage, then.usage),
            too_deep_per_s: self
                .rate_per_second(counters.above, then.above)
                .filter(|_| !is_more_than_entries(counters.above, counters.usage)),
            too_shallow_per_s: self
                .rate_per_second(counters.below, then.below)
                .filter(|_| !is_more_than_entries(counters.below, counters.usage)),
        }
    }

    /// What a drive did during the span, and its power management.
    fn activity_of_drive(
        &self,
        system: &System,
        name: &str,
        now: &DiskCount,
        ask_drives: bool,
    ) -> DriveStatus {
        let then = self.before.disk_count_or_zero(name);
        let reads = now.reads.saturating_sub(then.reads);
        let read_ms = now.read_ms.saturating_sub(then.read_ms);
        let controller = system.controller_of_namespace(name);
        let asked = controller.as_deref().filter(|_| ask_drives);
        let admin = asked.map(|controller| nvme::open_drive_or_capture(system.root(), controller));
        DriveStatus {
            name: name.to_owned(),
            reads_per_s: self.rate_per_second(now.reads, then.reads),
            read_mb_per_s: self
                .megabytes_per_second_of_sectors(now.read_sectors, then.read_sectors),
            read_us: (reads > 0).then(|| read_ms as f64 * 1e3 / reads as f64),
            writes_per_s: self.rate_per_second(now.writes, then.writes),
            write_mb_per_s: self
                .megabytes_per_second_of_sectors(now.written_sectors, then.written_sectors),
            latency_tolerance: controller.as_deref().and_then(|controller| {
                read_setting_by_key_text(system, &format!("drive-latency:{controller}"))
            }),
            apst: admin
                .as_ref()
                .and_then(|admin| Some(ApstFeature::read_from_drive(&**admin).ok()?.enabled)),
            power_state: admin.as_ref().and_then(|admin| {
                let dword = admin.get_feature(POWER_MANAGEMENT, &mut []).ok()?;
                Some((dword & 0x1f) as u8)
            }),
        }
    }
}

/// The counters of an idle state that a status shows; 0 for a state without an earlier sample.
#[derive(Default)]
struct StateCounters {
    usage: u64,
    time_us: u64,
    above: u64,
    below: u64,
}

impl StateCounters {
    fn from_count_or_zero(count: Option<&StateCount>) -> Self {
        count.map_or_else(Self::default, |count| Self {
            usage: count.usage,
            time_us: count.time_us,
            above: count.above,
            below: count.below,
        })
    }
}

/// Reads the value of a setting by its key as text; `None` if the key or the setting does not exist.
fn read_setting_by_key_text(system: &System, key: &str) -> Option<String> {
    system.read_setting(&key.parse().ok()?).ok()
}

/// Reads a CPU's latency limit, and whether the limit is a lease. `held`: settings of running processes, if the journal
/// can be read.
fn read_latency_limit_and_if_lease(
    system: &System,
    cpu: usize,
    held: Option<&[(SettingKey, Option<String>)]>,
) -> (Option<String>, Option<bool>) {
    let Ok(key) = format!("cpu-latency:cpu{cpu}").parse::<SettingKey>() else {
        return (None, None);
    };
    let limit = system.read_setting(&key).ok();
    let lease = held.map(|held| {
        let entry = held.iter().find(|(held_key, _)| *held_key == key);
        entry.is_some_and(|(_, value)| value.is_some() && *value == limit)
    });
    (limit, lease)
}
