//! A setting that the daemon changes repeatedly, until somebody else changes it.

use wakepath_settings::{ForeignValue, Hold, SettingsError};
use wakepath_system::SettingKey;

/// A setting that the daemon changes repeatedly.
#[derive(Debug)]
pub struct ManagedSetting {
    key: SettingKey,
    /// The value of ours that is in force; `None`: the value before.
    value: Option<String>,
    /// Whether somebody else has changed the setting since.
    foreign: bool,
    /// Whether the last write failed, perhaps only in part: a driver that rounds reads back differently.
    unsure: bool,
}

/// What came of writing a managed setting.
#[derive(Debug)]
pub enum WriteOutcome {
    /// The value was written.
    Written,
    /// Nothing was written: the value is in force already, or the setting is left alone.
    Unchanged,
    /// Nothing was written: somebody else has set the setting, which is left alone from now on.
    Foreign {
        /// The setting.
        key: SettingKey,
        /// The value that we wrote, and the value now.
        value: ForeignValue,
    },
    /// The value could not be written.
    Failed(SettingsError),
}

impl ManagedSetting {
    /// A managed setting that has not been changed yet.
    pub const fn new(key: SettingKey) -> Self {
        Self {
            key,
            value: None,
            foreign: false,
            unsure: false,
        }
    }

    /// Key of the setting.
    pub const fn key(&self) -> &SettingKey {
        &self.key
    }

    /// Whether a value written by the daemon is in force.
    pub const fn is_own_value_in_force(&self) -> bool {
        self.value.is_some()
    }

    /// Writes a value to the setting, or with `None` puts the value before back.
    pub fn write_or_put_back_unless_foreign(
        &mut self,
        hold: &Hold,
        new_value: Option<&str>,
    ) -> WriteOutcome {
        if self.foreign || (!self.unsure && self.value.as_deref() == new_value) {
            return WriteOutcome::Unchanged;
        }
        match hold.read_value_if_foreign(&self.key) {
            Ok(None) => {}
            Ok(Some(value)) => {
                self.foreign = true;
                self.value = None;
                return WriteOutcome::Foreign {
                    key: self.key.clone(),
                    value,
                };
            }
            Err(error) => return WriteOutcome::Failed(error),
        }
        match hold.write_or_put_back(&self.key, new_value) {
            Ok(()) => {
                self.value = new_value.map(str::to_owned);
                self.unsure = false;
                WriteOutcome::Written
            }
            Err(error) => {
                self.unsure = true;
                WriteOutcome::Failed(error)
            }
        }
    }
}
