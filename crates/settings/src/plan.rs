//! Plans writes of settings, with old and new values.

use serde::Serialize;

use wakepath_system::setting::{self, Access, NO_SYSTEM_LATENCY_LIMIT_US};
use wakepath_system::{At, SettingKey, System};

use crate::SettingsError;

/// Settings that policies ask for on a machine.
#[derive(Clone, Debug, Default)]
pub struct WantedSetting {
    /// Settings with the values that policies ask for.
    pub values: Vec<(SettingKey, String)>,
    /// Remarks for the user about how policies became settings.
    pub notes: Vec<String>,
}

/// A planned change of a setting, with its old and its new value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Key of the setting to change.
    pub key: SettingKey,
    /// The value before.
    pub old: String,
    /// The value to write; `None` for a setting that the kernel may change along with another.
    pub new: Option<String>,
}

impl Change {
    /// Whether the new value differs from the old value in meaning.
    pub fn differs(&self) -> bool {
        let setting = self.key.setting;
        self.new
            .as_deref()
            .is_some_and(|new| !setting::have_same_meaning(setting, &self.old, new))
    }

    /// Whether the kernel changes another setting along with this one.
    pub(crate) fn changes_along(&self, other: &SettingKey) -> bool {
        self.key.at == other.at && self.key.setting.changes.contains(&other.setting.name)
    }
}

/// Changes in the order of writing.
#[derive(Clone, Debug, Default)]
pub struct SettingsPlan {
    /// The planned changes, also of settings that have their new value already.
    pub changes: Vec<Change>,
    /// Remarks for the user about the plan.
    pub notes: Vec<String>,
}

impl SettingsPlan {
    /// Reads the old values of the wanted settings. Of two values for a setting the last counts.
    ///
    /// # Errors
    /// A value is impossible, or a setting cannot be read.
    pub fn from_wanted(system: &System, wanted: WantedSetting) -> Result<Self, SettingsError> {
        let mut changes: Vec<Change> = Vec::new();
        for (key, new) in wanted.values {
            system.check_setting_value(&key, &new)?;
            if let Some(change) = changes.iter_mut().find(|c| c.key == key) {
                change.new = Some(new);
                continue;
            }
            changes.push(Change {
                old: system.read_setting(&key)?,
                new: Some(new),
                key,
            });
        }
        let along: Vec<SettingKey> = changes
            .iter()
            .filter(|c| c.differs())
            .flat_map(|c| {
                let names = c.key.setting.changes.iter();
                names.filter_map(|name| {
                    SettingKey::for_matching_scope(
                        setting::setting_known_to_exist(name),
                        c.key.at.clone(),
                    )
                })
            })
            .collect();
        for key in along {
            if changes.iter().any(|c| c.key == key) {
                continue;
            }
            // A machine that lacks a setting has no old value to keep.
            if let Ok(old) = system.read_setting(&key) {
                changes.push(Change {
                    key,
                    old,
                    new: None,
                });
            }
        }
        sort_in_writing_order(&mut changes, |c| c.new.as_deref());
        Ok(Self {
            changes,
            notes: wanted.notes,
        })
    }

    /// Checks that all settings of the plan stay when the process that applies them ends.
    ///
    /// # Errors
    /// A system-wide latency limit does not stay.
    pub fn check_outlives_process(&self) -> Result<(), SettingsError> {
        let held = self.changes.iter().find(|c| {
            c.key.setting.mechanism == Access::Held
                && c.new.as_deref() != Some(&NO_SYSTEM_LATENCY_LIMIT_US.to_string())
        });
        if let Some(change) = held {
            // The message names the policy as people write it: the only setting that ends with its process is the
            // system's latency limit.
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

    /// The same plan, with the old values read again.
    pub(crate) fn with_old_values_read_again(
        &self,
        system: &System,
    ) -> Result<Self, SettingsError> {
        let values = self
            .changes
            .iter()
            .filter_map(|c| Some((c.key.clone(), c.new.clone()?)))
            .collect();
        Self::from_wanted(
            system,
            WantedSetting {
                values,
                notes: self.notes.clone(),
            },
        )
    }

    /// Whether the plan has a value to write for a setting.
    pub(crate) fn has_new_value_for_setting(&self, key: &SettingKey) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| change.key == *key && change.new.is_some())
    }

    /// The changes whose new value differs from the old one.
    pub fn differing_changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|c| c.differs())
    }
}

/// Sorts changes into the order of writing: as in [`setting::SETTINGS`], except that a frequency minimum never exceeds its
/// maximum, and that another energy preference than `performance` comes before the governor of that name (intel_pstate: `EBUSY`,
/// `intel_pstate_set_energy_pref_index()`, Linux 6.12). `value_to_write` is the value to be written.
pub(crate) fn sort_in_writing_order(
    changes: &mut [Change],
    value_to_write: impl Fn(&Change) -> Option<&str>,
) {
    // A falling frequency maximum is written after the minimum, a rising maximum before it.
    let max = setting::setting_known_to_exist("frequency-max").writing_order();
    let min = setting::setting_known_to_exist("frequency-min").writing_order();
    let governor = setting::setting_known_to_exist("frequency-governor").writing_order();
    let preference = setting::setting_known_to_exist("epp").writing_order();
    let to_performance: Vec<At> = changes
        .iter()
        .filter(|c| c.key.setting.writing_order() == governor)
        .filter(|c| value_to_write(c) == Some("performance"))
        .map(|c| c.key.at.clone())
        .collect();
    changes.sort_by_cached_key(|c| {
        let rank = c.key.setting.writing_order();
        let new = value_to_write(c).and_then(|text| text.parse::<u64>().ok());
        let is_raised = new >= c.old.parse::<u64>().ok();
        let place = if rank == max && is_raised {
            (min, 0)
        } else if rank == preference
            && value_to_write(c) != Some("performance")
            && to_performance.contains(&c.key.at)
        {
            (governor, 0)
        } else {
            (rank, 1)
        };
        (place, c.key.at.clone())
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn change(setting: &str, policy: usize, old: &str, new: &str) -> Change {
        let info = setting::setting_known_to_exist(setting);
        Change {
            key: SettingKey::for_matching_scope(info, At::CpufreqPolicy(policy)).unwrap(),
            old: old.to_owned(),
            new: Some(new.to_owned()),
        }
    }

    fn written_order(mut changes: Vec<Change>) -> Vec<String> {
        sort_in_writing_order(&mut changes, |change| change.new.as_deref());
        changes
            .iter()
            .map(|change| change.key.to_string())
            .collect()
    }

    #[test]
    fn a_preference_is_written_while_the_governor_takes_one() {
        let preference = change("epp", 1, "power", "balance_performance");
        let to_performance = change("frequency-governor", 1, "powersave", "performance");
        assert_eq!(
            written_order(vec![to_performance.clone(), preference.clone()]),
            ["epp:policy1", "frequency-governor:policy1"]
        );
        let from_performance = change("frequency-governor", 1, "performance", "powersave");
        assert_eq!(
            written_order(vec![preference, from_performance]),
            ["frequency-governor:policy1", "epp:policy1"]
        );
        let same_name = change("epp", 1, "power", "performance");
        assert_eq!(
            written_order(vec![same_name, to_performance.clone()]),
            ["frequency-governor:policy1", "epp:policy1"]
        );
        // Each clock by itself.
        let elsewhere = change("epp", 0, "power", "balance_performance");
        assert_eq!(
            written_order(vec![elsewhere, to_performance]),
            ["frequency-governor:policy1", "epp:policy0"]
        );
    }
}
