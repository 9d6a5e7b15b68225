//! What can go wrong on a real machine, with the path at which it did.

use std::io;
use std::path::PathBuf;

/// Why a setting could not be read, changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// A file could not be read.
    #[error("{}: cannot be read: {source}{}", path.display(), hint(source))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A value could not be written.
    #[error("{}: writing '{value}': {source}{}", path.display(), hint(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// Why not.
        source: io::Error,
    },
    /// What was read back is not what was written.
    #[error("{}: wrote '{expected}', but it reads back as '{found}'", path.display())]
    ReadBack {
        /// The file.
        path: PathBuf,
        /// What was written.
        expected: String,
        /// What it holds.
        found: String,
    },
    /// A text is not the value of a setting.
    #[error("{setting}: '{value}' is not possible; expected {expected}")]
    Value {
        /// The setting.
        setting: String,
        /// The value.
        value: String,
        /// What it may be.
        expected: String,
    },
    /// A policy that cannot be applied to a machine.
    #[error("`{policy}`: {why}")]
    Policy {
        /// As it was given.
        policy: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// A setting is not among those that are held.
    #[error("{0}: its old value is not in the journal, so it may not be changed")]
    NotHeld(String),
    /// Another process changes settings.
    #[error(
        "{}: another wakepath is changing settings of this machine{owner}; wait for it to end, or stop it, if it is the \
         daemon: systemctl stop wakepath",
        path.display()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// ` (process N)`, if it is known.
        owner: String,
    },
    /// The directory of lock and journal is not safe to use.
    #[error("{}: {why}", path.display())]
    Unsafe {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The journal is damaged or of another version.
    #[error("{}: not a journal that this version can read: {why}", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// An NVMe command failed.
    #[error("{}: {command}: {source}{}", path.display(), hint(source))]
    Nvme {
        /// The device.
        path: PathBuf,
        /// The command.
        command: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Several settings could not be put back; each was tried.
    #[error("{} settings could not be put back; the journal keeps them. The first: {}", .0.len(), .0[0])]
    NotRestored(Vec<LiveError>),
}

/// What to do about an error of the system's, if there is an advice.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (this needs root)",
        io::ErrorKind::ReadOnlyFilesystem => " (this part of the system is read-only here)",
        io::ErrorKind::ResourceBusy => {
            " (the driver refuses it in its present mode; intel_pstate, for one, allows no EPP other than performance under the governor performance)"
        }
        _ => "",
    }
}
