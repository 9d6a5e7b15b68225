//! Keys of a mechanism: what they are called, what they may be, and the type that their text becomes.

use std::fmt;

use wakepath_units::{Kilohertz, Nanoseconds, quantity};

/// What help, errors and documentation say of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its name.
    pub name: &'static str,
    /// What it means, in one line.
    pub meaning: &'static str,
    /// The unit of a plain number; empty if there is none.
    pub unit: &'static str,
    /// What holds where it is not given.
    pub fallback: Fallback,
    /// A value that it may have, other than what holds without it.
    pub example: &'static str,
}

/// What holds where a key is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// This value.
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
    /// What is said of it.
    pub info: KeyInfo,
    /// Words that it may be, and what they stand for.
    pub words: &'static [(&'static str, T)],
    /// What else it may be.
    pub form: Form<T>,
}

/// What a key may be besides words.
pub enum Form<T> {
    /// Nothing.
    WordsOnly,
    /// A whole number from 0 to this one.
    UpTo(u64, fn(u64) -> T),
    /// A time with its unit: a multiple of a unit, up to a longest one.
    Time(TimeUnit, u64, fn(Nanoseconds) -> T),
    /// A frequency with its unit.
    Frequency(fn(Kilohertz) -> T),
    /// Something else, described in words.
    Text(&'static str, fn(&str) -> Option<T>),
    /// A list with commas, described in words.
    List(&'static str, fn(&str) -> Option<T>),
}

/// The unit that a time has to be a whole number of.
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
    /// The value of a text, if it is one of this key.
    pub(crate) fn parse(&self, text: &str) -> Option<T> {
        if let Some((_, value)) = self.words.iter().find(|(word, _)| *word == text) {
            return Some(value.clone());
        }
        match self.form {
            Form::WordsOnly => None,
            Form::UpTo(most, make) => quantity::whole(text).filter(|n| *n <= most).map(make),
            Form::Time(unit, most, make) => quantity::time(text)
                .filter(|t| t.0 % unit.nanoseconds() == 0 && t.0 / unit.nanoseconds() <= most)
                .map(make),
            Form::Frequency(make) => quantity::frequency(text).map(make),
            Form::Text(_, parse) | Form::List(_, parse) => parse(text),
        }
    }
}

/// A key of any type.
pub trait AnyKey: Sync {
    /// What is said of it.
    fn info(&self) -> &KeyInfo;

    /// Whether it may be `text`.
    fn allows(&self, text: &str) -> bool;

    /// What it may be, in words.
    fn describe(&self) -> String;

    /// The words that it may be.
    fn words(&self) -> Vec<&'static str>;

    /// Whether its value may have commas.
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

/// A key that is one of a few words.
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
