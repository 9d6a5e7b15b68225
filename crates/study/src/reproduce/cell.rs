//! A published value beside the simulated one.

use std::fmt;

use serde::Serialize;

/// A value of an experiment, published and simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// What it belongs to, one per column of the section.
    pub labels: Vec<String>,
    /// What was published.
    pub published: Published,
    /// What the simulator gives.
    pub simulated: Value,
    /// Simulated over published, minus 1, if both are numbers.
    pub relative_error: Option<f64>,
    /// Whether the simulated value is what was published, as far as that can be said without a
    /// tolerance: texts and bounds.
    pub agrees: Option<bool>,
    /// Whether a model was fitted with this cell in view.
    pub fitted: bool,
}

/// A published value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Published {
    /// Nothing was published for this cell.
    Nothing,
    /// A number.
    Number(f64),
    /// Runs of which the median counts.
    Runs(Vec<f64>),
    /// A bound or two.
    Between {
        /// Lower bound, if any.
        from: Option<f64>,
        /// Upper bound, if any.
        to: Option<f64>,
    },
    /// Something other than a number.
    Text(String),
}

/// A simulated value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// Something other than a number.
    Text(String),
}

impl Cell {
    /// Compares what was published with what was simulated.
    pub fn new(labels: Vec<String>, published: Published, simulated: Value, fitted: bool) -> Self {
        let (mut relative_error, mut agrees) = (None, None);
        match (&published, &simulated) {
            (Published::Number(_) | Published::Runs(_), Value::Number(got)) => {
                relative_error = published.number().map(|wanted| got / wanted - 1.0);
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
}

impl Published {
    /// From one bound to another, both included.
    pub fn between(from: f64, to: f64) -> Self {
        Self::Between {
            from: Some(from),
            to: Some(to),
        }
    }

    /// The number, or the median of the runs.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Runs(runs) => Some(wakepath_sim::median(runs.clone())),
            _ => None,
        }
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing
            | Self::Between {
                from: None,
                to: None,
            } => Ok(()),
            Self::Number(_) | Self::Runs(_) => {
                f.write_str(&decimal(self.number().unwrap_or_default()))
            }
            Self::Between {
                from: Some(from),
                to: None,
            } => {
                write!(f, "above {}", decimal(*from))
            }
            Self::Between {
                from: None,
                to: Some(to),
            } => write!(f, "below {}", decimal(*to)),
            Self::Between {
                from: Some(from),
                to: Some(to),
            } => {
                write!(f, "{} to {}", decimal(*from), decimal(*to))
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => f.write_str(&decimal(*number)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A number for people, with three significant figures or all digits before the point.
fn decimal(number: f64) -> String {
    let decimals = match number.abs() {
        n if n >= 100.0 || n == 0.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{number:.decimals$}");
    // No trailing zeros, so that a published 62 stays 62.
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_and_simulated_values_compare_and_print() {
        let cell = |published, simulated| Cell::new(Vec::new(), published, simulated, false);
        let near = cell(Published::Runs(vec![1.0, 50.0, 9.0]), Value::Number(9.9));
        assert!((near.relative_error.unwrap() - 0.1).abs() < 1e-9 && near.agrees.is_none());
        let bounds = |from, to| Published::Between { from, to };
        for (from, to, agrees, text) in [
            (Some(0.0), None, true, "above 0"),
            (Some(1.0), None, false, "above 1"),
            (None, Some(-2.0), false, "below -2"),
            (Some(-2.0), Some(2.0), true, "-2 to 2"),
        ] {
            let cell = cell(bounds(from, to), Value::Number(0.5));
            assert_eq!(cell.agrees, Some(agrees));
            assert_eq!(cell.published.to_string(), text);
        }
        let text = Published::Text("PS3".into());
        assert_eq!(cell(text, Value::Text("PS4".into())).agrees, Some(false));
        assert_eq!(cell(Published::Nothing, Value::Number(1.0)).agrees, None);
        let printed = [0.0, -61.96, 62.0, 100.0, 2622.4, 0.6].map(decimal);
        assert_eq!(printed, ["0", "-62", "62", "100", "2622", "0.6"]);
    }
}
