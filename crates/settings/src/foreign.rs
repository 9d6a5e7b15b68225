//! Foreign values: a setting has another value than wakepath wrote, so somebody else has written it since. Foreign
//! values stay.

use wakepath_system::journal::{ChangeReason, Entry, Journal};
use wakepath_system::setting::{Access, have_same_meaning};
use wakepath_system::{SettingKey, System};

use crate::SettingsError;
use crate::write::may_result_from_write;

/// The values that a process of wakepath has written to one setting.
#[derive(Debug)]
pub(crate) struct OwnValues {
    pub(crate) key: SettingKey,
    /// The written values; after a write that failed also the value before, since the setting can have either.
    pub(crate) values: Vec<String>,
}

/// A setting's value that wakepath did not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignValue {
    /// The value that wakepath wrote last, or the one before the first write.
    pub expected: String,
    /// The value now.
    pub found: String,
}

/// The values that dead processes may have written to reserved settings, by the journal.
pub(crate) fn possible_values_by_dead_processes(journal: &Journal) -> Vec<OwnValues> {
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

/// Reads a setting's value if it is foreign; `None` while the setting has a value of our own.
///
/// # Errors
/// The setting cannot be read.
pub(crate) fn read_value_if_foreign(
    system: &System,
    entry: &Entry,
    own: &[OwnValues],
) -> Result<Option<ForeignValue>, SettingsError> {
    let found = system.read_setting(&entry.key)?;
    let own = own.iter().find(|own| own.key == entry.key);
    let values = own.map_or(std::slice::from_ref(&entry.old), |own| &own.values);
    let is_ours = values
        .iter()
        .any(|value| may_result_from_write(system, &entry.key, value, &found));
    let expected = values.first().unwrap_or(&entry.old);
    Ok((!is_ours).then(|| ForeignValue {
        expected: expected.clone(),
        found,
    }))
}

/// Reads the foreign value of a reserved setting; `None` if the setting is to be put back.
pub(crate) fn foreign_value_to_keep(
    system: &System,
    entry: &Entry,
    own: &[OwnValues],
) -> Option<String> {
    // A setting that cannot be read is put back anyway.
    let found = read_value_if_foreign(system, entry, own).ok()??.found;
    // An entry without a new value is of a setting that the kernel has changed along with another.
    (entry.new.is_some() && !have_same_meaning(entry.key.setting, &entry.old, &found))
        .then_some(found)
}

/// The note that a setting keeps its foreign value.
pub(crate) fn note_that_foreign_value_stays(entry: &Entry, found: &str) -> String {
    let state = match entry.key.setting.mechanism {
        Access::NvmeFeature(_) => "has another table".to_owned(),
        Access::Text | Access::Held => format!("is '{found}'"),
    };
    format!(
        "{} {state}: somebody else has set it, so it stays",
        entry.key
    )
}
