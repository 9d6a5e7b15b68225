//! Writes a machine as a TOML machine file.

use std::fmt::Write;

use toml::{Table, Value};

use super::{DriveModel, DrivePower, Figure, Machine, MachineError};

/// Number of list elements per line, so that operating points do not make a very long line.
const IN_A_LINE: usize = 4;
/// Names of the nested tables of a cluster, which are too long for a line.
const IDLE_STATE: &str = "idle_state";

impl Machine {
    /// Writes a machine file that [`Machine::parse`] reads back without loss. If all power figures of a drive are
    /// assumed, only the declared states are written.
    ///
    /// # Errors
    /// A value has no form in TOML; no checked machine has one.
    pub fn to_toml(&self) -> Result<String, MachineError> {
        Table::try_from(self)
            .and_then(|table| self.format_table_as_machine_file(table))
            .map_err(|e| MachineError::invalid_value_error(&self.name, "machine", e.to_string()))
    }

    /// A machine file with the table that serde makes of this machine, perhaps with other values for its figures.
    pub(super) fn format_table_as_machine_file(
        &self,
        mut table: Table,
    ) -> Result<String, toml::ser::Error> {
        let drive = table.get_mut("drive");
        let nested = drive.map(|drive| take_nested_drive_tables(&self.drive, drive));
        let others = table.remove("other_drive");
        let mut text = String::new();
        write_machine(&mut text, &table);
        if let Some(nested) = nested {
            nested?.write_under_key(&mut text, "drive")?;
        }
        if let Some(Value::Array(others)) = others {
            for (model, mut drive) in self.other_drives.iter().zip(others) {
                let nested = take_nested_drive_tables(model, &mut drive)?;
                let _ = write!(text, "\n[[other_drive]]\n");
                write_lines_of_given_keys(&mut text, drive.as_table().into_iter().flatten());
                nested.write_under_key(&mut text, "other_drive")?;
            }
        }
        Ok(text)
    }
}

impl DriveModel {
    /// Writes a drive file that [`DriveModel::parse`] reads back without loss: the `[drive]` of a machine file.
    ///
    /// # Errors
    /// A value has no form in TOML; no checked drive has one.
    pub fn to_toml(&self) -> Result<String, MachineError> {
        self.format_drive_file()
            .map_err(|e| MachineError::invalid_value_error(&self.name, "drive", e.to_string()))
    }

    fn format_drive_file(&self) -> Result<String, toml::ser::Error> {
        let mut drive = Value::try_from(self)?;
        let nested = take_nested_drive_tables(self, &mut drive)?;
        let mut text = "schema = 1\n\n[drive]\n".to_owned();
        write_lines_of_given_keys(&mut text, drive.as_table().into_iter().flatten());
        nested.write_under_key(&mut text, "drive")?;
        Ok(text)
    }
}

/// Tables nested in a drive, which are written after the drive's other keys.
#[derive(Default)]
struct NestedDriveTables {
    /// The drive's power figures beyond the declared states.
    power: Option<Table>,
    /// The others.
    plain: Table,
}

/// Moves the nested tables out of a drive, so that they are written later.
fn take_nested_drive_tables(
    model: &DriveModel,
    drive: &mut Value,
) -> Result<NestedDriveTables, toml::ser::Error> {
    let mut nested = NestedDriveTables::default();
    let (Value::Table(drive), Some(power)) = (drive, &model.power) else {
        return Ok(nested);
    };
    if let Some(Value::Table(mut table)) = drive.remove("power") {
        if table == Table::try_from(DrivePower::from_declared_states(&power.declared))? {
            nested.plain.extend(table.remove_entry("declared"));
        } else {
            nested.power = Some(table);
        }
    }
    nested.plain.extend(drive.remove_entry("in_force"));
    Ok(nested)
}

impl NestedDriveTables {
    /// Writes the nested tables under the last drive with this key.
    fn write_under_key(mut self, text: &mut String, key: &str) -> Result<(), toml::ser::Error> {
        if let Some(mut power) = self.power.take() {
            let (declared, states) = (power.remove_entry("declared"), power.remove("states"));
            let _ = write!(text, "\n[{key}.power]\n");
            write_lines_of_given_keys(text, power.iter());
            for state in states.iter().filter_map(Value::as_array).flatten() {
                let _ = write!(text, "\n[[{key}.power.states]]\n");
                write_lines_of_given_keys(text, state.as_table().into_iter().flatten());
            }
            let declared = Value::Table(declared.into_iter().collect());
            let power = Table::from_iter([("power".to_owned(), declared)]);
            write_nested_tables(text, key, power)?;
        }
        write_nested_tables(text, key, self.plain)
    }
}

/// Writes tables below a key.
fn write_nested_tables(
    text: &mut String,
    key: &str,
    tables: Table,
) -> Result<(), toml::ser::Error> {
    if tables.is_empty() {
        return Ok(());
    }
    let drive = Table::from_iter([(key.to_owned(), Value::Table(tables))]);
    let _ = write!(text, "\n{}", toml::to_string(&drive)?);
    Ok(())
}

fn write_machine(text: &mut String, table: &Table) {
    let (sections, plain): (Vec<_>, Vec<_>) = table
        .iter()
        .partition(|(_, value)| is_written_as_own_tables(value));
    write_lines_of_given_keys(text, plain.into_iter());
    for (key, value) in sections {
        let (open, close, tables) = match value {
            Value::Array(list) => ("[[", "]]", list.iter().collect()),
            other => ("[", "]", vec![other]),
        };
        for table in tables.into_iter().filter_map(Value::as_table) {
            let _ = write!(text, "\n{open}{key}{close}\n");
            write_lines_of_given_keys(text, table.iter().filter(|(key, _)| *key != IDLE_STATE));
            let own = table.get(IDLE_STATE).and_then(Value::as_array);
            for state in own.into_iter().flatten().filter_map(Value::as_table) {
                let _ = write!(text, "\n[[{key}.{IDLE_STATE}]]\n");
                write_lines_of_given_keys(text, state.iter());
            }
        }
    }
}

/// Whether a value is written as tables of its own, rather than in one line.
fn is_written_as_own_tables(value: &Value) -> bool {
    match value {
        Value::Table(table) => figure_text_if_figure_and_given(table).is_none(),
        Value::Array(list) => list.first().is_some_and(Value::is_table),
        _ => false,
    }
}

fn write_lines_of_given_keys<'a>(
    text: &mut String,
    entries: impl Iterator<Item = (&'a String, &'a Value)>,
) {
    for (key, value) in entries {
        if let Some(value) = toml_value_or_none_if_not_given(value) {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
}

/// A TOML value in one line; `None` for a figure that the machine does not give.
fn toml_value_or_none_if_not_given(value: &Value) -> Option<String> {
    match value {
        Value::Table(table) => {
            if let Some(figure) = figure_text_if_figure_and_given(table) {
                return figure;
            }
            let entries: Vec<String> = table
                .iter()
                .filter_map(|(key, value)| {
                    Some(format!(
                        "{key} = {}",
                        toml_value_or_none_if_not_given(value)?
                    ))
                })
                .collect();
            Some(format!("{{ {} }}", entries.join(", ")))
        }
        Value::Array(list) => {
            let items: Vec<String> = list
                .iter()
                .filter_map(toml_value_or_none_if_not_given)
                .collect();
            let lines: Vec<String> = items.chunks(IN_A_LINE).map(|c| c.join(", ")).collect();
            Some(match lines.as_slice() {
                [] => "[]".to_owned(),
                [line] => format!("[{line}]"),
                lines => format!("[\n  {},\n]", lines.join(",\n  ")),
            })
        }
        Value::Float(number) => Some(format_whole_without_fraction(*number)),
        other => Some(other.to_string()),
    }
}

impl Figure {
    /// The figure as a machine file has it, such as `{ value = 3.5, source = "..." }`; `None` if it is not given.
    pub fn to_toml_text(&self) -> Option<String> {
        toml_value_or_none_if_not_given(&Value::try_from(self).ok()?)
    }
}

/// A figure in its short form: outer `None`, if the table is no figure; inner `None`, if it is not given.
#[expect(clippy::option_option, reason = "two questions, two answers")]
fn figure_text_if_figure_and_given(table: &Table) -> Option<Option<String>> {
    let (value, origin) = (table.get("value")?.as_float()?, table.get("origin")?);
    let value = format_whole_without_fraction(value);
    Some(match origin {
        Value::String(word) if word == "default" => None,
        Value::Table(because) => because
            .iter()
            .next()
            .map(|(kind, why)| format!("{{ value = {value}, {kind} = {why} }}")),
        _ => Some(value),
    })
}

/// Formats a number; whole numbers have no fraction, as people write them.
fn format_whole_without_fraction(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        format!("{number:.0}")
    } else {
        Value::Float(number).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::builtin_machine_names;
    use crate::machine::drive_file::BUILTIN;
    use crate::recorded;

    #[test]
    fn every_machine_comes_back_as_it_was() {
        let recorded = recorded::builtin_recorded_systems()
            .iter()
            .filter(|s| s.idle.is_some());
        let names = builtin_machine_names().chain(recorded.map(|s| s.name.as_str()));
        for name in names {
            let machine = Machine::find(name).unwrap();
            let text = machine.to_toml().unwrap();
            let again = Machine::parse(&text, name).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(again.figures(), machine.figures(), "{name}");
            assert_eq!(again.to_toml().unwrap(), text, "{name}");
            assert_eq!(again.cpus(), machine.cpus());
        }
    }

    #[test]
    fn what_is_known_of_a_drive_beyond_what_it_declares_comes_back() {
        let mut more = 0;
        for (name, _) in BUILTIN {
            let mut machine = Machine::find("laptop").unwrap();
            machine.replace_drive_keeping_count(DriveModel::find(name).unwrap());
            machine.other_drives.push(DriveModel::find(name).unwrap());
            let text = machine.to_toml().unwrap();
            let again = Machine::parse(&text, name).unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(again.figures(), machine.figures(), "{name}");
            assert_eq!(again.to_toml().unwrap(), text, "{name}");
            let json = |machine: &Machine| serde_json::to_string(machine).unwrap();
            assert_eq!(json(&again), json(&machine), "{name}");
            // Not every model knows more.
            if let Some((before, last)) = text.rsplit_once("[[other_drive.power.states]]") {
                let (_, after) = last.split_once("\n[").unwrap();
                let less = format!("{before}[{after}");
                let error = Machine::parse(&less, name).unwrap_err().to_string();
                assert!(error.contains("power states are described"), "{error}");
                more += 1;
            }
        }
        assert!(more > 1);
    }

    #[test]
    fn every_drive_of_a_machine_comes_back() {
        let mut machine = Machine::find("laptop").unwrap();
        let own = machine.drive.clone();
        for (device, model) in [("nvme1", "pm991"), ("nvme2", "sn530")] {
            machine.other_drives.push(DriveModel {
                device: Some(device.to_owned()),
                ..DriveModel::find(model).unwrap()
            });
        }
        let text = machine.to_toml().unwrap();
        let again = Machine::parse(&text, "text").unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(again.to_toml().unwrap(), text);
        assert_eq!(again.drive.name, own.name);
        let found = again.find_own_or_known_drive("nvme2").unwrap();
        assert_eq!(found.name, machine.other_drives[1].name);
        assert!(found.power.is_some());
    }
}
