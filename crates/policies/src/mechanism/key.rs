//! Keys of a mechanism: names, allowed values, and the type after parsing.

use std::fmt;

use wakepath_units::{Kilohertz, Nanoseconds, quantity};

/// Description of a key for help, errors and documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Name of the key.
    pub name: &'static str,
    /// Meaning, on one line.
    pub meaning: &'static str,
    /// Unit for plain numbers; empty without unit.
    pub unit: &'static str,
    /// Default.
    pub fallback: Fallback,
    /// An example value other than the default.
    pub example: &'static str,
}

/// What holds where a key is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// A fixed value.
    Value(&'static str),
    /// Something that depends on the machine or on other keys, in words.
    Derived(&'static str),
    /// Nothing: the key has to be given.
    Required,
}

impl Fallback {
    /// For tables and help.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Value(words) | Self::Derived(words) => words,
            Self::Required => "required",
        }
    }
}

/// A key whose text becomes a `T`.
pub struct Key<T: 'static> {
    /// Description.
    pub info: KeyInfo,
    /// Allowed words and their values.
    pub words: &'static [(&'static str, T)],
    /// Other allowed values.
    pub form: Form<T>,
}

/// What a key may be besides words.
pub enum Form<T> {
    /// Nothing.
    WordsOnly,
    /// A whole number up to a maximum.
    UpTo(u64, fn(u64) -> T),
    /// A time with unit: a multiple of a unit, up to a maximum.
    Time(TimeUnit, u64, fn(Nanoseconds) -> T),
    /// A frequency with unit.
    Frequency(fn(Kilohertz) -> T),
    /// Something else, described in words.
    Text(&'static str, fn(&str) -> Option<T>),
    /// A list with commas, described in words.
    List(&'static str, fn(&str) -> Option<T>),
}

/// Unit whose multiples are allowed as times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
}

impl TimeUnit {
    const fn nanoseconds(self) -> u64 {
        match self {
            Self::Micros => 1_000,
            Self::Millis => 1_000_000,
        }
    }

    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Micros => ("microseconds", "us"),
            Self::Millis => ("milliseconds", "ms"),
        }
    }
}

impl<T: Clone> Key<T> {
    /// Parses a value; `None` if not allowed.
    pub(crate) fn parse(&self, text: &str) -> Option<T> {
        if let Some((_, value)) = self.words.iter().find(|(word, _)| *word == text) {
            return Some(value.clone());
        }
        match self.form {
            Form::WordsOnly => None,
            Form::UpTo(most, make) => quantity::parse_whole_number(text)
                .filter(|n| *n <= most)
                .map(make),
            Form::Time(unit, most, make) => quantity::parse_time(text)
                .filter(|t| t.0 % unit.nanoseconds() == 0 && t.0 / unit.nanoseconds() <= most)
                .map(make),
            Form::Frequency(make) => quantity::parse_frequency(text).map(make),
            Form::Text(_, parse) | Form::List(_, parse) => parse(text),
        }
    }
}

/// A key with any type.
pub trait AnyKey: Sync {
    /// Description of the key.
    fn info(&self) -> &KeyInfo;

    /// Whether `text` is an allowed value.
    fn allows(&self, text: &str) -> bool;

    /// Allowed values, in words.
    fn describe(&self) -> String;

    /// Allowed words.
    fn words(&self) -> Vec<&'static str>;

    /// Whether values may contain commas.
    fn is_list(&self) -> bool;
}

impl<T: Clone + Sync> AnyKey for Key<T> {
    fn info(&self) -> &KeyInfo {
        &self.info
    }

    fn allows(&self, text: &str) -> bool {
        self.parse(text).is_some()
    }

    fn describe(&self) -> String {
        let words = self.words();
        let form = match self.form {
            Form::WordsOnly => return words.join(" or "),
            Form::UpTo(most, _) => format!("a whole number from 0 to {most}"),
            Form::Time(unit, most, _) => {
                let (name, short) = unit.names();
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

    fn words(&self) -> Vec<&'static str> {
        self.words.iter().map(|(word, _)| *word).collect()
    }

    fn is_list(&self) -> bool {
        matches!(self.form, Form::List(..))
    }
}

impl fmt::Debug for dyn AnyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.info().fmt(f)
    }
}

/// `on` or `off`.
pub(crate) const SWITCH: &[(&str, bool)] = &[("on", true), ("off", false)];

/// A key that is on or off.
pub(crate) const fn switch(
    name: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Key<bool> {
    Key {
        info: KeyInfo {
            name,
            meaning,
            unit: "",
            fallback: Fallback::Value(default),
            example: if default.len() == 2 { "off" } else { "on" },
        },
        words: SWITCH,
        form: Form::WordsOnly,
    }
}

/// A key that is a whole number.
pub(crate) const fn number(
    name: &'static str,
    most: u64,
    default: &'static str,
    unit: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key<u64> {
    number_as(name, (most, |n| n), default, unit, example, meaning)
}

/// As [`number`], in another type.
pub(crate) const fn number_as<T>(
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

/// A key with a few allowed words.
pub(crate) const fn choice<T>(
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
