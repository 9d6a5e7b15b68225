//! `like = "NAME"`: a machine file that says only how its machine differs from another one.
//!
//! Tables are merged key by key, `[[cluster]]`, `[[idle_state]]` and `[[background]]` by `name`, and any other value
//! replaces that of the model. Each figure keeps its own origin: where a table names a `source` of its own, the plain
//! figures that it takes over keep the source of the model.

use std::path::Path;

use toml::{Table, Value};
use wakepath_files::{Links, Tree};
use wakepath_units::pasted::decode_text_strictly;

use super::builtin::find_builtin_machine_text;
use super::error::toml_syntax_error_with_line;
use super::figures::decode_serialized_figure;
use super::file::MAX_FILE;
use super::keys::{find_documented_key, join_key_path};
use super::{DrivePower, Machine, MachineError};
use crate::drive::Drive;

const LIKE: &str = "like";
/// Longest chain of files that are like each other.
const MAX_CHAIN: usize = 8;

/// Makes the whole machine of a file that says `like`; `None` for any other file.
///
/// # Errors
/// No such model, a chain without an end, or a file that leaves open which figures are its own.
pub(super) fn merge_file_with_like_chain(
    text: &str,
    origin: &str,
    folder: Option<&Path>,
) -> Result<Option<Table>, MachineError> {
    // A syntax error is left to the reader of whole machines, which tells the line.
    let Ok(own) = text.parse::<Table>() else {
        return Ok(None);
    };
    if !own.contains_key(LIKE) {
        return Ok(None);
    }
    merge_with_models_up_to(own, origin, folder, MAX_CHAIN).map(Some)
}

fn merge_with_models_up_to(
    mut own: Table,
    origin: &str,
    folder: Option<&Path>,
    links_left: usize,
) -> Result<Table, MachineError> {
    let model = match own.remove(LIKE) {
        None => return Ok(own),
        Some(Value::String(model)) => model,
        Some(_) => {
            return Err(MachineError::invalid_value_error(
                origin,
                LIKE,
                "expected the name of a machine in quotes".to_owned(),
            ));
        }
    };
    if links_left == 0 {
        let message = format!("more than {MAX_CHAIN} machines in a row are like another one");
        return Err(MachineError::invalid_value_error(origin, LIKE, message));
    }
    refuse_file_with_missing_keys(&own, &model, origin)?;
    let (text, next_origin) = read_like_model_text_and_origin(&model, folder)
        .map_err(|why| MachineError::invalid_value_error(origin, LIKE, why))?;
    let base = text
        .parse::<Table>()
        .map_err(|e| toml_syntax_error_with_line(&text, &next_origin, &e))?;
    let mut whole = merge_with_models_up_to(base, &next_origin, folder, links_left - 1)?;
    // The comparison of predictions is dropped: nobody has compared them on this machine.
    whole.remove("prediction");
    whole.remove("calibrated_on");
    use_one_drive_power_form(&mut whole, &mut own)
        .map_err(|why| MachineError::invalid_value_error(origin, "drive", why))?;
    overlay_keys(&mut whole, own, "");
    Ok(whole)
}

/// Returns an error that names all that a file which says `like` has to have and lacks.
fn refuse_file_with_missing_keys(
    own: &Table,
    model: &str,
    origin: &str,
) -> Result<(), MachineError> {
    let names = ["name", "title"];
    let missing_names: Vec<&str> = (names.into_iter())
        .filter(|key| !own.contains_key(*key))
        .collect();
    let mut missing_below = Vec::new();
    add_tables_lacking_source_or_reason(own, "", None, &mut missing_below);
    let (key, message) = match (&missing_names[..], &missing_below[..]) {
        ([], []) => return Ok(()),
        ([missing], []) => (
            *missing,
            format!("a machine that is like {model} has a {missing} of its own"),
        ),
        ([], [(table, missing)]) => (
            table.as_str(),
            format!(
                "a table that differs from {model} needs `{missing}`, since that of {model} does not cover it"
            ),
        ),
        _ => {
            let names = missing_names.iter().map(|key| format!("`{key}`"));
            let below = missing_below
                .iter()
                .map(|(table, missing)| format!("`{missing}` in [{table}]"));
            let all: Vec<String> = names.chain(below).collect();
            let message = format!(
                "a machine that is like {model} has some keys of its own, and these are missing: {}",
                all.join(", ")
            );
            (LIKE, message)
        }
    };
    Err(MachineError::invalid_value_error(origin, key, message))
}

/// The text of the machine that a file is like: a built-in or recorded machine, or a file in the same folder.
fn read_like_model_text_and_origin(
    model: &str,
    folder: Option<&Path>,
) -> Result<(String, String), String> {
    if let Some(text) = find_builtin_machine_text(model) {
        return Ok((text.to_owned(), model.to_owned()));
    }
    if let Some(system) = crate::recorded::find_recorded_system(model) {
        let mut machine = Machine::from_recorded(system).map_err(|e| e.to_string())?;
        // The policies of a recorded system are found by its name, which the new machine does not have, so they are
        // written out.
        let ran = system.kernel_policy_or_stand_in();
        machine.runs = Some(format!("{} + {}", ran.idle, ran.freq));
        let text = machine.to_toml().map_err(|e| e.to_string())?;
        return Ok((text, model.to_owned()));
    }
    let is_file_name = Path::new(model).extension().is_some_and(|e| e == "toml")
        && Path::new(model)
            .file_name()
            .is_some_and(|name| name == model);
    let Some(folder) = folder.filter(|_| is_file_name) else {
        return Err(format!(
            "unknown machine '{model}'; expected a name that `wakepath machine list` prints, or the name of a .toml file in \
             the same folder"
        ));
    };
    let path = folder.join(model);
    let bytes = Tree::open_folder(folder, Links::Refused)
        .and_then(|tree| tree.read_file_up_to(Path::new(model), MAX_FILE))
        .map_err(|e| format!("{}: {e}", path.display()))?;
    let text = decode_text_strictly(bytes).map_err(|_| format!("{model}: no text in UTF-8"))?;
    Ok((text, path.display().to_string()))
}

/// Adds the path of each table whose own figures have no source or reason, with the missing key.
///
/// Plain figures need the `source` of their table, or of the nearest table around that takes one: `outer` is that table's
/// path and whether it has one. Tables that must have `assumed` need one of their own.
fn add_tables_lacking_source_or_reason(
    own: &Table,
    table: &str,
    outer: Option<(&str, bool)>,
    found: &mut Vec<(String, &'static str)>,
) {
    let mut add_once = |place: &str, key| {
        if !found.iter().any(|known| *known == (place.to_owned(), key)) {
            found.push((place.to_owned(), key));
        }
    };
    if !own.contains_key("assumed")
        && find_documented_key(table, "assumed").is_some_and(|key| key.required)
    {
        add_once(table, "assumed");
    }
    let covering = match find_documented_key(table, "source") {
        Some(_) if !table.is_empty() => Some((table, own.contains_key("source"))),
        _ => outer,
    };
    let mut figures = own.iter();
    let has_plain = figures.any(|(name, value)| is_plain_number_of_figure_key(table, name, value));
    if let Some((place, false)) = covering.filter(|_| has_plain) {
        add_once(place, "source");
    }
    for (name, value) in own {
        let below = join_key_path(table, name);
        match value {
            Value::Table(inner) if !has_value_key(inner) => {
                add_tables_lacking_source_or_reason(inner, &below, covering, found);
            }
            Value::Array(list) => {
                for inner in list.iter().filter_map(Value::as_table) {
                    add_tables_lacking_source_or_reason(inner, &below, covering, found);
                }
            }
            _ => {}
        }
    }
}

fn is_plain_number_of_figure_key(table: &str, name: &str, value: &Value) -> bool {
    (value.is_integer() || value.is_float())
        && find_documented_key(table, name).is_some_and(|key| key.is_figure)
}

/// Overlays the keys of `own` on those of `base`; `table` is the path of both without instances.
fn overlay_keys(base: &mut Table, own: Table, table: &str) {
    if own.contains_key("source") {
        pin_sources_of_plain_figures(base, table);
    }
    let replaced: Vec<String> = own.keys().cloned().collect();
    for name in replaced {
        // The reason of a value is removed when the value is replaced.
        for reason in [format!("{name}_assumed"), format!("{name}_from")] {
            base.remove(&reason);
        }
    }
    for (name, value) in own {
        let below = join_key_path(table, &name);
        match (base.get_mut(&name), value) {
            (Some(Value::Table(old)), Value::Table(new))
                if !has_value_key(old) && !has_value_key(&new) =>
            {
                overlay_keys(old, new, &below);
            }
            (Some(Value::Array(old)), Value::Array(new))
                if do_all_items_have_names(old) && do_all_items_have_names(&new) =>
            {
                overlay_items_by_name(old, new, &below);
            }
            (_, value) => {
                base.insert(name, value);
            }
        }
    }
}

/// Gives each plain figure in a table the source that covered it as its own.
fn pin_sources_of_plain_figures(base: &mut Table, table: &str) {
    if let Some(Value::String(source)) = base.get("source").cloned() {
        pin_source_in_tables(base, table, &source);
    }
}

/// Names the source of each plain figure in a table and in the tables below that have no source of their own.
fn pin_source_in_tables(base: &mut Table, table: &str, source: &str) {
    for (name, value) in base.iter_mut() {
        if is_plain_number_of_figure_key(table, name, value) {
            let number = std::mem::replace(value, Value::Boolean(false));
            *value = Value::Table(Table::from_iter([
                ("value".to_owned(), number),
                ("source".to_owned(), Value::String(source.to_owned())),
            ]));
            continue;
        }
        let below = join_key_path(table, name);
        match value {
            Value::Table(inner) if !has_value_key(inner) && !inner.contains_key("source") => {
                pin_source_in_tables(inner, &below, source);
            }
            Value::Array(list) => {
                let tables = list.iter_mut().filter_map(Value::as_table_mut);
                for inner in tables.filter(|inner| !inner.contains_key("source")) {
                    pin_source_in_tables(inner, &below, source);
                }
            }
            _ => {}
        }
    }
}

/// Gives a drive's power one form in both tables: the declared states alone (`declared`) become complete ones
/// (`power`), where only one of the tables has them so.
fn use_one_drive_power_form(base: &mut Table, own: &mut Table) -> Result<(), String> {
    let (Some(Value::Table(base)), Some(Value::Table(own))) =
        (base.get_mut("drive"), own.get_mut("drive"))
    else {
        return Ok(());
    };
    if own.contains_key("declared") {
        base.remove("power");
        return Ok(());
    }
    // Figures that follow from declared states need a place to keep their source.
    if (own.contains_key("power") || own.contains_key("source"))
        && let Some(declared) = base.remove("declared")
    {
        let drive: Drive = declared
            .try_into()
            .map_err(|e: toml::de::Error| e.to_string())?;
        let power =
            Table::try_from(DrivePower::from_declared_states(&drive)).map_err(|e| e.to_string())?;
        base.insert(
            "power".to_owned(),
            figures_to_file_form(Value::Table(power)),
        );
    }
    Ok(())
}

/// A TOML value as files have it: figures with their origin as a key, and without figures that are not given.
fn figures_to_file_form(value: Value) -> Value {
    match value {
        Value::Table(table) => {
            if let Some(figure) = decode_serialized_figure(&table) {
                return figure_value_as_in_file(figure.value, &table["origin"]);
            }
            let given = table
                .into_iter()
                .filter(|(_, value)| !is_absent_figure(value));
            Value::Table(
                given
                    .map(|(key, value)| (key, figures_to_file_form(value)))
                    .collect(),
            )
        }
        Value::Array(list) => Value::Array(list.into_iter().map(figures_to_file_form).collect()),
        other => other,
    }
}

fn is_absent_figure(value: &Value) -> bool {
    value.get("origin").and_then(Value::as_str) == Some("default")
}

fn figure_value_as_in_file(value: f64, origin: &Value) -> Value {
    let Value::Table(because) = origin else {
        return Value::Float(value);
    };
    let mut figure = Table::from_iter([("value".to_owned(), Value::Float(value))]);
    figure.extend(because.clone());
    Value::Table(figure)
}

fn has_value_key(table: &Table) -> bool {
    table.contains_key("value")
}

fn name_key_of_item(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

fn do_all_items_have_names(list: &[Value]) -> bool {
    list.iter().all(|item| name_key_of_item(item).is_some())
}

fn overlay_items_by_name(base: &mut Vec<Value>, own: Vec<Value>, table: &str) {
    for item in own {
        let old = base
            .iter_mut()
            .find(|old| name_key_of_item(old) == name_key_of_item(&item));
        match (old, item) {
            (Some(Value::Table(old)), Value::Table(new)) => overlay_keys(old, new, table),
            (_, item) => base.push(item),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::machine::{Figure, Origin};

    fn parse(text: &str) -> Result<Machine, String> {
        Machine::parse(text, "m.toml").map_err(|e| e.to_string())
    }

    /// A machine file that takes everything over.
    fn like_text(like: &str, name: &str) -> String {
        format!("like = \"{like}\"\nname = \"{name}\"\ntitle = \"a\"\n")
    }

    const FASTER: &str = "\
like = \"rk3399\"
name = \"faster\"
title = \"An RK3399 with other wake-ups\"
[[idle_state]]
name = \"cpu-sleep\"
true_exit_us = 7
source = \"measured here\"
";

    #[test]
    fn a_machine_is_as_its_model_but_for_what_it_says() {
        let machine = parse(FASTER).unwrap();
        let model = Machine::find("rk3399").unwrap();
        assert_eq!(machine.name, "faster");
        assert_eq!(machine.cpus(), model.cpus());
        let mut changed = Vec::new();
        for (own, old) in machine.figures().iter().zip(&model.figures()) {
            assert_eq!(own.key, old.key);
            if own.figure.value.to_bits() == old.figure.value.to_bits() {
                assert_eq!(own.origin_in_words(), old.origin_in_words(), "{}", own.key);
            } else {
                changed.push((own.key.clone(), own.origin_in_words()));
            }
        }
        let expected = (
            "idle_state.cpu-sleep.true_exit_us".to_owned(),
            "measured here".to_owned(),
        );
        assert_eq!(changed, [expected]);
        assert_eq!(machine.idle_state[1].true_exit_us.origin, Origin::Table);
    }

    #[test]
    fn a_recorded_model_lends_its_policies_but_no_prediction() {
        let recorded = parse(&like_text("turin0", "mine")).unwrap();
        let ran = crate::recorded::find_recorded_system("turin0")
            .unwrap()
            .kernel_policy_or_stand_in();
        assert_eq!(recorded.runs, Some(format!("{} + {}", ran.idle, ran.freq)));
        assert_eq!(recorded.prediction, None);
    }

    #[test]
    fn reasons_go_with_the_values_that_they_were_for() {
        let model = Machine::find("xeon-e3-1240v5").unwrap();
        let name = &model.cluster[0].name;
        let text = format!(
            "like = \"xeon-e3-1240v5\"\nname = \"a\"\ntitle = \"a\"\nkernel = \"6.6\"\n[[cluster]]\nname = \"{name}\"\n\
             turbo = []\nsource = \"here\"\n"
        );
        let machine = parse(&text).unwrap();
        assert_eq!(machine.kernel_from, None);
        assert_eq!(machine.cluster[0].turbo_assumed, None);
        let [own, lent] = [&machine, &model].map(|m| m.cluster[0].static_mw.value.to_bits());
        assert_eq!(own, lent);
    }

    #[test]
    fn power_of_a_drive_whose_states_are_declared_alone_can_be_told() {
        let folder = tempfile::tempdir().unwrap();
        let captured = Machine::find("laptop").unwrap();
        let mut model = captured.clone();
        model.replace_drive_keeping_count(
            super::super::DriveModel::find("970 EVO Plus 1TB").unwrap(),
        );
        let text = model.to_toml().unwrap();
        assert!(text.contains("[drive.declared"), "{text}");
        fs::write(folder.path().join("model.toml"), text).unwrap();
        let own = "like = \"model.toml\"\nname = \"own\"\ntitle = \"a\"\n[drive.power]\n\
                   idle_w = { value = 0.3, source = \"a meter\" }\n";
        fs::write(folder.path().join("own.toml"), own).unwrap();
        let machine = Machine::load(&folder.path().join("own.toml")).unwrap();
        let (power, old) = (machine.drive.power.unwrap(), model.drive.power.unwrap());
        assert_eq!(power.idle_w, Figure::with_own_source(0.3, "a meter"));
        assert_eq!(power.active_w, old.active_w);
        assert_eq!(power.states.len(), old.states.len());
        let own = "like = \"model.toml\"\nname = \"own\"\ntitle = \"a\"\n[drive]\nread_service_us = 70\n\
                   source = \"measured here\"\n";
        fs::write(folder.path().join("own.toml"), own).unwrap();
        let machine = Machine::load(&folder.path().join("own.toml")).unwrap();
        let measured = machine.figures().into_iter();
        let measured = measured.filter(|figure| figure.origin_in_words() == "measured here");
        let keys: Vec<String> = measured.map(|figure| figure.key).collect();
        assert_eq!(keys, ["drive.read_service_us"]);
    }

    #[test]
    fn a_written_machine_is_whole() {
        let text = parse(FASTER).unwrap().to_toml().unwrap();
        assert!(!text.contains("like ="), "{text}");
        assert_eq!(parse(&text).unwrap().to_toml().unwrap(), text);
    }

    #[test]
    fn what_cannot_be_says_why() {
        for (text, part) in [
            (
                "like = \"rk3398\"\nname = \"a\"\ntitle = \"a\"\n",
                "unknown machine 'rk3398'",
            ),
            (
                "like = \"../x.toml\"\nname = \"a\"\ntitle = \"a\"\n",
                "unknown machine '../x.toml'",
            ),
            ("like = 3\n", "in quotes"),
            (
                "like = \"rk3399\"\ntitle = \"a\"\n",
                "has a name of its own",
            ),
            (
                "like = \"rk3399\"\nname = \"a\"\n",
                "has a title of its own",
            ),
            (
                "like = \"rk3399\"\nname = \"a\"\ntitle = \"a\"\n[io_path]\nkcycles_per_io = 1\n",
                "m.toml: io_path: a table that differs from rk3399 needs `source`",
            ),
            (
                "like = \"rk3399\"\nname = \"a\"\ntitle = \"a\"\n[io_path.completion]\ncoalesce = 8\nassumed = \"x\"\n",
                "m.toml: io_path: a table that differs from rk3399 needs `source`",
            ),
            (
                "like = \"rk3399\"\nname = \"a\"\ntitle = \"a\"\n[io_path.completion]\ncpu = 1\n",
                "m.toml: io_path.completion: a table that differs from rk3399 needs `assumed`",
            ),
            // All that is missing is named at once.
            (
                "like = \"laptop\"\n[io_path.completion]\npoll_queues = 2\n",
                "m.toml: like: a machine that is like laptop has some keys of its own, and these are missing: `name`, \
                 `title`, `assumed` in [io_path.completion]",
            ),
            (
                "like = \"rk3399\"\nname = \"a\"\n[io_path]\nkcycles_per_io = 1\n[io_path.completion]\ncoalesce = 8\n",
                "missing: `title`, `source` in [io_path], `assumed` in [io_path.completion]",
            ),
            (
                "like = \"rk3399\"\nname = \"a\"\ntitle = \"a\"\n[scheduler]\nipi_us = \"5\"\n",
                "ipi_us",
            ),
            (
                "like = \"rk3399\"\nname = \"a\"\ntitle = \"a\"\n[scheduler]\nipi_uz = 1\n",
                "ipi_uz",
            ),
            (
                "like = \"rk3399\"\nname = \"a\"\ntitle = \"a\"\nhz = -1\n",
                "hz",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.starts_with("m.toml") && error.contains(part),
                "{error}"
            );
        }
    }

    #[test]
    fn a_file_is_like_its_neighbour_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let model = Machine::find("laptop").unwrap().to_toml().unwrap();
        fs::write(folder.path().join("model.toml"), model).unwrap();
        for (file, like, name) in [
            ("own.toml", "model.toml", "own"),
            ("third.toml", "own.toml", "third"),
            ("self.toml", "self.toml", "self"),
            ("linked.toml", "link.toml", "linked"),
        ] {
            fs::write(folder.path().join(file), like_text(like, name)).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.toml")).unwrap();
        let load = |file: &str| Machine::load(&folder.path().join(file)).map_err(|e| e.to_string());
        assert_eq!(load("third.toml").unwrap().name, "third");
        assert!(
            load("self.toml")
                .unwrap_err()
                .contains("more than 8 machines")
        );
        assert!(load("linked.toml").is_err());
    }
}
