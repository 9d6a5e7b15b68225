//! What can go wrong when settings are changed or put back.

use std::path::PathBuf;

use wakepath_system::SystemError;

use crate::PowerSupply;

/// Why a setting could not be changed or put back.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The machine's files could not be read or written.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A setting reads back differently than written.
    #[error("{}: wrote '{expected}', but it reads back as '{found}'", path.display())]
    ReadBack {
        /// The file.
        path: PathBuf,
        /// The written value.
        expected: String,
        /// The value that the setting's file has now.
        found: String,
    },
    /// A policy cannot be applied to this machine.
    #[error("`{policy}`: {why}")]
    Policy {
        /// The policy as the user gave it.
        policy: String,
        /// Why the policy cannot be applied, and what to do.
        why: String,
    },
    /// The file of persistent settings cannot be used.
    #[error("{}: {message}", path.display())]
    Persistent {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file of persistent settings, and what to do.
        message: String,
    },
    /// A set for one power supply was asked for in a form that has none.
    #[error(
        "--on {supply}: {file} holds for every power supply; leave --on out, or take --as tlp or --as ansible"
    )]
    FormForEverySupply {
        /// The power supply that was asked for.
        supply: PowerSupply,
        /// The other tool's file, in words.
        file: &'static str,
    },
    /// The file of a boot loader cannot be used.
    #[error("{}: {message}", path.display())]
    BootLoader {
        /// The file, or the root of a machine without a known boot loader.
        path: PathBuf,
        /// What is wrong with the boot loader's file, and what to do.
        message: String,
    },
    /// A setting was to be changed under a hold that does not hold it.
    #[error("{0}: its old value is not in the journal, so it may not be changed")]
    NotHeld(String),
    /// Another process holds the lock and changes settings.
    #[error(
        "{}: another wakepath is changing settings of this machine{owner}; wait for it to end, or stop it, if it is the \
         daemon: systemctl stop wakepath",
        path.display()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// ` (process N)` for the message, if the other process is known.
        owner: String,
    },
    /// The directory of lock and journal is not safe to use.
    #[error("{}: {why}", path.display())]
    Unsafe {
        /// The unsafe directory or file.
        path: PathBuf,
        /// Why the directory or file is not safe, and what to do.
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
        /// The machine that the journal belongs to.
        owner: String,
        /// The command that restores that machine.
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
        /// File of the setting that is away.
        path: PathBuf,
        /// The old value.
        old: String,
        /// ` --root DIR` of a captured machine, for the command in the message.
        root: String,
    },
    /// Several settings could not be put back, though each was tried.
    #[error("{} settings could not be put back; the journal keeps them. The first: {}", .0.len(), .0[0])]
    NotRestored(Vec<SettingsError>),
}
