//! The journal of changed settings: what they were before. It is on disk before anything is written, which is the
//! work of the crate `settings`; here it is read.
//!
//! It has layers. The lowest is what `apply` changed for good; above it lies what a running process, such
//! as a study, changed for a while. The layer of a process that died is put back by the next one.

use std::fs::File;
use std::io::{self, Read};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::{Root, SettingKey};

/// Its file.
pub const FILE: &str = "journal.json";
const SCHEMA: u32 = 1;

/// Where it is, below the root: on a file system that is still there after a power loss.
pub const DIRECTORY: &str = "var/lib/wakepath";
/// The lock.
pub const LOCK: &str = "lock";
/// No journal is longer: ten idle states of 4096 CPUs, and then some.
const MAX_FILE: u64 = 64 << 20;

/// Old values, layer by layer.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    schema: u32,
    /// The kernel's id of the boot in which it was written; empty where that is not known.
    pub boot: String,
    /// The lowest first.
    pub layers: Vec<Layer>,
}

/// Why settings were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// They stay until `restore`.
    Applied,
    /// They stay as long as the process that holds the lock.
    Held,
}

/// Settings that were changed for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Why they were changed.
    pub why: Why,
    /// The settings.
    pub settings: Vec<Entry>,
}

/// A setting before it was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Which.
    pub key: SettingKey,
    /// Its value before.
    pub old: String,
    /// What was to be written; `None`: the kernel may have changed it along with another.
    pub new: Option<String>,
    /// Of a drive: model and serial number. Another one can have its name later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
}

impl Journal {
    /// An empty one.
    pub fn new(root: &Root) -> Self {
        Self {
            schema: SCHEMA,
            boot: boot(root),
            layers: Vec::new(),
        }
    }

    /// The journal as it is, without the lock: it is replaced as a whole. `None` if it cannot be read.
    pub fn peek(root: &Root) -> Option<Self> {
        Self::parse(&peek(root, FILE)?).ok()
    }

    /// What is noted of a setting in the uppermost layer, if a process holds that.
    pub fn held(&self, key: &SettingKey) -> Option<&Entry> {
        let top = self.layers.last().filter(|l| l.why == Why::Held)?;
        top.settings.iter().find(|e| e.key == *key)
    }

    /// Adds settings to the uppermost layer, if a process holds that.
    pub fn hold(&mut self, settings: Vec<Entry>) {
        let top = self.layers.last_mut().filter(|l| l.why == Why::Held);
        if let Some(top) = top {
            top.settings.extend(settings);
        }
    }

    /// Takes a setting out of the uppermost layer, if a process holds that.
    pub fn forget_held(&mut self, key: &SettingKey) {
        let top = self.layers.last_mut().filter(|l| l.why == Why::Held);
        if let Some(top) = top {
            top.settings.retain(|e| e.key != *key);
        }
    }

    /// Parses a journal.
    ///
    /// # Errors
    /// What is wrong with it.
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

    /// The layer that `apply` writes to.
    pub fn applied(&mut self) -> &mut Layer {
        if self.layers.first().is_none_or(|l| l.why != Why::Applied) {
            self.layers.insert(
                0,
                Layer {
                    why: Why::Applied,
                    settings: Vec::new(),
                },
            );
        }
        &mut self.layers[0]
    }

    /// Every setting once, with its oldest value.
    pub fn oldest(&self) -> Vec<Entry> {
        let mut all = Layer {
            why: Why::Applied,
            settings: Vec::new(),
        };
        for entry in self.layers.iter().flat_map(|l| &l.settings) {
            all.add(entry.clone());
        }
        all.settings
    }
}

impl Layer {
    /// Adds a setting; one that is there keeps its old value.
    pub fn add(&mut self, entry: Entry) {
        match self.settings.iter_mut().find(|e| e.key == entry.key) {
            Some(known) => known.new = entry.new.or(known.new.take()),
            None => self.settings.push(entry),
        }
    }
}

/// The id of the present boot.
pub fn boot(root: &Root) -> String {
    root.optional("proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
}

/// Whether a journal waits for a restore; `None`: only root can see that.
pub fn pending(root: &Root) -> Option<bool> {
    exists(root, FILE)
}

/// What a running process holds, or what one that was killed has left, with the values that it sets: the
/// settings of `Session::hold` and `Session::reserve`. `None` if the journal cannot be read, which needs root.
pub fn held(root: &Root) -> Option<Vec<(SettingKey, Option<String>)>> {
    if !pending(root)? {
        return Some(Vec::new());
    }
    let journal = Journal::peek(root)?;
    let held = journal.layers.into_iter().filter(|l| l.why == Why::Held);
    let entries = held.flat_map(|layer| layer.settings);
    Some(entries.map(|entry| (entry.key, entry.new)).collect())
}

/// The content of a file of the directory; `None` if it does not exist.
///
/// # Errors
/// The system's; a link is one.
pub fn read(directory: &File, name: &str) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let mut content = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut content)?;
    Ok(Some(content))
}

/// The content of a file without the lock; `None` if there is none, or it is not for us to read.
fn peek(root: &Root, name: &str) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(CWD, root.path(DIRECTORY), flags, Mode::empty()).ok()?;
    read(&File::from(directory), name).ok()?
}

/// Whether a file is there; `None`: only the owner of the directory may see that.
fn exists(root: &Root, name: &str) -> Option<bool> {
    match root.path(DIRECTORY).join(name).symlink_metadata() {
        Ok(_) => Some(true),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => None,
        Err(_) => Some(false),
    }
}

/// The process that has the lock, or 0 if its number is not known; `None` if none has, or only the owner of the directory
/// may see that.
pub fn holder(root: &Root) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = root.path(DIRECTORY).join(LOCK);
    let mut file = File::from(rustix::fs::openat(CWD, lock, flags, Mode::empty()).ok()?);
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) => Some(owner(&mut file).unwrap_or(0)),
        // Nobody had it, and with the file it is free again.
        _ => None,
    }
}

/// The process that has noted itself in the lock file.
pub fn owner(lock: &mut File) -> Option<u32> {
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
            drive: None,
        }
    }

    #[test]
    fn the_oldest_value_wins() {
        let mut journal = Journal::new(&Root::at("/nowhere"));
        journal.applied().add(entry("idle-governor", "menu", "teo"));
        journal
            .applied()
            .add(entry("idle-governor", "teo", "ladder"));
        journal.layers.push(Layer {
            why: Why::Held,
            settings: vec![
                entry("idle-governor", "ladder", "menu"),
                entry("cpu-latency:cpu0", "0", "20"),
            ],
        });
        assert_eq!(
            journal.oldest(),
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

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Journal::parse(&bytes);
        }
    }
}
