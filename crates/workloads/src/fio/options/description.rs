//! fio options as described to users: values and defaults come from what parses and prints them.

use std::fmt;

use super::row::{FioTimeUnit, OptionRow, OptionSupport, Printer, Setter, ValueKind};
use crate::fio::FioJob;

/// A fio option in words for users. Texts are Markdown, with links for a page in `docs/reference/`.
#[derive(Clone, Debug)]
pub struct OptionDescription {
    /// fio's names for the option, the preferred name first.
    pub names: &'static [&'static str],
    /// How far the option is supported.
    pub support: OptionSupport,
    /// What may stand behind the `=`.
    pub values: OptionValues,
    /// Value of a job without the option; empty if there is none.
    pub default: String,
    /// What the option does, when a job may have it, or why it is ignored or refused.
    pub note: &'static str,
}

/// What may stand behind the `=` of a fio option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionValues {
    /// `0`, `1` or nothing.
    Flag,
    /// `0` or `1`.
    Switch,
    /// A number in a range, with both bounds.
    Count {
        /// Smallest number.
        least: u32,
        /// Largest number.
        most: u32,
    },
    /// 0 to 100.
    Percent,
    /// Any text but none.
    Text,
    /// A time with or without a unit.
    Time {
        /// Unit of a time without a unit.
        default_unit: FioTimeUnit,
    },
    /// One of some names.
    Names(Vec<&'static str>),
    /// Values in Markdown.
    InWords(&'static str),
}

impl fmt::Display for OptionValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Switch => f.write_str("0 or 1"),
            Self::Count { most: u32::MAX, .. } => f.write_str("count"),
            Self::Count { least, most } => write!(f, "{least} to {most}"),
            Self::Percent => f.write_str("0 to 100 %"),
            Self::Text => f.write_str("text"),
            Self::Time { default_unit } => {
                let unit = match default_unit {
                    FioTimeUnit::Microsecond => "microseconds",
                    FioTimeUnit::Second => "seconds",
                };
                write!(f, "time, {unit} without a unit")
            }
            Self::Names(names) => {
                let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                f.write_str(&quoted.join(" "))
            }
            Self::InWords(words) => f.write_str(words),
        }
    }
}

impl OptionRow {
    pub(super) fn describe(&self) -> OptionDescription {
        OptionDescription {
            names: self.names,
            support: self.support,
            values: self.describe_values(),
            default: self.describe_default(),
            note: match self.support {
                OptionSupport::Full | OptionSupport::Depends => self.note,
                OptionSupport::Ignored(why) | OptionSupport::Refused(why) => {
                    why.strip_prefix("is ignored: ").unwrap_or(why)
                }
            },
        }
    }

    fn describe_values(&self) -> OptionValues {
        if let Some(words) = self.values_in_words {
            return OptionValues::InWords(words);
        }
        match self.setter {
            _ if self.kind == ValueKind::Flag => OptionValues::Flag,
            None | Some(Setter::Custom(_)) => OptionValues::InWords(""),
            Some(Setter::Switch(_)) => OptionValues::Switch,
            Some(Setter::Count { least, most, .. }) => OptionValues::Count { least, most },
            Some(Setter::Percent(_)) => OptionValues::Percent,
            Some(Setter::Text(_)) => OptionValues::Text,
            Some(Setter::Time { default_unit, .. }) => OptionValues::Time { default_unit },
            Some(Setter::Choice { list_names, .. }) => OptionValues::Names(list_names()),
        }
    }

    fn describe_default(&self) -> String {
        if let Some(words) = self.default_in_words {
            return words.to_owned();
        }
        let job = FioJob::default();
        let printed = match self.printer {
            Printer::Nothing => None,
            Printer::IfSome(print) => print(&job),
            Printer::UnlessDefault(print) => Some(print(&job)),
        };
        let Some(value) = printed else {
            return String::new();
        };
        let default = shorten_repeated_parts(&value);
        match (self.kind, default) {
            (ValueKind::Flag, "0") => "off".to_owned(),
            (ValueKind::Flag, _) => "on".to_owned(),
            (_, "0us") => "0".to_owned(),
            (_, name) if name.starts_with(|c: char| c.is_ascii_alphabetic()) => format!("`{name}`"),
            (_, number) => number.to_owned(),
        }
    }
}

/// The first part of a value such as `4096,4096,4096` or `0us-0us` with equal parts, else the whole value.
fn shorten_repeated_parts(value: &str) -> &str {
    for separator in [',', '-'] {
        if let Some((first, rest)) = value.split_once(separator)
            && rest.split(separator).all(|part| part == first)
        {
            return first;
        }
    }
    value
}
