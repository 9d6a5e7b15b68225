//! JSON from `nvme id-ctrl -o json` and `smartctl -j`.

use std::borrow::Cow;

use serde_json::Value;
use wakepath_units::{Microwatts, pasted};

use super::printed::{
    IdCtrlProblem, LATENCY, Located, Printed, checked_npss, max_power, rank, scaled_power, string,
    unwrapped_latency,
};
use crate::drive::PowerState;

/// Cuts JSON out of a text, without prompts, headings and fences. Leading lines become empty so that line numbers
/// stay. `None` without JSON.
pub(super) fn part(text: &str) -> Option<Cow<'_, str>> {
    if starts_json(text.trim_start()) {
        return Some(Cow::Borrowed(text));
    }
    let lines: Vec<&str> = text
        .lines()
        .map(|line| pasted::quote_depth_and_text(line).1)
        .collect();
    let first = lines.iter().position(|line| starts_json(line.trim()))?;
    let last = lines
        .iter()
        .rposition(|line| line.trim_end().ends_with(['}', ']']))?;
    let inside = lines.get(first..=last)?.join("\n");
    Some(Cow::Owned("\n".repeat(first) + &inside))
}

/// Whether JSON of an object, or an array of objects, begins here. `[...]` and `[ 12.3]` are none.
fn starts_json(text: &str) -> bool {
    match text.strip_prefix('[') {
        Some(rest) => rest.trim_start().starts_with(['{', ']']) || rest.trim().is_empty(),
        None => text.starts_with('{'),
    }
}

pub(super) fn read(text: &str) -> Result<Printed, Located> {
    let value: Value = serde_json::from_str(text).map_err(|e| {
        let message = e.to_string();
        // The parser's message ends in the position, which is reported separately.
        let what = message
            .rsplit_once(" at line ")
            .map_or(message.as_str(), |(what, _)| what);
        let problem = IdCtrlProblem::Json {
            column: e.column(),
            what: what.to_owned(),
        };
        (Some(e.line()), problem)
    })?;
    drive(&value).map_err(|problem| (None, problem))
}

fn drive(json: &Value) -> Result<Printed, IdCtrlProblem> {
    match json {
        Value::Array(items) => match &items[..] {
            [only] if only.get("max_power").is_none() => drive(only),
            states if states.iter().any(|s| s.get("max_power").is_some()) => Ok(Printed {
                states: states_of_nvme_cli(states)?,
                ..Printed::default()
            }),
            _ => Err(IdCtrlProblem::Foreign),
        },
        _ if json.get("psds").is_some() => of_nvme_cli(json),
        _ if json.get("nvme_power_states").is_some() => of_smartctl(json),
        _ if ["mn", "npss", "nvme_version"]
            .iter()
            .any(|key| json.get(key).is_some()) =>
        {
            Err(IdCtrlProblem::NoStates)
        }
        _ => Err(IdCtrlProblem::Foreign),
    }
}

fn of_nvme_cli(json: &Value) -> Result<Printed, IdCtrlProblem> {
    let npss = number(json, "npss", 255, "a number from 0 to 31")?;
    Ok(Printed {
        model: text(json, "mn")?,
        firmware: text(json, "fr")?,
        vendor_id: number(json, "vid", 0xffff, PCI_ID)?.map(|v| v as u16),
        subsystem_vendor_id: number(json, "ssvid", 0xffff, PCI_ID)?.map(|v| v as u16),
        npss: npss.map(checked_npss).transpose()?,
        apsta: number(json, "apsta", 255, BYTE)?.map(|v| v != 0),
        states: states_of_nvme_cli(array(json, "psds")?)?,
        coarse_powers: false,
    })
}

fn states_of_nvme_cli(states: &[Value]) -> Result<Vec<PowerState>, IdCtrlProblem> {
    let states = states.iter().enumerate();
    states
        .map(|(index, json)| {
            state_of_nvme_cli(json).map_err(|problem| problem.inside(&format!("psds[{index}]")))
        })
        .collect()
}

/// nvme-cli up to 2.3 has `flags`, later ones its bits by name. Scales are whole bytes of the descriptor up to 2.0.
fn state_of_nvme_cli(json: &Value) -> Result<PowerState, IdCtrlProblem> {
    let (fine, non_operational) = match byte(json, "flags")? {
        Some(flags) => (flags & 1 != 0, flags & 2 != 0),
        None => (
            required(byte(json, "max_power_scale")?, "max_power_scale")? != 0,
            required(
                byte_of_either(json, ["non-operational_state", "non_operational_state"])?,
                "non-operational_state",
            )? != 0,
        ),
    };
    let idle = word(json, "idle_power")?.unwrap_or(0);
    let active = word(json, "active_power")?.unwrap_or(0);
    Ok(PowerState {
        max_power: max_power(required(word(json, "max_power")?, "max_power")?, fine),
        non_operational,
        entry_latency_us: latency(json, "entry_lat")?,
        exit_latency_us: latency(json, "exit_lat")?,
        read_throughput_rank: rank_field(json, "read_tput")?,
        read_latency_rank: rank_field(json, "read_lat")?,
        write_throughput_rank: rank_field(json, "write_tput")?,
        write_latency_rank: rank_field(json, "write_lat")?,
        idle_power: scaled_power(idle, power_scale(byte(json, "idle_scale")?)),
        active_power: scaled_power(
            active,
            power_scale(byte_of_either(json, ["active_scale", "active_work_scale"])?),
        ),
    })
}

fn byte(json: &Value, field: &'static str) -> Result<Option<u64>, IdCtrlProblem> {
    number(json, field, 0xff, BYTE)
}

fn word(json: &Value, field: &'static str) -> Result<Option<u64>, IdCtrlProblem> {
    number(json, field, 0xffff, "a number from 0 to 65535")
}

/// A byte under the first of two names, else under the second.
fn byte_of_either(json: &Value, fields: [&'static str; 2]) -> Result<Option<u64>, IdCtrlProblem> {
    match byte(json, fields[0])? {
        Some(value) => Ok(Some(value)),
        None => byte(json, fields[1]),
    }
}

/// A relative performance rank; 0 if missing.
fn rank_field(json: &Value, field: &'static str) -> Result<u8, IdCtrlProblem> {
    Ok(rank(byte(json, field)?.unwrap_or(0)))
}

/// The scale of a power, printed as number or as the whole byte with the scale in the upper two bits.
fn power_scale(printed: Option<u64>) -> u64 {
    match printed.unwrap_or(0) {
        scale @ 0..=3 => scale,
        byte => byte >> 6,
    }
}

fn of_smartctl(json: &Value) -> Result<Printed, IdCtrlProblem> {
    let vendor = json.get("nvme_pci_vendor").unwrap_or(&Value::Null);
    let listed = array(json, "nvme_power_states")?.iter().enumerate();
    let states: Vec<PowerState> = listed
        .map(|(index, json)| {
            state_of_smartctl(json)
                .map_err(|problem| problem.inside(&format!("nvme_power_states[{index}]")))
        })
        .collect::<Result<_, _>>()?;
    // smartctl prints all states, and not their number.
    let last = states.len().checked_sub(1);
    Ok(Printed {
        model: text(json, "model_name")?,
        firmware: text(json, "firmware_version")?,
        vendor_id: number(vendor, "id", 0xffff, PCI_ID)?.map(|v| v as u16),
        subsystem_vendor_id: number(vendor, "subsystem_id", 0xffff, PCI_ID)?.map(|v| v as u16),
        npss: last.map(|last| checked_npss(last as u64)).transpose()?,
        apsta: None,
        states,
        coarse_powers: false,
    })
}

fn state_of_smartctl(json: &Value) -> Result<PowerState, IdCtrlProblem> {
    let asleep = number(json, "non_operational_state", 1, "true or false")?;
    Ok(PowerState {
        max_power: power(json, "max_power")?,
        non_operational: required(asleep, "non_operational_state")? != 0,
        entry_latency_us: latency(json, "entry_latency_us")?,
        exit_latency_us: latency(json, "exit_latency_us")?,
        read_throughput_rank: rank_field(json, "relative_read_throughput")?,
        read_latency_rank: rank_field(json, "relative_read_latency")?,
        write_throughput_rank: rank_field(json, "relative_write_throughput")?,
        write_latency_rank: rank_field(json, "relative_write_latency")?,
        idle_power: power(json, "idle_power")?,
        active_power: power(json, "active_power")?,
    })
}

/// `{"value": 50, "scale": 1, "units_per_watt": 10000}`.
fn power(json: &Value, field: &'static str) -> Result<Option<Microwatts>, IdCtrlProblem> {
    let Some(power) = json.get(field).filter(|power| !power.is_null()) else {
        return Ok(None);
    };
    power_value(power).map_err(|problem| problem.inside(field))
}

/// A power from its value and its scale.
fn power_value(power: &Value) -> Result<Option<Microwatts>, IdCtrlProblem> {
    let value = required(word(power, "value")?, "value")?;
    let scale = number(power, "scale", 3, "a number from 0 to 3")?;
    let units = number(power, "units_per_watt", 1_000_000, "10000 or 100")?;
    Ok(match (units, scale) {
        (Some(units @ 1..), _) => (value != 0).then(|| Microwatts(value * 1_000_000 / units)),
        (_, scale) => scaled_power(value, scale.unwrap_or(0)),
    })
}

const BYTE: &str = "a number from 0 to 255";
const PCI_ID: &str = "a number from 0 to 65535";

fn text(json: &Value, field: &'static str) -> Result<Option<String>, IdCtrlProblem> {
    match json.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(s)) => Ok(Some(string(s))),
        Some(other) => Err(wrong(field, other, "a string")),
    }
}

fn array<'a>(json: &'a Value, field: &'static str) -> Result<&'a [Value], IdCtrlProblem> {
    match json.get(field) {
        Some(Value::Array(items)) => Ok(items),
        other => Err(wrong(
            field,
            other.unwrap_or(&Value::Null),
            "an array of power states",
        )),
    }
}

/// A numeric field: a number, a number as text, or a boolean; `None` if missing.
fn number(
    json: &Value,
    field: &'static str,
    most: i64,
    expected: &'static str,
) -> Result<Option<u64>, IdCtrlProblem> {
    let Some(value) = json.get(field) else {
        return Ok(None);
    };
    integer(value)
        .filter(|n| (0..=most).contains(n))
        .map(|n| Some(n as u64))
        .ok_or_else(|| wrong(field, value, expected))
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(set) => Some((*set).into()),
        Value::String(text) => {
            let text = text.trim();
            match text.strip_prefix("0x") {
                Some(hex) => i64::from_str_radix(hex, 16).ok(),
                None => text.parse().ok(),
            }
        }
        other => other.as_i64(),
    }
}

fn latency(json: &Value, field: &'static str) -> Result<u32, IdCtrlProblem> {
    let value = json.get(field).unwrap_or(&Value::Null);
    integer(value)
        .and_then(unwrapped_latency)
        .ok_or_else(|| wrong(field, value, LATENCY))
}

fn required(value: Option<u64>, field: &'static str) -> Result<u64, IdCtrlProblem> {
    value.ok_or_else(|| wrong(field, &Value::Null, "a number"))
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

impl IdCtrlProblem {
    /// Moves the problem's field below `outer`.
    fn inside(self, outer: &str) -> Self {
        match self {
            Self::Field {
                field,
                found,
                expected,
            } => Self::Field {
                field: format!("{outer}.{field}"),
                found,
                expected,
            },
            other => other,
        }
    }
}
