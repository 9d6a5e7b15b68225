//! Errors while a machine's files are read, each with the path.

use std::io;
use std::path::PathBuf;

/// Why a machine could not be read, or why a value is impossible for a setting.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// A file of the machine could not be read.
    #[error("{}: cannot be read: {source}{}", path.display(), advice_for_io_error(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the machine could not be written.
    #[error("{}: writing '{value}': {source}{}", path.display(), advice_for_io_error(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The value that was to be written.
        value: String,
        /// Why not.
        source: io::Error,
    },
    /// A text is impossible as the value of a setting.
    #[error("{setting}: '{value}' is not possible; expected {expected}")]
    Value {
        /// The setting.
        setting: String,
        /// The value.
        value: String,
        /// Allowed values.
        expected: String,
    },
    /// An NVMe command to a drive failed.
    #[error("{}: {command}: {source}{}", path.display(), advice_for_io_error(source))]
    Nvme {
        /// The device.
        path: PathBuf,
        /// The command.
        command: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// What a user can do about an error of the system; empty if nothing is known.
fn advice_for_io_error(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (this needs root)",
        io::ErrorKind::ReadOnlyFilesystem => " (this part of the system is read-only here)",
        io::ErrorKind::ResourceBusy => {
            " (the driver refuses it in its present mode; intel_pstate, for one, allows no EPP other than performance under the governor performance)"
        }
        _ => "",
    }
}
