//! The journal: what settings were before they were changed. It is on disk before anything is written.
//!
//! It has layers. The lowest is what `apply` changed for good; above it lies what a running process, such
//! as a study, changed for a while. The layer of a process that died is put back by the next one.

use serde::{Deserialize, Serialize};

use crate::store::{self, Store};
use crate::{Key, LiveError, Root};

/// Its file.
pub(crate) const FILE: &str = "journal.json";
const SCHEMA: u32 = 1;

/// Old values, layer by layer.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Journal {
    schema: u32,
    /// The kernel's id of the boot in which it was written; empty where that is not known.
    pub(crate) boot: String,
    /// The lowest first.
    pub(crate) layers: Vec<Layer>,
}

/// Why settings were changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Why {
    /// They stay until `restore`.
    Applied,
    /// They stay as long as the process that holds the lock.
    Held,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layer {
    pub(crate) why: Why,
    pub(crate) settings: Vec<Entry>,
}

/// A setting before it was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) old: String,
    /// What was to be written; `None`: the kernel may have changed it along with another.
    pub(crate) new: Option<String>,
    /// Of a drive: model and serial number. Another one can have its name later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) drive: Option<String>,
}

impl Journal {
    /// An empty one.
    pub(crate) fn new(root: &Root) -> Self {
        Self {
            schema: SCHEMA,
            boot: boot(root),
            layers: Vec::new(),
        }
    }

    /// The journal of the machine, or an empty one.
    pub(crate) fn load(store: &Store, root: &Root) -> Result<Self, LiveError> {
        let Some(content) = store.read(FILE)? else {
            return Ok(Self::new(root));
        };
        Self::parse(&content).map_err(|why| LiveError::Journal {
            path: store.path(FILE),
            why,
        })
    }

    /// The journal as it is, without the lock: it is replaced as a whole. `None` if it cannot be read.
    pub(crate) fn peek(root: &Root) -> Option<Self> {
        Self::parse(&store::peek(root, FILE)?).ok()
    }

    /// What is noted of a setting in the uppermost layer, if a process holds that.
    pub(crate) fn held(&self, key: &Key) -> Option<&Entry> {
        let top = self.layers.last().filter(|l| l.why == Why::Held)?;
        top.settings.iter().find(|e| e.key == *key)
    }

    /// Adds settings to the uppermost layer, if a process holds that.
    pub(crate) fn hold(&mut self, settings: Vec<Entry>) {
        let top = self.layers.last_mut().filter(|l| l.why == Why::Held);
        if let Some(top) = top {
            top.settings.extend(settings);
        }
    }

    /// Takes a setting out of the uppermost layer, if a process holds that.
    pub(crate) fn forget_held(&mut self, key: &Key) {
        let top = self.layers.last_mut().filter(|l| l.why == Why::Held);
        if let Some(top) = top {
            top.settings.retain(|e| e.key != *key);
        }
    }

    /// Parses a journal.
    pub(crate) fn parse(content: &[u8]) -> Result<Self, String> {
        let journal: Self = serde_json::from_slice(content).map_err(|e| e.to_string())?;
        if journal.schema != SCHEMA {
            return Err(format!(
                "version {}, expected {SCHEMA}; restore with the wakepath that wrote it",
                journal.schema
            ));
        }
        Ok(journal)
    }

    /// Puts it on disk; an empty one is no file.
    pub(crate) fn save(&self, store: &Store) -> Result<(), LiveError> {
        if self.layers.iter().all(|layer| layer.settings.is_empty()) {
            return store.remove(FILE);
        }
        let content = serde_json::to_vec_pretty(self).map_err(|e| LiveError::Journal {
            path: store.path(FILE),
            why: e.to_string(),
        })?;
        store.replace(FILE, &content)
    }

    /// The layer that `apply` writes to.
    pub(crate) fn applied(&mut self) -> &mut Layer {
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
    pub(crate) fn oldest(&self) -> Vec<Entry> {
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
    pub(crate) fn add(&mut self, entry: Entry) {
        match self.settings.iter_mut().find(|e| e.key == entry.key) {
            Some(known) => known.new = entry.new.or(known.new.take()),
            None => self.settings.push(entry),
        }
    }
}

/// The id of the present boot.
pub(crate) fn boot(root: &Root) -> String {
    root.optional("proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
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
