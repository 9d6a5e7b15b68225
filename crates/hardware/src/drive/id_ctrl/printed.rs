//! Facts that a tool printed about a drive, checked and completed.

use wakepath_units::{Microwatts, pasted};

use crate::drive::power_states::{Drive, MAX_POWER_STATES, PowerState};

/// Size of the Identify Controller data structure in bytes.
pub const SIZE: usize = 4096;

/// The accepted forms of a drive's description, for messages.
const FORMS: &str = "the output of `nvme id-ctrl` (with -b, with -o json, or text) or of `smartctl -a` or `-c` (text, \
     or JSON with -j) or of `nvmecontrol power -l`, or the lines of its power states alone";

/// A drive as a tool printed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredDrive {
    /// The drive as printed, with assumptions for facts that are missing.
    pub drive: Drive,
    /// Whether the model name was not printed, so that the drive is called after its file.
    pub unnamed: bool,
    /// Whether the number of power states was not printed; then all printed states count.
    pub npss_assumed: bool,
    /// Whether an old nvme-cli printed idle and active powers with the wrong hundredths, so that they are not known.
    pub coarse_powers: bool,
}

impl DeclaredDrive {
    /// A sentence about facts that were not printed and are assumed; `None` without assumptions. APST support is
    /// reported elsewhere.
    pub fn describe_assumptions(&self) -> Option<String> {
        let states = usize::from(self.drive.npss) + 1;
        let all = format!("npss is not in it, and the {states} power states in it count as all");
        let coarse = "its idle and active powers all end in .02 W, as nvme-cli up to 1.11 prints any; they count as unknown";
        let parts = [
            (self.unnamed, "the model's name is not in it"),
            (self.npss_assumed, all.as_str()),
            (self.coarse_powers, coarse),
        ];
        let said: Vec<&str> = parts
            .into_iter()
            .filter_map(|(is, text)| is.then_some(text))
            .collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// Why a dump describes no usable drive, with the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", .line.map(|l| format!(":{l}")).unwrap_or_default())]
pub struct IdCtrlError {
    /// Name of the dump's file, as the caller gave it.
    pub file: String,
    /// Number of the line, from 1, where the form has lines and the problem a place.
    pub line: Option<usize>,
    /// What is wrong with the dump.
    pub problem: IdCtrlProblem,
}

/// What can be wrong with a dump of a drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdCtrlProblem {
    /// The dump is empty.
    #[error("the file is empty, expected {FORMS}")]
    Empty,
    /// The dump is binary, but not as long as the data structure.
    #[error("{0} bytes, expected the {SIZE} of `nvme id-ctrl -b`")]
    Size(usize),
    /// The dump names neither vendor nor model.
    #[error("not an Identify Controller dump: vendor id and model are empty")]
    Blank,
    /// The dump is text of another kind.
    #[error("no power states of an NVMe drive in it; expected {FORMS}")]
    Foreign,
    /// The dump is smartctl's of a drive on another bus than NVMe, which has no APST.
    #[error("it describes a {0} drive; APST and these power states are of NVMe drives only")]
    OtherBus(&'static str),
    /// The dump describes a drive without power states.
    #[error("it describes an NVMe drive without its power states; expected {FORMS}")]
    NoStates,
    /// The dump has more power states than NVMe allows.
    #[error("npss is {0}, but 31 is the last possible power state")]
    TooManyStates(u64),
    /// The number of power states does not fit `npss`.
    #[error("npss {npss} means {} power states, but {found} are listed", .npss + 1)]
    StateCount {
        /// Index of the drive's last power state, by `npss`.
        npss: usize,
        /// Number of power states in the dump.
        found: usize,
    },
    /// The dump leaves power states out between others.
    #[error(
        "power state {found} follows where {expected} is expected; all states from 0 on are needed"
    )]
    MissingState {
        /// Index of the power state that the dump has in the missing one's place.
        found: usize,
        /// Index of the power state that is missing.
        expected: usize,
    },
    /// A power state occurs twice with different figures.
    #[error(
        "power state {0} is there a second time, with other values: the text has two drives. Give one of them"
    )]
    TwoDrives(usize),
    /// The dump has the output of several machines.
    #[error(transparent)]
    SeveralHosts(pasted::SeveralHosts),
    /// The text is no JSON: the parser's message.
    #[error("column {column}: not valid JSON: {what}")]
    Json {
        /// Column, counted from 1.
        column: usize,
        /// The parser's message.
        what: String,
    },
    /// A field of the dump has an impossible value.
    #[error("{field} is {found}, expected {expected}")]
    Field {
        /// The field.
        field: String,
        /// The field's value.
        found: String,
        /// The expected value.
        expected: &'static str,
    },
}

/// A problem with its line, before the file's name is known.
pub(super) type LocatedProblem = (Option<usize>, IdCtrlProblem);

/// Facts about a drive as found in a dump, before missing ones are noticed.
#[derive(Default)]
pub(super) struct PrintedDrive {
    pub(super) model: Option<String>,
    pub(super) firmware: Option<String>,
    pub(super) vendor_id: Option<u16>,
    pub(super) subsystem_vendor_id: Option<u16>,
    pub(super) npss: Option<u8>,
    pub(super) apsta: Option<bool>,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) states: Vec<PowerState>,
    pub(super) coarse_powers: bool,
}

impl PrintedDrive {
    /// Takes idle and active powers that end in 0.02 W for unknown, which an old nvme-cli printed wrong.
    pub(super) fn forget_powers_ending_in_2_hundredths(&mut self) {
        for state in &mut self.states {
            for power in [&mut state.idle_power, &mut state.active_power] {
                *power = power.filter(|power| power.0 % 1_000_000 != 20_000);
            }
        }
        self.coarse_powers = true;
    }

    pub(super) fn check_and_complete_drive(
        self,
        file: &str,
    ) -> Result<DeclaredDrive, IdCtrlProblem> {
        let found = self.states.len();
        let Some(last) = found.checked_sub(1) else {
            return Err(match self.npss {
                Some(npss) => IdCtrlProblem::StateCount {
                    npss: npss.into(),
                    found,
                },
                None => IdCtrlProblem::NoStates,
            });
        };
        let npss = match self.npss {
            Some(npss) if usize::from(npss) != last => {
                let npss = npss.into();
                return Err(IdCtrlProblem::StateCount { npss, found });
            }
            Some(npss) => npss,
            None => check_npss_below_32(last as u64)?,
        };
        let model = self.model.filter(|model| !model.is_empty());
        Ok(DeclaredDrive {
            unnamed: model.is_none(),
            npss_assumed: self.npss.is_none(),
            coarse_powers: self.coarse_powers,
            drive: Drive {
                model: model.unwrap_or_else(|| format!("drive of {file}")),
                firmware: self.firmware.unwrap_or_default(),
                vendor_id: self.vendor_id,
                subsystem_vendor_id: self.subsystem_vendor_id,
                npss,
                states: self.states,
                apsta: self.apsta,
                capacity_bytes: self.capacity_bytes.filter(|bytes| *bytes > 0),
                source: file.to_owned(),
            },
        })
    }
}

pub(super) fn check_npss_below_32(npss: u64) -> Result<u8, IdCtrlProblem> {
    if npss < MAX_POWER_STATES as u64 {
        Ok(npss as u8)
    } else {
        Err(IdCtrlProblem::TooManyStates(npss))
    }
}

/// Decodes the maximum power: `MP` in 0.0001 W if `MXPS` is set, else in 0.01 W.
pub(super) fn decode_max_power(mp_field: u64, is_in_0_1_mw: bool) -> Option<Microwatts> {
    let unit = if is_in_0_1_mw { 100 } else { 10_000 };
    (mp_field != 0).then_some(Microwatts(mp_field * unit))
}

/// Decodes an idle or active power: scale 1 is 0.0001 W, 2 is 0.01 W, 0 is "not reported", 3 is reserved.
pub(super) fn decode_idle_or_active_power(power_field: u64, scale: u64) -> Option<Microwatts> {
    let unit = match scale {
        1 => 100,
        2 => 10_000,
        _ => return None,
    };
    (power_field != 0).then_some(Microwatts(power_field * unit))
}

/// Cuts a rank to its 5 bits; the others are reserved.
pub(super) fn keep_five_bits_of_rank(byte: u64) -> u8 {
    (byte & 0x1f) as u8
}

/// A fixed-width string of the dump without padding. Characters unfit for terminals become replacement characters.
pub(super) fn trim_end_and_replace_control_characters(text: &str) -> String {
    text.trim_end_matches([' ', '\0', '\r', '\n', '\t'])
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

pub(super) const LATENCY: &str = "microseconds from 0 to 4294967295";

/// Undoes the signed printing of 32-bit latencies by some releases of nvme-cli; `None` for impossible values.
pub(super) fn latency_us_from_signed_number(printed: i64) -> Option<u32> {
    u32::try_from(printed)
        .ok()
        .or_else(|| i32::try_from(printed).ok().map(|v| v as u32))
}

/// A capacity in bytes as tools print it: `500107862016`, `500,107,862,016 [500 GB]`. `None` for any other text, as if nothing were
/// printed.
pub(super) fn parse_capacity(text: &str) -> Option<u64> {
    let number = text.split('[').next()?.trim();
    number.replace(',', "").parse().ok()
}
