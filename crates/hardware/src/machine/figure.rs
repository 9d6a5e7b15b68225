//! A number together with where it comes from.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Where a figure comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Missing in the file, and counted as 0.
    Default,
    /// Covered by the `source` in the same table.
    Table,
    /// Own source.
    Source(String),
    /// Fitted to published results, named in the text.
    Fitted(String),
    /// Neither published nor fitted; the text says why this value.
    Assumed(String),
}

impl Origin {
    /// Name of the kind of origin, as a machine file has it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Table | Self::Source(_) => "source",
            Self::Fitted(_) => "fitted",
            Self::Assumed(_) => "assumed",
        }
    }
}

/// A number of a machine description with its [`Origin`]. Written as a plain number, or as
/// `{ value = 3.5, source = "..." }` with `source`, `fitted` or `assumed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The number, in the unit that the key names.
    pub value: f64,
    /// Origin of the value.
    pub origin: Origin,
}

impl Figure {
    /// A figure covered by the table's source.
    pub const fn plain(value: f64) -> Self {
        Self {
            value,
            origin: Origin::Table,
        }
    }

    /// A figure with an own source.
    pub fn sourced(value: f64, source: impl Into<String>) -> Self {
        Self {
            value,
            origin: Origin::Source(source.into()),
        }
    }

    /// An assumed figure, with the reason.
    pub fn assumed(value: f64, why: impl Into<String>) -> Self {
        Self {
            value,
            origin: Origin::Assumed(why.into()),
        }
    }

    /// Whether the file gives the figure at all.
    pub fn is_given(&self) -> bool {
        self.origin != Origin::Default
    }

    /// The results that the figure was fitted to, if any.
    pub fn fitted_to(&self) -> Option<&str> {
        match &self.origin {
            Origin::Fitted(to) => Some(to),
            _ => None,
        }
    }
}

impl Default for Figure {
    fn default() -> Self {
        Self {
            value: 0.0,
            origin: Origin::Default,
        }
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FigureVisitor)
    }
}

struct FigureVisitor;

impl<'de> Visitor<'de> for FigureVisitor {
    type Value = Figure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or { value = NUMBER, source|fitted|assumed = \"...\" }")
    }

    fn visit_i64<E: de::Error>(self, v: i64) -> Result<Figure, E> {
        Ok(Figure::plain(v as f64))
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<Figure, E> {
        Ok(Figure::plain(v as f64))
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Figure, E> {
        Ok(Figure::plain(v))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Figure, A::Error> {
        let mut value = None;
        let mut origin = None;
        while let Some(key) = map.next_key::<String>()? {
            let parsed = match key.as_str() {
                "value" => {
                    value = Some(map.next_value::<f64>()?);
                    continue;
                }
                "source" => Origin::Source(map.next_value()?),
                "fitted" => Origin::Fitted(map.next_value()?),
                "assumed" => Origin::Assumed(map.next_value()?),
                other => {
                    return Err(de::Error::unknown_field(
                        other,
                        &["value", "source", "fitted", "assumed"],
                    ));
                }
            };
            if origin.replace(parsed).is_some() {
                return Err(de::Error::custom(
                    "a figure has one origin: source, fitted or assumed",
                ));
            }
        }
        Ok(Figure {
            value: value.ok_or_else(|| de::Error::missing_field("value"))?,
            origin: origin.ok_or_else(|| {
                de::Error::custom("say where the value comes from: source, fitted or assumed")
            })?,
        })
    }
}
