//! Text from `nvme id-ctrl`, smartctl and FreeBSD's `nvmecontrol power -l`, complete or partial.

use std::fmt;

use wakepath_units::pasted;

use super::printed::{
    IdCtrlProblem, LATENCY, LocatedProblem, PrintedDrive, check_npss_below_32,
    keep_five_bits_of_rank, latency_us_from_signed_number, parse_capacity,
    trim_end_and_replace_control_characters,
};
use crate::drive::{MAX_POWER_STATES, PowerState, watts};

pub(super) fn parse_drive_text(text: &str) -> Result<PrintedDrive, LocatedProblem> {
    let mut reader = TextReader::default();
    for (number, line) in (1..).zip(text.lines()) {
        reader
            .parse_drive_line(pasted::quote_depth_and_text(line).1.trim(), number)
            .map_err(|problem| (Some(number), problem))?;
    }
    let mut printed = reader.finish_reading()?;
    if has_wrong_hundredths_in_powers(text) {
        printed.forget_powers_ending_in_2_hundredths();
    }
    Ok(printed)
}

/// Whether idle and active powers have wrong hundredths. Up to 1.11, nvme-cli prints `.02` for the hundredths of any
/// such power that has two decimals. One alone may be so by chance.
fn has_wrong_hundredths_in_powers(text: &str) -> bool {
    let fields = text.lines().flat_map(split_into_state_fields);
    let values = fields.filter_map(|(key, value)| {
        let (_, decimals) = value.trim_end_matches('W').split_once(['.', ','])?;
        (matches!(key, "idle_power" | "active_power") && decimals.len() == 2).then_some(decimals)
    });
    let decimals: Vec<&str> = values.collect();
    decimals.len() > 1 && decimals.iter().all(|d| *d == "02")
}

/// Splits a line into fields of a power state: `key:value`, `key: value` or `key : value`; a unit behind a blank is
/// left out.
fn split_into_state_fields(line: &str) -> Vec<(&str, &str)> {
    let mut words = line
        .split_whitespace()
        .flat_map(|word| word.split_inclusive(':'))
        .peekable();
    let mut fields = Vec::new();
    while let Some(word) = words.next() {
        let key = match word.strip_suffix(':') {
            Some(key) => key,
            None if words.next_if_eq(&":").is_some() => word,
            None => continue,
        };
        if let Some(value) = words.next_if(|next| !next.ends_with(':')) {
            fields.push((key, value));
        }
    }
    fields
}

/// What the lines read so far say about the drive.
#[derive(Default)]
struct TextReader {
    printed: PrintedDrive,
    /// Whether a fact about a drive was found.
    known: bool,
    /// Whether the heading of smartctl's or nvmecontrol's table was found; the table lists all states.
    has_table: bool,
    /// The power state whose lines are being read.
    open: Option<OpenState>,
}

/// A power state whose fields may go on in the next line.
struct OpenState {
    index: usize,
    line: usize,
    state: PowerState,
    /// Fields of the power state seen so far, as bits.
    seen: u8,
}

const SEEN_MODE: u8 = 1;
const SEEN_POWER: u8 = 2;
const SEEN_ENTRY: u8 = 4;
const SEEN_EXIT: u8 = 8;

/// First words of a line that continues a power state: nvme-cli's own lines, and lines broken by a mail program.
const STATE_FIELDS: [&str; 11] = [
    "mp",
    "enlat",
    "exlat",
    "rrt",
    "rrl",
    "rwt",
    "rwl",
    "idle_power",
    "active_power",
    "active_power_workload",
    "emergency",
];

impl TextReader {
    fn parse_drive_line(&mut self, line: &str, number: usize) -> Result<(), IdCtrlProblem> {
        if let Some(open) = self
            .open
            .as_mut()
            .filter(|_| continues_state_of_previous_line(line))
        {
            return open.set_fields_from_line(line);
        }
        self.has_table |= line.starts_with("St Op") && line.ends_with("Ex_Lat")
            || line.starts_with("#   Max pwr");
        if let Some(state) = parse_smartctl_state_row(line)?.or(parse_nvmecontrol_state_row(line)?)
        {
            self.add_state_that_was_open()
                .map_err(|(_, problem)| problem)?;
            return self.add_state_or_compare_with_known(state.0, state.1);
        }
        let Some((key, value)) = line.split_once(':') else {
            return Ok(());
        };
        let key = key.trim_end();
        if let Some(index) = parse_state_index_in_key(key) {
            self.add_state_that_was_open()
                .map_err(|(_, problem)| problem)?;
            let mut open = OpenState::new(index?, number);
            open.set_fields_from_line(value)?;
            self.open = Some(open);
            return Ok(());
        }
        self.set_drive_field(key, value)
    }

    fn set_drive_field(&mut self, key: &str, value: &str) -> Result<(), IdCtrlProblem> {
        let printed = &mut self.printed;
        match key {
            "vid" | "PCI Vendor ID" => printed.vendor_id = Some(parse_pci_id(key, value)?),
            "ssvid" | "PCI Vendor Subsystem ID" => {
                printed.subsystem_vendor_id = Some(parse_pci_id(key, value)?);
            }
            "PCI Vendor/Subsystem ID" => {
                printed.vendor_id = Some(parse_pci_id(key, value)?);
                printed.subsystem_vendor_id = printed.vendor_id;
            }
            // Behind the form's blank, nvme-cli's string may begin with more blanks.
            "mn" => {
                printed.model = Some(trim_end_and_replace_control_characters(
                    strip_one_leading_blank(value),
                ));
            }
            "fr" => {
                printed.firmware = Some(trim_end_and_replace_control_characters(
                    strip_one_leading_blank(value),
                ));
            }
            "Model Number" => {
                printed.model = Some(trim_end_and_replace_control_characters(value.trim()));
            }
            "Firmware Version" => {
                printed.firmware = Some(trim_end_and_replace_control_characters(value.trim()));
            }
            "npss" => {
                printed.npss = Some(check_npss_below_32(parse_decimal_or_hexadecimal(
                    "npss", value, 255,
                )?)?);
            }
            "apsta" => {
                printed.apsta = Some(parse_decimal_or_hexadecimal("apsta", value, 255)? != 0);
            }
            "tnvmcap" | "Total NVM Capacity" => {
                printed.capacity_bytes = parse_capacity(value);
            }
            _ => return Ok(()),
        }
        self.known = true;
        Ok(())
    }

    /// Adds the power state whose lines were being read, which is now complete.
    fn add_state_that_was_open(&mut self) -> Result<(), LocatedProblem> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let line = Some(open.line);
        open.check_has_needed_fields()
            .map_err(|problem| (line, problem))?;
        self.add_state_or_compare_with_known(open.index, open.state)
            .map_err(|problem| (line, problem))
    }

    /// Adds a printed power state. The same state may come again, as where two tools printed one drive.
    fn add_state_or_compare_with_known(
        &mut self,
        index: usize,
        state: PowerState,
    ) -> Result<(), IdCtrlProblem> {
        let states = &mut self.printed.states;
        match states.get(index) {
            Some(known) if have_same_powers_and_latencies(known, &state) => Ok(()),
            Some(_) => Err(IdCtrlProblem::TwoDrives(index)),
            None if index >= MAX_POWER_STATES => Err(IdCtrlProblem::TooManyStates(index as u64)),
            None if index != states.len() => Err(IdCtrlProblem::MissingState {
                found: index,
                expected: states.len(),
            }),
            None => {
                states.push(state);
                Ok(())
            }
        }
    }

    fn finish_reading(mut self) -> Result<PrintedDrive, LocatedProblem> {
        self.add_state_that_was_open()?;
        if self.printed.states.is_empty() && !self.known {
            return Err((None, IdCtrlProblem::Foreign));
        }
        if let (true, None, Some(last)) = (
            self.has_table,
            self.printed.npss,
            self.printed.states.len().checked_sub(1),
        ) {
            self.printed.npss =
                Some(check_npss_below_32(last as u64).map_err(|problem| (None, problem))?);
        }
        Ok(self.printed)
    }
}

/// Whether two descriptions of a power state can belong to the same drive.
fn have_same_powers_and_latencies(a: &PowerState, b: &PowerState) -> bool {
    a.non_operational == b.non_operational
        && a.max_power == b.max_power
        && a.entry_latency_us == b.entry_latency_us
        && a.exit_latency_us == b.exit_latency_us
}

/// Whether a line continues the power state of the line before.
fn continues_state_of_previous_line(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let key = first.split(':').next().unwrap_or_default();
    matches!(first, "operational" | "non-operational") || STATE_FIELDS.contains(&key)
}

/// Parses the index in `ps    3`; `None`: the key is another one.
fn parse_state_index_in_key(key: &str) -> Option<Result<usize, IdCtrlProblem>> {
    let number = key.strip_prefix("ps").or(key.strip_prefix("PS"))?.trim();
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| {
        number.parse().map_err(|_| IdCtrlProblem::Field {
            field: "ps".to_owned(),
            found: format!("\"{number}\""),
            expected: "a power state from 0 to 31",
        })
    })
}

impl OpenState {
    fn new(index: usize, line: usize) -> Self {
        Self {
            index,
            line,
            state: PowerState::default(),
            seen: 0,
        }
    }

    fn set_fields_from_line(&mut self, line: &str) -> Result<(), IdCtrlProblem> {
        for word in line.split_whitespace() {
            match word {
                "operational" => self.seen |= SEEN_MODE,
                "non-operational" => {
                    self.state.non_operational = true;
                    self.seen |= SEEN_MODE;
                }
                _ => {}
            }
        }
        split_into_state_fields(line)
            .into_iter()
            .try_for_each(|(key, value)| self.set_state_field(key, value))
    }

    fn set_state_field(&mut self, key: &str, value: &str) -> Result<(), IdCtrlProblem> {
        let state = &mut self.state;
        let place = FieldText {
            name: format!("ps {} {key}", self.index),
            value,
        };
        match key {
            "mp" => {
                state.max_power = place.parse_watts_or_dash()?;
                self.seen |= SEEN_POWER;
            }
            "enlat" => {
                state.entry_latency_us = place.parse_latency_us()?;
                self.seen |= SEEN_ENTRY;
            }
            "exlat" => {
                state.exit_latency_us = place.parse_latency_us()?;
                self.seen |= SEEN_EXIT;
            }
            "rrt" => state.read_throughput_rank = place.parse_rank()?,
            "rrl" => state.read_latency_rank = place.parse_rank()?,
            "rwt" => state.write_throughput_rank = place.parse_rank()?,
            "rwl" => state.write_latency_rank = place.parse_rank()?,
            "idle_power" => state.idle_power = place.parse_watts_or_dash()?,
            "active_power" => state.active_power = place.parse_watts_or_dash()?,
            _ => {}
        }
        Ok(())
    }

    /// Checks that the power state has everything that planning needs.
    fn check_has_needed_fields(&self) -> Result<(), IdCtrlProblem> {
        let fields = [
            (SEEN_POWER, "mp"),
            (SEEN_MODE, "mode"),
            (SEEN_ENTRY, "enlat"),
            (SEEN_EXIT, "exlat"),
        ];
        match fields.iter().find(|(bit, _)| self.seen & bit == 0) {
            None => Ok(()),
            Some((_, name)) => Err(IdCtrlProblem::Field {
                field: format!("ps {} {name}", self.index),
                found: "missing".to_owned(),
                expected: "mp, operational or non-operational, enlat and exlat of every state",
            }),
        }
    }
}

/// A row of smartctl's table of power states, such as ` 3 -   0.0500W  -  -  3  3  3  3  5000  10000`, as its index and
/// state; `None`: the line is something else.
fn parse_smartctl_state_row(line: &str) -> Result<Option<(usize, PowerState)>, IdCtrlProblem> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [index, mode @ ("+" | "-"), max, rest @ ..] = &words[..] else {
        return Ok(None);
    };
    let Some(index) = index
        .parse()
        .ok()
        .filter(|_| max.ends_with('W') || *max == "-")
    else {
        return Ok(None);
    };
    let [active, idle, rl, rt, wl, wt, entry, exit] = rest else {
        return Err(IdCtrlProblem::Field {
            field: format!("state {index}"),
            found: format!("a row of {} columns", words.len()),
            expected: "the 11 of smartctl's table of power states",
        });
    };
    let state = PowerState {
        max_power: FieldText::for_state(index, "Max", max).parse_watts_or_dash()?,
        non_operational: *mode == "-",
        entry_latency_us: FieldText::for_state(index, "Ent_Lat", entry).parse_latency_us()?,
        exit_latency_us: FieldText::for_state(index, "Ex_Lat", exit).parse_latency_us()?,
        read_throughput_rank: FieldText::for_state(index, "RT", rt).parse_rank()?,
        read_latency_rank: FieldText::for_state(index, "RL", rl).parse_rank()?,
        write_throughput_rank: FieldText::for_state(index, "WT", wt).parse_rank()?,
        write_latency_rank: FieldText::for_state(index, "WL", wl).parse_rank()?,
        idle_power: FieldText::for_state(index, "Idle", idle).parse_watts_or_dash()?,
        active_power: FieldText::for_state(index, "Active", active).parse_watts_or_dash()?,
    };
    Ok(Some((index, state)))
}

/// A row of `nvmecontrol power -l`, such as ` 3:  0.0500W*   5.000ms  10.000ms  3  3  3  3  0.0000W  0.0000W 0`, as its index
/// and state; `None`: the line is something else.
fn parse_nvmecontrol_state_row(line: &str) -> Result<Option<(usize, PowerState)>, IdCtrlProblem> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [
        index,
        max,
        entry,
        exit,
        rrt,
        rrl,
        rwt,
        rwl,
        idle,
        active,
        ..,
    ] = &words[..]
    else {
        return Ok(None);
    };
    let number = index.strip_suffix(':').and_then(|index| index.parse().ok());
    let Some(index) = number.filter(|_| entry.ends_with("ms") && exit.ends_with("ms")) else {
        return Ok(None);
    };
    let state = PowerState {
        max_power: FieldText::for_state(index, "Max pwr", max.trim_end_matches('*'))
            .parse_watts_or_dash()?,
        non_operational: max.ends_with('*'),
        entry_latency_us: FieldText::for_state(index, "Enter Lat", entry).parse_ms_as_us()?,
        exit_latency_us: FieldText::for_state(index, "Exit Lat", exit).parse_ms_as_us()?,
        read_throughput_rank: FieldText::for_state(index, "RT", rrt).parse_rank()?,
        read_latency_rank: FieldText::for_state(index, "RL", rrl).parse_rank()?,
        write_throughput_rank: FieldText::for_state(index, "WT", rwt).parse_rank()?,
        write_latency_rank: FieldText::for_state(index, "WL", rwl).parse_rank()?,
        idle_power: FieldText::for_state(index, "Idle Pwr", idle).parse_watts_or_dash()?,
        active_power: FieldText::for_state(index, "Act Pwr", active).parse_watts_or_dash()?,
    };
    Ok(Some((index, state)))
}

/// A value of a power state, with the field's name for error messages.
struct FieldText<'a> {
    name: String,
    value: &'a str,
}

impl<'a> FieldText<'a> {
    /// The text of a power state's field.
    fn for_state(state: impl fmt::Display, field: &str, value: &'a str) -> Self {
        Self {
            name: format!("state {state} {field}"),
            value,
        }
    }

    fn parse_watts_or_dash(&self) -> Result<Option<wakepath_units::Microwatts>, IdCtrlProblem> {
        match self.value {
            "-" | "reserved" => Ok(None),
            // Some locales print powers as `5,00W`.
            value => watts::parse_watts(
                &value
                    .strip_suffix('W')
                    .unwrap_or(value)
                    .replacen(',', ".", 1),
            )
            .map(|power| Some(power).filter(|p| p.0 != 0))
            .ok_or_else(|| self.wrong_value_problem("watts such as 0.0500W")),
        }
    }

    fn parse_latency_us(&self) -> Result<u32, IdCtrlProblem> {
        let number = self.value.parse().ok();
        number
            .and_then(latency_us_from_signed_number)
            .ok_or_else(|| self.wrong_value_problem(LATENCY))
    }

    /// Parses a latency such as `0.210ms`, as microseconds.
    fn parse_ms_as_us(&self) -> Result<u32, IdCtrlProblem> {
        let digits = self
            .value
            .strip_suffix("ms")
            .and_then(|ms| ms.split_once('.'));
        let us = digits.filter(|(_, thousandths)| thousandths.len() == 3);
        us.and_then(|(whole, thousandths)| format!("{whole}{thousandths}").parse().ok())
            .ok_or_else(|| self.wrong_value_problem("milliseconds such as 0.210ms"))
    }

    fn parse_rank(&self) -> Result<u8, IdCtrlProblem> {
        let number = self.value.parse::<u8>();
        number
            .map(|n| keep_five_bits_of_rank(n.into()))
            .map_err(|_| self.wrong_value_problem("a rank from 0 to 31"))
    }

    fn wrong_value_problem(&self, expected: &'static str) -> IdCtrlProblem {
        IdCtrlProblem::Field {
            field: self.name.clone(),
            found: format!("\"{}\"", self.value),
            expected,
        }
    }
}

/// The value without the form's blank behind the colon, which an editor may have made a tab.
fn strip_one_leading_blank(value: &str) -> &str {
    value.strip_prefix([' ', '\t', '\u{a0}']).unwrap_or(value)
}

fn parse_pci_id(field: &str, text: &str) -> Result<u16, IdCtrlProblem> {
    Ok(parse_decimal_or_hexadecimal(field, text, 0xffff)? as u16)
}

/// Parses a decimal or `0x` number.
fn parse_decimal_or_hexadecimal(field: &str, text: &str, most: u64) -> Result<u64, IdCtrlProblem> {
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
