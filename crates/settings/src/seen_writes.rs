//! Writes of other processes to applied settings, as a daemon sees the writes.
//!
//! The kernel's notice of a write has the number of the writing process. The process's name is looked up at once, since many a process
//! ends right after a write. The last write to each setting is kept in a file beside the journal, for `status`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::fs::{OFlags, fstat};
use serde::{Deserialize, Serialize};
use wakepath_system::file_writes::{FileWrite, FileWrites};
use wakepath_system::journal::{
    Journal, open_journal_directory, read_boot_id, read_journal_directory_file,
};
use wakepath_system::setting::{Access, have_same_meaning};
use wakepath_system::{At, SettingKey, System};

use crate::own_writes::find_own_write;
use crate::store::{owner_only_permissions, replace_file_durably_in};
use crate::supply_switch::read_supply_record_without_lock;

/// Name of the file beside the journal.
const FILE: &str = "seen-writes.json";

/// Name of wakepath's own processes, whose writes are in the journal.
const OWN_NAME: &str = "wakepath";

/// Time between two searches for newly applied settings and new CPUs.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// A write of another process to a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenWrite {
    /// The setting.
    pub key: SettingKey,
    /// The setting's value right after the write.
    pub value: String,
    /// Number of the process.
    pub process: u32,
    /// Name of the process; `None`: the process had ended already.
    pub name: Option<String>,
}

/// The last write of each setting in a boot.
#[derive(Serialize, Deserialize)]
struct SeenWrites {
    boot: String,
    writes: Vec<SeenWrite>,
}

impl SeenWrite {
    /// The process, in words.
    pub fn describe_process(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} (process {})", self.process),
            None => format!("process {} (ended)", self.process),
        }
    }

    /// Whether an earlier write gave the same setting the same value, by a process of the same name.
    fn repeats(&self, earlier: &Self) -> bool {
        self.key == earlier.key && self.value == earlier.value && self.name == earlier.name
    }
}

/// Reads the last foreign write to each setting in this boot, as a daemon has seen the writes. Only root can read the file.
pub(crate) fn read_seen_writes(system: &System) -> Vec<SeenWrite> {
    let directory = open_journal_directory(system.root(), false).ok().flatten();
    let content = directory
        .and_then(|directory| read_journal_directory_file(&directory, FILE).ok().flatten());
    let seen = content.and_then(|text| serde_json::from_slice::<SeenWrites>(&text).ok());
    seen.filter(|seen| seen.boot == read_boot_id(system.root()))
        .map_or_else(Vec::new, |seen| seen.writes)
}

/// Watches applied settings, calls `tell` for each foreign write, and stores the last write to each setting for `status`. A process's
/// repeated write of the same value is passed over. The watch ends only with an error.
///
/// # Errors
/// The kernel gives this process no notice of writes.
pub fn watch_applied_settings(system: &System, tell: impl Fn(&SeenWrite)) -> Result<(), io::Error> {
    let notices = FileWrites::open()?;
    let mut seen = read_seen_writes(system);
    loop {
        let watched = watch_files_of_applied_settings(system, &notices);
        let until = Instant::now() + LOOK_AGAIN;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let mut has_news = false;
            for notice in notices.wait_for_writes(left)? {
                let Some(write) = find_foreign_write(system, &watched, &notice) else {
                    continue;
                };
                if seen.iter().any(|earlier| write.repeats(earlier)) {
                    continue;
                }
                seen.retain(|earlier| earlier.key != write.key);
                tell(&write);
                seen.push(write);
                has_news = true;
            }
            if has_news {
                // Without the file the writers are only logged.
                let _ = keep_seen_writes(system, &seen);
            }
        }
    }
}

/// Settings by device and inode of their files.
type WatchedFiles = BTreeMap<(u64, u64), SettingKey>;

/// Watches the files of applied settings, and of persistent ones. Settings that a process changes all the time, such as latency
/// requests of the daemon's leases, are left out.
fn watch_files_of_applied_settings(system: &System, notices: &FileWrites) -> WatchedFiles {
    let layers = Journal::read_without_lock(system.root()).map_or_else(Vec::new, |j| j.layers);
    let (held, applied): (Vec<_>, Vec<_>) = layers
        .iter()
        .partition(|layer| layer.reason.ends_with_lock_holder());
    let held_keys: BTreeSet<(&str, &At)> = held
        .into_iter()
        .flat_map(|layer| &layer.settings)
        .map(|entry| (entry.key.setting.name, &entry.key.at))
        .collect();
    let entries = applied.into_iter().flat_map(|layer| &layer.settings);
    let persistent = keys_of_persistent_settings(system);
    let keys = entries.map(|entry| &entry.key).chain(&persistent);
    let mut watched = WatchedFiles::new();
    for key in keys.filter(|key| {
        key.setting.mechanism == Access::Text && !held_keys.contains(&(key.setting.name, &key.at))
    }) {
        let opened =
            (system.root()).open_file(&key.relative_path(), OFlags::RDONLY | OFlags::CLOEXEC);
        let Ok(file) = opened else { continue };
        if let Some(identity) =
            identity_of_file(&file).filter(|_| notices.watch_file(&file).is_ok())
        {
            watched.insert(identity, key.clone());
        }
    }
    watched
}

/// The settings that persistent sets of this boot name. The journal has none that had its value already.
fn keys_of_persistent_settings(system: &System) -> Vec<SettingKey> {
    let record = read_supply_record_without_lock(system).ok().flatten();
    let settings = record.map_or_else(Vec::new, |record| record.settings);
    settings.into_iter().map(|setting| setting.key).collect()
}

/// Device and inode of an open file.
fn identity_of_file(file: impl AsFd) -> Option<(u64, u64)> {
    let found = fstat(file).ok()?;
    Some((found.st_dev, found.st_ino))
}

/// Finds the foreign write behind a notice; `None` for a write by wakepath.
fn find_foreign_write(
    system: &System,
    watched: &WatchedFiles,
    notice: &FileWrite,
) -> Option<SeenWrite> {
    if notice.process == std::process::id() {
        return None;
    }
    let text = fs::read_to_string(format!("/proc/{}/comm", notice.process)).ok();
    let name = text.map(|name| name.trim_end().to_owned());
    if name.as_deref() == Some(OWN_NAME) {
        return None;
    }
    let key = watched.get(&identity_of_file(&notice.file)?)?;
    let value = system.read_setting(key).ok()?;
    if name.is_none() && may_be_own_write(system, key, &value) {
        return None;
    }
    Some(SeenWrite {
        key: key.clone(),
        value,
        process: notice.process,
        name,
    })
}

/// Whether a process without a name may have been wakepath. An `apply` leaves the value in the journal; a `restore` removes the
/// setting from the journal.
fn may_be_own_write(system: &System, key: &SettingKey, value: &str) -> bool {
    let Some(journal) = Journal::read_without_lock(system.root()) else {
        return true;
    };
    let mut entries = journal.layers.iter().flat_map(|layer| &layer.settings);
    !entries.any(|entry| entry.key == *key)
        || find_own_write(system, &journal, key, value).is_some()
}

/// Replaces the file of seen writes.
fn keep_seen_writes(system: &System, writes: &[SeenWrite]) -> io::Result<()> {
    let Some(directory) = open_journal_directory(system.root(), false)? else {
        return Ok(());
    };
    let content = serde_json::to_vec(&SeenWrites {
        boot: read_boot_id(system.root()),
        writes: writes.to_vec(),
    })?;
    replace_file_durably_in(&directory, FILE, &content, owner_only_permissions())
}

/// Finds the seen write that gave a setting its present value.
pub(crate) fn find_seen_write<'a>(
    seen: &'a [SeenWrite],
    key: &SettingKey,
    found: &str,
) -> Option<&'a SeenWrite> {
    let mut own = seen.iter().filter(|write| write.key == *key);
    own.find(|write| have_same_meaning(key.setting, &write.value, found))
}
