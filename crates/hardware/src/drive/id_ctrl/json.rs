//! Decodes JSON from `nvme id-ctrl -o json` and `smartctl -j`.

use std::borrow::Cow;

use serde_json::Value;
use wakepath_units::{Microwatts, pasted};

use super::printed::{
    IdCtrlProblem, LATENCY, Located, Printed, check_npss, decode_max_power, decode_scaled_power,
    mask_rank, trim_and_clean, undo_signed_latency,
};
use crate::drive::PowerState;

/// Cuts JSON out of a text, without prompts, headings and fences. Leading lines become empty so that line numbers
/// stay. `None` without JSON.
pub(super) fn cut_out_json(text: &str) -> Option<Cow<'_, str>> {
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

/// Whether a text begins with JSON of an object, or of an array of objects. `[...]` and `[ 12.3]` are no such JSON.
fn starts_json(text: &str) -> bool {
    match text.strip_prefix('[') {
        Some(rest) => rest.trim_start().starts_with(['{', ']']) || rest.trim().is_empty(),
        None => text.starts_with('{'),
    }
}

pub(super) fn read_json(text: &str) -> Result<Printed, Located> {
    let value: Value = serde_json::from_str(text).map_err(|e| {
        let message = e.to_string();
        // The JSON parser's message ends in the position, which is reported separately.
        let what = message
            .rsplit_once(" at line ")
            .map_or(message.as_str(), |(what, _)| what);
        let problem = IdCtrlProblem::Json {
            column: e.column(),
            what: what.to_owned(),
        };
        (Some(e.line()), problem)
    })?;
    decode_drive(&value).map_err(|problem| (None, problem))
}

fn decode_drive(json: &Value) -> Result<Printed, IdCtrlProblem> {
    match json {
        Value::Array(items) => match &items[..] {
            [only] if only.get("max_power").is_none() => decode_drive(only),
            states if states.iter().any(|s| s.get("max_power").is_some()) => Ok(Printed {
                states: decode_nvme_cli_states(states)?,
                ..Printed::default()
            }),
            _ => Err(IdCtrlProblem::Foreign),
        },
        _ if json.get("psds").is_some() => decode_nvme_cli_drive(json),
        _ if json.get("nvme_power_states").is_some() => decode_smartctl_drive(json),
        _ if ["mn", "npss", "nvme_version"]
            .iter()
            .any(|key| json.get(key).is_some()) =>
        {
            Err(IdCtrlProblem::NoStates)
        }
        _ => Err(IdCtrlProblem::Foreign),
    }
}

fn decode_nvme_cli_drive(json: &Value) -> Result<Printed, IdCtrlProblem> {
    let npss = read_number_field(json, "npss", 255, "a number from 0 to 31")?;
    Ok(Printed {
        model: read_text_field(json, "mn")?,
        firmware: read_text_field(json, "fr")?,
        vendor_id: read_number_field(json, "vid", 0xffff, PCI_ID)?.map(|v| v as u16),
        subsystem_vendor_id: read_number_field(json, "ssvid", 0xffff, PCI_ID)?.map(|v| v as u16),
        npss: npss.map(check_npss).transpose()?,
        apsta: read_number_field(json, "apsta", 255, BYTE)?.map(|v| v != 0),
        states: decode_nvme_cli_states(read_array_field(json, "psds")?)?,
        coarse_powers: false,
    })
}

fn decode_nvme_cli_states(states: &[Value]) -> Result<Vec<PowerState>, IdCtrlProblem> {
    let states = states.iter().enumerate();
    states
        .map(|(index, json)| {
            decode_nvme_cli_state(json)
                .map_err(|problem| problem.with_outer_field(&format!("psds[{index}]")))
        })
        .collect()
}

/// Decodes a power state of nvme-cli. Up to 2.3 it has `flags`, later versions have the flags' bits by name. Scales are
/// whole bytes of the descriptor up to 2.0.
fn decode_nvme_cli_state(json: &Value) -> Result<PowerState, IdCtrlProblem> {
    let (fine, non_operational) = match read_byte_field(json, "flags")? {
        Some(flags) => (flags & 1 != 0, flags & 2 != 0),
        None => (
            require_number(read_byte_field(json, "max_power_scale")?, "max_power_scale")? != 0,
            require_number(
                read_byte_field_of_either(
                    json,
                    ["non-operational_state", "non_operational_state"],
                )?,
                "non-operational_state",
            )? != 0,
        ),
    };
    let idle = read_u16_field(json, "idle_power")?.unwrap_or(0);
    let active = read_u16_field(json, "active_power")?.unwrap_or(0);
    Ok(PowerState {
        max_power: decode_max_power(
            require_number(read_u16_field(json, "max_power")?, "max_power")?,
            fine,
        ),
        non_operational,
        entry_latency_us: read_latency_field(json, "entry_lat")?,
        exit_latency_us: read_latency_field(json, "exit_lat")?,
        read_throughput_rank: read_rank_field(json, "read_tput")?,
        read_latency_rank: read_rank_field(json, "read_lat")?,
        write_throughput_rank: read_rank_field(json, "write_tput")?,
        write_latency_rank: read_rank_field(json, "write_lat")?,
        idle_power: decode_scaled_power(
            idle,
            decode_power_scale(read_byte_field(json, "idle_scale")?),
        ),
        active_power: decode_scaled_power(
            active,
            decode_power_scale(read_byte_field_of_either(
                json,
                ["active_scale", "active_work_scale"],
            )?),
        ),
    })
}

fn read_byte_field(json: &Value, field: &'static str) -> Result<Option<u64>, IdCtrlProblem> {
    read_number_field(json, field, 0xff, BYTE)
}

fn read_u16_field(json: &Value, field: &'static str) -> Result<Option<u64>, IdCtrlProblem> {
    read_number_field(json, field, 0xffff, "a number from 0 to 65535")
}

/// Reads a byte under the first of two field names, or else under the second.
fn read_byte_field_of_either(
    json: &Value,
    fields: [&'static str; 2],
) -> Result<Option<u64>, IdCtrlProblem> {
    match read_byte_field(json, fields[0])? {
        Some(value) => Ok(Some(value)),
        None => read_byte_field(json, fields[1]),
    }
}

/// Reads a relative performance rank; 0 if missing.
fn read_rank_field(json: &Value, field: &'static str) -> Result<u8, IdCtrlProblem> {
    Ok(mask_rank(read_byte_field(json, field)?.unwrap_or(0)))
}

/// The scale of a power, printed as number or as the whole byte with the scale in the upper two bits.
fn decode_power_scale(printed: Option<u64>) -> u64 {
    match printed.unwrap_or(0) {
        scale @ 0..=3 => scale,
        byte => byte >> 6,
    }
}

fn decode_smartctl_drive(json: &Value) -> Result<Printed, IdCtrlProblem> {
    let vendor = json.get("nvme_pci_vendor").unwrap_or(&Value::Null);
    let listed = read_array_field(json, "nvme_power_states")?
        .iter()
        .enumerate();
    let states: Vec<PowerState> = listed
        .map(|(index, json)| {
            decode_smartctl_state(json)
                .map_err(|problem| problem.with_outer_field(&format!("nvme_power_states[{index}]")))
        })
        .collect::<Result<_, _>>()?;
    // smartctl lists all states, but does not print their number.
    let last = states.len().checked_sub(1);
    Ok(Printed {
        model: read_text_field(json, "model_name")?,
        firmware: read_text_field(json, "firmware_version")?,
        vendor_id: read_number_field(vendor, "id", 0xffff, PCI_ID)?.map(|v| v as u16),
        subsystem_vendor_id: read_number_field(vendor, "subsystem_id", 0xffff, PCI_ID)?
            .map(|v| v as u16),
        npss: last.map(|last| check_npss(last as u64)).transpose()?,
        apsta: None,
        states,
        coarse_powers: false,
    })
}

fn decode_smartctl_state(json: &Value) -> Result<PowerState, IdCtrlProblem> {
    let asleep = read_number_field(json, "non_operational_state", 1, "true or false")?;
    Ok(PowerState {
        max_power: read_power_field(json, "max_power")?,
        non_operational: require_number(asleep, "non_operational_state")? != 0,
        entry_latency_us: read_latency_field(json, "entry_latency_us")?,
        exit_latency_us: read_latency_field(json, "exit_latency_us")?,
        read_throughput_rank: read_rank_field(json, "relative_read_throughput")?,
        read_latency_rank: read_rank_field(json, "relative_read_latency")?,
        write_throughput_rank: read_rank_field(json, "relative_write_throughput")?,
        write_latency_rank: read_rank_field(json, "relative_write_latency")?,
        idle_power: read_power_field(json, "idle_power")?,
        active_power: read_power_field(json, "active_power")?,
    })
}

/// Reads a power in smartctl's form: `{"value": 50, "scale": 1, "units_per_watt": 10000}`.
fn read_power_field(
    json: &Value,
    field: &'static str,
) -> Result<Option<Microwatts>, IdCtrlProblem> {
    let Some(power) = json.get(field).filter(|power| !power.is_null()) else {
        return Ok(None);
    };
    decode_power_object(power).map_err(|problem| problem.with_outer_field(field))
}

/// Computes a power in smartctl's form from its value and its scale.
fn decode_power_object(power: &Value) -> Result<Option<Microwatts>, IdCtrlProblem> {
    let value = require_number(read_u16_field(power, "value")?, "value")?;
    let scale = read_number_field(power, "scale", 3, "a number from 0 to 3")?;
    let units = read_number_field(power, "units_per_watt", 1_000_000, "10000 or 100")?;
    Ok(match (units, scale) {
        (Some(units @ 1..), _) => (value != 0).then(|| Microwatts(value * 1_000_000 / units)),
        (_, scale) => decode_scaled_power(value, scale.unwrap_or(0)),
    })
}

const BYTE: &str = "a number from 0 to 255";
const PCI_ID: &str = "a number from 0 to 65535";

fn read_text_field(json: &Value, field: &'static str) -> Result<Option<String>, IdCtrlProblem> {
    match json.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(s)) => Ok(Some(trim_and_clean(s))),
        Some(other) => Err(wrong_field_problem(field, other, "a string")),
    }
}

fn read_array_field<'a>(
    json: &'a Value,
    field: &'static str,
) -> Result<&'a [Value], IdCtrlProblem> {
    match json.get(field) {
        Some(Value::Array(items)) => Ok(items),
        other => Err(wrong_field_problem(
            field,
            other.unwrap_or(&Value::Null),
            "an array of power states",
        )),
    }
}

/// Reads a numeric field: a number, a number as text, or a boolean; `None` if missing.
fn read_number_field(
    json: &Value,
    field: &'static str,
    most: i64,
    expected: &'static str,
) -> Result<Option<u64>, IdCtrlProblem> {
    let Some(value) = json.get(field) else {
        return Ok(None);
    };
    to_integer(value)
        .filter(|n| (0..=most).contains(n))
        .map(|n| Some(n as u64))
        .ok_or_else(|| wrong_field_problem(field, value, expected))
}

fn to_integer(value: &Value) -> Option<i64> {
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

fn read_latency_field(json: &Value, field: &'static str) -> Result<u32, IdCtrlProblem> {
    let value = json.get(field).unwrap_or(&Value::Null);
    to_integer(value)
        .and_then(undo_signed_latency)
        .ok_or_else(|| wrong_field_problem(field, value, LATENCY))
}

fn require_number(value: Option<u64>, field: &'static str) -> Result<u64, IdCtrlProblem> {
    value.ok_or_else(|| wrong_field_problem(field, &Value::Null, "a number"))
}

fn wrong_field_problem(field: &str, value: &Value, expected: &'static str) -> IdCtrlProblem {
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
    /// The same problem, with its field named as a part of the field `outer`.
    fn with_outer_field(self, outer: &str) -> Self {
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
