//! A published value.

use std::fmt;

use serde::Serialize;
use wakepath_units::median;

use crate::file::Printed;

/// A published value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Published {
    /// No published value.
    Nothing,
    /// A number.
    Number(f64),
    /// Published values of several runs; the median counts.
    Runs(Vec<f64>),
    /// Published bounds, one or two, both included.
    Between {
        /// Lower bound, if published.
        from: Option<f64>,
        /// Upper bound, if published.
        to: Option<f64>,
    },
    /// A published text: something other than a number.
    Text(String),
}

impl Published {
    /// The published number, or the median of several runs; `None` for bounds and texts.
    pub fn number_or_median(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Runs(runs) => median(runs.iter().copied()),
            _ => None,
        }
    }
}

impl From<&Printed> for Published {
    fn from(printed: &Printed) -> Self {
        match printed {
            Printed::Number(number) => Self::Number(*number),
            Printed::Runs(runs) => Self::Runs(runs.clone()),
            Printed::Text(text) => Self::Text(text.clone()),
        }
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Number(_) | Self::Runs(_) => {
                f.write_str(&format_decimal(self.number_or_median().unwrap_or_default()))
            }
            Self::Between { from, to } => match (from, to) {
                (None, None) => Ok(()),
                (Some(from), None) => write!(f, "above {}", format_decimal(*from)),
                (None, Some(to)) => write!(f, "below {}", format_decimal(*to)),
                (Some(from), Some(to)) => {
                    write!(f, "{} to {}", format_decimal(*from), format_decimal(*to))
                }
            },
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Formats a number for people, with three significant figures or all digits before the point.
pub fn format_decimal(number: f64) -> String {
    let decimals = match number.abs() {
        n if n >= 100.0 || n == 0.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{number:.decimals$}");
    // No zeros are added behind the point: a published 62 stays 62.
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}
