//! A number together with where it comes from.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use wakepath_units::{Microwatts, Nanoseconds};

/// Where a figure comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Missing in the file, and counted as 0.
    Default,
    /// Covered by the `source` in the same table.
    Table,
    /// Published, in the source named by the text. Files may write `source` or `published`.
    Source(String),
    /// Declared by firmware, driver or device named in the text.
    Declared(String),
    /// Measured by `wakepath measure` on the machine that the file describes.
    Measured(Measurement),
    /// Fitted to published results, named in the text.
    Fitted(String),
    /// Neither published nor fitted; the text says why this value.
    Assumed(String),
}

impl Origin {
    /// The name that a machine file has for this kind of origin.
    pub const fn origin_kind_name(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Table | Self::Source(_) => "source",
            Self::Declared(_) => "declared",
            Self::Measured(_) => "measured",
            Self::Fitted(_) => "fitted",
            Self::Assumed(_) => "assumed",
        }
    }

    /// Where the value comes from, in words; a plain figure has `table_source`.
    pub fn describe_origin(&self, table_source: &str) -> String {
        match self {
            Self::Default => "not given".to_owned(),
            Self::Table => table_source.to_owned(),
            Self::Measured(measurement) => measurement.to_string(),
            Self::Source(why) | Self::Declared(why) | Self::Fitted(why) | Self::Assumed(why) => {
                why.clone()
            }
        }
    }
}

/// What a measured figure rests on. A figure is stale where the kernel of today is another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    /// Number of samples, at least 1.
    pub n: u64,
    /// Lower end of the 95 % interval, in the figure's unit. Absent: no interval is known, as for a mean that the kernel counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper end of the 95 % interval, in the figure's unit. Absent with `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Day of the measurement: YYYY-MM-DD, in UTC.
    pub date: String,
    /// Release of the kernel that ran, as `uname -r` prints it.
    pub kernel: String,
    /// Statistic and conditions, such as "mean of 4 KiB random reads at depth 1".
    pub what: String,
}

impl Measurement {
    /// Ends of the 95 % interval, in the figure's unit; `None` if no interval is known.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            n,
            date,
            kernel,
            what,
            ..
        } = self;
        write!(f, "{what}; n {n}, ")?;
        if let Some((low, high)) = self.interval() {
            write!(f, "95 % interval {low} to {high}, ")?;
        }
        write!(f, "{date}, Linux {kernel}")
    }
}

/// A number of a machine description with its [`Origin`]. Written as a plain number, or as
/// `{ value = 3.5, source = "..." }` with `source`, `declared`, `measured`, `fitted` or `assumed`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The number, in the unit that the key names.
    pub value: f64,
    /// Origin of the value.
    pub origin: Origin,
}

impl Figure {
    /// A plain figure, which the table's source covers.
    pub const fn covered_by_table_source(value: f64) -> Self {
        Self {
            value,
            origin: Origin::Table,
        }
    }

    /// A figure with a published source of its own.
    pub fn with_own_source(value: f64, source: impl Into<String>) -> Self {
        Self {
            value,
            origin: Origin::Source(source.into()),
        }
    }

    /// An assumed figure, with the reason for its value.
    pub fn assumed(value: f64, why: impl Into<String>) -> Self {
        Self {
            value,
            origin: Origin::Assumed(why.into()),
        }
    }

    /// A figure that was measured on the machine that it describes.
    pub const fn measured_here(value: f64, measurement: Measurement) -> Self {
        Self {
            value,
            origin: Origin::Measured(measurement),
        }
    }

    /// Whether the machine file gives the figure at all.
    pub fn is_given(&self) -> bool {
        self.origin != Origin::Default
    }

    /// Takes over another figure, if the other one is given.
    pub(super) fn replace_if_given(&mut self, other: &Self) {
        if other.is_given() {
            self.clone_from(other);
        }
    }

    /// The results that the figure was fitted to; `None` if it was not fitted.
    pub fn fitted_to(&self) -> Option<&str> {
        match &self.origin {
            Origin::Fitted(to) => Some(to),
            _ => None,
        }
    }
}

impl Figure {
    /// The figure as a time, if its value is in microseconds.
    pub fn micros_to_time(&self) -> Nanoseconds {
        microseconds_to_nanoseconds(self.value)
    }

    /// The figure as a time, if its value is in milliseconds.
    pub fn millis_to_time(&self) -> Nanoseconds {
        microseconds_to_nanoseconds(self.value * 1e3)
    }

    /// The figure as a number of cycles, if its value is in thousands of cycles.
    pub fn kilocycles_to_cycles(&self) -> u64 {
        (self.value * 1e3).round() as u64
    }

    /// The figure as a power, if its value is in milliwatts.
    pub fn milliwatts_to_power(&self) -> Microwatts {
        Microwatts((self.value * 1e3).round() as u64)
    }

    /// The figure as a power, if its value is in watts.
    pub fn watts_to_power(&self) -> Microwatts {
        Microwatts((self.value * 1e6).round() as u64)
    }
}

/// A time in microseconds as nanoseconds, rounded.
fn microseconds_to_nanoseconds(us: f64) -> Nanoseconds {
    Nanoseconds((us * 1e3).round() as u64)
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

impl JsonSchema for Figure {
    fn schema_name() -> Cow<'static, str> {
        "Figure".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "number" },
                {
                    "type": "object",
                    "properties": {
                        "value": { "type": "number" },
                        "source": { "type": "string" },
                        "published": { "type": "string" },
                        "declared": { "type": "string" },
                        "measured": { "type": "object" },
                        "fitted": { "type": "string" },
                        "assumed": { "type": "string" },
                    },
                    "required": ["value"],
                    "minProperties": 2,
                    "maxProperties": 2,
                    "additionalProperties": false,
                },
            ],
        })
    }
}

struct FigureVisitor;

impl<'de> Visitor<'de> for FigureVisitor {
    type Value = Figure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a number, or { value = NUMBER, source|declared|fitted|assumed = \"...\" }, or measured = { ... }",
        )
    }

    fn visit_i64<E: de::Error>(self, v: i64) -> Result<Figure, E> {
        Ok(Figure::covered_by_table_source(v as f64))
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<Figure, E> {
        Ok(Figure::covered_by_table_source(v as f64))
    }

    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Figure, E> {
        Ok(Figure::covered_by_table_source(v))
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
                "source" | "published" => Origin::Source(map.next_value()?),
                "declared" => Origin::Declared(map.next_value()?),
                "measured" => Origin::Measured(refuse_impossible_measurement(map.next_value()?)?),
                "fitted" => Origin::Fitted(map.next_value()?),
                "assumed" => Origin::Assumed(map.next_value()?),
                other => {
                    return Err(de::Error::unknown_field(
                        other,
                        &[
                            "value", "source", "declared", "measured", "fitted", "assumed",
                        ],
                    ));
                }
            };
            if origin.replace(parsed).is_some() {
                return Err(de::Error::custom(
                    "a figure has one origin: source, declared, measured, fitted or assumed",
                ));
            }
        }
        Ok(Figure {
            value: value.ok_or_else(|| de::Error::missing_field("value"))?,
            origin: origin.ok_or_else(|| {
                de::Error::custom(
                    "say where the value comes from: source, declared, measured, fitted or assumed",
                )
            })?,
        })
    }
}

/// Refuses a measurement without samples, or whose interval has one end only or the wrong order.
fn refuse_impossible_measurement<E: de::Error>(measurement: Measurement) -> Result<Measurement, E> {
    let Measurement { n, low, high, .. } = measurement;
    let is_possible = match (low, high) {
        (None, None) => true,
        (Some(low), Some(high)) => low.is_finite() && high.is_finite() && low <= high,
        _ => false,
    };
    if n == 0 || !is_possible {
        let [low, high] =
            [low, high].map(|end| end.map_or("absent".to_owned(), |end| end.to_string()));
        return Err(E::custom(format!(
            "measured: expected n >= 1, and low <= high or neither, not n = {n}, low = {low}, high = {high}"
        )));
    }
    Ok(measurement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Figure, String> {
        let table: toml::Table = format!("figure = {text}").parse().unwrap();
        table["figure"]
            .clone()
            .try_into()
            .map_err(|e: toml::de::Error| e.message().to_owned())
    }

    #[test]
    fn every_origin_is_read() {
        let published = parse("{ value = 3, published = \"a paper\" }").unwrap();
        assert_eq!(published, Figure::with_own_source(3.0, "a paper"));
        let declared = parse("{ value = 3, declared = \"_CST\" }").unwrap();
        assert_eq!(declared.origin, Origin::Declared("_CST".to_owned()));
        let text = "{ value = 37.5, measured = { n = 900, low = 37, high = 38.5, date = \"2026-11-27\", \
                    kernel = \"6.12.48\", what = \"mean read\" } }";
        let measured = parse(text).unwrap();
        let Origin::Measured(measurement) = &measured.origin else {
            panic!("{measured:?}");
        };
        assert_eq!(
            measurement.to_string(),
            "mean read; n 900, 95 % interval 37 to 38.5, 2026-11-27, Linux 6.12.48"
        );
    }

    /// A mean that the kernel counted has no interval.
    #[test]
    fn a_measurement_has_both_ends_of_an_interval_or_none() {
        let text = |ends: &str| {
            format!(
                "{{ value = 37.5, measured = {{ n = 9, {ends}date = \"2026-11-27\", kernel = \"6.12\", what = \"mean\" }} }}"
            )
        };
        let counted = parse(&text("")).unwrap();
        let Origin::Measured(measurement) = &counted.origin else {
            panic!("{counted:?}");
        };
        assert_eq!(measurement.interval(), None);
        assert_eq!(measurement.to_string(), "mean; n 9, 2026-11-27, Linux 6.12");
        let error = parse(&text("low = 37, ")).unwrap_err();
        assert!(
            error.contains("low <= high or neither, not n = 9, low = 37, high = absent"),
            "{error}"
        );
    }

    #[test]
    fn a_measurement_without_samples_or_with_a_wrong_interval_is_refused() {
        for (n, low, high) in [
            (0, "1", "2"),
            (5, "3", "2"),
            (5, "nan", "2"),
            (5, "1", "inf"),
        ] {
            let text = format!(
                "{{ value = 1, measured = {{ n = {n}, low = {low}, high = {high}, date = \"\", kernel = \"\", what = \"\" }} }}"
            );
            let error = parse(&text).unwrap_err();
            assert!(error.contains("low <= high"), "{error}");
        }
        let error = parse("{ value = 1, measured = \"by eye\" }").unwrap_err();
        assert!(error.contains("Measurement"), "{error}");
    }
}
