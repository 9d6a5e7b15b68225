//! Values of settings that wakepath itself has written, by its journal.

use wakepath_system::journal::{ChangeReason, Journal};
use wakepath_system::{SettingKey, System};

use crate::write::may_result_from_write;

/// Why wakepath has given a setting the value that was found; `None` if the journal has no such write. The journal of an
/// earlier boot proves nothing.
pub(crate) fn find_own_write(
    system: &System,
    journal: &Journal,
    key: &SettingKey,
    found: &str,
) -> Option<ChangeReason> {
    journal.layers.iter().rev().find_map(|layer| {
        let entry = layer.settings.iter().find(|entry| entry.key == *key)?;
        let mut values = entry.new.iter().chain(&entry.written);
        values
            .any(|value| may_result_from_write(system, key, value, found))
            .then_some(layer.reason)
    })
}
