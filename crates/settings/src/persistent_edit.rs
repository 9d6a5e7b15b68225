//! Writes the file of persistent settings: an old file is edited, so that comments and order stay.

use rustix::fs::Mode;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value};
use wakepath_system::System;

use crate::persistent::{
    DriveModelSets, FILE, format_cpu_list_of, format_set_without_versions, persistent_file_error,
};
use crate::{PersistentSettings, SettingsError, SupplySets, config_folder, store};

impl PersistentSettings {
    /// Writes the file of persistent settings. Comments of a file that is there stay. After a crash at any moment the old or
    /// the new file is there, whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save_file(&self, system: &System) -> Result<(), SettingsError> {
        let text = self.text_to_save(system);
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

    /// What [`Self::save_file`] writes. A file that cannot be read or edited is written anew.
    pub fn text_to_save(&self, system: &System) -> String {
        let old = Self::read_text_if_trusted(system).ok().flatten();
        old.and_then(|old| self.edit_text(&old))
            .unwrap_or_else(|| self.to_commented_text())
    }

    /// The text of an old file, with these settings in it; `None` if the text cannot be edited so.
    fn edit_text(&self, old: &str) -> Option<String> {
        let mut document: DocumentMut = old.parse().ok()?;
        put_sets(&mut document, &self.sets);
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
        put_drive_tables(&mut document, &self.drive_sets)?;
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

/// Puts the sets by power supply into their keys of a table. A set that means the same keeps its spelling.
fn put_sets(table: &mut Table, sets: &SupplySets) {
    for (key, set) in sets.keys_and_sets() {
        let text = set.map(format_set_without_versions);
        let written = table.get(key).and_then(Item::as_str);
        let is_same = written.and_then(|text| text.parse().ok()).as_ref() == set;
        if !is_same || set.is_none() {
            put_or_remove(table, key, text.map(Value::from));
        }
    }
}

/// Puts sets into the tables `[[drive]]` of their models. A model without a table gets one at the end. `None`: what the document
/// has under `drive` are no such tables.
fn put_drive_tables(document: &mut DocumentMut, drive_sets: &[DriveModelSets]) -> Option<()> {
    if drive_sets.is_empty() {
        return Some(());
    }
    let tables = document
        .entry("drive")
        .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()))
        .as_array_of_tables_mut()?;
    for own in drive_sets {
        let is_of_model = |table: &&mut Table| {
            let model = table.get("model").and_then(Item::as_str);
            model.map(str::trim) == Some(own.model.as_str())
        };
        if let Some(table) = tables.iter_mut().find(is_of_model) {
            put_sets(table, &own.sets);
        } else {
            let mut table = Table::new();
            put_or_remove(&mut table, "model", Some(Value::from(own.model.clone())));
            put_sets(&mut table, &own.sets);
            tables.push(table);
        }
    }
    Some(())
}

/// Gives a key another value, or takes it out. The comments of both stay.
fn put_or_remove(table: &mut Table, key: &str, value: Option<Value>) {
    let Some(new) = value else {
        remove_but_keep_comments(table, key);
        return;
    };
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if is_same_value(old, &new) => {}
        Some(old) => {
            let decor = old.decor().clone();
            *old = new;
            *old.decor_mut() = decor;
        }
        None => {
            table.insert(key, Item::Value(new));
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

/// Takes a key out of a table. Comment lines above it move to the key below, since the first may be about the whole file.
fn remove_but_keep_comments(table: &mut Table, key: &str) {
    let above = table
        .key(key)
        .and_then(|key| key.leaf_decor().prefix()?.as_str().map(str::to_owned));
    let next = table
        .iter()
        .map(|(name, _)| name.to_owned())
        .skip_while(|name| name != key)
        .nth(1);
    if table.remove(key).is_none() {
        return;
    }
    let Some(comments) = above.filter(|comments| comments.contains('#')) else {
        return;
    };
    let place = next.as_deref().and_then(|next| {
        let is_table = table.get(next).is_some_and(|item| !item.is_value());
        if is_table {
            return None;
        }
        table.key_mut(next)
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
    fn a_table_of_a_drive_is_edited_or_added_at_the_end() {
        let mut settings = PersistentSettings::parse(OLD).unwrap();
        settings.drive_sets[0].sets.battery = Some("apst".parse().unwrap());
        settings.drive_sets[0].sets.any_supply =
            Some("drive-latency[tolerance=1ms]".parse().unwrap());
        settings.drive_sets.push(DriveModelSets {
            model: "B".to_owned(),
            sets: SupplySets {
                mains: Some("apst".parse().unwrap()),
                ..SupplySets::default()
            },
        });
        let edited = settings.edit_text(OLD).unwrap();
        assert_eq!(PersistentSettings::parse(&edited), Ok(settings));
        let above = OLD.split("[[drive]]").next().unwrap();
        assert!(edited.starts_with(above), "{edited}");
        assert!(
            edited.contains("model = 'A'   # the root drive\n"),
            "{edited}"
        );
        assert!(
            edited.ends_with("\n[[drive]]\nmodel = \"B\"\nmains = \"apst\"\n"),
            "{edited}"
        );
        // Without tables in the old text, the first one is added.
        let mut first = PersistentSettings::parse("policy = 'teo' # why\n").unwrap();
        first.drive_sets.push(DriveModelSets {
            model: "B".to_owned(),
            sets: SupplySets {
                any_supply: Some("apst".parse().unwrap()),
                ..SupplySets::default()
            },
        });
        assert_eq!(
            first.edit_text("policy = 'teo' # why\n").as_deref(),
            Some("policy = 'teo' # why\n\n[[drive]]\nmodel = \"B\"\npolicy = \"apst\"\n")
        );
        // An array of another spelling cannot take a table.
        assert_eq!(first.edit_text("drive = [{ model = 'B' }]\n"), None);
    }

    #[test]
    fn what_cannot_be_edited_is_refused() {
        let mut settings = PersistentSettings::parse(OLD).unwrap();
        assert_eq!(settings.edit_text("policy = "), None);
        // No command takes tables of drives out, so such an edit is refused.
        settings.drive_sets.clear();
        assert_eq!(settings.edit_text(OLD), None);
    }
}
