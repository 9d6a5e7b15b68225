//! A setting that is changed again and again, until somebody else changes it.

use wakepath_settings::{Hold, SettingsError};
use wakepath_system::SettingKey;

/// Such a setting.
#[derive(Debug)]
pub struct ManagedSetting {
    key: SettingKey,
    /// In force; `None`: what was there before.
    value: Option<String>,
    /// Somebody else has changed it since.
    foreign: bool,
    /// The last write failed, perhaps only in part: a driver that rounds reads back differently.
    unsure: bool,
}

/// What came of a change.
#[derive(Debug)]
pub enum WriteOutcome {
    /// It is written.
    Written,
    /// There is nothing to write.
    Nothing,
    /// Somebody else has set it: what it should have been, and what it is. It is left alone from now on.
    Foreign {
        /// The setting.
        key: SettingKey,
        /// What was there before, or what we had written.
        expected: String,
        /// What is there.
        found: String,
    },
    /// It could not be written.
    Failed(SettingsError),
}

impl ManagedSetting {
    /// A setting that is still as it was.
    pub const fn new(key: SettingKey) -> Self {
        Self {
            key,
            value: None,
            foreign: false,
            unsure: false,
        }
    }

    /// Which.
    pub const fn key(&self) -> &SettingKey {
        &self.key
    }

    /// Whether a value of ours is in force.
    pub const fn in_force(&self) -> bool {
        self.value.is_some()
    }

    /// Writes a value, or with `None` what was there before.
    pub fn set(&mut self, hold: &Hold, value: Option<&str>) -> WriteOutcome {
        if self.foreign || (!self.unsure && self.value.as_deref() == value) {
            return WriteOutcome::Nothing;
        }
        match hold.foreign(&self.key) {
            Ok(None) => {}
            Ok(Some((expected, found))) => {
                self.foreign = true;
                self.value = None;
                return WriteOutcome::Foreign {
                    key: self.key.clone(),
                    expected,
                    found,
                };
            }
            Err(error) => return WriteOutcome::Failed(error),
        }
        match hold.set(&self.key, value) {
            Ok(()) => {
                self.value = value.map(str::to_owned);
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
