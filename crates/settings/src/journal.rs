//! The journal is read and replaced under the lock.

use wakepath_system::Root;
use wakepath_system::journal::{FILE, Journal};

use crate::SettingsError;
use crate::store::Store;

/// The journal of the machine, or an empty one.
pub(crate) fn load(store: &Store, root: &Root) -> Result<Journal, SettingsError> {
    let Some(content) = store.read(FILE)? else {
        return Ok(Journal::new(root));
    };
    Journal::parse(&content).map_err(|why| SettingsError::Journal {
        path: store.path(FILE),
        why,
    })
}

/// Puts it on disk; an empty one is no file.
pub(crate) fn save(journal: &Journal, store: &Store) -> Result<(), SettingsError> {
    if journal.layers.iter().all(|layer| layer.settings.is_empty()) {
        return store.remove(FILE);
    }
    let content = serde_json::to_vec_pretty(journal).map_err(|e| SettingsError::Journal {
        path: store.path(FILE),
        why: e.to_string(),
    })?;
    store.replace(FILE, &content)
}
