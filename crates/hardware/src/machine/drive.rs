//! Drives for the simulator: service times, power, and true wake-up times.
//!
//! [`DriveModel::find`] knows every drive in the [`DriveLibrary`](crate::drive::DriveLibrary). Power states are those
//! that the drive declares, speeds those of its model or its class ([`DriveSpeeds`]); other figures are assumed.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use wakepath_units::Microwatts;

use super::slow_requests::{SLOW_REQUEST_IN, is_tail_above_mean};
use super::{Figure, Origin};
use crate::drive::{Drive, DriveSpeeds, MAX_POWER_STATES, PowerState, capacity_bytes_by_name};

/// Capacity of a drive in bytes where the file gives none.
pub(crate) const DEFAULT_CAPACITY: u64 = 1_000_000_000_000;

/// How far the kernel reads ahead where nobody says anything (`VM_READAHEAD_PAGES`), and at most, in KiB.
const DEFAULT_READ_AHEAD_KIB: u64 = 128;
const MAX_READ_AHEAD_KIB: f64 = 1e6;

/// A drive as the I/O path sees it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = add_declared_drive_form_to_schema)]
pub struct DriveModel {
    /// Title of the drive.
    pub name: String,
    /// Controller name in the kernel, such as `nvme0`, for a drive captured with a machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Mean service time of a 4 KiB read, above 0.
    #[schemars(extend("unit" = "us"))]
    pub read_service_us: Figure,
    /// Mean service time of a 4 KiB write, above 0.
    #[schemars(extend("unit" = "us"))]
    pub write_service_us: Figure,
    /// 99.9th percentile of the service time of 4 KiB reads, above the mean. One read in 500 is then slow, and has this time as its
    /// median; the others are faster by as much as keeps the mean. Absent: no read is slow beyond the spread.
    #[schemars(extend("unit" = "us", "see" = "background/model.md#slow-requests"))]
    #[serde(default)]
    pub read_p999_us: Figure,
    /// 99.9th percentile of the service time of 4 KiB writes, as `read_p999_us` for reads. Absent: no write is slow beyond the spread.
    #[schemars(extend("unit" = "us", "see" = "background/model.md#slow-requests"))]
    #[serde(default)]
    pub write_p999_us: Figure,
    /// Time of a flush command, once what the drive's buffer holds is on the media; 0: the drive has no volatile cache,
    /// and the kernel sends it none. Absent: jobs that write with `fsync`, `fdatasync` or `sync` are refused.
    #[schemars(extend("unit" = "us", "see" = "background/model.md#flushes"))]
    #[serde(default)]
    pub flush_us: Figure,
    /// Rate of the drive's link for what a read has beyond 4 KiB. Absent: larger reads are refused.
    #[schemars(extend("unit" = "MB/s", "minimum" = 1.0))]
    #[serde(default)]
    pub read_mb_per_s: Figure,
    /// Rate of the drive's link for what a write has beyond 4 KiB. Absent: larger writes are refused.
    #[schemars(extend("unit" = "MB/s", "minimum" = 1.0))]
    #[serde(default)]
    pub write_mb_per_s: Figure,
    /// Rate at which the media give one read's data, however fast the link is. Absent: the link's rate.
    #[schemars(extend("unit" = "MB/s", "minimum" = 1.0))]
    #[serde(default)]
    pub read_stream_mb_per_s: Figure,
    /// Rate at which the media take one write's data, however fast the link is. Absent: the link's rate.
    #[schemars(extend("unit" = "MB/s", "minimum" = 1.0))]
    #[serde(default)]
    pub write_stream_mb_per_s: Figure,
    /// Standard deviation of the service time over the mean.
    #[schemars(extend("maximum" = 10.0))]
    pub spread: Figure,
    /// Requests that a drive serves at the same time, a whole number.
    #[schemars(extend("minimum" = 1.0, "maximum" = 65536.0))]
    pub parallel_units: Figure,
    /// 1: a read waits for the unit with its address, as in flash. 0: the first free unit serves the read. Writes
    /// always take the first free unit. Absent: 0.
    #[schemars(extend("maximum" = 1.0, "see" = "background/model.md#whose-unit-a-read-waits-for"))]
    #[serde(default)]
    pub reads_by_address: Figure,
    /// Number of such drives, striped (RAID0), 1 to 1024. Absent: 1.
    #[serde(default = "one_drive")]
    pub count: usize,
    /// Bytes of a striped volume on one drive before the next drive follows; needed with several drives.
    #[schemars(extend("unit" = "KiB"))]
    #[serde(default)]
    pub chunk_kib: Figure,
    /// Size of a drive, which ends jobs that go through all of it, and bounds traces. Absent: 1000, assumed.
    #[schemars(extend("unit" = "10^9 bytes", "minimum" = 0.001))]
    #[serde(default)]
    pub capacity_gb: Figure,
    /// How far the kernel reads ahead (`queue/read_ahead_kb`); 0: not at all. Absent: 128, the kernel's default.
    #[schemars(extend("unit" = "KiB", "maximum" = 1e6, "see" = "reference/fio-jobs.md#read-ahead"))]
    #[serde(default)]
    pub read_ahead_kb: Figure,
    /// Idle time before a drive without `declared` power states rests. Absent: it never rests.
    #[schemars(extend("unit" = "ms"))]
    #[serde(default)]
    pub rest_after_ms: Figure,
    /// Delay for the first request after that rest.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub rest_exit_us: Figure,
    /// Deeper rests, of drives with or without power states. Each begins later than the rests before and delays more.
    #[schemars(rename = "deeper_rest")]
    #[serde(default, rename = "deeper_rest", skip_serializing_if = "Vec::is_empty")]
    pub deeper_rests: Vec<DriveRest>,
    /// Source of the table's plain figures.
    pub source: String,
    /// Buffer that writes end in. Absent: the media keep up with any rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<WriteBuffer>,
    /// How reads and the emptying of the buffer meet at the flash. Absent: they do not disturb each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<Flash>,
    /// Power states with all that is known of them, as results keep them; a machine file may give the declared states
    /// alone (`declared`), and the rest is assumed. Absent: the drive never sleeps and has no known power.
    #[schemars(rename = "power")]
    #[serde(
        default,
        rename(deserialize = "declared"),
        alias = "power",
        deserialize_with = "deserialize_complete_or_declared_power",
        skip_serializing_if = "Option::is_none"
    )]
    pub power: Option<DrivePower>,
    /// Settings in force during the capture, which a simulation has unless a policy says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<DriveInForce>,
    /// Note for users about the choice by [`DriveModel::find`]: the drive meant by a partial name, or facts missing
    /// in a dump.
    #[serde(skip)]
    pub note: Option<String>,
}

/// Adds the second form of [`DriveModel::power`]: the power states as the drive declares them.
fn add_declared_drive_form_to_schema(schema: &mut schemars::Schema) {
    if let Some(properties) = schema.get_mut("properties").and_then(|p| p.as_object_mut()) {
        properties.insert(
            "declared".to_owned(),
            serde_json::json!({
                "description": "Power states as the drive declares them, in place of `power`.",
                "type": "object",
            }),
        );
    }
}

/// Power-management settings of a drive.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveInForce {
    /// The highest latency that the kernel lets the drive's table have, in us, or `any`, or `auto` for the default; absent:
    /// it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_tolerance_us: Option<String>,
    /// Whether the drive goes to sleep by itself (APST); absent: it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apst: Option<bool>,
    /// Transitions in the table.
    #[serde(default)]
    pub table: Vec<Transition>,
}

/// A transition that a drive makes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transition {
    /// Power state before the transition.
    pub from: u8,
    /// Power state after the transition.
    pub to: u8,
    /// after so much idle time.
    pub idle_ms: u32,
}

fn deserialize_complete_or_declared_power<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<DrivePower>, D::Error> {
    let table = toml::Table::deserialize(from)?;
    let complete = table.contains_key("declared");
    let power = if complete {
        DrivePower::deserialize(table)
    } else {
        Drive::deserialize(table).map(|drive| DrivePower::from_declared_states(&drive))
    };
    let power = power.map_err(|e| D::Error::custom(e.message()))?;
    let drive = &power.declared;
    let states = drive.states.len();
    if !(1..=MAX_POWER_STATES).contains(&states) || usize::from(drive.npss) + 1 != states {
        return Err(D::Error::custom(format!(
            "npss = {} asks for {} power states, there are {states}; a drive has 1 to {MAX_POWER_STATES}",
            drive.npss,
            u16::from(drive.npss) + 1
        )));
    }
    if power.states.len() != states {
        return Err(D::Error::custom(format!(
            "{} of {states} power states are described",
            power.states.len()
        )));
    }
    Ok(Some(power))
}

/// A rest of a drive, or of what lies between drive and kernel, such as a virtual machine's host.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveRest {
    /// Idle time before the rest.
    #[schemars(extend("unit" = "ms"))]
    pub after_ms: Figure,
    /// Delay for the first request after the rest, in place of a lesser rest's.
    #[schemars(extend("unit" = "us"))]
    pub exit_us: Figure,
}

/// A buffer in front of the media.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteBuffer {
    /// Buffer size.
    #[schemars(extend("unit" = "KiB"))]
    pub kib: Figure,
    /// Time for the media to take 4 KiB from the buffer.
    #[schemars(extend("unit" = "us"))]
    pub media_us: Figure,
}

/// Flash behind the write buffer, which also serves reads.
///
/// The buffer's `media_us` holds while the flash does nothing but program.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Duration of uninterrupted programming. A read that arrives meanwhile waits for the end.
    #[schemars(extend("unit" = "us"))]
    pub program_us: Figure,
    /// Longest wait for a read when programming can be suspended. Absent: no suspension.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub suspend_us: Figure,
    /// Combined read rate without other work. Reads exclude programming.
    #[schemars(extend("unit" = "MB/s"))]
    pub read_mb_per_s: Figure,
}

/// Power and sleep of a drive.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrivePower {
    /// Declared power states.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub declared: Drive,
    /// Power while the drive serves requests or empties the write buffer.
    #[schemars(extend("unit" = "W"))]
    pub active_w: Figure,
    /// Power while the drive waits for requests in an operational state.
    #[schemars(extend("unit" = "W"))]
    pub idle_w: Figure,
    /// Power while the drive enters or leaves a non-operational state. Absent: half-way between idle and active power,
    /// assumed.
    #[schemars(extend("unit" = "W", "see" = "background/apst.md#power-and-energy"))]
    #[serde(default)]
    pub transition_w: Figure,
    /// Idle time before drive and link enter light rest without a change of power state.
    #[schemars(extend("unit" = "ms"))]
    pub rest_after_ms: Figure,
    /// Delay for the first request after light rest; waking from a power state includes the delay.
    #[schemars(extend("unit" = "us"))]
    pub rest_exit_us: Figure,
    /// Autonomous work while asleep.
    pub background: Option<DriveBackground>,
    /// How the power states really are, by index.
    pub states: Vec<TruePowerState>,
}

/// Work that a drive does by itself.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveBackground {
    /// Idle time before background work starts.
    #[schemars(extend("unit" = "ms"))]
    pub after_ms: Figure,
    /// Duration of the work.
    #[schemars(extend("unit" = "ms"))]
    pub for_ms: Figure,
    /// Extra power on top of a non-operational power state.
    #[schemars(extend("unit" = "W"))]
    pub power_w: Figure,
}

/// A power state as it really is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TruePowerState {
    /// Entry time.
    #[schemars(extend("unit" = "us"))]
    pub entry_us: Figure,
    /// Exit time.
    #[schemars(extend("unit" = "us"))]
    pub exit_us: Figure,
    /// Power while the state lasts.
    #[schemars(extend("unit" = "W"))]
    pub power_w: Figure,
}

impl DrivePower {
    /// Power management of a drive of which only the declared power states are known.
    pub(super) fn from_declared_states(drive: &Drive) -> Self {
        let states: Vec<_> = drive
            .states
            .iter()
            .map(TruePowerState::from_declared_state)
            .collect();
        let (active_w, idle_w) = declared_or_assumed_active_and_idle_power(drive, &states);
        Self {
            transition_w: assume_half_way_power(&idle_w, &active_w),
            active_w,
            idle_w,
            rest_after_ms: Figure::assumed(1.0, "a link rests within milliseconds"),
            rest_exit_us: Figure::assumed(0.0, "no rest unless one was observed"),
            background: None,
            states,
            declared: drive.clone(),
        }
    }

    /// Power while the drive enters or leaves a non-operational state: as given, or half-way between idle and at work.
    pub fn transition_power_or_half_way(&self) -> Microwatts {
        if self.transition_w.is_given() {
            self.transition_w.watts_to_power()
        } else {
            assume_half_way_power(&self.idle_w, &self.active_w).watts_to_power()
        }
    }

    /// The non-operational state that draws most, by index.
    pub(super) fn sleep_state_with_most_power(&self) -> Option<(usize, &Figure)> {
        sleep_state_with_most_power_of_drive(&self.declared, &self.states)
    }
}

/// The power that is assumed for a change of state: half-way between idle and active. The entry and exit latencies that
/// a drive declares come without a power. A controller that saves or restores its state does something, but gives no
/// data; and above 1.2 W an SN530 would draw more under the current APST rule on workflow 7 of its publication (Linux
/// commit ebd8a93aa4f5), which says that of other drives only.
pub(super) fn assume_half_way_power(idle: &Figure, active: &Figure) -> Figure {
    Figure::assumed(
        idle.value.midpoint(active.value),
        "half-way between idle and active power; no drive declares it",
    )
}

/// The non-operational state that draws most, by index ([`DrivePower::sleep_state_with_most_power`]).
fn sleep_state_with_most_power_of_drive<'a>(
    drive: &Drive,
    states: &'a [TruePowerState],
) -> Option<(usize, &'a Figure)> {
    let declared = drive.states.iter().enumerate().zip(states);
    declared
        .filter(|((_, declared), _)| declared.non_operational)
        .map(|((ps, _), state)| (ps, &state.power_w))
        .max_by(|a, b| a.1.value.total_cmp(&b.1.value))
}

/// Power of a drive at work, and idle in PS0, declared or else assumed. `states` has the power of each state. Active
/// power is at least idle power, and idle power at least sleep power.
fn declared_or_assumed_active_and_idle_power(
    drive: &Drive,
    states: &[TruePowerState],
) -> (Figure, Figure) {
    let first = drive.states.first().copied().unwrap_or_default();
    let most = first.max_power.map_or(5.0, microwatts_to_watts);
    let [active_power, idle_power] = [first.active_power, first.idle_power].map(|power| {
        power
            .map(microwatts_to_watts)
            .filter(|p| (f64::EPSILON..=most).contains(p))
    });
    let mut active = active_power.map_or_else(
        || Figure::assumed(most / 2.0, "half of the maximum power of PS0"),
        Figure::covered_by_table_source,
    );
    let mut idle = idle_power.map_or_else(
        || assume_idle_power_of_ps0(drive, most),
        Figure::covered_by_table_source,
    );
    if idle.value > active.value {
        idle = Figure::assumed(active.value, "at most what it draws at work");
    }
    if let Some((ps, asleep)) =
        sleep_state_with_most_power_of_drive(drive, states).filter(|(_, p)| p.value > idle.value)
    {
        idle = Figure::assumed(
            asleep.value,
            format!("at least what it draws asleep in PS{ps}"),
        );
    }
    if active.value < idle.value {
        active = Figure::assumed(idle.value, "at least what it draws while it waits");
    }
    (active, idle)
}

/// Idle power in PS0 that is assumed for a drive that declares none; `max_power_w`: maximum power of PS0 in W.
fn assume_idle_power_of_ps0(drive: &Drive, max_power_w: f64) -> Figure {
    let working = drive.states.iter().filter(|s| !s.non_operational);
    let mut powers = working.filter_map(|s| s.max_power).map(microwatts_to_watts);
    let first = powers.next().unwrap_or(max_power_w);
    match powers.min_by(f64::total_cmp) {
        Some(last) if last >= first => Figure::assumed(
            0.48 * first / 5.0,
            "a fifth of 48 % of the maximum power of PS0, which is the median of the library. The last operational state \
             declares no less than PS0",
        ),
        last => Figure::assumed(
            last.unwrap_or(first) / 5.0,
            "a fifth of the maximum power of the last operational state",
        ),
    }
}

impl DriveModel {
    /// The model of a drive by its declared power states, with the speeds of its model or class.
    pub fn from_declared_drive(drive: &Drive) -> Self {
        let mut model = Self::as_typical_client_drive(drive);
        model.take_given_speeds(&DriveSpeeds::for_model(&drive.model));
        model
    }

    /// The figures of a drive's speed that `wakepath measure drive` finds, by their keys in a machine file.
    pub fn speed_figures_mut(&mut self) -> [(&'static str, &mut Figure); 13] {
        [
            ("read_service_us", &mut self.read_service_us),
            ("write_service_us", &mut self.write_service_us),
            ("read_p999_us", &mut self.read_p999_us),
            ("write_p999_us", &mut self.write_p999_us),
            ("flush_us", &mut self.flush_us),
            ("read_mb_per_s", &mut self.read_mb_per_s),
            ("write_mb_per_s", &mut self.write_mb_per_s),
            ("read_stream_mb_per_s", &mut self.read_stream_mb_per_s),
            ("write_stream_mb_per_s", &mut self.write_stream_mb_per_s),
            ("spread", &mut self.spread),
            ("parallel_units", &mut self.parallel_units),
            ("rest_after_ms", &mut self.rest_after_ms),
            ("rest_exit_us", &mut self.rest_exit_us),
        ]
    }

    /// The model of a drive of which only declared states are known: as fast as a typical client drive.
    fn as_typical_client_drive(drive: &Drive) -> Self {
        Self {
            name: drive.model.clone(),
            capacity_gb: match drive.capacity_bytes {
                Some(bytes) => {
                    capacity_figure(bytes, Origin::Source("tnvmcap of the drive".to_owned()))
                }
                None => capacity_by_name(&drive.model),
            },
            source: drive.source.clone(),
            power: Some(DrivePower::from_declared_states(drive)),
            ..Self::typical_client_drive_without_power_states()
        }
    }

    /// A typical client drive that never sleeps: nothing is known about its power states.
    pub fn typical_client_drive_without_power_states() -> Self {
        Self {
            name: String::new(),
            device: None,
            read_service_us: Figure::assumed(90.0, "TLC flash, one 4 KiB read at a time"),
            write_service_us: Figure::assumed(25.0, "writes end in the drive's buffer"),
            read_p999_us: Figure::default(),
            write_p999_us: Figure::default(),
            flush_us: Figure::assumed(200.0, "what the drive notes down itself: a page of flash"),
            read_mb_per_s: Figure::assumed(3000.0, "four lanes of PCIe 3.0, less the protocol"),
            write_mb_per_s: Figure::assumed(3000.0, "into the buffer, over four lanes of PCIe 3.0"),
            read_stream_mb_per_s: Figure::default(),
            write_stream_mb_per_s: Figure::default(),
            spread: Figure::assumed(0.08, "standard deviation over mean of single 4 KiB reads"),
            parallel_units: Figure::assumed(8.0, "typical client drive"),
            reads_by_address: Figure::default(),
            count: 1,
            chunk_kib: Figure::default(),
            capacity_gb: Figure::default(),
            read_ahead_kb: Figure::default(),
            rest_after_ms: Figure::default(),
            rest_exit_us: Figure::default(),
            deeper_rests: Vec::new(),
            source: String::new(),
            buffer: Some(WriteBuffer {
                kib: Figure::assumed(8192.0, "typical client drive without DRAM"),
                media_us: Figure::assumed(
                    8.0,
                    "500 MB/s, a typical client drive's cached write rate",
                ),
            }),
            flash: None,
            power: None,
            in_force: None,
            note: None,
        }
    }

    /// Rests, the shallowest first: idle time in ms before each, and the next request's delay in us.
    pub fn rests(&self) -> impl Iterator<Item = [&Figure; 2]> {
        let first = match &self.power {
            Some(power) => [&power.rest_after_ms, &power.rest_exit_us],
            None => [&self.rest_after_ms, &self.rest_exit_us],
        };
        let deeper = self.deeper_rests.iter();
        std::iter::once(first)
            .filter(|[after_ms, _]| after_ms.is_given())
            .chain(deeper.map(|rest| [&rest.after_ms, &rest.exit_us]))
    }

    /// Replaces all rests, if there are any new ones; the shallowest first.
    pub fn set_rests(&mut self, rests: impl IntoIterator<Item = DriveRest>) {
        let mut rests = rests.into_iter();
        let Some(first) = rests.next() else { return };
        let place = match &mut self.power {
            Some(power) => (&mut power.rest_after_ms, &mut power.rest_exit_us),
            None => (&mut self.rest_after_ms, &mut self.rest_exit_us),
        };
        (*place.0, *place.1) = (first.after_ms, first.exit_us);
        self.deeper_rests = rests.collect();
    }

    /// Takes over the published or typical speeds that are given.
    ///
    /// Units follow from the saturated rate of reads and the time of one read. The media take from the buffer what the
    /// drive writes sequentially, and the link carries the higher of the two sequential rates both ways.
    fn take_given_speeds(&mut self, speeds: &DriveSpeeds) {
        for (figure, given) in [
            (&mut self.read_service_us, &speeds.read_us),
            (&mut self.write_service_us, &speeds.write_us),
            (&mut self.read_p999_us, &speeds.read_p999_us),
            (&mut self.write_p999_us, &speeds.write_p999_us),
            (&mut self.flush_us, &speeds.flush_us),
            (&mut self.read_mb_per_s, &speeds.read_mb_per_s),
        ] {
            figure.replace_if_given(given);
        }
        let (reads, writes) = (&speeds.read_mb_per_s, &speeds.write_mb_per_s);
        let link = reads.value.max(writes.value);
        if link >= 1.0 {
            let why = "the link carries the higher of both sequential rates either way";
            self.write_mb_per_s = Figure::assumed(link, why);
        }
        if speeds.read_iops.is_given() {
            let units = speeds.read_iops.value * self.read_service_us.value / 1e6;
            self.parallel_units = derive_figure_with_weaker_origin(
                units.round().clamp(1.0, 65_536.0),
                &format!("{} random reads a second", speeds.read_iops.value),
                [&speeds.read_iops, &self.read_service_us],
            );
        }
        if let Some(buffer) = &mut self.buffer
            && writes.value >= 1.0
        {
            let us = (4096.0 / writes.value * 1e3).round() / 1e3;
            buffer.media_us = derive_figure_with_weaker_origin(
                us,
                &format!("{} MB/s", writes.value),
                [writes; 2],
            );
        }
    }

    /// Mean service time of requests that are not slow, in us: the others' share is taken out of the mean of all.
    pub fn mean_of_fast_requests_us(service_us: &Figure, p999_us: &Figure) -> f64 {
        if !p999_us.is_given() {
            return service_us.value;
        }
        let slow_share = f64::from(SLOW_REQUEST_IN).recip();
        (service_us.value - slow_share * p999_us.value) / (1.0 - slow_share)
    }

    /// Drops a 99.9th percentile from another mean, if too far from the new mean.
    pub fn drop_tails_that_do_not_fit(&mut self) {
        for (service_us, p999_us) in [
            (&self.read_service_us, &mut self.read_p999_us),
            (&self.write_service_us, &mut self.write_p999_us),
        ] {
            if p999_us.is_given() && !is_tail_above_mean(service_us, p999_us) {
                *p999_us = Figure::default();
            }
        }
    }

    /// Number of flash units that reads are spread over, if each read waits for its address's unit.
    pub fn units_if_reads_go_by_address(&self) -> Option<usize> {
        (self.reads_by_address.value > 0.0).then_some(self.parallel_units.value as usize)
    }

    /// Bytes of a sequential reader's window, as the kernel sets them for the drive; at most 1 GB.
    pub fn read_ahead_bytes(&self) -> u64 {
        let kib = if self.read_ahead_kb.is_given() {
            self.read_ahead_kb.value.clamp(0.0, MAX_READ_AHEAD_KIB) as u64
        } else {
            DEFAULT_READ_AHEAD_KIB
        };
        kib * 1024
    }

    /// Takes over the size of a disk, in bytes, as read from the file `source`.
    pub fn set_capacity_read_from(&mut self, bytes: u64, source: &str) {
        let read = capacity_figure(bytes, Origin::Source(source.to_owned()));
        if read.is_given() {
            self.capacity_gb = read;
        }
    }

    /// Capacity in bytes of the whole volume, all drives together.
    pub fn capacity_in_bytes(&self) -> u64 {
        let of_one = if self.capacity_gb.is_given() {
            (self.capacity_gb.value * 1e9).round() as u64
        } else {
            DEFAULT_CAPACITY
        };
        of_one.saturating_mul(self.count as u64)
    }
}

/// Fewest bytes of a drive, as `capacity_gb` has them.
const LEAST_CAPACITY: u64 = 1_000_000;

/// A drive's size by its name ([`capacity_bytes_by_name`]), assumed; not given without a size in the name.
pub(super) fn capacity_by_name(name: &str) -> Figure {
    match capacity_bytes_by_name(name) {
        Some(bytes) => capacity_figure(bytes, Origin::Assumed("from its name".to_owned())),
        None => Figure::default(),
    }
}

/// A size as `capacity_gb`; not given if it is out of that figure's range.
fn capacity_figure(bytes: u64, origin: Origin) -> Figure {
    match bytes {
        LEAST_CAPACITY.. => Figure {
            value: bytes as f64 / 1e9,
            origin,
        },
        _ => Figure::default(),
    }
}

/// A figure that follows from others: as well founded as the least of them, with the reason of the first.
fn derive_figure_with_weaker_origin(value: f64, from: &str, origins: [&Figure; 2]) -> Figure {
    let why = format!("from {from}: {}", origins[0].origin.describe_origin(""));
    let is_published = origins
        .iter()
        .all(|figure| matches!(figure.origin, Origin::Source(_)));
    if is_published {
        Figure::with_own_source(value, why)
    } else {
        Figure::assumed(value, why)
    }
}

impl TruePowerState {
    /// A power state as declared; its declared power is a maximum.
    fn from_declared_state(state: &PowerState) -> Self {
        let power = state.idle_power.or(state.max_power);
        Self {
            entry_us: Figure::covered_by_table_source(f64::from(state.entry_latency_us)),
            exit_us: Figure::covered_by_table_source(f64::from(state.exit_latency_us)),
            power_w: Figure::covered_by_table_source(power.map_or(0.0, microwatts_to_watts)),
        }
    }
}

fn microwatts_to_watts(power: Microwatts) -> f64 {
    power.0 as f64 / 1e6
}

const fn one_drive() -> usize {
    1
}
