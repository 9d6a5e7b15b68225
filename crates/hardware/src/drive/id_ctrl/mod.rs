//! Reads a drive's identity and power states from the output of tools:
//!
//! - `nvme id-ctrl`: binary (`-b`, the controller's 4096 bytes), JSON (`-o json`) and text;
//! - smartctl (`-c`, `-a`, `-x`): text and JSON (`-j`);
//! - FreeBSD's `nvmecontrol power -l`;
//! - lines with power states alone, as found in mails.
//!
//! The content decides the format. Text may be quoted, indented or incomplete; unknown facts besides the power states
//! are assumed ([`DeclaredDrive`]).
//!
//! Offsets and bits are those of the NVMe Base Specification, "Identify Controller Data Structure" and "Power State
//! Descriptor". The other forms follow nvme-cli 0.9 to 2.16 and smartctl 6.6 to 7.5.

mod binary;
mod json;
mod printed;
mod text;

use wakepath_units::pasted;

use printed::{Located, Printed};

pub use printed::{DeclaredDrive, IdCtrlError, IdCtrlProblem, SIZE};

/// Parses a drive's description in any of the forms. `file` names it in errors and in
/// [`Drive::source`](crate::drive::Drive::source).
///
/// # Errors
/// [`IdCtrlError`] for whatever is not a description of one drive with 1 to 32 power states.
pub fn parse_dump(file: &str, data: &[u8]) -> Result<DeclaredDrive, IdCtrlError> {
    detect_and_read_form(data)
        .and_then(|printed| {
            printed
                .complete_and_check(file)
                .map_err(|problem| (None, problem))
        })
        .map_err(|(line, problem)| IdCtrlError {
            file: file.to_owned(),
            line,
            problem,
        })
}

fn detect_and_read_form(data: &[u8]) -> Result<Printed, Located> {
    if data.is_empty() {
        return Err((None, IdCtrlProblem::Empty));
    }
    // The binary structure always has zero bytes; text has zero bytes only in UTF-16.
    if data.contains(&0) && !pasted::is_utf16(data) {
        return binary::decode_identify_structure(data).map_err(|problem| (None, problem));
    }
    // Text need not be UTF-8: a drive may hold anything in its serial number.
    let text = pasted::without_hosts(pasted::decode_text(data))
        .map_err(|several| (None, IdCtrlProblem::SeveralHosts(several)))?;
    let printed = match json::cut_out_json(&text) {
        Some(json) => json::read_json(&json),
        None => text::read_text(&text),
    };
    let has_states = printed.as_ref().is_ok_and(|p| !p.states.is_empty());
    match find_other_bus(&text).filter(|_| !has_states) {
        Some(bus) => Err((None, IdCtrlProblem::OtherBus(bus))),
        None => printed,
    }
}

/// The bus of a drive that smartctl describes, if it is another than NVMe.
fn find_other_bus(text: &str) -> Option<&'static str> {
    text.lines().find_map(|line| {
        let (key, value) = pasted::quote_depth_and_text(line).1.split_once(':')?;
        let value = value.trim().trim_end_matches(',').trim_matches('"');
        match key.trim().trim_matches('"') {
            "SATA Version is" | "ATA Version is" => Some("SATA"),
            "Transport protocol" if value.starts_with("SAS") => Some("SAS"),
            "protocol" if value == "ATA" => Some("SATA"),
            "protocol" if value == "SCSI" => Some("SAS"),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests;
