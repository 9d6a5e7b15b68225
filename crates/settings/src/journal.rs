//! Reads and replaces the journal of changed settings; the caller holds the lock.

use wakepath_system::journal::{FILE, Journal, JournalOwner, recover_legible_settings};
use wakepath_system::setting::Access;
use wakepath_system::{Root, SystemError};
use wakepath_units::printable::quote_shell_word;

use crate::SettingsError;
use crate::store::LockedJournalDirectory;

/// Limit on the values of a damaged journal that a message names.
const SHOWN: usize = 10;

/// Reads the journal of the machine; an empty one if there is none.
pub(crate) fn load_journal(
    store: &LockedJournalDirectory,
    root: &Root,
) -> Result<Journal, SettingsError> {
    let Some(content) = store.read_file(FILE)? else {
        return Ok(Journal::new(root));
    };
    let journal = Journal::parse(&content).map_err(|why| SettingsError::Journal {
        path: store.file_path(FILE),
        why: format!("{why}. {}", advice_for_damaged_journal(root, &content)),
    })?;
    let here = JournalOwner::for_root(root).map_err(|source| SystemError::Read {
        path: root.absolute_path(""),
        source,
    })?;
    if let Some(owner) = journal
        .owner
        .as_ref()
        .filter(|owner| !owner.is_same_machine(&here))
    {
        return Err(SettingsError::ForeignJournal {
            path: store.file_path(FILE),
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

/// Advice about a damaged journal: the old values that are still legible, and how to discard the journal.
fn advice_for_damaged_journal(root: &Root, content: &[u8]) -> String {
    let known = recover_legible_settings(content);
    let lines: Vec<String> = known
        .iter()
        .take(SHOWN)
        .map(|(key, old)| {
            let path = root
                .absolute_path(&key.relative_path())
                .display()
                .to_string();
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

/// Writes the journal to disk; the file of an empty journal is removed.
pub(crate) fn save_journal_or_remove_if_empty(
    journal: &Journal,
    store: &LockedJournalDirectory,
) -> Result<(), SettingsError> {
    if journal.layers.iter().all(|layer| layer.settings.is_empty()) {
        return store.remove_file_if_present(FILE);
    }
    let content = serde_json::to_vec_pretty(journal).map_err(|e| SettingsError::Journal {
        path: store.file_path(FILE),
        why: e.to_string(),
    })?;
    store.replace_file_atomically(FILE, &content)
}
