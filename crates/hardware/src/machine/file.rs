//! Reads the files of machines and drives.

use std::io;
use std::path::Path;

use wakepath_units::pasted::decode_text_strictly;

use super::error::description_error;
use super::{Machine, MachineError};

/// Size limit for machine files in bytes; real files have a few kilobytes.
pub(super) const MAX_FILE: u64 = 1 << 20;

/// Reads the text of a machine or drive file.
pub(super) fn read_description(path: &Path) -> Result<String, MachineError> {
    let bytes = read_file_bytes(path)?;
    decode_text_strictly(bytes).map_err(|_| MachineError::Read {
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8"),
    })
}

/// Reads all bytes of a file, up to the size limit.
pub(super) fn read_file_bytes(path: &Path) -> Result<Vec<u8>, MachineError> {
    wakepath_files::read_file_up_to(path, MAX_FILE).map_err(|source| MachineError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Parses and checks a machine file that does not refer to another machine; `origin` names it in errors.
pub(super) fn parse_complete(text: &str, origin: &str) -> Result<Machine, MachineError> {
    let machine: Machine = toml::from_str(text).map_err(|e| description_error(text, origin, &e))?;
    machine.check_values_of_file(origin)?;
    Ok(machine)
}
