//! Why a machine or a drive could not be had.

use std::io;
use std::path::PathBuf;

use wakepath_units::spelling::{LONGEST_NAME, toml_error_with_key};

use crate::drive::id_ctrl::IdCtrlError;
use crate::drive::library::LookupError;

/// Why a machine or a drive could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No machine has this name.
    #[error(
        "unknown machine '{name}'; did you mean '{nearest}'? A machine is one of: {known}; a recorded system (wakepath machine list); or the path of a .toml file"
    )]
    Unknown {
        /// The requested name.
        name: String,
        /// The machine name that is most similar.
        nearest: String,
        /// All names.
        known: String,
    },
    /// The name is longer than any machine's.
    #[error(
        "a machine name of {0} bytes; names have at most {LONGEST_NAME}, and `wakepath machine list` prints them all"
    )]
    TooLong(usize),
    /// The machine `here` does not exist: nobody has calibrated this machine.
    #[error(
        "here: this machine is not calibrated, {file} is not there; make it by `sudo wakepath calibrate --folder DIR`"
    )]
    NotCalibrated {
        /// Where a calibration by root leaves the machine's file.
        file: &'static str,
    },
    /// The calibrated machine's file may exist, but cannot be reached.
    #[error("here: {}: {source}; let all users read it, or name another file by WAKEPATH_HERE", path.display())]
    UnreadableHere {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The variable `WAKEPATH_HERE` names no file.
    #[error(
        "WAKEPATH_HERE names {}, which cannot be read: {source}; name a machine file there, or unset the variable",
        path.display()
    )]
    NamedHere {
        /// What it names.
        path: PathBuf,
        /// Why the calibrated machine's file cannot be read.
        source: io::Error,
    },
    /// A recorded system has too little data to make a machine of it.
    #[error(
        "{name} is a recorded system whose {missing} were not recorded; it cannot be simulated"
    )]
    OnlyRecorded {
        /// The requested name.
        name: String,
        /// The missing data.
        missing: &'static str,
    },
    /// The name is that of a driver's idle-state table.
    #[error(
        "{name} is a table of idle states of the intel_idle driver, without clock, power and drive; it cannot be simulated by \
         itself. `wakepath machine show {name}` prints it; a machine is one that `wakepath machine list` has with CPUs"
    )]
    OnlyStates {
        /// The requested name.
        name: String,
    },
    /// The file of the machine cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a machine description.
    #[error("{origin}:{line}: {message}")]
    Parse {
        /// Name of the file or built-in machine.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// The fault.
        message: String,
    },
    /// No drive has this name.
    #[error(transparent)]
    Drive(#[from] LookupError),
    /// The file describes no drive, neither as a model nor as a tool's output.
    #[error(transparent)]
    Dump(#[from] IdCtrlError),
    /// A value of the machine is impossible.
    #[error("{origin}: {key}: {message}")]
    Invalid {
        /// Name of the file or built-in machine.
        origin: String,
        /// Key of the value in the machine file.
        key: String,
        /// What is wrong with the value, and what is expected.
        message: String,
    },
}

impl MachineError {
    /// The error for an impossible value: `origin` names the file or machine, `key` the value.
    pub(super) fn invalid_value(origin: &str, key: &str, message: impl Into<String>) -> Self {
        Self::Invalid {
            origin: origin.to_owned(),
            key: key.to_owned(),
            message: message.into(),
        }
    }
}

/// The error for a fault that the TOML parser found, with the line.
pub(super) fn description_error(text: &str, origin: &str, e: &toml::de::Error) -> MachineError {
    let at = e.span().map_or(0, |s| s.start.min(text.len()));
    MachineError::Parse {
        origin: origin.to_owned(),
        line: text[..at].matches('\n').count() + 1,
        message: toml_error_with_key(e.message(), text, at),
    }
}
