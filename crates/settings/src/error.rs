//! What can go wrong when settings are changed or put back.

use std::path::PathBuf;

use wakepath_system::SystemError;

/// Why a setting could not be changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The machine could not be read or written.
    #[error(transparent)]
    System(#[from] SystemError),
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
    /// Several settings could not be put back; each was tried.
    #[error("{} settings could not be put back; the journal keeps them. The first: {}", .0.len(), .0[0])]
    NotRestored(Vec<SettingsError>),
}
