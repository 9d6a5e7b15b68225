//! What is compared: policy sets with their names.

use std::collections::BTreeMap;
use std::path::Path;

use wakepath_governors as governors;
use wakepath_policies::PolicySet;
use wakepath_results::RunOrigin;

use crate::file::{NamedSet, StudyError, StudyText};
use crate::run::replay::cannot_replay;

/// A policy of a study.
#[derive(Clone, Debug)]
pub struct PlannedPolicy {
    /// Its name in the results.
    pub name: String,
    /// Its policies. What it does not name is as the machine has it.
    pub set: PolicySet,
    /// Settings of the measured machine that no policy covers, by name.
    pub settings: BTreeMap<String, String>,
}

impl PlannedPolicy {
    pub(super) fn new(
        named: NamedSet<'_>,
        source: StudyText<'_>,
        folder: &Path,
        target: RunOrigin,
        allow_programs: bool,
    ) -> Result<Self, StudyError> {
        let mut settings = BTreeMap::new();
        for (key, value) in named.settings.into_iter().flatten() {
            if target != RunOrigin::Live {
                let message = format!(
                    "`{key}` is a setting of a real machine (--on live); simulations and replays have the policies of `set`"
                );
                return Err(source.error(value, message));
            }
            let text = match value.get_ref() {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(on) => u8::from(*on).to_string(),
                _ => {
                    let message = "a setting is a text, a whole number, true or false";
                    return Err(source.error(value, message));
                }
            };
            settings.insert(key.clone(), text);
        }
        if target == RunOrigin::Replay
            && let Some(message) = cannot_replay(&named.set)
        {
            return Err(source.error(&named.at, message));
        }
        let set = governors::load(named.set, folder, allow_programs);
        let set = set.map_err(|e| source.error(&named.at, e.to_string()))?;
        Ok(Self {
            // Results have to tell two versions of a file apart.
            name: match set.program() {
                Some(_) if named.is_set => set.to_string(),
                _ => named.name,
            },
            set,
            settings,
        })
    }

    /// A set that is its own name.
    pub(super) fn of_set(set: PolicySet) -> Self {
        Self {
            name: set.to_string(),
            set,
            settings: BTreeMap::new(),
        }
    }

    /// Everything that it sets, for the results.
    pub fn described(&self) -> wakepath_results::PolicyInfo {
        let mut settings = self.settings.clone();
        if !self.set.is_empty() {
            settings.insert("policy".to_owned(), self.set.to_string());
        }
        wakepath_results::PolicyInfo {
            name: self.name.clone(),
            settings,
        }
    }
}
