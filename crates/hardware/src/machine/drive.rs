//! Drives for the simulator: service times, power, and true wake-up times.
//!
//! [`DriveModel::find`] knows every drive in the [`DriveLibrary`]. Declared power states come from the library; other
//! figures are assumed, equal for all drives, unless a file in `data/drive_models` has better ones.

use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use wakepath_units::Microwatts;

use super::Figure;
use super::library::{self, MachineError};
use crate::drive::{Drive, DriveLibrary, MAX_POWER_STATES, PowerState, id_ctrl};

/// The drive models that come with wakepath: name and file text.
pub(super) const BUILTIN: [(&str, &str); 5] = [
    ("sn530", include_str!("../../data/drive_models/sn530.toml")),
    ("760p", include_str!("../../data/drive_models/760p.toml")),
    ("pm991", include_str!("../../data/drive_models/pm991.toml")),
    ("bc511", include_str!("../../data/drive_models/bc511.toml")),
    (
        "kbg40zns",
        include_str!("../../data/drive_models/kbg40zns.toml"),
    ),
];

/// Default capacity in bytes.
pub(crate) const DEFAULT_CAPACITY: u64 = 1_000_000_000_000;

/// A drive as the I/O path sees it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = allow_declared_states)]
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
    /// Time of a flush command, once what the drive's buffer holds is on the media; 0: the drive has no volatile cache,
    /// and the kernel sends it none. Absent: jobs that write with `fsync`, `fdatasync` or `sync` are refused.
    #[schemars(extend("unit" = "us", "see" = "model.md#flushes"))]
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
    #[schemars(extend("maximum" = 1.0, "see" = "model.md#whose-unit-a-read-waits-for"))]
    #[serde(default)]
    pub reads_by_address: Figure,
    /// Number of such drives, striped (RAID0), 1 to 1024. Absent: 1.
    #[serde(default = "super::one")]
    pub count: usize,
    /// Bytes of a striped volume on one drive before the next drive follows; needed with several drives.
    #[schemars(extend("unit" = "KiB"))]
    #[serde(default)]
    pub chunk_kib: Figure,
    /// Size of a drive, which ends jobs that go through all of it. Absent: 1000, assumed.
    #[schemars(extend("unit" = "10^9 bytes", "minimum" = 0.001))]
    #[serde(default)]
    pub capacity_gb: Figure,
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
        deserialize_with = "power",
        skip_serializing_if = "Option::is_none"
    )]
    pub power: Option<DrivePower>,
    /// Settings in force during the capture; a simulation sets its own policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<DriveInForce>,
    /// Note for users about the choice by [`DriveModel::find`]: the drive meant by a partial name, or facts missing
    /// in a dump.
    #[serde(skip)]
    pub note: Option<String>,
}

/// Adds the second form of [`DriveModel::power`]: the power states as the drive declares them.
fn allow_declared_states(schema: &mut schemars::Schema) {
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

fn power<'de, D: Deserializer<'de>>(from: D) -> Result<Option<DrivePower>, D::Error> {
    let table = toml::Table::deserialize(from)?;
    let complete = table.contains_key("declared");
    let power = if complete {
        DrivePower::deserialize(table)
    } else {
        Drive::deserialize(table).map(|drive| DrivePower::declared(&drive))
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
    #[schemars(extend("unit" = "W", "see" = "drives.md#further-rules"))]
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

/// A drive model file: what is not given is as for every drive.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    schema: u32,
    name: String,
    /// A library drive by full name.
    library: String,
    /// Default source for the table's figures.
    source: String,
    read_service_us: Option<Figure>,
    write_service_us: Option<Figure>,
    flush_us: Option<Figure>,
    read_mb_per_s: Option<Figure>,
    write_mb_per_s: Option<Figure>,
    read_stream_mb_per_s: Option<Figure>,
    write_stream_mb_per_s: Option<Figure>,
    spread: Option<Figure>,
    parallel_units: Option<Figure>,
    reads_by_address: Option<Figure>,
    capacity_gb: Option<Figure>,
    buffer: Option<WriteBuffer>,
    flash: Option<Flash>,
    active_w: Option<Figure>,
    idle_w: Option<Figure>,
    transition_w: Option<Figure>,
    rest_after_ms: Option<Figure>,
    rest_exit_us: Option<Figure>,
    background: Option<DriveBackground>,
    #[serde(default)]
    state: Vec<StateFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    ps: usize,
    true_entry_us: Option<Figure>,
    true_exit_us: Option<Figure>,
    power_w: Option<Figure>,
}

impl DrivePower {
    /// Power management for a drive known only by declared states.
    pub(super) fn declared(drive: &Drive) -> Self {
        let states: Vec<_> = drive.states.iter().map(TruePowerState::declared).collect();
        let (active_w, idle_w) = awake(drive, &states);
        Self {
            transition_w: between(&idle_w, &active_w),
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
    pub fn transition_power(&self) -> Microwatts {
        if self.transition_w.is_given() {
            self.transition_w.watts()
        } else {
            between(&self.idle_w, &self.active_w).watts()
        }
    }

    /// The non-operational state with the highest power.
    fn most_asleep(&self) -> Option<(usize, &Figure)> {
        most_asleep(&self.declared, &self.states)
    }
}

/// Power of a change of state. The entry and exit latencies that a drive declares come without a power. A controller that
/// saves or restores its state does something, but gives no data; and above 1.2 W an SN530 would draw more under the current
/// APST rule on workflow 7 of its publication (Linux commit ebd8a93aa4f5), which says that of other drives only.
fn between(idle: &Figure, active: &Figure) -> Figure {
    Figure::assumed(
        idle.value.midpoint(active.value),
        "half-way between idle and active power; no drive declares it",
    )
}

/// See [`DrivePower::most_asleep`].
fn most_asleep<'a>(drive: &Drive, states: &'a [TruePowerState]) -> Option<(usize, &'a Figure)> {
    let declared = drive.states.iter().enumerate().zip(states);
    declared
        .filter(|((_, declared), _)| declared.non_operational)
        .map(|((ps, _), state)| (ps, &state.power_w))
        .max_by(|a, b| a.1.value.total_cmp(&b.1.value))
}

/// Power of a drive at work and idle in PS0, declared or else assumed. `states` has the power of each state. Active
/// power is at least idle power, and idle power at least sleep power.
fn awake(drive: &Drive, states: &[TruePowerState]) -> (Figure, Figure) {
    let first = drive.states.first().copied().unwrap_or_default();
    let most = first.max_power.map_or(5.0, watts);
    let plausible = |power: Option<Microwatts>| {
        power
            .map(watts)
            .filter(|p| (f64::EPSILON..=most).contains(p))
    };
    let mut active = plausible(first.active_power).map_or_else(
        || Figure::assumed(most / 2.0, "half of the maximum power of PS0"),
        Figure::plain,
    );
    let mut idle = plausible(first.idle_power).map_or_else(|| waiting(drive, most), Figure::plain);
    if idle.value > active.value {
        idle = Figure::assumed(active.value, "at most what it draws at work");
    }
    if let Some((ps, asleep)) = most_asleep(drive, states).filter(|(_, p)| p.value > idle.value) {
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

/// Idle power in PS0 for a drive that declares none; `most`: maximum power of PS0 in W.
fn waiting(drive: &Drive, most: f64) -> Figure {
    let working = drive.states.iter().filter(|s| !s.non_operational);
    let mut powers = working.filter_map(|s| s.max_power).map(watts);
    let first = powers.next().unwrap_or(most);
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
    /// Finds a drive: a built-in model by name; a `.toml` file with a model; another file with a tool's output
    /// ([`id_ctrl`]); or a library drive by any name accepted by [`DriveLibrary::find`].
    ///
    /// # Errors
    /// The file cannot be read or describes no drive, or the library has no such drive.
    pub fn find(name: &str) -> Result<Self, MachineError> {
        let path = Path::new(name);
        if path.extension().is_some_and(|e| e == "toml") {
            let text = library::read(path)?;
            return Self::parse(&text, name);
        }
        let builtin = |wanted: &dyn Fn(&str, &str) -> bool| {
            BUILTIN.iter().find(|(known, text)| wanted(known, text))
        };
        if let Some((known, text)) = builtin(&|known, _| known.eq_ignore_ascii_case(name.trim())) {
            return Self::parse(text, known);
        }
        if path.is_file() {
            return Self::printed(path);
        }
        let found = match DriveLibrary::builtin().find(name) {
            Ok(found) => found,
            Err(error) => return Err(Self::missing_file(name).unwrap_or(error.into())),
        };
        let line = format!("library = \"{}\"", found.name);
        let model = match builtin(&|_, text| text.lines().any(|l| l == line)) {
            Some((known, text)) => Self::parse(text, known)?,
            None => Self::declared(&found.usual_table().drive),
        };
        Ok(Self {
            note: found.note_on(name),
            ..model
        })
    }

    /// The error for a name that looks like a missing file; `None` for other names.
    pub fn missing_file(name: &str) -> Option<MachineError> {
        let path = Path::new(name);
        let endings = ["txt", "json", "bin", "log", "out", "dump"];
        let ending = path.extension().and_then(|e| e.to_str());
        if path.components().count() < 2 && !ending.is_some_and(|e| endings.contains(&e)) {
            return None;
        }
        let source = match path.metadata() {
            Err(error) => error,
            Ok(_) => io::Error::new(
                io::ErrorKind::InvalidInput,
                "expected a drive's name, or a regular file with the output of nvme id-ctrl or smartctl",
            ),
        };
        Some(MachineError::Read {
            path: path.to_owned(),
            source,
        })
    }

    /// The model of a drive printed by a tool into a file.
    fn printed(path: &Path) -> Result<Self, MachineError> {
        let file = path.display().to_string();
        let found = id_ctrl::parse(&file, &library::read_bytes(path)?)?;
        let apst = match found.drive.apsta {
            None => Some("support of APST is not known, and is assumed".to_owned()),
            Some(_) => None,
        };
        let assumed: Vec<String> = found.assumptions().into_iter().chain(apst).collect();
        Ok(Self {
            note: (!assumed.is_empty()).then(|| format!("{file}: {}", assumed.join("; "))),
            ..Self::declared(&found.drive)
        })
    }

    /// The library drive meant by a short name such as `sn530`, also accepted by [`DriveModel::find`].
    pub fn library_name(short: &str) -> Option<&'static str> {
        let (_, text) = BUILTIN
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(short.trim()))?;
        text.lines()
            .find_map(|line| line.strip_prefix("library = \"")?.strip_suffix('"'))
    }

    /// Parses and checks a drive model; `origin` names it in errors.
    ///
    /// # Errors
    /// It is no drive model, a value cannot be, or the library has no such drive.
    pub fn parse(text: &str, origin: &str) -> Result<Self, MachineError> {
        let file: ModelFile =
            toml::from_str(text).map_err(|e| library::parse_error(text, origin, &e))?;
        let invalid = |key: &str, message: String| MachineError::Invalid {
            origin: origin.to_owned(),
            key: key.to_owned(),
            message,
        };
        if file.schema != 1 {
            return Err(invalid("schema", "this version reads schema 1".into()));
        }
        let found = DriveLibrary::builtin().find(&file.library)?;
        let mut model = Self::declared(&found.usual_table().drive);
        model.name = file.name;
        model.source = file.source;
        model.buffer = file.buffer.or(model.buffer);
        model.flash = file.flash;
        let put = |to: &mut Figure, given: Option<Figure>| {
            if let Some(figure) = given {
                *to = figure;
            }
        };
        put(&mut model.read_service_us, file.read_service_us);
        put(&mut model.write_service_us, file.write_service_us);
        put(&mut model.flush_us, file.flush_us);
        put(&mut model.read_mb_per_s, file.read_mb_per_s);
        put(&mut model.write_mb_per_s, file.write_mb_per_s);
        put(&mut model.read_stream_mb_per_s, file.read_stream_mb_per_s);
        put(&mut model.write_stream_mb_per_s, file.write_stream_mb_per_s);
        put(&mut model.spread, file.spread);
        put(&mut model.parallel_units, file.parallel_units);
        put(&mut model.reads_by_address, file.reads_by_address);
        put(&mut model.capacity_gb, file.capacity_gb);
        if let Some(power) = &mut model.power {
            put(&mut power.active_w, file.active_w);
            put(&mut power.idle_w, file.idle_w);
            power.transition_w = between(&power.idle_w, &power.active_w);
            put(&mut power.transition_w, file.transition_w);
            put(&mut power.rest_after_ms, file.rest_after_ms);
            put(&mut power.rest_exit_us, file.rest_exit_us);
            power.background = file.background;
            for given in file.state {
                let last = power.states.len().saturating_sub(1);
                let state = power
                    .states
                    .get_mut(given.ps)
                    .ok_or_else(|| invalid("state.ps", format!("{} is above {last}", given.ps)))?;
                put(&mut state.entry_us, given.true_entry_us);
                put(&mut state.exit_us, given.true_exit_us);
                put(&mut state.power_w, given.power_w);
            }
        }
        model
            .check()
            .map_err(|(key, message)| invalid(&key, message))?;
        Ok(model)
    }

    /// The model of a drive known only by declared states.
    pub fn declared(drive: &Drive) -> Self {
        Self {
            name: drive.model.clone(),
            device: None,
            read_service_us: Figure::assumed(90.0, "TLC flash, one 4 KiB read at a time"),
            write_service_us: Figure::assumed(25.0, "writes end in the drive's buffer"),
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
            source: drive.source.clone(),
            buffer: Some(WriteBuffer {
                kib: Figure::assumed(8192.0, "typical client drive without DRAM"),
                media_us: Figure::assumed(
                    8.0,
                    "500 MB/s, a typical client drive's cached write rate",
                ),
            }),
            flash: None,
            power: Some(DrivePower::declared(drive)),
            in_force: None,
            note: None,
        }
    }

    /// Number of units that reads are spread over, if each read waits for its address's unit.
    pub fn addressed_units(&self) -> Option<usize> {
        (self.reads_by_address.value > 0.0).then_some(self.parallel_units.value as usize)
    }

    /// Capacity in bytes of the whole volume, all drives together.
    pub fn capacity(&self) -> u64 {
        let of_one = if self.capacity_gb.is_given() {
            (self.capacity_gb.value * 1e9).round() as u64
        } else {
            DEFAULT_CAPACITY
        };
        of_one.saturating_mul(self.count as u64)
    }

    /// The key of the first impossible value, with an explanation.
    pub(super) fn check(&self) -> Result<(), (String, String)> {
        let bad = |key: &str, message: &str| Err((key.to_owned(), message.to_owned()));
        self.check_ranges()?;
        if self.parallel_units.value.fract() != 0.0 {
            return bad(
                "drive.parallel_units",
                "a drive serves a whole number of requests at a time",
            );
        }
        if ![0.0, 1.0].contains(&self.reads_by_address.value) {
            return bad(
                "drive.reads_by_address",
                "1 if a read waits for the unit that its address lies on, else 0",
            );
        }
        if self.read_service_us.value <= 0.0 || self.write_service_us.value <= 0.0 {
            return bad("drive", "a service time is above 0");
        }
        if self.count == 0 || self.count > 1024 {
            return bad("drive.count", "a volume has 1 to 1024 drives");
        }
        if self.count > 1 && self.chunk_kib.value < 1.0 {
            return bad(
                "drive.chunk_kib",
                "several drives need the size of a chunk, at least 1 KiB",
            );
        }
        if let Some(power) = &self.power
            && let Some((ps, asleep)) = power.most_asleep()
            && asleep.value > power.idle_w.value
        {
            return bad(
                &format!("drive.PS{ps}.power_w"),
                &format!(
                    "a sleeping drive draws no more than a waiting one: {} W, and idle_w is {} W",
                    asleep.value, power.idle_w.value
                ),
            );
        }
        if self.buffer.as_ref().is_some_and(|b| b.kib.value < 4.0) {
            return bad(
                "drive.buffer.kib",
                "a buffer holds at least one block of 4 KiB",
            );
        }
        if let Some(flash) = &self.flash {
            if self.buffer.is_none() {
                return bad(
                    "drive.flash",
                    "flash needs a buffer that is emptied into it",
                );
            }
            if flash.read_mb_per_s.value < 1.0 {
                return bad("drive.flash.read_mb_per_s", "a rate is at least 1 MB/s");
            }
            if flash.program_us.value < 0.001 {
                return bad("drive.flash.program_us", "programming takes time");
            }
        }
        Ok(())
    }
}

impl TruePowerState {
    /// As declared, the declared power being a maximum.
    fn declared(state: &PowerState) -> Self {
        let power = state.idle_power.or(state.max_power);
        Self {
            entry_us: Figure::plain(f64::from(state.entry_latency_us)),
            exit_us: Figure::plain(f64::from(state.exit_latency_us)),
            power_w: Figure::plain(power.map_or(0.0, watts)),
        }
    }
}

fn watts(power: Microwatts) -> f64 {
    power.0 as f64 / 1e6
}

impl Figure {
    /// The figure as a power, its value being in watts.
    pub fn watts(&self) -> Microwatts {
        Microwatts((self.value * 1e6).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_built_in_model_loads_and_its_drive_leads_to_it() {
        for (name, _) in BUILTIN {
            let model = DriveModel::find(name).unwrap();
            let power = model.power.as_ref().unwrap();
            assert_eq!(
                DriveModel::find(&power.declared.model).unwrap().name,
                model.name
            );
        }
    }

    #[test]
    fn every_drive_of_the_library_has_a_valid_model() {
        for table in DriveLibrary::builtin().tables() {
            let model = DriveModel::declared(&table.drive);
            model.check().unwrap();
            let power = model.power.unwrap();
            for (state, declared) in power.states.iter().zip(&table.drive.states) {
                assert!((state.exit_us.value - f64::from(declared.exit_latency_us)).abs() < 1e-9);
            }
            assert_eq!(power.states.len(), table.drive.states.len());
            assert_drawing_less_the_deeper(&power);
        }
    }

    fn assert_drawing_less_the_deeper(power: &DrivePower) {
        let (active, idle) = (power.active_w.value, power.idle_w.value);
        assert!(active >= idle, "{power:?}");
        for (state, declared) in power.states.iter().zip(&power.declared.states) {
            assert!(
                !declared.non_operational || state.power_w.value <= idle,
                "{power:?}"
            );
        }
    }

    #[test]
    fn an_awake_drive_draws_what_its_states_allow() {
        let waits = |name: &str| {
            let power = DriveModel::find(name).unwrap().power.unwrap();
            (power.active_w.watts(), power.idle_w.watts())
        };
        let watts = |watts: u64| Microwatts(watts * 1_000_000);
        // PS6 declares 5 W asleep, more than a fifth of PS5's 9.9 W.
        assert_eq!(waits("KCM61RUL960G"), (watts(25), watts(5)));
        // All operational states declare 9.39 W.
        let (_, idle) = waits("Samsung SSD 990 PRO 1TB");
        assert_eq!(idle, Microwatts(901_440));
        // Declares to draw 0 W at work.
        assert_eq!(waits("CT1000P3SSD8").0, watts(3));
        // Declares 300 W at work, and 6 W at most.
        assert_eq!(waits("MTFDHBK256TDP").0, watts(3));
    }

    proptest! {
        #[test]
        fn no_identify_data_makes_a_sleeping_drive_draw_more(
            states in prop::collection::vec(
                (any::<bool>(), prop::option::of(0_u64..700_000_000), prop::option::of(0_u64..700_000_000),
                 prop::option::of(0_u64..700_000_000)),
                1..=32,
            ),
        ) {
            let powers = |(non_operational, max, idle, active): (bool, Option<u64>, Option<u64>, Option<u64>)| PowerState {
                non_operational,
                max_power: max.map(Microwatts),
                idle_power: idle.map(Microwatts),
                active_power: active.map(Microwatts),
                ..PowerState::default()
            };
            let drive = Drive {
                npss: (states.len() - 1) as u8,
                states: states.into_iter().map(powers).collect(),
                ..DriveLibrary::builtin().tables().next().unwrap().drive.clone()
            };
            let model = DriveModel::declared(&drive);
            prop_assert!(model.check().is_ok());
            assert_drawing_less_the_deeper(&model.power.unwrap());
        }
    }

    #[test]
    fn impossible_values_name_their_key() {
        let text = BUILTIN[0].1;
        for (more, key) in [
            ("active_w = -1\n", "drive.active_w"),
            ("idle_w = nan\n", "drive.idle_w"),
            ("idle_w = 2000\n", "drive.idle_w"),
            ("parallel_units = 0\n", "drive.parallel_units"),
            ("parallel_units = 1.5\n", "drive.parallel_units"),
            ("reads_by_address = 2\n", "drive.reads_by_address"),
            ("read_service_us = 0\n", "drive"),
            ("buffer = { kib = 3, media_us = 1 }\n", "drive.buffer.kib"),
            (
                "flash = { program_us = 0, read_mb_per_s = 100 }\n",
                "drive.flash.program_us",
            ),
            (
                "flash = { program_us = 450, read_mb_per_s = 0 }\n",
                "drive.flash.read_mb_per_s",
            ),
            (
                "flash = { program_us = 450, read_mb_per_s = 100, suspend_us = -1 }\n",
                "drive.flash.suspend_us",
            ),
            ("[[state]]\nps = 5\n", "state.ps"),
            ("[[state]]\nps = 3\npower_w = -0.1\n", "drive.PS3.power_w"),
            ("[[state]]\nps = 4\npower_w = 0.5\n", "drive.PS4.power_w"),
            ("idle_w = 0.02\n", "drive.PS3.power_w"),
        ] {
            let head = "schema = 1\nname = \"x\"\nlibrary = \"WDC PC SN530 SDBPNPZ-256G-1006\"\nsource = \"test\"\n";
            let message = DriveModel::parse(&format!("{head}{more}"), "d.toml")
                .unwrap_err()
                .to_string();
            assert!(
                message.starts_with("d.toml: ") && message.contains(key),
                "{message}"
            );
        }
        let message = DriveModel::parse(&format!("{text}nonsense = 1\n"), "d.toml")
            .unwrap_err()
            .to_string();
        assert!(message.starts_with("d.toml:"), "{message}");
        assert!(DriveModel::find("no such drive at all").is_err());
    }
}
