//! The figures of a machine, found by walking the machine as a file has it.

use toml::{Table, Value};

use super::fault::Fault;
use super::keys::{MachineKey, find_documented_key, join_key_path};
use super::{DriveModel, Figure, Machine, MachineError, Origin};

/// A figure of a machine, with its name and its place in a machine file.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineFigure {
    /// Name of the figure, such as `cluster.big.static_mw`.
    pub key: String,
    /// Value and origin.
    pub figure: Figure,
    /// The `source` of the figure's table, which covers plain figures.
    table_source: Option<String>,
    declared: Option<&'static MachineKey>,
}

impl Machine {
    /// Every figure of the machine, in the order of the keys.
    pub fn figures(&self) -> Vec<MachineFigure> {
        let mut figures = Vec::new();
        // A machine that cannot be written as TOML has no figures that a file could give.
        if let Ok(mut table) = Table::try_from(self) {
            // Further drives of a captured machine take no part in a simulation.
            table.remove("other_drive");
            append_figures_of_table(&mut table, &TablePlace::default(), &mut figures);
        }
        figures
    }

    /// The machine with another value for each figure that has this name. The origin of the figure stays.
    ///
    /// # Errors
    /// No figure has the name; the machine would be impossible with the value.
    pub fn with_figure_value(&self, key: &str, value: f64) -> Result<Self, MachineError> {
        let invalid = |problem: String| MachineError::invalid_value_error(&self.name, key, problem);
        let mut table = Table::try_from(self).map_err(|e| invalid(e.to_string()))?;
        let mut found = 0;
        visit_figures_of_table(
            &mut table,
            &TablePlace::default(),
            &mut |place, name, figure| {
                if figure_name_for_people(place, name) == key {
                    figure.insert("value".to_owned(), Value::Float(value));
                    found += 1;
                }
            },
        );
        if found == 0 {
            return Err(invalid("no such figure".to_owned()));
        }
        let text = self
            .format_table_as_machine_file(table)
            .map_err(|e| invalid(e.to_string()))?;
        Self::parse(&text, &self.name)
    }

    /// Checks that every figure of the machine is within the range of its key.
    pub(super) fn check_figure_ranges(&self) -> Result<(), Fault> {
        self.figures()
            .iter()
            .try_for_each(MachineFigure::check_value_in_range_of_key)
    }
}

impl DriveModel {
    /// Every figure of the drive, in the order of the keys.
    pub fn figures(&self) -> Vec<MachineFigure> {
        let mut figures = Vec::new();
        if let Ok(mut table) = Table::try_from(self) {
            let place = TablePlace {
                table: "drive".to_owned(),
                key: "drive".to_owned(),
                source: Some(self.source.clone()),
            };
            append_figures_of_table(&mut table, &place, &mut figures);
        }
        figures
    }

    /// Checks that every figure of the drive is within the range of its key.
    pub(super) fn check_figure_ranges(&self) -> Result<(), Fault> {
        self.figures()
            .iter()
            .try_for_each(MachineFigure::check_value_in_range_of_key)
    }
}

impl MachineFigure {
    /// Where the figure's value comes from, in words: its own source or reason, or the source of its table.
    pub fn origin_in_words(&self) -> String {
        let table_source = self.table_source.as_deref().unwrap_or_default();
        self.figure.origin.describe_origin(table_source)
    }

    /// Whether the figure's key is one of the documented keys of machine files.
    pub fn has_documented_key(&self) -> bool {
        self.declared.is_some()
    }

    fn check_value_in_range_of_key(&self) -> Result<(), Fault> {
        let Some(key) = self.declared.filter(|_| self.figure.is_given()) else {
            return Ok(());
        };
        let value = self.figure.value;
        if (key.least..=key.most).contains(&value) {
            return Ok(());
        }
        let message = format!("{value} is not between {} and {:e}", key.least, key.most);
        Err((self.key.clone(), message))
    }
}

/// A table that is being walked: its path without and with the names of instances, and the source of its plain figures.
#[derive(Default)]
struct TablePlace {
    table: String,
    key: String,
    source: Option<String>,
}

impl TablePlace {
    /// The table `name` below this one, whose path names an instance after `instance`.
    fn place_of_table_below(&self, name: &str, instance: &str, table: &Table) -> Self {
        let source = table.get("source").and_then(Value::as_str);
        Self {
            table: join_key_path(&self.table, name),
            key: if instance.is_empty() {
                self.key.clone()
            } else {
                join_key_path(&self.key, instance)
            },
            source: source.map(str::to_owned).or_else(|| self.source.clone()),
        }
    }
}

fn append_figures_of_table(
    table: &mut Table,
    place: &TablePlace,
    figures: &mut Vec<MachineFigure>,
) {
    visit_figures_of_table(table, place, &mut |place, name, figure| {
        figures.extend(
            decode_serialized_figure(figure).map(|figure| MachineFigure {
                key: figure_name_for_people(place, name),
                figure,
                table_source: place.source.clone(),
                declared: find_documented_key(&place.table, name),
            }),
        );
    });
}

/// Calls `visit` with each figure of a table and of the tables below: the figure's table, its name, and the table that
/// serde makes of it.
fn visit_figures_of_table(
    table: &mut Table,
    place: &TablePlace,
    visit: &mut impl FnMut(&TablePlace, &str, &mut Table),
) {
    for (name, value) in table.iter_mut() {
        match value {
            Value::Table(below) => {
                if decode_serialized_figure(below).is_some() {
                    visit(place, name, below);
                } else {
                    // A figure such as `drive.power.active_w` is called `drive.active_w`.
                    let instance = if name == "power" { "" } else { name };
                    let place = place.place_of_table_below(name, instance, below);
                    visit_figures_of_table(below, &place, visit);
                }
            }
            Value::Array(list) => {
                for (index, item) in list.iter_mut().enumerate() {
                    let Value::Table(below) = item else { continue };
                    let instance = match below.get("name").and_then(Value::as_str) {
                        Some(own) => format!("{name}.{own}"),
                        None if name == "states" => format!("PS{index}"),
                        None => format!("{name}.{index}"),
                    };
                    let place = place.place_of_table_below(name, &instance, below);
                    visit_figures_of_table(below, &place, visit);
                }
            }
            _ => {}
        }
    }
}

/// Name of a figure for people, who know some figures by the names of other tables.
fn figure_name_for_people(place: &TablePlace, name: &str) -> String {
    match (place.table.as_str(), name) {
        ("cluster.cppc", _) => format!("{}_{name}", place.key),
        ("drive.power.states", "entry_us" | "exit_us") => {
            join_key_path(&place.key, &format!("true_{name}"))
        }
        _ => join_key_path(&place.key, name),
    }
}

fn owned_text_if_string(value: &Value) -> Option<String> {
    Some(value.as_str()?.to_owned())
}

/// Reads a figure from the table that serde makes of it.
pub(super) fn decode_serialized_figure(table: &Table) -> Option<Figure> {
    let value = table.get("value")?.as_float()?;
    let origin = match table.get("origin")? {
        Value::String(word) if word == "default" => Origin::Default,
        Value::String(_) => Origin::Table,
        Value::Table(because) => {
            let (kind, why) = because.iter().next()?;
            match kind.as_str() {
                "measured" => Origin::Measured(why.clone().try_into().ok()?),
                "source" => Origin::Source(owned_text_if_string(why)?),
                "declared" => Origin::Declared(owned_text_if_string(why)?),
                "fitted" => Origin::Fitted(owned_text_if_string(why)?),
                _ => Origin::Assumed(owned_text_if_string(why)?),
            }
        }
        _ => return None,
    };
    Some(Figure { value, origin })
}
