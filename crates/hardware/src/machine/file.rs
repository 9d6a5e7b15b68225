//! Reads the files of machines and drives.

use std::io;
use std::path::Path;

use wakepath_units::pasted::decode_text_strictly;

use super::error::parse_error;
use super::{Machine, MachineError};

/// Size limit for machine files; real ones have a few kilobytes.
pub(super) const MAX_FILE: u64 = 1 << 20;

/// Reads a description file.
pub(super) fn read(path: &Path) -> Result<String, MachineError> {
    let bytes = read_bytes(path)?;
    decode_text_strictly(bytes).map_err(|_| MachineError::Read {
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8"),
    })
}

/// Reads a whole file.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, MachineError> {
    wakepath_files::read(path, MAX_FILE).map_err(|source| MachineError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Parses and checks a machine file that has all of its machine; `origin` names it in errors.
pub(super) fn parse_complete(text: &str, origin: &str) -> Result<Machine, MachineError> {
    let machine: Machine = toml::from_str(text).map_err(|e| parse_error(text, origin, &e))?;
    machine.check_from(origin)?;
    Ok(machine)
}
