//! The keys of machine files: unit, range, meaning and default, read off the types that a file is parsed into.
//!
//! A key is declared once, as the field of a struct with `JsonSchema`. The doc comment is its meaning; a last sentence
//! `Absent: ...` is its default. `unit`, `minimum`, `maximum` and `see` are extensions of the field's schema.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::Machine;

/// Largest value that a figure without a unit may have.
const MAX_FIGURE: f64 = 1e12;

/// Largest values of figures by unit, unless the key has a smaller `maximum`.
///
/// A quarter of an hour to days, and the work that a core does meanwhile, have sums that cannot overflow.
const MAX_BY_UNIT: [(&str, f64); 8] = [
    ("us", 1e9),
    ("ms", 1e9),
    ("1000 cycles", 1e9),
    // The largest power of a drive: a kilowatt.
    ("W", 1e3),
    // The largest power of a machine: a megawatt, as a whole data centre draws.
    ("mW", 1e9),
    ("uV", 1e7),
    // A hundred gigahertz.
    ("MHz", 1e5),
    ("uW/(MHz V²)", 1e9),
];

/// Beginning of the last sentence of a doc comment, which tells a key's default.
const ABSENT: &str = "Absent: ";

/// A key of machine files.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineKey {
    /// Path of the table with dots, without names of instances: `cluster.idle_state`; empty at the top.
    pub table: String,
    /// The key.
    pub name: String,
    /// Unit of a figure; empty for a plain number, a name or a list.
    pub unit: String,
    /// What the key means, in a sentence or two.
    pub meaning: String,
    /// What is assumed without the key; empty where a file must have the key.
    pub absent: String,
    /// Whether a file must have the key.
    pub required: bool,
    /// Whether the value is a [`Figure`](super::Figure) with an origin.
    pub is_figure: bool,
    /// Smallest value of a figure.
    pub least: f64,
    /// Largest value of a figure.
    pub most: f64,
    /// Whether the key itself narrows the range of its unit.
    pub has_own_range: bool,
    /// A section of a page of `docs/` that explains more, such as `background/model.md#flushes`.
    pub see: Option<String>,
}

/// Every key of a machine file, in the order of the structs.
pub(super) static KEYS: LazyLock<Vec<MachineKey>> = LazyLock::new(|| {
    let schema = schemars::schema_for!(Machine).to_value();
    let mut keys = Vec::new();
    collect_keys(&schema, schema.as_object(), "", &mut keys);
    keys
});

/// The schema of machine files (JSON Schema 2020-12), for editors that check and complete TOML.
pub fn machine_file_schema() -> Value {
    let mut schema = schemars::schema_for!(Machine).to_value();
    let required = schema
        .as_object_mut()
        .and_then(|table| table.remove("required"));
    schema["properties"]["like"] = serde_json::json!({
        "type": "string",
        "description": "Machine that this one is like, but for what the file says.",
    });
    // A machine file with `like` takes over from the other machine what it does not say.
    schema["if"] = serde_json::json!({ "required": ["like"] });
    schema["then"] = serde_json::json!({ "required": ["name", "title"] });
    schema["else"] = serde_json::json!({ "required": required });
    schema
}

impl Machine {
    /// Every key of a machine file, in the order of the reference.
    pub fn documented_keys() -> &'static [MachineKey] {
        &KEYS
    }
}

/// The documented keys by table and name.
static KEYS_BY_PLACE: LazyLock<HashMap<(&str, &str), &MachineKey>> = LazyLock::new(|| {
    let keys = KEYS.iter();
    keys.map(|key| ((key.table.as_str(), key.name.as_str()), key))
        .collect()
});

/// The key `name` of a table; `None` for a table or key that machine files do not have.
pub(super) fn find_key(table: &str, name: &str) -> Option<&'static MachineKey> {
    KEYS_BY_PLACE.get(&(table, name)).copied()
}

/// The path of a table or key below `path`; an empty path is the top.
pub(super) fn join_key_path(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Appends the keys of a table's schema, and of the tables below.
fn collect_keys(
    root: &Value,
    table: Option<&Map<String, Value>>,
    path: &str,
    keys: &mut Vec<MachineKey>,
) {
    let properties = table.and_then(|schema| schema.get("properties"));
    let required = table.and_then(|schema| schema.get("required"));
    for (name, property) in properties.and_then(Value::as_object).into_iter().flatten() {
        let required = required
            .and_then(Value::as_array)
            .is_some_and(|names| names.iter().any(|required| required == name));
        let below = find_table_schema(root, property);
        if path.is_empty() {
            // The keys of a further drive are those of the first, and are not listed again.
            if name != "other_drive" {
                if below.is_none() {
                    keys.push(describe_key(path, name, property, required));
                }
                collect_keys(root, below, name, keys);
            }
        } else {
            keys.push(describe_key(path, name, property, required));
            collect_keys(root, below, &join_key_path(path, name), keys);
        }
    }
}

/// The schema of the table that a property holds: by reference, optional, or as an item of a list.
fn find_table_schema<'s>(root: &'s Value, property: &'s Value) -> Option<&'s Map<String, Value>> {
    if let Some(reference) = property.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.strip_prefix('#')?)?;
        return find_table_schema(root, target);
    }
    if let Some(items) = property.get("items") {
        return find_table_schema(root, items);
    }
    if let Some(choices) = property.get("anyOf").and_then(Value::as_array) {
        let mut references = choices.iter().filter(|choice| choice.get("$ref").is_some());
        return find_table_schema(root, references.next()?);
    }
    property
        .as_object()
        .filter(|schema| schema.contains_key("properties"))
}

fn describe_key(table: &str, name: &str, property: &Value, required: bool) -> MachineKey {
    let text = |field: &str| property.get(field).and_then(Value::as_str);
    let unit = text("unit").unwrap_or_default();
    let described = text("description").unwrap_or_default().replace('\n', " ");
    let (meaning, absent) = match described.split_once(ABSENT) {
        Some((meaning, absent)) => (meaning, absent),
        None => (described.as_str(), ""),
    };
    let number = |field: &str| property.get(field).and_then(Value::as_f64);
    let most = MAX_BY_UNIT.iter().find(|(known, _)| *known == unit);
    let (minimum, maximum) = (number("minimum"), number("maximum"));
    MachineKey {
        table: table.to_owned(),
        name: name.to_owned(),
        unit: unit.to_owned(),
        meaning: meaning.trim().to_owned(),
        absent: absent.trim_end_matches('.').to_owned(),
        required,
        is_figure: property.get("$ref").and_then(Value::as_str) == Some("#/$defs/Figure"),
        least: minimum.unwrap_or(0.0),
        most: maximum.unwrap_or(most.map_or(MAX_FIGURE, |(_, most)| *most)),
        has_own_range: minimum.is_some() || maximum.is_some(),
        see: text("see").map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::builtin_machine_names;
    use crate::recorded;

    #[test]
    fn every_figure_of_every_machine_has_a_key() {
        let recorded = recorded::builtin_recorded_systems()
            .iter()
            .filter(|s| s.idle.is_some());
        let names = builtin_machine_names().chain(recorded.map(|s| s.name.as_str()));
        for name in names {
            for figure in Machine::find(name).unwrap().figures() {
                assert!(figure.has_documented_key(), "{name}: {}", figure.key);
            }
        }
    }

    #[test]
    fn every_key_is_found_at_its_place() {
        for key in Machine::documented_keys() {
            assert_eq!(find_key(&key.table, &key.name), Some(key));
        }
        assert_eq!(find_key("cluster", "no_such_key"), None);
    }

    #[test]
    fn every_key_says_what_it_means_and_what_holds_without() {
        for key in Machine::documented_keys() {
            let name = format!("{}.{}", key.table, key.name);
            assert!(key.meaning.len() > 8, "{name}: {}", key.meaning);
            assert!(!key.required || key.absent.is_empty(), "{name}");
            assert!(key.least <= key.most, "{name}");
        }
    }

    #[test]
    fn the_unit_of_a_figure_is_the_end_of_its_key() {
        for key in Machine::documented_keys()
            .iter()
            .filter(|key| key.is_figure)
        {
            let ends = match key.unit.as_str() {
                "us" | "ms" | "W" | "mW" | "uV" | "MHz" => format!("_{}", key.unit.to_lowercase()),
                "1000 cycles" => "kcycles".to_owned(),
                _ => continue,
            };
            assert!(
                key.name.contains(&ends),
                "{}.{} in {}",
                key.table,
                key.name,
                key.unit
            );
        }
    }

    #[test]
    fn built_in_machines_fit_the_schema_for_editors() {
        let schema = machine_file_schema();
        let properties = schema["properties"].as_object().unwrap();
        for name in builtin_machine_names() {
            let text = Machine::find(name).unwrap().to_toml().unwrap();
            let table: toml::Table = text.parse().unwrap();
            for key in table.keys() {
                assert!(properties.contains_key(key), "{name}: {key}");
            }
        }
    }
}
