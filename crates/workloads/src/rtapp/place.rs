//! JSON values with their position in the rt-app file, for messages.

use std::collections::HashSet;

use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use wakepath_units::spelling::similar_name;

use super::RtAppError;
use crate::text::escape_and_shorten;

/// Byte positions at which the lines of a text begin.
#[derive(Debug)]
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        // A position beyond the last line's end belongs to the last line.
        let lines = text.strip_suffix('\n').unwrap_or(text);
        Self(lines.match_indices('\n').map(|(at, _)| at).collect())
    }

    /// The number of the line with a byte, counted from 1.
    pub(super) fn line_at_byte(&self, byte: usize) -> usize {
        self.0.partition_point(|end| *end < byte) + 1
    }
}

/// A position in an rt-app file: the path of keys, and the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) origin: &'a str,
    pub(super) lines: &'a Lines,
    /// Keys on the way from the root to this place; empty at the root.
    path: &'a str,
    byte: usize,
}

impl<'a> Place<'a> {
    pub(super) fn root(origin: &'a str, lines: &'a Lines) -> Self {
        Self {
            origin,
            lines,
            path: "",
            byte: 0,
        }
    }

    pub(super) fn line(&self) -> usize {
        self.lines.line_at_byte(self.byte)
    }

    /// A problem here.
    pub(super) fn error(&self, message: impl Into<String>) -> RtAppError {
        RtAppError {
            origin: self.origin.to_owned(),
            line: Some(self.line()),
            key: (!self.path.is_empty()).then(|| self.path.to_owned()),
            message: message.into(),
            suggestion: None,
            also: Box::default(),
        }
    }

    /// The error for an unknown name at this place, with the nearest of the `known` names.
    pub(super) fn unknown_name_error<'k>(
        &self,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) -> RtAppError {
        RtAppError {
            suggestion: similar_name(name, known).map(Box::from),
            ..self.error(format!(
                "{what} `{}` is not known",
                escape_and_shorten(name)
            ))
        }
    }
}

/// A key in a JSON object, with its value and position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a, 'v> {
    pub(super) name: &'v str,
    /// Whether the same object has this key before, too.
    pub(super) again: bool,
    pub(super) value: &'v Value<'a>,
    pub(super) place: Place<'v>,
}

/// Calls `each` for every key of a JSON object, in the order of the file.
pub(super) fn for_each_entry<'a>(
    object: &Object<'a>,
    place: &Place<'_>,
    mut each: impl FnMut(Entry<'a, '_>) -> Result<(), RtAppError>,
) -> Result<(), RtAppError> {
    let mut seen = HashSet::with_capacity(object.properties.len());
    for ObjectProp { range, name, value } in &object.properties {
        let name = name.as_str();
        let path = match place.path {
            "" => escape_and_shorten(name),
            parent => format!("{parent}.{}", escape_and_shorten(name)),
        };
        each(Entry {
            name,
            again: !seen.insert(name),
            value,
            place: Place {
                path: &path,
                byte: range.start,
                ..*place
            },
        })?;
    }
    Ok(())
}

/// The kind of a JSON value in words, for messages.
fn kind_in_words(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "is a string",
        Value::NumberLit(_) => "is a number",
        Value::BooleanLit(_) => "is a boolean",
        Value::Object(_) => "is an object",
        Value::Array(_) => "is an array",
        Value::NullKeyword(_) => "has no value",
    }
}

impl<'a, 'v> Entry<'a, 'v> {
    fn wrong_type_error(&self, wanted: &str) -> RtAppError {
        let mut place = self.place;
        place.byte = self.value.range().start;
        place.error(format!("{}; {wanted} is wanted", kind_in_words(self.value)))
    }

    /// Whether the key has no value: `null`, or nothing before `workgen` filled it in.
    pub(super) fn has_no_value(&self) -> bool {
        matches!(self.value, Value::NullKeyword(_))
    }

    pub(super) fn object(&self) -> Result<&'v Object<'a>, RtAppError> {
        match self.value {
            Value::Object(object) => Ok(object),
            _ => Err(self.wrong_type_error("an object")),
        }
    }

    pub(super) fn array(&self) -> Result<&'v Array<'a>, RtAppError> {
        match self.value {
            Value::Array(array) => Ok(array),
            _ => Err(self.wrong_type_error("an array")),
        }
    }

    pub(super) fn text(&self) -> Result<&'v str, RtAppError> {
        match self.value {
            Value::StringLit(text) => Ok(&text.value),
            _ => Err(self.wrong_type_error("a string")),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, RtAppError> {
        match self.value {
            Value::BooleanLit(boolean) => Ok(boolean.value),
            _ => Err(self.wrong_type_error("true or false")),
        }
    }

    /// The value as an integer between `least` and `most`.
    pub(super) fn integer(&self, least: i64, most: i64) -> Result<i64, RtAppError> {
        let Value::NumberLit(number) = self.value else {
            return Err(self.wrong_type_error("a whole number"));
        };
        let place = self.place;
        let number: i64 = number.value.parse().map_err(|_| {
            place.error(format!(
                "`{}` is no whole number",
                escape_and_shorten(number.value)
            ))
        })?;
        if (least..=most).contains(&number) {
            Ok(number)
        } else {
            Err(place.error(format!("{number} is not between {least} and {most}")))
        }
    }
}
