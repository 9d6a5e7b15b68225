//! A machine whose figures are lent to another machine, as assumptions.

use toml::{Table, Value};

use super::{Machine, MachineError};

impl Machine {
    /// A copy of the machine with every figure marked as assumed; the reason is the original source, since the
    /// borrowing machine was not measured.
    ///
    /// Walks the TOML tables, so that no figure is left out when new keys appear.
    pub(super) fn copy_with_assumed_figures(&self) -> Result<Self, MachineError> {
        let table = Table::try_from(self)
            .map_err(|e| MachineError::invalid_value(&self.name, "machine", e.to_string()))?;
        let mut value = Value::Table(table);
        mark_figures_assumed(&mut value, &self.name, "");
        value.try_into().map_err(|e: toml::de::Error| {
            MachineError::invalid_value(&self.name, "machine", e.to_string())
        })
    }
}

/// Marks the figures in a TOML value as assumed; `source` belongs to the surrounding table. `false`: a figure that is
/// not given.
fn mark_figures_assumed(value: &mut Value, lender: &str, source: &str) -> bool {
    match value {
        Value::Array(list) => {
            for value in list {
                mark_figures_assumed(value, lender, source);
            }
        }
        Value::Table(table) => {
            if let (Some(number), Some(origin)) = (table.get("value"), table.get("origin")) {
                let because = match origin {
                    Value::String(word) if word == "default" => return false,
                    Value::Table(because) => because.values().next().and_then(origin_text),
                    _ => None,
                };
                let because = because.unwrap_or(source);
                let text = format!("as on {lender}: {because}");
                let number = number.clone();
                *table = Table::from_iter([
                    ("value".to_owned(), number),
                    ("assumed".to_owned(), Value::String(text)),
                ]);
                return true;
            }
            let own = table.get("source").and_then(Value::as_str);
            let source = own.unwrap_or(source).to_owned();
            table.retain(|_, value| mark_figures_assumed(value, lender, &source));
        }
        _ => {}
    }
    true
}

/// The text of a figure's origin: its own, or what was measured.
fn origin_text(because: &Value) -> Option<&str> {
    because.as_str().or_else(|| because.get("what")?.as_str())
}

#[cfg(test)]
mod tests {
    use crate::Machine;
    use crate::machine::{Origin, builtin_machine_names};

    #[test]
    fn nothing_borrowed_has_a_source() {
        for name in builtin_machine_names() {
            let machine = Machine::find(name).unwrap();
            let borrowed = machine.copy_with_assumed_figures().unwrap();
            let (before, after) = (machine.figures(), borrowed.figures());
            assert_eq!(before.len(), after.len());
            for (own, lent) in before.iter().zip(&after) {
                let (key, own, lent) = (&own.key, &own.figure, &lent.figure);
                assert!((own.value - lent.value).abs() < 1e-9, "{name} {key}");
                match &lent.origin {
                    Origin::Default => assert!(!own.is_given(), "{name} {key}"),
                    Origin::Assumed(why) => assert!(why.contains(name), "{why}"),
                    other => panic!("{name} {key}: {other:?}"),
                }
            }
        }
    }
}
