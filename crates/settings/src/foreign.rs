//! Foreign values: somebody else has written a setting since a process did. Foreign values stay.

use wakepath_system::journal::{ChangeReason, Entry, Journal};
use wakepath_system::setting::{Access, same};
use wakepath_system::{SettingKey, System};

use crate::SettingsError;
use crate::write::results_from_write;

/// The values that one process has written to a setting.
#[derive(Debug)]
pub(crate) struct OwnValues {
    pub(crate) key: SettingKey,
    /// After a write that failed also the value before: the setting can have either.
    pub(crate) values: Vec<String>,
}

/// A value that is not our own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignValue {
    /// Our own value, or the one before.
    pub expected: String,
    /// The value now.
    pub found: String,
}

/// Values that dead processes may have written to reserved settings, by the journal.
pub(crate) fn own_values_of_the_dead(journal: &Journal) -> Vec<OwnValues> {
    let layers = journal.layers.iter();
    layers
        .filter(|layer| layer.reason == ChangeReason::Reserved)
        .flat_map(|layer| &layer.settings)
        .map(|entry| OwnValues {
            key: entry.key.clone(),
            values: [&entry.old]
                .into_iter()
                .chain(&entry.new)
                .chain(&entry.written)
                .cloned()
                .collect(),
        })
        .collect()
}

/// Reads the foreign value of a setting; `None` while the setting has one of our own.
///
/// # Errors
/// The setting cannot be read.
pub(crate) fn read_foreign(
    system: &System,
    entry: &Entry,
    own: &[OwnValues],
) -> Result<Option<ForeignValue>, SettingsError> {
    let found = system.read(&entry.key)?;
    let own = own.iter().find(|own| own.key == entry.key);
    let values = own.map_or(std::slice::from_ref(&entry.old), |own| &own.values);
    let is_ours = values
        .iter()
        .any(|value| results_from_write(system, &entry.key, value, &found));
    let expected = values.first().unwrap_or(&entry.old);
    Ok((!is_ours).then(|| ForeignValue {
        expected: expected.clone(),
        found,
    }))
}

/// The foreign value of a reserved setting, if the value is to stay.
pub(crate) fn foreign_value(system: &System, entry: &Entry, own: &[OwnValues]) -> Option<String> {
    // What cannot be read is written anyway.
    let found = read_foreign(system, entry, own).ok()??.found;
    // Without a new value the kernel has changed it, along with another.
    (entry.new.is_some() && !same(entry.key.setting, &entry.old, &found)).then_some(found)
}

/// Says that a foreign value stays.
pub(crate) fn foreign_note(entry: &Entry, found: &str) -> String {
    let state = match entry.key.setting.mechanism {
        Access::NvmeFeature(_) => "has another table".to_owned(),
        Access::Text | Access::Held => format!("is '{found}'"),
    };
    format!(
        "{} {state}: somebody else has set it, so it stays",
        entry.key
    )
}
