//! A published value beside the simulated one.

use std::fmt;

use serde::Serialize;

use crate::plan::published::{Published, format_decimal};

/// A cell in a reproduced table: the published and the simulated value.
#[derive(Clone, Debug, Serialize)]
pub struct TableCell {
    /// Labels of the cell, one per table column.
    pub labels: Vec<String>,
    /// Published value.
    pub published: Published,
    /// Simulated value.
    pub simulated: Value,
    /// Relative error: simulated over published, minus 1, if both are numbers.
    pub relative_error: Option<f64>,
    /// Whether the simulated value is what was published, where no tolerance is needed: texts and bounds.
    pub agrees: Option<bool>,
    /// Whether a model was fitted with this cell in view.
    pub fitted: bool,
}

/// A simulated value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A simulated text: something other than a number.
    Text(String),
}

impl TableCell {
    /// A cell that compares a published with a simulated value.
    pub fn new(labels: Vec<String>, published: Published, simulated: Value, fitted: bool) -> Self {
        let (mut relative_error, mut agrees) = (None, None);
        match (&published, &simulated) {
            (Published::Number(_) | Published::Runs(_), Value::Number(got)) => {
                relative_error = published
                    .number_or_median()
                    .map(|wanted| got / wanted - 1.0);
            }
            (Published::Between { from, to }, Value::Number(got)) => {
                agrees = Some(from.is_none_or(|f| *got >= f) && to.is_none_or(|t| *got <= t));
            }
            (Published::Text(wanted), Value::Text(got)) => agrees = Some(wanted == got),
            _ => {}
        }
        Self {
            labels,
            published,
            simulated,
            relative_error,
            agrees,
            fitted,
        }
    }

    /// All labels of the cell joined into one text.
    pub fn label_text(&self) -> String {
        self.labels.join(" / ")
    }
}

impl Value {
    /// The simulated number; `None` for a text.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => f.write_str(&format_decimal(*number)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(published: Published, simulated: Value) -> TableCell {
        TableCell::new(Vec::new(), published, simulated, false)
    }

    #[test]
    fn published_and_simulated_values_compare_and_print() {
        let near = cell(Published::Runs(vec![1.0, 50.0, 9.0]), Value::Number(9.9));
        assert!((near.relative_error.unwrap() - 0.1).abs() < 1e-9 && near.agrees.is_none());
        for (from, to, agrees, text) in [
            (Some(0.0), None, true, "above 0"),
            (Some(1.0), None, false, "above 1"),
            (None, Some(-2.0), false, "below -2"),
            (Some(-2.0), Some(2.0), true, "-2 to 2"),
        ] {
            let cell = cell(Published::Between { from, to }, Value::Number(0.5));
            assert_eq!(cell.agrees, Some(agrees));
            assert_eq!(cell.published.to_string(), text);
        }
        let text = Published::Text("PS3".into());
        assert_eq!(cell(text, Value::Text("PS4".into())).agrees, Some(false));
        assert_eq!(cell(Published::Nothing, Value::Number(1.0)).agrees, None);
        let printed = [0.0, -61.96, 62.0, 100.0, 2622.4, 0.6].map(format_decimal);
        assert_eq!(printed, ["0", "-62", "62", "100", "2622", "0.6"]);
    }
}
