//! Keys of a mechanism: names, allowed values, and the type after parsing.

use std::fmt;

use wakepath_units::{Kilohertz, Nanoseconds, quantity};

/// Description of a mechanism's key for help, errors and documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Name of the key, as in `psd[timeout=3ms]`.
    pub name: &'static str,
    /// What the key sets, on one line.
    pub meaning: &'static str,
    /// Unit for plain numbers as the key's value; empty without unit.
    pub unit: &'static str,
    /// Default.
    pub fallback: Fallback,
    /// Example of a value for the key, other than the default.
    pub example: &'static str,
}

/// Value of a key that the user did not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// A fixed value.
    Value(&'static str),
    /// A default that depends on the machine or on other keys, in words.
    Derived(&'static str),
    /// No default: the user has to give the key.
    Required,
}

impl Fallback {
    /// Default in words for tables and help; `required` without one.
    pub fn text_or_required(self) -> &'static str {
        match self {
            Self::Value(words) | Self::Derived(words) => words,
            Self::Required => "required",
        }
    }
}

/// A mechanism's key whose text becomes a `T`.
pub struct Key<T: 'static> {
    /// Description.
    pub info: KeyInfo,
    /// Words that the key accepts, with their values.
    pub words: &'static [(&'static str, T)],
    /// Other allowed values.
    pub form: Form<T>,
}

/// Values that a key accepts besides its words.
pub enum Form<T> {
    /// Nothing.
    WordsOnly,
    /// A key accepts whole numbers up to a maximum.
    UpTo(u64, fn(u64) -> T),
    /// A key accepts times with unit: multiples of a unit, up to a maximum.
    Time(TimeUnit, u64, fn(Nanoseconds) -> T),
    /// A key accepts frequencies with unit.
    Frequency(fn(Kilohertz) -> T),
    /// A key accepts other text, described in words; `None` from the function: not allowed.
    Text(&'static str, fn(&str) -> Option<T>),
    /// A key accepts lists with commas, described in words; `None` from the function: not allowed.
    List(&'static str, fn(&str) -> Option<T>),
}

/// Unit whose multiples a key accepts as times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
}

impl TimeUnit {
    const fn in_nanoseconds(self) -> u64 {
        match self {
            Self::Micros => 1_000,
            Self::Millis => 1_000_000,
        }
    }

    const fn name_and_abbreviation(self) -> (&'static str, &'static str) {
        match self {
            Self::Micros => ("microseconds", "us"),
            Self::Millis => ("milliseconds", "ms"),
        }
    }
}

impl<T: Clone> Key<T> {
    /// Parses the text of a key's value; `None` if not allowed.
    pub(crate) fn parse_value(&self, text: &str) -> Option<T> {
        if let Some((_, value)) = self.words.iter().find(|(word, _)| *word == text) {
            return Some(value.clone());
        }
        match self.form {
            Form::WordsOnly => None,
            Form::UpTo(most, make) => quantity::parse_whole_number(text)
                .filter(|n| *n <= most)
                .map(make),
            Form::Time(unit, most, make) => quantity::parse_time(text)
                .filter(|t| t.0 % unit.in_nanoseconds() == 0 && t.0 / unit.in_nanoseconds() <= most)
                .map(make),
            Form::Frequency(make) => quantity::parse_frequency(text).map(make),
            Form::Text(_, parse) | Form::List(_, parse) => parse(text),
        }
    }
}

/// A mechanism's key, whatever the type of its value.
pub trait AnyKey: Sync {
    /// Description of the key for help, errors and documentation.
    fn key_info(&self) -> &KeyInfo;

    /// Whether the key accepts `text` as its value.
    fn accepts_value(&self, text: &str) -> bool;

    /// Values that the key accepts, in words.
    fn describe_accepted_values(&self) -> String;

    /// Allowed words.
    fn accepted_words(&self) -> Vec<&'static str>;

    /// Whether values of the key may contain commas.
    fn accepts_list(&self) -> bool;
}

impl<T: Clone + Sync> AnyKey for Key<T> {
    fn key_info(&self) -> &KeyInfo {
        &self.info
    }

    fn accepts_value(&self, text: &str) -> bool {
        self.parse_value(text).is_some()
    }

    fn describe_accepted_values(&self) -> String {
        let words = self.accepted_words();
        let form = match self.form {
            Form::WordsOnly => return words.join(" or "),
            Form::UpTo(most, _) => format!("a whole number from 0 to {most}"),
            Form::Time(unit, most, _) => {
                let (name, short) = unit.name_and_abbreviation();
                let example = self.info.example;
                format!("whole {name} such as {example}, from 0{short} to {most}{short}")
            }
            Form::Frequency(_) => format!("a frequency such as {}", self.info.example),
            Form::Text(what, _) | Form::List(what, _) => what.to_owned(),
        };
        if words.is_empty() {
            form
        } else {
            format!("{} or {form}", words.join(", "))
        }
    }

    fn accepted_words(&self) -> Vec<&'static str> {
        self.words.iter().map(|(word, _)| *word).collect()
    }

    fn accepts_list(&self) -> bool {
        matches!(self.form, Form::List(..))
    }
}

impl fmt::Debug for dyn AnyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key_info().fmt(f)
    }
}

/// `on` or `off`.
pub(crate) const SWITCH: &[(&str, bool)] = &[("on", true), ("off", false)];

/// Makes a key whose value is `on` or `off`.
pub(crate) const fn switch_key(
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key<bool> {
    let example = if default.len() == 2 { "off" } else { "on" };
    choice_key(name, SWITCH, default, example, meaning)
}

/// Makes a key whose value is `on` or `off`, and that has to be given.
pub(crate) const fn required_switch_key(
    name: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key<bool> {
    Key {
        info: KeyInfo {
            name,
            meaning,
            unit: "",
            fallback: Fallback::Required,
            example,
        },
        words: SWITCH,
        form: Form::WordsOnly,
    }
}

/// Makes a key whose value is a whole number up to `most`.
pub(crate) const fn number_key(
    name: &'static str,
    most: u64,
    default: &'static str,
    unit: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key<u64> {
    number_key_as(name, (most, |n| n), default, unit, example, meaning)
}

/// Makes a key whose value is a whole number up to `most`, converted to another type by `make`.
pub(crate) const fn number_key_as<T>(
    name: &'static str,
    (most, make): (u64, fn(u64) -> T),
    default: &'static str,
    unit: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key<T> {
    Key {
        info: KeyInfo {
            name,
            meaning,
            unit,
            fallback: Fallback::Value(default),
            example,
        },
        words: &[],
        form: Form::UpTo(most, make),
    }
}

/// Makes a key whose value is one of a few words.
pub(crate) const fn choice_key<T>(
    name: &'static str,
    words: &'static [(&'static str, T)],
    default: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key<T> {
    Key {
        info: KeyInfo {
            name,
            meaning,
            unit: "",
            fallback: Fallback::Value(default),
            example,
        },
        words,
        form: Form::WordsOnly,
    }
}
