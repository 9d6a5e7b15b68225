//! The journal is read and replaced under the lock.

use wakepath_system::journal::{FILE, Journal, JournalOwner, legible};
use wakepath_system::setting::Access;
use wakepath_system::{Root, SystemError};
use wakepath_units::printable::quote_shell_word;

use crate::SettingsError;
use crate::store::Store;

/// Most values of a damaged journal that a message names.
const SHOWN: usize = 10;

/// The journal of the machine, or an empty one.
pub(crate) fn load(store: &Store, root: &Root) -> Result<Journal, SettingsError> {
    let Some(content) = store.read(FILE)? else {
        return Ok(Journal::new(root));
    };
    let journal = Journal::parse(&content).map_err(|why| SettingsError::Journal {
        path: store.path(FILE),
        why: format!("{why}. {}", what_to_do(root, &content)),
    })?;
    let here = JournalOwner::new(root).map_err(|source| SystemError::Read {
        path: root.path(""),
        source,
    })?;
    if let Some(owner) = journal.owner.as_ref().filter(|owner| !owner.is_same(&here)) {
        return Err(SettingsError::ForeignJournal {
            path: store.path(FILE),
            owner: owner.to_string(),
            restore: match owner {
                JournalOwner::Machine => "wakepath restore".to_owned(),
                JournalOwner::Directory { path, .. } => {
                    format!("wakepath restore --root {}", path.display())
                }
            },
        });
    }
    Ok(journal)
}

/// Advice about a damaged journal: its legible values, and how to make the journal void.
fn what_to_do(root: &Root, content: &[u8]) -> String {
    let known = legible(content);
    let lines: Vec<String> = known
        .iter()
        .take(SHOWN)
        .map(|(key, old)| {
            let path = root.path(&key.path()).display().to_string();
            match key.setting.mechanism {
                Access::Text => format!(
                    "{key} was '{old}': echo {} > {}",
                    quote_shell_word(old),
                    quote_shell_word(&path)
                ),
                Access::Held => format!("{key} was '{old}'; it ended with its process"),
                Access::NvmeFeature(_) => {
                    format!(
                        "{key} of {path} was another; a reset of the drive brings back the kernel's"
                    )
                }
            }
        })
        .collect();
    let values = match (known.len(), known.len().saturating_sub(SHOWN)) {
        (0, _) => "No value can be read in it".to_owned(),
        (_, 0) => format!("It still says: {}", lines.join("; ")),
        (_, more) => format!("It still says: {}; and {more} more", lines.join("; ")),
    };
    let void = match (root.is_live(), known.is_empty()) {
        (true, _) => "A restart of the machine resets all of them. Then remove the file",
        (false, true) => "Capture the machine again, or remove the file",
        (false, false) => "Put these back by hand, then remove the file",
    };
    format!("{values}. {void}")
}

/// Writes the journal to disk; an empty journal is no file.
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
