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
    /// The journal is that of another machine or directory.
    #[error(
        "{}: a journal of {owner}, and nothing of it is put back here. Restore it there: {restore}; if that is gone, \
         remove this file",
        path.display()
    )]
    ForeignJournal {
        /// The journal.
        path: PathBuf,
        /// Whose it is.
        owner: String,
        /// What puts it back there.
        restore: String,
    },
    /// A setting is not there for the moment: a CPU that is offline, a drive in a reset.
    #[error(
        "{}: is not there now, and {key} was '{old}'. The journal keeps that; `wakepath restore` again when it is back",
        path.display()
    )]
    Away {
        /// The setting.
        key: String,
        /// Its file.
        path: PathBuf,
        /// What it was before.
        old: String,
    },
    /// Several settings could not be put back; each was tried.
    #[error("{} settings could not be put back; the journal keeps them. The first: {}", .0.len(), .0[0])]
    NotRestored(Vec<SettingsError>),
}
