//! Decodes JSON from `nvme id-ctrl -o json` and `smartctl -j`.

use std::borrow::Cow;

use serde_json::Value;
use wakepath_units::{Microwatts, pasted};

use super::printed::{
    IdCtrlProblem, LATENCY, LocatedProblem, PrintedDrive, check_npss_below_32,
    decode_idle_or_active_power, decode_max_power, keep_five_bits_of_rank,
    latency_us_from_signed_number, parse_capacity, trim_end_and_replace_control_characters,
};
use crate::drive::PowerState;

/// Cuts JSON out of a text, without prompts, headings and fences. Leading lines become empty so that line numbers
/// stay. `None` without JSON.
pub(super) fn cut_json_out_of_pasted_text(text: &str) -> Option<Cow<'_, str>> {
    if starts_with_json_of_objects(text.trim_start()) {
        return Some(Cow::Borrowed(text));
    }
    let lines: Vec<&str> = text
        .lines()
        .map(|line| pasted::quote_depth_and_text(line).1)
        .collect();
    let first = lines
        .iter()
        .position(|line| starts_with_json_of_objects(line.trim()))?;
    let last = lines
        .iter()
        .rposition(|line| line.trim_end().ends_with(['}', ']']))?;
    let inside = lines.get(first..=last)?.join("\n");
    Some(Cow::Owned("\n".repeat(first) + &inside))
}

/// Whether a text begins with JSON of an object, or of an array of objects. `[...]` and `[ 12.3]` are no such JSON.
fn starts_with_json_of_objects(text: &str) -> bool {
    match text.strip_prefix('[') {
        Some(rest) => rest.trim_start().starts_with(['{', ']']) || rest.trim().is_empty(),
        None => text.starts_with('{'),
    }
}

pub(super) fn parse_drive_json(text: &str) -> Result<PrintedDrive, LocatedProblem> {
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
    decode_drive_of_any_tool(&value).map_err(|problem| (None, problem))
}

fn decode_drive_of_any_tool(json: &Value) -> Result<PrintedDrive, IdCtrlProblem> {
    match json {
        Value::Array(items) => match &items[..] {
            [only] if only.get("max_power").is_none() => decode_drive_of_any_tool(only),
            states if states.iter().any(|s| s.get("max_power").is_some()) => Ok(PrintedDrive {
                states: decode_nvme_cli_states(states)?,
                ..PrintedDrive::default()
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

fn decode_nvme_cli_drive(json: &Value) -> Result<PrintedDrive, IdCtrlProblem> {
    let npss = read_optional_number_up_to(json, "npss", 255, "a number from 0 to 31")?;
    Ok(PrintedDrive {
        model: read_optional_text_field(json, "mn")?,
        firmware: read_optional_text_field(json, "fr")?,
        vendor_id: read_optional_number_up_to(json, "vid", 0xffff, PCI_ID)?.map(|v| v as u16),
        subsystem_vendor_id: read_optional_number_up_to(json, "ssvid", 0xffff, PCI_ID)?
            .map(|v| v as u16),
        npss: npss.map(check_npss_below_32).transpose()?,
        apsta: read_optional_number_up_to(json, "apsta", 255, BYTE)?.map(|v| v != 0),
        capacity_bytes: json.get("tnvmcap").and_then(capacity_from_number_or_text),
        states: decode_nvme_cli_states(require_array_of_states(json, "psds")?)?,
        coarse_powers: false,
    })
}

fn decode_nvme_cli_states(states: &[Value]) -> Result<Vec<PowerState>, IdCtrlProblem> {
    let states = states.iter().enumerate();
    states
        .map(|(index, json)| {
            decode_nvme_cli_state(json)
                .map_err(|problem| problem.prefix_field_with_outer(&format!("psds[{index}]")))
        })
        .collect()
}

/// Decodes a power state of nvme-cli. Up to 2.3 it has `flags`, later versions have the flags' bits by name. Scales are
/// whole bytes of the descriptor up to 2.0.
fn decode_nvme_cli_state(json: &Value) -> Result<PowerState, IdCtrlProblem> {
    let (fine, non_operational) = match read_optional_byte_field(json, "flags")? {
        Some(flags) => (flags & 1 != 0, flags & 2 != 0),
        None => (
            number_or_missing_problem(
                read_optional_byte_field(json, "max_power_scale")?,
                "max_power_scale",
            )? != 0,
            number_or_missing_problem(
                read_byte_under_first_or_second_name(
                    json,
                    ["non-operational_state", "non_operational_state"],
                )?,
                "non-operational_state",
            )? != 0,
        ),
    };
    let idle = read_optional_u16_field(json, "idle_power")?.unwrap_or(0);
    let active = read_optional_u16_field(json, "active_power")?.unwrap_or(0);
    Ok(PowerState {
        max_power: decode_max_power(
            number_or_missing_problem(read_optional_u16_field(json, "max_power")?, "max_power")?,
            fine,
        ),
        non_operational,
        entry_latency_us: require_latency_field_us(json, "entry_lat")?,
        exit_latency_us: require_latency_field_us(json, "exit_lat")?,
        read_throughput_rank: read_rank_field_or_0(json, "read_tput")?,
        read_latency_rank: read_rank_field_or_0(json, "read_lat")?,
        write_throughput_rank: read_rank_field_or_0(json, "write_tput")?,
        write_latency_rank: read_rank_field_or_0(json, "write_lat")?,
        idle_power: decode_idle_or_active_power(
            idle,
            decode_power_scale_or_0(read_optional_byte_field(json, "idle_scale")?),
        ),
        active_power: decode_idle_or_active_power(
            active,
            decode_power_scale_or_0(read_byte_under_first_or_second_name(
                json,
                ["active_scale", "active_work_scale"],
            )?),
        ),
    })
}

fn read_optional_byte_field(
    json: &Value,
    field: &'static str,
) -> Result<Option<u64>, IdCtrlProblem> {
    read_optional_number_up_to(json, field, 0xff, BYTE)
}

fn read_optional_u16_field(
    json: &Value,
    field: &'static str,
) -> Result<Option<u64>, IdCtrlProblem> {
    read_optional_number_up_to(json, field, 0xffff, "a number from 0 to 65535")
}

/// Reads a byte under the first of two field names, or else under the second.
fn read_byte_under_first_or_second_name(
    json: &Value,
    fields: [&'static str; 2],
) -> Result<Option<u64>, IdCtrlProblem> {
    match read_optional_byte_field(json, fields[0])? {
        Some(value) => Ok(Some(value)),
        None => read_optional_byte_field(json, fields[1]),
    }
}

/// Reads a relative performance rank; 0 if missing.
fn read_rank_field_or_0(json: &Value, field: &'static str) -> Result<u8, IdCtrlProblem> {
    Ok(keep_five_bits_of_rank(
        read_optional_byte_field(json, field)?.unwrap_or(0),
    ))
}

/// The scale of a power, printed as number or as the whole byte with the scale in the upper two bits.
fn decode_power_scale_or_0(printed: Option<u64>) -> u64 {
    match printed.unwrap_or(0) {
        scale @ 0..=3 => scale,
        byte => byte >> 6,
    }
}

fn decode_smartctl_drive(json: &Value) -> Result<PrintedDrive, IdCtrlProblem> {
    let vendor = json.get("nvme_pci_vendor").unwrap_or(&Value::Null);
    let listed = require_array_of_states(json, "nvme_power_states")?
        .iter()
        .enumerate();
    let states: Vec<PowerState> = listed
        .map(|(index, json)| {
            decode_smartctl_state(json).map_err(|problem| {
                problem.prefix_field_with_outer(&format!("nvme_power_states[{index}]"))
            })
        })
        .collect::<Result<_, _>>()?;
    // smartctl lists all states, but does not print their number.
    let last = states.len().checked_sub(1);
    Ok(PrintedDrive {
        model: read_optional_text_field(json, "model_name")?,
        firmware: read_optional_text_field(json, "firmware_version")?,
        vendor_id: read_optional_number_up_to(vendor, "id", 0xffff, PCI_ID)?.map(|v| v as u16),
        subsystem_vendor_id: read_optional_number_up_to(vendor, "subsystem_id", 0xffff, PCI_ID)?
            .map(|v| v as u16),
        npss: last
            .map(|last| check_npss_below_32(last as u64))
            .transpose()?,
        apsta: None,
        capacity_bytes: json
            .get("nvme_total_capacity")
            .and_then(capacity_from_number_or_text),
        states,
        coarse_powers: false,
    })
}

fn decode_smartctl_state(json: &Value) -> Result<PowerState, IdCtrlProblem> {
    let asleep = read_optional_number_up_to(json, "non_operational_state", 1, "true or false")?;
    Ok(PowerState {
        max_power: read_smartctl_power_field(json, "max_power")?,
        non_operational: number_or_missing_problem(asleep, "non_operational_state")? != 0,
        entry_latency_us: require_latency_field_us(json, "entry_latency_us")?,
        exit_latency_us: require_latency_field_us(json, "exit_latency_us")?,
        read_throughput_rank: read_rank_field_or_0(json, "relative_read_throughput")?,
        read_latency_rank: read_rank_field_or_0(json, "relative_read_latency")?,
        write_throughput_rank: read_rank_field_or_0(json, "relative_write_throughput")?,
        write_latency_rank: read_rank_field_or_0(json, "relative_write_latency")?,
        idle_power: read_smartctl_power_field(json, "idle_power")?,
        active_power: read_smartctl_power_field(json, "active_power")?,
    })
}

/// Reads a power in smartctl's form: `{"value": 50, "scale": 1, "units_per_watt": 10000}`.
fn read_smartctl_power_field(
    json: &Value,
    field: &'static str,
) -> Result<Option<Microwatts>, IdCtrlProblem> {
    let Some(power) = json.get(field).filter(|power| !power.is_null()) else {
        return Ok(None);
    };
    decode_smartctl_power(power).map_err(|problem| problem.prefix_field_with_outer(field))
}

/// Computes a power in smartctl's form from its value and its scale.
fn decode_smartctl_power(power: &Value) -> Result<Option<Microwatts>, IdCtrlProblem> {
    let value = number_or_missing_problem(read_optional_u16_field(power, "value")?, "value")?;
    let scale = read_optional_number_up_to(power, "scale", 3, "a number from 0 to 3")?;
    let units = read_optional_number_up_to(power, "units_per_watt", 1_000_000, "10000 or 100")?;
    Ok(match (units, scale) {
        (Some(units @ 1..), _) => (value != 0).then(|| Microwatts(value * 1_000_000 / units)),
        (_, scale) => decode_idle_or_active_power(value, scale.unwrap_or(0)),
    })
}

const BYTE: &str = "a number from 0 to 255";
const PCI_ID: &str = "a number from 0 to 65535";

fn read_optional_text_field(
    json: &Value,
    field: &'static str,
) -> Result<Option<String>, IdCtrlProblem> {
    match json.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(s)) => Ok(Some(trim_end_and_replace_control_characters(s))),
        Some(other) => Err(field_problem_with_found_value(field, other, "a string")),
    }
}

fn require_array_of_states<'a>(
    json: &'a Value,
    field: &'static str,
) -> Result<&'a [Value], IdCtrlProblem> {
    match json.get(field) {
        Some(Value::Array(items)) => Ok(items),
        other => Err(field_problem_with_found_value(
            field,
            other.unwrap_or(&Value::Null),
            "an array of power states",
        )),
    }
}

/// Reads a numeric field: a number, a number as text, or a boolean; `None` if missing.
fn read_optional_number_up_to(
    json: &Value,
    field: &'static str,
    most: i64,
    expected: &'static str,
) -> Result<Option<u64>, IdCtrlProblem> {
    let Some(value) = json.get(field) else {
        return Ok(None);
    };
    integer_from_number_text_or_bool(value)
        .filter(|n| (0..=most).contains(n))
        .map(|n| Some(n as u64))
        .ok_or_else(|| field_problem_with_found_value(field, value, expected))
}

/// A capacity in bytes, which nvme-cli prints as a number, a fraction or text; `None` for anything else, as if nothing were printed.
fn capacity_from_number_or_text(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => parse_capacity(text),
        Value::Number(number) => number.as_u64().or_else(|| {
            let bytes = number.as_f64().filter(|bytes| bytes.fract() == 0.0)?;
            (0.0..2_f64.powi(63))
                .contains(&bytes)
                .then_some(bytes as u64)
        }),
        _ => None,
    }
}

fn integer_from_number_text_or_bool(value: &Value) -> Option<i64> {
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

fn require_latency_field_us(json: &Value, field: &'static str) -> Result<u32, IdCtrlProblem> {
    let value = json.get(field).unwrap_or(&Value::Null);
    integer_from_number_text_or_bool(value)
        .and_then(latency_us_from_signed_number)
        .ok_or_else(|| field_problem_with_found_value(field, value, LATENCY))
}

fn number_or_missing_problem(
    value: Option<u64>,
    field: &'static str,
) -> Result<u64, IdCtrlProblem> {
    value.ok_or_else(|| field_problem_with_found_value(field, &Value::Null, "a number"))
}

fn field_problem_with_found_value(
    field: &str,
    value: &Value,
    expected: &'static str,
) -> IdCtrlProblem {
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
    fn prefix_field_with_outer(self, outer: &str) -> Self {
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
