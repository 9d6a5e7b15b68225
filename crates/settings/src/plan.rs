//! What would be written, with old and new values.

use serde::Serialize;

use wakepath_system::setting::{self, Access, NO_SYSTEM_LATENCY_LIMIT_US};
use wakepath_system::{SettingKey, System};

use crate::SettingsError;

/// What policies ask for on a machine.
#[derive(Clone, Debug, Default)]
pub struct WantedSetting {
    /// Settings with their new values.
    pub values: Vec<(SettingKey, String)>,
    /// What the user should know about the choice.
    pub notes: Vec<String>,
}

/// One setting before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Which setting, and of what.
    pub key: SettingKey,
    /// The value before.
    pub old: String,
    /// The value to write. `None`: it is not written, but the kernel may change it along with another.
    pub new: Option<String>,
}

impl Change {
    /// Whether the new value means something else than the old one.
    pub fn differs(&self) -> bool {
        let setting = self.key.setting;
        self.new
            .as_deref()
            .is_some_and(|new| !setting::same(setting, &self.old, new))
    }
}

/// What would be written, in the order in which it would be.
#[derive(Clone, Debug, Default)]
pub struct SettingsPlan {
    /// The settings, those included that already have their new value.
    pub changes: Vec<Change>,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl SettingsPlan {
    /// Reads the old values of what is wanted.
    ///
    /// A setting that is wanted twice takes the last value.
    ///
    /// # Errors
    /// A value is impossible, or a setting cannot be read.
    pub fn new(system: &System, wanted: WantedSetting) -> Result<Self, SettingsError> {
        let mut changes: Vec<Change> = Vec::new();
        for (key, new) in wanted.values {
            system.check(&key, &new)?;
            if let Some(change) = changes.iter_mut().find(|c| c.key == key) {
                change.new = Some(new);
                continue;
            }
            changes.push(Change {
                old: system.read(&key)?,
                new: Some(new),
                key,
            });
        }
        let along: Vec<SettingKey> = changes
            .iter()
            .filter(|c| c.differs())
            .flat_map(|c| {
                let names = c.key.setting.changes.iter();
                names.filter_map(|name| SettingKey::new(setting::known(name), c.key.at.clone()))
            })
            .collect();
        for key in along {
            if changes.iter().any(|c| c.key == key) {
                continue;
            }
            // A machine without it has nothing to keep.
            if let Ok(old) = system.read(&key) {
                changes.push(Change {
                    key,
                    old,
                    new: None,
                });
            }
        }
        in_order(&mut changes, |c| c.new.as_deref());
        Ok(Self {
            changes,
            notes: wanted.notes,
        })
    }

    /// Whether all of it stays when the process that applies it ends.
    ///
    /// # Errors
    /// A system-wide latency limit does not.
    pub fn check_stays(&self) -> Result<(), SettingsError> {
        let held = self.changes.iter().find(|c| {
            c.key.setting.mechanism == Access::Held
                && c.new.as_deref() != Some(&NO_SYSTEM_LATENCY_LIMIT_US.to_string())
        });
        if let Some(change) = held {
            // As people write it: the only setting that is held is the system's latency limit.
            let limit = format!("limit={}us", change.new.as_deref().unwrap_or_default());
            return Err(SettingsError::Policy {
                policy: format!("cpu-latency[{limit}]"),
                why: format!(
                    "the kernel drops the system's latency limit when the process that holds it ends. Keep it with \
                     --for 10m, or use cpu-latency[{limit},cpus=all], which stays by itself"
                ),
            });
        }
        Ok(())
    }

    /// The same plan with the old values of now.
    pub(crate) fn again(&self, system: &System) -> Result<Self, SettingsError> {
        let values = self
            .changes
            .iter()
            .filter_map(|c| Some((c.key.clone(), c.new.clone()?)))
            .collect();
        Self::new(
            system,
            WantedSetting {
                values,
                notes: self.notes.clone(),
            },
        )
    }

    /// The settings that would change.
    pub fn differing(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|c| c.differs())
    }
}

/// Brings settings into the order of writing: that of [`setting::SETTINGS`], and frequency limits so that
/// the lowest is never above the highest. `value` is what is to be written.
pub(crate) fn in_order(changes: &mut [Change], value: impl Fn(&Change) -> Option<&str>) {
    let lowers_max = |c: &Change| {
        let number = |text: &str| text.parse::<u64>().ok();
        let to = value(c).and_then(number);
        c.key.setting.name == "frequency-max" && to < number(&c.old)
    };
    // A maximum that falls comes after the minimum, one that rises before it.
    let max = setting::known("frequency-max").rank();
    let min = setting::known("frequency-min").rank();
    changes.sort_by_cached_key(|c| {
        let rank = c.key.setting.rank();
        let place = if rank == max && !lowers_max(c) {
            (min, 0)
        } else {
            (rank, 1)
        };
        (place, c.key.at.clone())
    });
}
