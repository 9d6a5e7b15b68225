//! The journal of changed settings, with their old values. The crate `settings` writes the journal to disk before any
//! change; this module reads it.
//!
//! The journal has layers. The lowest has permanent changes by `apply`; above are temporary changes by a running
//! process, such as a study. The next process restores the layer of a dead process.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use wakepath_files::{Links, Tree, open_regular_in_folder, read_up_to};

use crate::{Root, SettingKey};

/// Name of the journal's file.
pub const FILE: &str = "journal.json";
const SCHEMA: u32 = 1;

/// Folder of the journal, below the machine's root: on a file system that survives a power loss.
pub const DIRECTORY: &str = "var/lib/wakepath";
/// The lock.
pub const LOCK: &str = "lock";
/// Limit on the journal's size in bytes: ten idle states of 4096 CPUs, and then some.
const MAX_FILE: u64 = 64 << 20;

/// The journal of changed settings: their old values, layer by layer.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    schema: u32,
    /// The kernel's boot id when the journal was written; empty if unknown.
    pub boot: String,
    /// The machine whose settings the journal has; `None` in journals by earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<JournalOwner>,
    /// The lowest first.
    pub layers: Vec<Layer>,
}

/// Machine that a journal belongs to. Restoring another machine's journal would write foreign values.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum JournalOwner {
    /// The running machine.
    Machine,
    /// A captured machine.
    Directory {
        /// Device and inode numbers of the captured machine's directory, unchanged by renaming.
        inode: (u64, u64),
        /// Path of the captured machine's directory, which also holds after a restart has numbered devices anew.
        path: PathBuf,
    },
}

impl JournalOwner {
    /// The journal's owner for the machine below a root.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn for_root(root: &Root) -> io::Result<Self> {
        if root.is_live() {
            return Ok(Self::Machine);
        }
        let directory = root.absolute_path("");
        Ok(Self::Directory {
            inode: Tree::open_folder(&directory, Links::InTree)?.device_and_inode()?,
            path: std::fs::canonicalize(directory)?,
        })
    }

    /// Whether both owners are the same machine or directory.
    pub fn is_same_machine(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Machine, Self::Machine) => true,
            (
                Self::Directory { inode, path },
                Self::Directory {
                    inode: other_inode,
                    path: other_path,
                },
            ) => inode == other_inode || path == other_path,
            _ => false,
        }
    }
}

impl fmt::Display for JournalOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => f.write_str("a running machine"),
            Self::Directory { path, .. } => write!(f, "the captured machine {}", path.display()),
        }
    }
}

/// Why settings were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeReason {
    /// The settings were applied, and stay changed until `restore`.
    Applied,
    /// The settings stay changed as long as the process with the lock lives.
    Held,
    /// The process with the lock changes the settings repeatedly. Values that others set meanwhile stay.
    Reserved,
}

impl ChangeReason {
    /// Whether the changes end with the process that holds the lock.
    pub const fn ends_with_lock_holder(self) -> bool {
        matches!(self, Self::Held | Self::Reserved)
    }
}

/// A layer of the journal: settings that were changed for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Reason for the changes.
    #[serde(rename = "why")]
    pub reason: ChangeReason,
    /// The settings.
    pub settings: Vec<Entry>,
}

/// A setting in the journal, with its value before the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Key of the setting.
    pub key: SettingKey,
    /// Old value.
    pub old: String,
    /// The value that was to be written; `None`: the kernel may have changed the setting along with another.
    pub new: Option<String>,
    /// The values written instead of `new` since, the latest last; empty if there were none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<String>,
    /// Model and serial number of the setting's drive, since another drive may get the name later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
}

impl Journal {
    /// An empty journal.
    pub fn new(root: &Root) -> Self {
        Self {
            schema: SCHEMA,
            boot: read_boot_id(root),
            owner: JournalOwner::for_root(root).ok(),
            layers: Vec::new(),
        }
    }

    /// Reads the journal without taking the lock, which is safe because the file is always replaced as a whole. `None`
    /// if the journal cannot be read.
    pub fn read_without_lock(root: &Root) -> Option<Self> {
        Self::parse(&read_directory_file_without_lock(root, FILE)?).ok()
    }

    /// Entry for a setting in the uppermost layer, if held by a process.
    pub fn entry_in_held_layer(&self, key: &SettingKey) -> Option<&Entry> {
        let top = self
            .layers
            .last()
            .filter(|l| l.reason.ends_with_lock_holder())?;
        top.settings.iter().find(|e| e.key == *key)
    }

    /// Adds settings to the uppermost layer, if a process holds that layer.
    pub fn add_to_held_layer(&mut self, settings: Vec<Entry>) {
        let top = self
            .layers
            .last_mut()
            .filter(|l| l.reason.ends_with_lock_holder());
        if let Some(top) = top {
            top.settings.extend(settings);
        }
    }

    /// Removes a setting from the uppermost layer, if a process holds that layer.
    pub fn remove_from_held_layer(&mut self, key: &SettingKey) {
        let top = self
            .layers
            .last_mut()
            .filter(|l| l.reason.ends_with_lock_holder());
        if let Some(top) = top {
            top.settings.retain(|e| e.key != *key);
        }
    }

    /// Mutable entry for a setting in the uppermost layer, if held by a process.
    pub fn entry_in_held_layer_mut(&mut self, key: &SettingKey) -> Option<&mut Entry> {
        let top = self
            .layers
            .last_mut()
            .filter(|l| l.reason.ends_with_lock_holder())?;
        top.settings.iter_mut().find(|e| e.key == *key)
    }

    /// Parses a journal's content.
    ///
    /// # Errors
    /// The fault in the content.
    pub fn parse(content: &[u8]) -> Result<Self, String> {
        let journal: Self = serde_json::from_slice(content).map_err(|e| e.to_string())?;
        if journal.schema != SCHEMA {
            return Err(format!(
                "version {}, expected {SCHEMA}; restore with the wakepath that wrote it",
                journal.schema
            ));
        }
        Ok(journal)
    }

    /// The layer for settings changed by `apply`, made if it is missing.
    pub fn applied_layer_or_new(&mut self) -> &mut Layer {
        if self
            .layers
            .first()
            .is_none_or(|l| l.reason != ChangeReason::Applied)
        {
            self.layers.insert(
                0,
                Layer {
                    reason: ChangeReason::Applied,
                    settings: Vec::new(),
                },
            );
        }
        &mut self.layers[0]
    }

    /// Every setting in the journal once, with its oldest value.
    pub fn entries_with_oldest_values(&self) -> Vec<Entry> {
        let mut all = Layer {
            reason: ChangeReason::Applied,
            settings: Vec::new(),
        };
        for entry in self.layers.iter().flat_map(|l| &l.settings) {
            all.add_keeping_old_value(entry.clone());
        }
        all.settings
    }
}

impl Layer {
    /// Adds a setting to the layer; an entry that is there already keeps its old value.
    pub fn add_keeping_old_value(&mut self, entry: Entry) {
        match self.settings.iter_mut().find(|e| e.key == entry.key) {
            Some(known) => known.new = entry.new.or(known.new.take()),
            None => self.settings.push(entry),
        }
    }
}

/// Reads the kernel's id of the present boot.
pub fn read_boot_id(root: &Root) -> String {
    root.read_text_if_readable("proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
}

/// Whether a journal waits for a restore; `None`: only root can see that.
pub fn has_pending_restore(root: &Root) -> Option<bool> {
    exists_in_journal_directory(root, FILE)
}

/// The settings held by a running process, or left by a killed one, each with the value that the process was to write.
/// `None` if the journal is unreadable, which needs root.
///
/// Such settings come from `Session::apply_while_held` and `Session::reserve_for_repeated_changes`.
pub fn list_held_settings_and_new_values(root: &Root) -> Option<Vec<(SettingKey, Option<String>)>> {
    if !has_pending_restore(root)? {
        return Some(Vec::new());
    }
    let journal = Journal::read_without_lock(root)?;
    let held = journal
        .layers
        .into_iter()
        .filter(|l| l.reason.ends_with_lock_holder());
    let entries = held.flat_map(|layer| layer.settings);
    Some(entries.map(|entry| (entry.key, entry.new)).collect())
}

/// Opens the journal's directory; with `make` it is created first. `None` if missing. On a captured machine no link is
/// followed: `var` could lead to the running machine's.
///
/// # Errors
/// The system's; it is a link, or no directory.
pub fn open_journal_directory(root: &Root, make: bool) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = if root.is_live() {
        let path = root.absolute_path(DIRECTORY);
        if make && let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
            accept_existing_directory(mkdirat(CWD, &path, Mode::RWXU))?;
        }
        openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty()).map_err(io::Error::from)
    } else {
        let tree = Tree::open_folder(&root.absolute_path(""), Links::Refused)?;
        if make {
            make_journal_directory_in(&tree)?;
        }
        tree.open_file_or_folder(Path::new(DIRECTORY), flags)
    };
    match opened {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Makes the journal's directory below a captured machine's root, part by part.
fn make_journal_directory_in(tree: &Tree) -> io::Result<()> {
    let mut above = PathBuf::new();
    for part in Path::new(DIRECTORY) {
        let parent = tree.open_file_or_folder(&above, OFlags::PATH | OFlags::DIRECTORY)?;
        above.push(part);
        let mode = if above == Path::new(DIRECTORY) {
            Mode::RWXU
        } else {
            Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH
        };
        accept_existing_directory(mkdirat(parent, part, mode))?;
    }
    Ok(())
}

/// Turns the error that a directory exists into success.
fn accept_existing_directory(mkdir_result: Result<(), Errno>) -> io::Result<()> {
    match mkdir_result {
        Err(error) if error != Errno::EXIST => Err(error.into()),
        _ => Ok(()),
    }
}

/// Reads a file in the journal's directory; `None` if missing.
///
/// # Errors
/// The system's; a link is one, and so is all else that is no regular file.
pub fn read_journal_directory_file(directory: &OwnedFd, file: &str) -> io::Result<Option<Vec<u8>>> {
    match open_regular_in_folder(directory, file, OFlags::RDONLY) {
        Ok(file) => read_up_to(file, MAX_FILE).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file in the journal's directory without the lock; `None` if it is missing or not readable.
fn read_directory_file_without_lock(root: &Root, file: &str) -> Option<Vec<u8>> {
    read_journal_directory_file(&open_journal_directory(root, false).ok()??, file).ok()?
}

/// Whether a file exists in the journal's directory; `None`: only the directory's owner may know. An obstacle at the
/// directory's path counts as a file, so that the next reader reports the obstacle.
fn exists_in_journal_directory(root: &Root, file: &str) -> Option<bool> {
    let seen = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = open_journal_directory(root, false).and_then(|directory| match directory {
        None => Err(Errno::NOENT.into()),
        Some(directory) => Ok(openat(directory, file, seen, Mode::empty())?),
    });
    match found {
        Ok(_) => Some(true),
        Err(error) => match error.kind() {
            ErrorKind::PermissionDenied => None,
            ErrorKind::NotFound => Some(false),
            _ => Some(true),
        },
    }
}

/// The process that holds the journal's lock, or 0 if its number is not known; `None` if none holds it, or only the
/// directory's owner may see that.
pub fn lock_holder_pid(root: &Root) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let directory = open_journal_directory(root, false).ok()??;
    let mut file = File::from(openat(directory, LOCK, flags, Mode::empty()).ok()?);
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(read_pid_in_lock_file(&mut file).unwrap_or(0)),
        // The lock was free: trying has taken it, and closing the file frees it again.
        _ => None,
    }
}

/// The settings that a damaged journal still names, each once, with the oldest value.
pub fn recover_legible_settings(content: &[u8]) -> Vec<(SettingKey, String)> {
    let text = String::from_utf8_lossy(content);
    let mut found: Vec<(SettingKey, String)> = Vec::new();
    for piece in text.split("\"key\"").skip(1) {
        let old = piece
            .split_once("\"old\"")
            .and_then(|(_, old)| parse_json_text_behind_colon(old));
        let key =
            parse_json_text_behind_colon(piece).and_then(|key| key.parse::<SettingKey>().ok());
        if let (Some(key), Some(old)) = (key, old)
            && !found.iter().any(|(known, _)| *known == key)
        {
            found.push((key, old));
        }
    }
    found
}

/// Parses the text in `: "text"` at the start of a piece of JSON.
fn parse_json_text_behind_colon(piece: &str) -> Option<String> {
    let behind = piece.trim_start().strip_prefix(':')?;
    let mut texts = serde_json::Deserializer::from_str(behind).into_iter::<String>();
    texts.next()?.ok()
}

/// Reads the number of the process that has noted itself in the lock file.
pub fn read_pid_in_lock_file(lock: &mut File) -> Option<u32> {
    let mut owner = String::new();
    lock.take(20).read_to_string(&mut owner).ok()?;
    owner.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(key: &str, old: &str, new: &str) -> Entry {
        Entry {
            key: key.parse().unwrap(),
            old: old.to_owned(),
            new: Some(new.to_owned()),
            written: Vec::new(),
            drive: None,
        }
    }

    #[test]
    fn the_oldest_value_wins() {
        let mut journal = Journal::new(&Root::at_directory("/nowhere"));
        journal
            .applied_layer_or_new()
            .add_keeping_old_value(entry("idle-governor", "menu", "teo"));
        journal.applied_layer_or_new().add_keeping_old_value(entry(
            "idle-governor",
            "teo",
            "ladder",
        ));
        journal.layers.push(Layer {
            reason: ChangeReason::Held,
            settings: vec![
                entry("idle-governor", "ladder", "menu"),
                entry("cpu-latency:cpu0", "0", "20"),
            ],
        });
        assert_eq!(
            journal.entries_with_oldest_values(),
            [
                entry("idle-governor", "menu", "menu"),
                entry("cpu-latency:cpu0", "0", "20")
            ]
        );
        let text = serde_json::to_vec(&journal).unwrap();
        assert_eq!(Journal::parse(&text).unwrap(), journal);
    }

    #[test]
    fn damage_is_an_error() {
        for text in [
            "",
            "{}",
            "{\"schema\":2,\"boot\":\"\",\"layers\":[]}",
            "{\"schema\":1,\"boot\":\"\",\"layers\":[{\"why\":\"applied\",\"settings\":[{\"key\":\"apst:../x\",\"old\":\"\",\"new\":null}]}]}",
        ] {
            Journal::parse(text.as_bytes()).unwrap_err();
        }
    }

    #[test]
    fn what_a_damaged_journal_still_says_is_read() {
        let mut journal = Journal::new(&Root::at_directory("/nowhere"));
        journal
            .applied_layer_or_new()
            .add_keeping_old_value(entry("idle-governor", "menu", "teo"));
        journal.applied_layer_or_new().add_keeping_old_value(entry(
            "cpu-latency:cpu0",
            "a \"b\"",
            "20",
        ));
        journal
            .applied_layer_or_new()
            .add_keeping_old_value(entry("cpu-latency:cpu1", "0", "20"));
        let text = serde_json::to_vec_pretty(&journal).unwrap();
        let cut = text.len() - 90;
        Journal::parse(&text[..cut]).unwrap_err();
        let found = recover_legible_settings(&text[..cut]);
        let found: Vec<(String, &str)> = found
            .iter()
            .map(|(key, old)| (key.to_string(), old.as_str()))
            .collect();
        assert_eq!(
            found[..2],
            [
                ("idle-governor".to_owned(), "menu"),
                ("cpu-latency:cpu0".to_owned(), "a \"b\"")
            ]
        );
    }

    #[test]
    fn a_journal_says_whose_it_is() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let owner = |path: &Path| JournalOwner::for_root(&Root::at_directory(path)).unwrap();
        assert!(owner(one.path()).is_same_machine(&owner(one.path())));
        assert!(!owner(one.path()).is_same_machine(&owner(other.path())));
        assert!(!owner(one.path()).is_same_machine(&JournalOwner::Machine));
        // A directory that was renamed is still the same.
        let before = owner(one.path());
        let renamed = other.path().join("renamed");
        std::fs::rename(one.path(), &renamed).unwrap();
        assert!(before.is_same_machine(&owner(&renamed)));
    }

    #[test]
    fn no_link_leads_to_another_journal() {
        let (tree, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(elsewhere.path().join("lib/wakepath")).unwrap();
        std::fs::write(elsewhere.path().join("lib/wakepath").join(FILE), "{}").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), tree.path().join("var")).unwrap();
        let root = Root::at_directory(tree.path());
        open_journal_directory(&root, false).unwrap_err();
        open_journal_directory(&root, true).unwrap_err();
        assert!(Journal::read_without_lock(&root).is_none());
        // The next reader reports the obstacle.
        assert_eq!(has_pending_restore(&root), Some(true));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Journal::parse(&bytes);
            let _ = recover_legible_settings(&bytes);
        }
    }
}
