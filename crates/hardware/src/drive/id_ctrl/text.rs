//! Text from `nvme id-ctrl`, smartctl and FreeBSD's `nvmecontrol power -l`, complete or partial.

use wakepath_units::pasted;

use super::printed::{
    IdCtrlProblem, LATENCY, Located, Printed, checked_npss, rank, string, unwrapped_latency,
};
use crate::drive::{MAX_POWER_STATES, PowerState, watts};

pub(super) fn read(text: &str) -> Result<Printed, Located> {
    let mut reader = TextReader::default();
    for (number, line) in (1..).zip(text.lines()) {
        reader
            .line(pasted::quote_depth_and_text(line).1.trim(), number)
            .map_err(|problem| (Some(number), problem))?;
    }
    let mut printed = reader.finish()?;
    if has_coarse_powers(text) {
        printed.forget_coarse_powers();
    }
    Ok(printed)
}

/// Up to 1.11, nvme-cli prints `.02` for the hundredths of any idle or active power that has two decimals. One alone may
/// be so by chance.
fn has_coarse_powers(text: &str) -> bool {
    let fields = text.lines().flat_map(state_fields);
    let values = fields.filter_map(|(key, value)| {
        let (_, decimals) = value.trim_end_matches('W').split_once(['.', ','])?;
        (matches!(key, "idle_power" | "active_power") && decimals.len() == 2).then_some(decimals)
    });
    let decimals: Vec<&str> = values.collect();
    decimals.len() > 1 && decimals.iter().all(|d| *d == "02")
}

/// Fields of a power state in a line: `key:value`, `key: value` or `key : value`; a unit behind a blank is left out.
fn state_fields(line: &str) -> Vec<(&str, &str)> {
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

/// What the lines read so far say.
#[derive(Default)]
struct TextReader {
    printed: Printed,
    /// A fact about a drive was found.
    known: bool,
    /// The heading of smartctl's or nvmecontrol's table was found; the table lists all states.
    has_table: bool,
    /// The power state under construction.
    open: Option<OpenState>,
}

/// A power state whose fields may go on in the next line.
struct OpenState {
    index: usize,
    line: usize,
    state: PowerState,
    /// Fields seen so far, as bits.
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
    fn line(&mut self, line: &str, number: usize) -> Result<(), IdCtrlProblem> {
        if let Some(open) = self.open.as_mut().filter(|_| goes_on(line)) {
            return open.fields(line);
        }
        self.has_table |= line.starts_with("St Op") && line.ends_with("Ex_Lat")
            || line.starts_with("#   Max pwr");
        if let Some(state) = smartctl_state(line)?.or(nvmecontrol_state(line)?) {
            self.close().map_err(|(_, problem)| problem)?;
            return self.add(state.0, state.1);
        }
        let Some((key, value)) = line.split_once(':') else {
            return Ok(());
        };
        let key = key.trim_end();
        if let Some(index) = state_index(key) {
            self.close().map_err(|(_, problem)| problem)?;
            let mut open = OpenState::new(index?, number);
            open.fields(value)?;
            self.open = Some(open);
            return Ok(());
        }
        self.field(key, value)
    }

    fn field(&mut self, key: &str, value: &str) -> Result<(), IdCtrlProblem> {
        let printed = &mut self.printed;
        match key {
            "vid" | "PCI Vendor ID" => printed.vendor_id = Some(pci_id(key, value)?),
            "ssvid" | "PCI Vendor Subsystem ID" => {
                printed.subsystem_vendor_id = Some(pci_id(key, value)?);
            }
            "PCI Vendor/Subsystem ID" => {
                printed.vendor_id = Some(pci_id(key, value)?);
                printed.subsystem_vendor_id = printed.vendor_id;
            }
            // After the format's blank, nvme-cli's string may begin with more blanks.
            "mn" => printed.model = Some(string(after_blank(value))),
            "fr" => printed.firmware = Some(string(after_blank(value))),
            "Model Number" => printed.model = Some(string(value.trim())),
            "Firmware Version" => printed.firmware = Some(string(value.trim())),
            "npss" => printed.npss = Some(checked_npss(text_number("npss", value, 255)?)?),
            "apsta" => printed.apsta = Some(text_number("apsta", value, 255)? != 0),
            _ => return Ok(()),
        }
        self.known = true;
        Ok(())
    }

    /// Takes the state that was being read.
    fn close(&mut self) -> Result<(), Located> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let line = Some(open.line);
        open.check().map_err(|problem| (line, problem))?;
        self.add(open.index, open.state)
            .map_err(|problem| (line, problem))
    }

    /// A state that was printed. The same may come again, as where two tools printed one drive.
    fn add(&mut self, index: usize, state: PowerState) -> Result<(), IdCtrlProblem> {
        let states = &mut self.printed.states;
        match states.get(index) {
            Some(known) if is_like(known, &state) => Ok(()),
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

    fn finish(mut self) -> Result<Printed, Located> {
        self.close()?;
        if self.printed.states.is_empty() && !self.known {
            return Err((None, IdCtrlProblem::Foreign));
        }
        if let (true, None, Some(last)) = (
            self.has_table,
            self.printed.npss,
            self.printed.states.len().checked_sub(1),
        ) {
            self.printed.npss = Some(checked_npss(last as u64).map_err(|problem| (None, problem))?);
        }
        Ok(self.printed)
    }
}

/// Whether two descriptions of a state belong to the same drive.
fn is_like(a: &PowerState, b: &PowerState) -> bool {
    a.non_operational == b.non_operational
        && a.max_power == b.max_power
        && a.entry_latency_us == b.entry_latency_us
        && a.exit_latency_us == b.exit_latency_us
}

/// Whether the line continues the previous state.
fn goes_on(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let key = first.split(':').next().unwrap_or_default();
    matches!(first, "operational" | "non-operational") || STATE_FIELDS.contains(&key)
}

/// The number in `ps    3`; `None`: the key is another one.
fn state_index(key: &str) -> Option<Result<usize, IdCtrlProblem>> {
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

    fn fields(&mut self, line: &str) -> Result<(), IdCtrlProblem> {
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
        state_fields(line)
            .into_iter()
            .try_for_each(|(key, value)| self.field(key, value))
    }

    fn field(&mut self, key: &str, value: &str) -> Result<(), IdCtrlProblem> {
        let state = &mut self.state;
        let place = Place {
            name: format!("ps {} {key}", self.index),
            value,
        };
        match key {
            "mp" => {
                state.max_power = place.power()?;
                self.seen |= SEEN_POWER;
            }
            "enlat" => {
                state.entry_latency_us = place.latency()?;
                self.seen |= SEEN_ENTRY;
            }
            "exlat" => {
                state.exit_latency_us = place.latency()?;
                self.seen |= SEEN_EXIT;
            }
            "rrt" => state.read_throughput_rank = place.rank()?,
            "rrl" => state.read_latency_rank = place.rank()?,
            "rwt" => state.write_throughput_rank = place.rank()?,
            "rwl" => state.write_latency_rank = place.rank()?,
            "idle_power" => state.idle_power = place.power()?,
            "active_power" => state.active_power = place.power()?,
            _ => {}
        }
        Ok(())
    }

    /// The state must have told what planning needs.
    fn check(&self) -> Result<(), IdCtrlProblem> {
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
fn smartctl_state(line: &str) -> Result<Option<(usize, PowerState)>, IdCtrlProblem> {
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
    let place = |name: &str, value| Place {
        name: format!("state {index} {name}"),
        value,
    };
    let [active, idle, rl, rt, wl, wt, entry, exit] = rest else {
        return Err(IdCtrlProblem::Field {
            field: format!("state {index}"),
            found: format!("a row of {} columns", words.len()),
            expected: "the 11 of smartctl's table of power states",
        });
    };
    let state = PowerState {
        max_power: place("Max", max).power()?,
        non_operational: *mode == "-",
        entry_latency_us: place("Ent_Lat", entry).latency()?,
        exit_latency_us: place("Ex_Lat", exit).latency()?,
        read_throughput_rank: place("RT", rt).rank()?,
        read_latency_rank: place("RL", rl).rank()?,
        write_throughput_rank: place("WT", wt).rank()?,
        write_latency_rank: place("WL", wl).rank()?,
        idle_power: place("Idle", idle).power()?,
        active_power: place("Active", active).power()?,
    };
    Ok(Some((index, state)))
}

/// A row of `nvmecontrol power -l`, such as ` 3:  0.0500W*   5.000ms  10.000ms  3  3  3  3  0.0000W  0.0000W 0`, as its index
/// and state; `None`: the line is something else.
fn nvmecontrol_state(line: &str) -> Result<Option<(usize, PowerState)>, IdCtrlProblem> {
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
    let place = |name: &str, value| Place {
        name: format!("state {index} {name}"),
        value,
    };
    let state = PowerState {
        max_power: place("Max pwr", max.trim_end_matches('*')).power()?,
        non_operational: max.ends_with('*'),
        entry_latency_us: place("Enter Lat", entry).milliseconds()?,
        exit_latency_us: place("Exit Lat", exit).milliseconds()?,
        read_throughput_rank: place("RT", rrt).rank()?,
        read_latency_rank: place("RL", rrl).rank()?,
        write_throughput_rank: place("WT", rwt).rank()?,
        write_latency_rank: place("WL", rwl).rank()?,
        idle_power: place("Idle Pwr", idle).power()?,
        active_power: place("Act Pwr", active).power()?,
    };
    Ok(Some((index, state)))
}

/// A value in a power state, and the name for error messages.
struct Place<'a> {
    name: String,
    value: &'a str,
}

impl Place<'_> {
    fn power(&self) -> Result<Option<wakepath_units::Microwatts>, IdCtrlProblem> {
        match self.value {
            "-" | "reserved" => Ok(None),
            // Some locales print `5,00W`.
            value => watts::parse(
                &value
                    .strip_suffix('W')
                    .unwrap_or(value)
                    .replacen(',', ".", 1),
            )
            .map(|power| Some(power).filter(|p| p.0 != 0))
            .ok_or_else(|| self.wrong("watts such as 0.0500W")),
        }
    }

    fn latency(&self) -> Result<u32, IdCtrlProblem> {
        let number = self.value.parse().ok();
        number
            .and_then(unwrapped_latency)
            .ok_or_else(|| self.wrong(LATENCY))
    }

    /// A latency such as `0.210ms`, in microseconds.
    fn milliseconds(&self) -> Result<u32, IdCtrlProblem> {
        let digits = self
            .value
            .strip_suffix("ms")
            .and_then(|ms| ms.split_once('.'));
        let us = digits.filter(|(_, thousandths)| thousandths.len() == 3);
        us.and_then(|(whole, thousandths)| format!("{whole}{thousandths}").parse().ok())
            .ok_or_else(|| self.wrong("milliseconds such as 0.210ms"))
    }

    fn rank(&self) -> Result<u8, IdCtrlProblem> {
        let number = self.value.parse::<u8>();
        number
            .map(|n| rank(n.into()))
            .map_err(|_| self.wrong("a rank from 0 to 31"))
    }

    fn wrong(&self, expected: &'static str) -> IdCtrlProblem {
        IdCtrlProblem::Field {
            field: self.name.clone(),
            found: format!("\"{}\"", self.value),
            expected,
        }
    }
}

/// The value without the blank of the form, which an editor may have made a tab.
fn after_blank(value: &str) -> &str {
    value.strip_prefix([' ', '\t', '\u{a0}']).unwrap_or(value)
}

fn pci_id(field: &str, text: &str) -> Result<u16, IdCtrlProblem> {
    Ok(text_number(field, text, 0xffff)? as u16)
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
