//! What can go wrong when settings are changed or put back.

use std::path::PathBuf;

use wakepath_system::SystemError;

/// Why a setting could not be changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The machine could not be read or written.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A setting reads back differently than written.
    #[error("{}: wrote '{expected}', but it reads back as '{found}'", path.display())]
    ReadBack {
        /// The file.
        path: PathBuf,
        /// The written value.
        expected: String,
        /// The value in the file.
        found: String,
    },
    /// A policy that cannot be applied to a machine.
    #[error("`{policy}`: {why}")]
    Policy {
        /// The policy as given.
        policy: String,
        /// The fault, and the way out.
        why: String,
    },
    /// The file of persistent settings cannot be used.
    #[error("{}: {message}", path.display())]
    Persistent {
        /// The file.
        path: PathBuf,
        /// The fault, and the way out.
        message: String,
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
        /// The fault, and the way out.
        why: String,
    },
    /// The journal is damaged or of another version.
    #[error("{}: not a journal that this version can read: {why}", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The journal belongs to another machine or directory.
    #[error(
        "{}: a journal of {owner}, and nothing of it is put back here. Restore it there: {restore}; if that is gone, \
         remove this file",
        path.display()
    )]
    ForeignJournal {
        /// The journal.
        path: PathBuf,
        /// Owner of the journal.
        owner: String,
        /// Command that restores the owner.
        restore: String,
    },
    /// A setting is away for the moment: its CPU is offline, or its drive in a reset.
    #[error(
        "{}: is not there now, and {key} was '{old}'. The journal keeps that; `wakepath restore{root}` again when it is back",
        path.display()
    )]
    Away {
        /// The setting.
        key: String,
        /// File of the setting.
        path: PathBuf,
        /// The old value.
        old: String,
        /// ` --root DIR` of a captured machine, for the command.
        root: String,
    },
    /// Several settings could not be put back; each was tried.
    #[error("{} settings could not be put back; the journal keeps them. The first: {}", .0.len(), .0[0])]
    NotRestored(Vec<SettingsError>),
}
