//! Reads Identify Controller dumps: what `nvme id-ctrl` prints with `-b` (the controller's 4096
//! bytes), with `-o json`, and as text. Which of them it is, is found out from the content.
//!
//! Offsets and bits are those of the NVMe Base Specification, "Identify Controller Data Structure"
//! and "Power State Descriptor". The two other forms follow nvme-cli, with its habits: latencies
//! of 2^31 us and more appear as negative numbers.

use serde_json::Value;
use wakepath_units::Microwatts;

use super::{Drive, MAX_POWER_STATES, PowerState, watts};

/// Size of the Identify Controller data structure in bytes.
pub const SIZE: usize = 4096;

/// A dump that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", .line.map(|l| format!(":{l}")).unwrap_or_default())]
pub struct IdCtrlError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, counted from 1, where the form has lines and the problem a place.
    pub line: Option<usize>,
    /// What is wrong.
    pub problem: IdCtrlProblem,
}

/// What is wrong with a dump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdCtrlProblem {
    /// Nothing in it.
    #[error("the file is empty, expected an Identify Controller dump")]
    Empty,
    /// Binary, but not as long as the data structure.
    #[error("{0} bytes, expected the {SIZE} of `nvme id-ctrl -b`")]
    Size(usize),
    /// Neither vendor nor model.
    #[error("not an Identify Controller dump: vendor id and model are empty")]
    Blank,
    /// Text of another kind.
    #[error("not an Identify Controller dump: no \"{0}\" in it")]
    Foreign(&'static str),
    /// More states than there can be.
    #[error("npss is {0}, but 31 is the last possible power state")]
    TooManyStates(u64),
    /// The states do not fit npss.
    #[error("npss {npss} means {} power states, but {found} are listed", .npss + 1)]
    StateCount {
        /// The drive's last state.
        npss: usize,
        /// How many states there are.
        found: usize,
    },
    /// The JSON parser's complaint.
    #[error("column {column}: not valid JSON: {what}")]
    Json {
        /// Column, counted from 1.
        column: usize,
        /// What the parser says.
        what: String,
    },
    /// A field that makes no sense.
    #[error("{field} is {found}, expected {expected}")]
    Field {
        /// The field.
        field: String,
        /// What it holds.
        found: String,
        /// What it should hold.
        expected: &'static str,
    },
}

/// A problem with its line, before the file's name is known.
type Located = (Option<usize>, IdCtrlProblem);

/// Reads a dump in any of the three forms. `file` names it in errors and in [`Drive::source`].
///
/// # Errors
/// [`IdCtrlError`] for whatever is not a complete dump with 1 to 32 power states.
pub fn parse(file: &str, data: &[u8]) -> Result<Drive, IdCtrlError> {
    let drive = if data.is_empty() {
        Err((None, IdCtrlProblem::Empty))
    } else {
        // The structure has bytes that are always 0; no text has any. Text need not be UTF-8: a
        // drive may hold anything in its serial number.
        let text = String::from_utf8_lossy(data);
        if data.contains(&0) {
            from_binary(data).map_err(|problem| (None, problem))
        } else if text.trim_start().starts_with(['{', '[']) {
            from_json(&text)
        } else {
            from_text(&text)
        }
    };
    let located = drive.and_then(|drive: Drive| {
        if drive.model.is_empty() && drive.vendor_id.unwrap_or(0) == 0 {
            Err((None, IdCtrlProblem::Blank))
        } else {
            Ok(drive)
        }
    });
    match located {
        Ok(drive) => Ok(Drive {
            source: file.to_owned(),
            ..drive
        }),
        Err((line, problem)) => Err(IdCtrlError {
            file: file.to_owned(),
            line,
            problem,
        }),
    }
}

fn checked_npss(npss: u64) -> Result<u8, IdCtrlProblem> {
    if npss < MAX_POWER_STATES as u64 {
        Ok(npss as u8)
    } else {
        Err(IdCtrlProblem::TooManyStates(npss))
    }
}

/// The maximum power: `MP` in 0.0001 W if `MXPS` (bit 0 of the flags) is set, else in 0.01 W.
fn max_power(value: u64, flags: u64) -> Option<Microwatts> {
    let unit = if flags & 1 == 0 { 10_000 } else { 100 };
    (value != 0).then_some(Microwatts(value * unit))
}

/// Idle or active power: scale 1 is 0.0001 W, 2 is 0.01 W, 0 is "not reported", 3 is reserved.
fn scaled_power(value: u64, scale: u64) -> Option<Microwatts> {
    let unit = match scale {
        1 => 100,
        2 => 10_000,
        _ => return None,
    };
    (value != 0).then_some(Microwatts(value * unit))
}

/// Ranks are 5 bits wide; the others are reserved.
fn rank(value: u64) -> u8 {
    (value & 0x1f) as u8
}

/// A fixed-width string of the drive without its padding. What no terminal should get becomes a
/// replacement character.
fn string(text: &str) -> String {
    text.trim_end_matches([' ', '\0', '\r', '\n', '\t'])
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

// ---- binary

fn from_binary(data: &[u8]) -> Result<Drive, IdCtrlProblem> {
    if data.len() != SIZE {
        return Err(IdCtrlProblem::Size(data.len()));
    }
    let u16_at = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
    let u32_at = |at: usize| u32::from(u16_at(at + 2)) << 16 | u32::from(u16_at(at));
    let text_at = |range: std::ops::Range<usize>| string(&String::from_utf8_lossy(&data[range]));
    let npss = checked_npss(data[263].into())?;
    let states = (0..=usize::from(npss))
        .map(|i| {
            let at = 2048 + 32 * i;
            let byte = |offset: usize| u64::from(data[at + offset]);
            let word = |offset: usize| u64::from(u16_at(at + offset));
            PowerState {
                max_power: max_power(word(0), byte(3)),
                non_operational: byte(3) & 2 != 0,
                entry_latency_us: u32_at(at + 4),
                exit_latency_us: u32_at(at + 8),
                read_throughput_rank: rank(byte(12)),
                read_latency_rank: rank(byte(13)),
                write_throughput_rank: rank(byte(14)),
                write_latency_rank: rank(byte(15)),
                idle_power: scaled_power(word(16), byte(18) >> 6),
                active_power: scaled_power(word(20), byte(22) >> 6),
            }
        })
        .collect();
    Ok(Drive {
        model: text_at(24..64),
        firmware: text_at(64..72),
        vendor_id: Some(u16_at(0)),
        subsystem_vendor_id: Some(u16_at(2)),
        npss,
        states,
        apsta: Some(data[265] != 0),
        source: String::new(),
    })
}

// ---- JSON

fn from_json(text: &str) -> Result<Drive, Located> {
    let value: Value = serde_json::from_str(text).map_err(|e| {
        let what = e.to_string();
        // The parser's own message ends in the place, which is told separately.
        let what = what
            .rsplit_once(" at line ")
            .map_or(what.as_str(), |(what, _)| what);
        let problem = IdCtrlProblem::Json {
            column: e.column(),
            what: what.to_owned(),
        };
        (Some(e.line()), problem)
    })?;
    json_drive(&value).map_err(|problem| (None, problem))
}

fn json_drive(json: &Value) -> Result<Drive, IdCtrlProblem> {
    let text = |field: &'static str| match json.get(field) {
        None => Err(IdCtrlProblem::Foreign(field)),
        Some(Value::String(s)) => Ok(string(s)),
        Some(other) => Err(wrong(field, other, "a string")),
    };
    let optional = |field: &'static str, most: i64, expected| match json.get(field) {
        None => Ok(None),
        Some(value) => json_number(field, value, most, expected).map(Some),
    };
    let model = text("mn")?;
    let npss = optional("npss", 255, "a number from 0 to 31")?
        .ok_or(IdCtrlProblem::Foreign("npss"))
        .and_then(checked_npss)?;
    let Some(descriptors) = json.get("psds") else {
        return Err(IdCtrlProblem::Foreign("psds"));
    };
    let Value::Array(descriptors) = descriptors else {
        return Err(wrong("psds", descriptors, "an array of power states"));
    };
    let states = descriptors
        .iter()
        .enumerate()
        .map(|(i, descriptor)| json_state(i, descriptor))
        .collect::<Result<Vec<_>, _>>()?;
    check_count(npss, states.len())?;
    let id = "a number from 0 to 65535";
    Ok(Drive {
        model,
        firmware: text("fr")?,
        vendor_id: optional("vid", 0xffff, id)?.map(|v| v as u16),
        subsystem_vendor_id: optional("ssvid", 0xffff, id)?.map(|v| v as u16),
        npss,
        states,
        apsta: optional("apsta", 255, "a number from 0 to 255")?.map(|v| v != 0),
        source: String::new(),
    })
}

fn json_state(index: usize, json: &Value) -> Result<PowerState, IdCtrlProblem> {
    let get = |field: &str, most: i64, expected| {
        let name = format!("psds[{index}].{field}");
        let value = json.get(field).unwrap_or(&Value::Null);
        json_number(&name, value, most, expected)
    };
    let byte = |field| get(field, 0xff, "a number from 0 to 255");
    let word = |field| get(field, 0xffff, "a number from 0 to 65535");
    // nvme-cli prints these as signed 32-bit numbers.
    let latency = |field| {
        let name = format!("psds[{index}].{field}");
        let value = json.get(field).unwrap_or(&Value::Null);
        value
            .as_i64()
            .and_then(unwrapped_latency)
            .ok_or_else(|| wrong(&name, value, LATENCY))
    };
    let flags = byte("flags")?;
    Ok(PowerState {
        max_power: max_power(word("max_power")?, flags),
        non_operational: flags & 2 != 0,
        entry_latency_us: latency("entry_lat")?,
        exit_latency_us: latency("exit_lat")?,
        read_throughput_rank: rank(byte("read_tput")?),
        read_latency_rank: rank(byte("read_lat")?),
        write_throughput_rank: rank(byte("write_tput")?),
        write_latency_rank: rank(byte("write_lat")?),
        idle_power: scaled_power(word("idle_power")?, byte("idle_scale")?),
        active_power: scaled_power(word("active_power")?, byte("active_scale")?),
    })
}

fn json_number(
    field: &str,
    value: &Value,
    most: i64,
    expected: &'static str,
) -> Result<u64, IdCtrlProblem> {
    value
        .as_i64()
        .filter(|n| (0..=most).contains(n))
        .map(|n| n as u64)
        .ok_or_else(|| wrong(field, value, expected))
}

fn wrong(field: &str, value: &Value, expected: &'static str) -> IdCtrlProblem {
    let found = match value {
        Value::Null => "missing".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    };
    IdCtrlProblem::Field {
        field: field.to_owned(),
        found,
        expected,
    }
}

// ---- text

const LATENCY: &str = "microseconds from 0 to 4294967295";

/// Undoes nvme-cli's signed printing of 32-bit latencies.
fn unwrapped_latency(value: i64) -> Option<u32> {
    u32::try_from(value)
        .ok()
        .or_else(|| i32::try_from(value).ok().map(|v| v as u32))
}

fn from_text(text: &str) -> Result<Drive, Located> {
    let mut reader = TextReader::default();
    for (i, line) in text.lines().enumerate() {
        reader
            .line(line)
            .map_err(|problem| (Some(i + 1), problem))?;
    }
    reader.finish().map_err(|problem| (None, problem))
}

/// What the lines read so far say.
#[derive(Default)]
struct TextReader {
    model: Option<String>,
    firmware: Option<String>,
    vendor_id: Option<u16>,
    subsystem_vendor_id: Option<u16>,
    npss: Option<u8>,
    apsta: Option<bool>,
    states: Vec<PowerState>,
    /// Which fields of the last state were there: each must be.
    seen: u8,
    /// The lines after a `ps` line that start with blanks belong to it.
    in_state: bool,
}

const SEEN_MODE: u8 = 1;
const SEEN_POWER: u8 = 2;
const SEEN_ENTRY: u8 = 4;
const SEEN_EXIT: u8 = 8;

impl TextReader {
    fn line(&mut self, line: &str) -> Result<(), IdCtrlProblem> {
        if self.in_state && line.starts_with([' ', '\t']) {
            return self.state_fields(line);
        }
        self.in_state = false;
        let Some((key, value)) = line.split_once(':') else {
            return Ok(());
        };
        let value = value.strip_prefix(' ').unwrap_or(value);
        match key.trim_end() {
            "vid" => self.vendor_id = Some(text_number("vid", value, 0xffff)? as u16),
            "ssvid" => self.subsystem_vendor_id = Some(text_number("ssvid", value, 0xffff)? as u16),
            "mn" => self.model = Some(string(value)),
            "fr" => self.firmware = Some(string(value)),
            "npss" => self.npss = Some(checked_npss(text_number("npss", value, 255)?)?),
            "apsta" => self.apsta = Some(text_number("apsta", value, 255)? != 0),
            key => {
                if let Some(index) = key.strip_prefix("ps ") {
                    return self.state(index.trim(), value);
                }
            }
        }
        Ok(())
    }

    fn state(&mut self, index: &str, fields: &str) -> Result<(), IdCtrlProblem> {
        self.complete_state()?;
        if index.parse() != Ok(self.states.len()) || self.states.len() == MAX_POWER_STATES {
            return Err(IdCtrlProblem::Field {
                field: "ps".to_owned(),
                found: format!("\"{index}\""),
                expected: "the power states 0 to npss in order",
            });
        }
        self.states.push(PowerState::default());
        self.seen = 0;
        self.in_state = true;
        self.state_fields(fields)
    }

    fn state_fields(&mut self, line: &str) -> Result<(), IdCtrlProblem> {
        let index = self.states.len().saturating_sub(1);
        let Some(state) = self.states.last_mut() else {
            return Ok(());
        };
        for token in line.split_whitespace() {
            match token {
                "operational" => self.seen |= SEEN_MODE,
                "non-operational" => {
                    state.non_operational = true;
                    self.seen |= SEEN_MODE;
                }
                _ => {}
            }
            let Some((key, value)) = token.split_once(':') else {
                continue;
            };
            let wrong = |expected| IdCtrlProblem::Field {
                field: format!("ps {index} {key}"),
                found: format!("\"{value}\""),
                expected,
            };
            let power = || match value {
                "-" | "reserved" => Ok(None),
                _ => value
                    .strip_suffix('W')
                    .and_then(watts::parse)
                    .map(|p| Some(p).filter(|p| p.0 != 0))
                    .ok_or_else(|| wrong("watts such as 0.0500W")),
            };
            let latency = || {
                value
                    .parse()
                    .ok()
                    .and_then(unwrapped_latency)
                    .ok_or_else(|| wrong(LATENCY))
            };
            let rank = || {
                value
                    .parse::<u8>()
                    .map(|n| rank(n.into()))
                    .map_err(|_| wrong("a rank from 0 to 31"))
            };
            match key {
                "mp" => {
                    state.max_power = power()?;
                    self.seen |= SEEN_POWER;
                }
                "enlat" => {
                    state.entry_latency_us = latency()?;
                    self.seen |= SEEN_ENTRY;
                }
                "exlat" => {
                    state.exit_latency_us = latency()?;
                    self.seen |= SEEN_EXIT;
                }
                "rrt" => state.read_throughput_rank = rank()?,
                "rrl" => state.read_latency_rank = rank()?,
                "rwt" => state.write_throughput_rank = rank()?,
                "rwl" => state.write_latency_rank = rank()?,
                "idle_power" => state.idle_power = power()?,
                "active_power" => state.active_power = power()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The last state must have told what planning needs.
    fn complete_state(&self) -> Result<(), IdCtrlProblem> {
        let Some(index) = self.states.len().checked_sub(1) else {
            return Ok(());
        };
        let fields = [
            (SEEN_POWER, "mp"),
            (SEEN_MODE, "mode"),
            (SEEN_ENTRY, "enlat"),
            (SEEN_EXIT, "exlat"),
        ];
        match fields.iter().find(|(bit, _)| self.seen & bit == 0) {
            None => Ok(()),
            Some((_, name)) => Err(IdCtrlProblem::Field {
                field: format!("ps {index} {name}"),
                found: "missing".to_owned(),
                expected: "mp, operational or non-operational, enlat and exlat of every state",
            }),
        }
    }

    fn finish(self) -> Result<Drive, IdCtrlProblem> {
        self.complete_state()?;
        let Some(model) = self.model else {
            return Err(IdCtrlProblem::Foreign("mn"));
        };
        let Some(npss) = self.npss else {
            return Err(IdCtrlProblem::Foreign("npss"));
        };
        check_count(npss, self.states.len())?;
        Ok(Drive {
            model,
            firmware: self.firmware.unwrap_or_default(),
            vendor_id: self.vendor_id,
            subsystem_vendor_id: self.subsystem_vendor_id,
            npss,
            states: self.states,
            apsta: self.apsta,
            source: String::new(),
        })
    }
}

fn check_count(npss: u8, found: usize) -> Result<(), IdCtrlProblem> {
    let npss = usize::from(npss);
    if found == npss + 1 {
        Ok(())
    } else {
        Err(IdCtrlProblem::StateCount { npss, found })
    }
}

/// A decimal or `0x` number.
fn text_number(field: &str, text: &str, most: u64) -> Result<u64, IdCtrlProblem> {
    let text = text.trim();
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number
        .ok()
        .filter(|n| *n <= most)
        .ok_or_else(|| IdCtrlProblem::Field {
            field: field.to_owned(),
            found: format!("\"{text}\""),
            expected: if most > 255 {
                "a number from 0 to 0xffff"
            } else {
                "a number from 0 to 255"
            },
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A dump of an SN530-like drive.
    fn binary() -> Vec<u8> {
        let mut data = vec![0; SIZE];
        data[..4].copy_from_slice(&[0xb7, 0x15, 0x28, 0x10]);
        data[24..64].fill(b' ');
        data[24..32].copy_from_slice(b"PC SN530");
        data[64..72].copy_from_slice(b"HPS2    ");
        data[263] = 1;
        data[265] = 1;
        data[2048..2050].copy_from_slice(&350_u16.to_le_bytes());
        let ps1 = &mut data[2080..2112];
        ps1[..2].copy_from_slice(&250_u16.to_le_bytes());
        ps1[3] = 3;
        ps1[4..8].copy_from_slice(&3900_u32.to_le_bytes());
        ps1[8..12].copy_from_slice(&4_000_000_000_u32.to_le_bytes());
        ps1[12..16].copy_from_slice(&[1, 2, 3, 4]);
        ps1[16..18].copy_from_slice(&5_u16.to_le_bytes());
        ps1[18] = 0x40;
        ps1[20..22].copy_from_slice(&160_u16.to_le_bytes());
        ps1[22] = 0x82;
        data
    }

    const TEXT: &str = "\
NVME Identify Controller:
vid       : 0x15b7
ssvid     : 0x1028
sn        : 123
mn        : PC SN530                                \n\
fr        : HPS2    \n\
npss      : 1
apsta     : 0x1
  [0:0] : 0x1\tAutonomous Power State Transitions Supported
subnqn    : nqn.2014-08.org.example:uuid:ps 0
ps      0 : mp:3.50W operational enlat:0 exlat:0 rrt:0 rrl:0
            rwt:0 rwl:0 idle_power:- active_power:-
            active_power_workload:-
ps      1 : mp:0.0250W non-operational enlat:3900 exlat:-294967296 rrt:1 rrl:2
            rwt:3 rwl:4 idle_power:0.0005W active_power:1.60W
            active_power_workload:80K 128KiB SW
";

    const JSON: &str = r#"{"vid":5559,"ssvid":4136,"mn":"PC SN530   ","fr":"HPS2    ","npss":1,
"apsta":1,"tnvmcap":"0","psds":[
{"max_power":350,"flags":0,"entry_lat":0,"exit_lat":0,"read_tput":0,"read_lat":0,"write_tput":0,
 "write_lat":0,"idle_power":0,"idle_scale":0,"active_power":0,"active_power_work":0,
 "active_scale":0},
{"max_power":250,"flags":3,"entry_lat":3900,"exit_lat":-294967296,"read_tput":1,"read_lat":2,
 "write_tput":3,"write_lat":4,"idle_power":5,"idle_scale":1,"active_power":160,
 "active_power_work":2,"active_scale":2}]}"#;

    fn error(data: impl AsRef<[u8]>) -> String {
        parse("dump", data.as_ref()).unwrap_err().to_string()
    }

    #[test]
    fn the_three_forms_say_the_same() {
        let drive = parse("dump", &binary()).unwrap();
        assert_eq!(drive.model, "PC SN530");
        assert_eq!(drive.firmware, "HPS2");
        assert_eq!(drive.vendor_id, Some(0x15b7));
        assert_eq!(drive.apsta, Some(true));
        assert_eq!(drive.states[0].max_power, Some(Microwatts(3_500_000)));
        let ps1 = &drive.states[1];
        assert!(ps1.non_operational);
        assert_eq!(ps1.max_power, Some(Microwatts(25_000)));
        assert_eq!(ps1.exit_latency_us, 4_000_000_000);
        assert_eq!(ps1.idle_power, Some(Microwatts(500)));
        assert_eq!(ps1.active_power, Some(Microwatts(1_600_000)));
        assert_eq!(parse("dump", TEXT.as_bytes()).unwrap(), drive);
        assert_eq!(parse("dump", JSON.as_bytes()).unwrap(), drive);
    }

    #[test]
    fn a_missing_apsta_is_unknown() {
        let text = TEXT.replace("apsta     : 0x1\n", "");
        assert_eq!(parse("dump", text.as_bytes()).unwrap().apsta, None);
        let json = JSON.replace("\"apsta\":1,", "");
        assert_eq!(parse("dump", json.as_bytes()).unwrap().apsta, None);
    }

    #[test]
    fn useless_binaries_are_named() {
        assert_eq!(
            error(""),
            "dump: the file is empty, expected an Identify Controller dump"
        );
        assert_eq!(
            error(&binary()[..512]),
            "dump: 512 bytes, expected the 4096 of `nvme id-ctrl -b`"
        );
        assert_eq!(
            error([0; SIZE]),
            "dump: not an Identify Controller dump: vendor id and model are empty"
        );
        let mut many = binary();
        many[263] = 40;
        assert_eq!(
            error(many),
            "dump: npss is 40, but 31 is the last possible power state"
        );
    }

    #[test]
    fn useless_text_is_named_with_its_line() {
        let with = |from, to| error(TEXT.replacen(from, to, 1));
        assert_eq!(
            with("npss      : 1", "npss      : 40"),
            "dump:7: npss is 40, but 31 is the last possible power state"
        );
        assert_eq!(
            with("npss      : 1", "npss      : 4"),
            "dump: npss 4 means 5 power states, but 2 are listed"
        );
        let ps = TEXT.find("ps      0 :").unwrap();
        assert_eq!(
            error(&TEXT[..ps]),
            "dump: npss 1 means 2 power states, but 0 are listed"
        );
        assert_eq!(
            with("exlat:0", "exlat:fast"),
            "dump:11: ps 0 exlat is \"fast\", expected microseconds from 0 to 4294967295"
        );
        assert!(with("mp:3.50W", "mp:NaNW").starts_with("dump:11: ps 0 mp is \"NaNW\""));
        assert!(with("enlat:3900 ", "").contains("ps 1 enlat is missing"));
        assert!(with("ps      1", "ps      7").starts_with("dump:14: ps is \"7\""));
        assert!(error("hello\n").contains("no \"mn\" in it"));
    }

    #[test]
    fn useless_json_is_named_with_its_place() {
        let with = |from, to| error(JSON.replacen(from, to, 1));
        assert!(error("{\n\"vid\": }").starts_with("dump:2: column 8: not valid JSON: "));
        assert!(error("[]").contains("no \"mn\" in it"));
        assert!(error("{}").contains("no \"mn\" in it"));
        assert!(with("\"npss\":1", "\"npss\":40").contains("npss is 40"));
        assert!(with("\"npss\":1", "\"npss\":-1").contains("npss is -1"));
        assert!(with("\"npss\":1", "\"npss\":2").contains("but 2 are listed"));
        assert!(with("psds", "psd").contains("no \"psds\""));
        assert!(with("\"entry_lat\":3900", "\"entry_lat\":\"x\"").contains("psds[1].entry_lat"));
        assert!(with("\"entry_lat\":3900,", "").contains("psds[1].entry_lat is missing"));
        assert!(with("\"flags\":3", "\"flags\":1e300").contains("psds[1].flags"));
    }

    proptest! {
        #[test]
        fn no_input_panics(data in prop::collection::vec(any::<u8>(), 0..5000)) {
            let _ = parse("dump", &data);
        }

        #[test]
        fn no_damaged_text_panics(at in 0..TEXT.len(), with in "\\PC{0,4}", json in any::<bool>()) {
            let original = if json { JSON } else { TEXT };
            let at = at.min(original.len());
            let text = format!("{}{with}{}", &original[..at], &original[at..]);
            let _ = parse("dump", text.as_bytes());
            let _ = parse("dump", &original.as_bytes()[..at]);
        }

        #[test]
        fn every_structure_with_a_model_is_read(mut data in prop::collection::vec(any::<u8>(), SIZE)) {
            data[0] = 1;
            data[100] = 0;
            data[263] %= 32;
            let drive = parse("dump", &data).unwrap();
            prop_assert_eq!(drive.states.len(), usize::from(data[263]) + 1);
        }
    }
}
