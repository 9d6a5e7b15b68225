//! Figures of a server file: a number together with its origin.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Where a figure of a server comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureOrigin {
    /// A plain number: the file's author says so.
    Declared,
    /// Published, in the source named by the text.
    Source(String),
    /// Measured; the text says on what.
    Measured(String),
    /// Neither published nor measured; the text says why this value.
    Assumed(String),
    /// Chosen so that simulations agree with published results, which the text names.
    Fitted(String),
}

/// A number with its origin, in the unit that its key names. Always finite.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServerFigure {
    /// The number.
    pub value: f64,
    /// Origin of the number.
    pub origin: FigureOrigin,
}

impl ServerFigure {
    /// A figure that the file's author declares.
    pub const fn declared(value: f64) -> Self {
        Self {
            value,
            origin: FigureOrigin::Declared,
        }
    }

    /// Why the figure was assumed; `None` if it was not.
    pub fn assumed_because(&self) -> Option<&str> {
        match &self.origin {
            FigureOrigin::Assumed(why) => Some(why),
            _ => None,
        }
    }

    /// The published results that the figure was fitted to; `None` if it was not.
    pub fn fitted_to(&self) -> Option<&str> {
        match &self.origin {
            FigureOrigin::Fitted(target) => Some(target),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for ServerFigure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FigureVisitor)
    }
}

struct FigureVisitor;

impl<'de> Visitor<'de> for FigureVisitor {
    type Value = ServerFigure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or { value = NUMBER, source|measured|assumed|fitted = \"...\" }")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<ServerFigure, E> {
        Ok(ServerFigure::declared(value as f64))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<ServerFigure, E> {
        Ok(ServerFigure::declared(value as f64))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<ServerFigure, E> {
        Ok(ServerFigure::declared(value))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ServerFigure, A::Error> {
        const KEYS: &[&str] = &["value", "source", "measured", "assumed", "fitted"];
        let (mut value, mut origin) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            let read = match key.as_str() {
                "value" => {
                    value = Some(map.next_value::<f64>()?);
                    continue;
                }
                "source" => FigureOrigin::Source(map.next_value()?),
                "measured" => FigureOrigin::Measured(map.next_value()?),
                "assumed" => FigureOrigin::Assumed(map.next_value()?),
                "fitted" => FigureOrigin::Fitted(map.next_value()?),
                other => return Err(de::Error::unknown_field(other, KEYS)),
            };
            if origin.replace(read).is_some() {
                return Err(de::Error::custom(
                    "a figure has one origin, and this has two",
                ));
            }
        }
        match (value, origin) {
            (Some(value), Some(origin)) => Ok(ServerFigure { value, origin }),
            (None, _) => Err(de::Error::missing_field("value")),
            (Some(_), None) => Err(de::Error::custom(
                "a figure in a table says where it is from: source, measured, assumed or fitted = \"...\"",
            )),
        }
    }
}
