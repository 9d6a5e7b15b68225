//! Writes the file of persistent settings: an old file is edited, so that comments and order stay.

use rustix::fs::Mode;
use toml_edit::{Array, DocumentMut, Item, Value};
use wakepath_system::System;

use crate::persistent::{
    FILE, format_cpu_list_of, format_set_without_versions, persistent_file_error,
};
use crate::{PersistentSettings, SettingsError, config_folder, store};

impl PersistentSettings {
    /// Writes the file of persistent settings. Comments of a file that is there stay. After a crash at any moment the old or
    /// the new file is there, whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save_file(&self, system: &System) -> Result<(), SettingsError> {
        // A file that cannot be read or edited is written anew.
        let old = Self::read_text_if_trusted(system).ok().flatten();
        let text = old
            .and_then(|old| self.edit_text(&old))
            .unwrap_or_else(|| self.to_commented_text());
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        let folder = config_folder::open_config_folder(system.root(), true).and_then(|folder| {
            folder.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
        });
        folder
            .and_then(|folder| store::replace_file_durably_in(&folder, FILE, text.as_bytes(), mode))
            .map_err(|error| {
                persistent_file_error(
                    &Self::file_path(system),
                    format!("cannot be written: {error}"),
                )
            })
    }

    /// The text of an old file, with these settings in it; `None` if the text cannot be edited so.
    fn edit_text(&self, old: &str) -> Option<String> {
        let mut document: DocumentMut = old.parse().ok()?;
        for (key, set) in self.sets.keys_and_sets() {
            let text = set.map(format_set_without_versions);
            // A set that means the same keeps its spelling.
            let written = document.get(key).and_then(Item::as_str);
            let is_same = written.and_then(|text| text.parse().ok()).as_ref() == set;
            if !is_same || set.is_none() {
                put_or_remove(&mut document, key, text.map(Value::from));
            }
        }
        let cpus = self.cpus.as_deref().map(format_cpu_list_of);
        put_or_remove(&mut document, "cpus", cpus.map(Value::from));
        put_or_remove(
            &mut document,
            "processor",
            self.processor.clone().map(Value::from),
        );
        let drives = self.drives.as_ref().map(|models| {
            let list: Array = models.iter().collect();
            Value::from(list)
        });
        put_or_remove(&mut document, "drives", drives);
        let is_enforced = document.get("enforce").and_then(Item::as_bool);
        if is_enforced.unwrap_or(false) != self.enforce {
            put_or_remove(&mut document, "enforce", Some(Value::from(self.enforce)));
        }
        let text = document.to_string();
        let read_back = Self::parse(&text).ok()?;
        let expected = Self {
            origin: None,
            ..self.clone()
        };
        (read_back.to_toml_without_comments() == expected.to_toml_without_comments())
            .then_some(text)
    }
}

/// Gives a key another value, or takes it out. The comments of both stay.
fn put_or_remove(document: &mut DocumentMut, key: &str, value: Option<Value>) {
    let Some(new) = value else {
        remove_but_keep_comments(document, key);
        return;
    };
    match document.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if is_same_value(old, &new) => {}
        Some(old) => {
            let decor = old.decor().clone();
            *old = new;
            *old.decor_mut() = decor;
        }
        None => {
            document.insert(key, Item::Value(new));
        }
    }
}

/// Whether two values are the same but for their spelling.
fn is_same_value(one: &Value, other: &Value) -> bool {
    match (one.as_array(), other.as_array()) {
        (Some(one), Some(other)) => {
            let texts = |list: &Array| -> Vec<Option<String>> {
                list.iter()
                    .map(|value| value.as_str().map(str::to_owned))
                    .collect()
            };
            texts(one) == texts(other)
        }
        _ => one.as_str().is_some() && one.as_str() == other.as_str(),
    }
}

/// Takes a key out of a document. Comment lines above it move to the key below, since the first may be about the whole file.
fn remove_but_keep_comments(document: &mut DocumentMut, key: &str) {
    let above = document
        .key(key)
        .and_then(|key| key.leaf_decor().prefix()?.as_str().map(str::to_owned));
    let next = document
        .iter()
        .map(|(name, _)| name.to_owned())
        .skip_while(|name| name != key)
        .nth(1);
    if document.remove(key).is_none() {
        return;
    }
    let Some(comments) = above.filter(|comments| comments.contains('#')) else {
        return;
    };
    let place = next.as_deref().and_then(|next| {
        let is_table = document.get(next).is_some_and(|item| !item.is_value());
        if is_table {
            return None;
        }
        document.key_mut(next)
    });
    if let Some(mut below) = place {
        let own = below
            .leaf_decor()
            .prefix()
            .and_then(|prefix| prefix.as_str())
            .unwrap_or_default();
        let both = format!("{comments}{own}");
        below.leaf_decor_mut().set_prefix(both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "\
# Written by hand.
cpus = '0-3' # without the slow ones

# The set of the desk.
policy = 'teo'   # measured in March
enforce = true
mains=\"menu\"

[[drive]]
model = 'A'   # the root drive
policy = 'apst'
";

    #[test]
    fn only_what_changes_is_edited() {
        let mut settings = PersistentSettings::parse(OLD).unwrap();
        assert_eq!(settings.edit_text(OLD).as_deref(), Some(OLD));
        settings.sets.any_supply = Some("ladder".parse().unwrap());
        settings.sets.battery = Some("epp[value=power]".parse().unwrap());
        settings.processor = Some("P".to_owned());
        let edited = settings.edit_text(OLD).unwrap();
        assert_eq!(PersistentSettings::parse(&edited), Ok(settings));
        for kept in [
            "# Written by hand.\ncpus = '0-3' # without the slow ones\n",
            "\n# The set of the desk.\npolicy = \"ladder\"   # measured in March\n",
            "\nmains=\"menu\"\n",
            "model = 'A'   # the root drive\n",
        ] {
            assert!(edited.contains(kept), "{kept}\nis not in\n{edited}");
        }
    }

    #[test]
    fn a_key_that_goes_leaves_the_comments_above_it() {
        let mut settings = PersistentSettings::parse(OLD).unwrap();
        settings.cpus = None;
        let edited = settings.edit_text(OLD).unwrap();
        assert!(edited.starts_with("# Written by hand.\n"), "{edited}");
        assert!(!edited.contains("cpus"), "{edited}");
    }

    #[test]
    fn what_cannot_be_edited_is_refused() {
        let mut settings = PersistentSettings::parse(OLD).unwrap();
        assert_eq!(settings.edit_text("policy = "), None);
        // No command changes the tables of drives, so they are not edited.
        settings.drive_sets.clear();
        assert_eq!(settings.edit_text(OLD), None);
    }
}
