//! A recording's name and required content.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A recording: `"load.parquet"`, or `{ path = "load.parquet", sha256 = "9f86d0..." }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingName {
    /// Path of the recording, relative to the study file.
    pub path: String,
    /// SHA-256 that the recording must have, in hexadecimal digits; absent: any content.
    pub sha256: Option<String>,
}

impl<'de> Deserialize<'de> for RecordingName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            path: String,
            sha256: Option<String>,
        }

        struct Name;

        impl<'de> Visitor<'de> for Name {
            type Value = RecordingName;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path, or a table of `path` and `sha256`")
            }

            fn visit_str<E>(self, path: &str) -> Result<RecordingName, E> {
                Ok(RecordingName {
                    path: path.to_owned(),
                    sha256: None,
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<RecordingName, A::Error> {
                let Table { path, sha256 } = Table::deserialize(MapAccessDeserializer::new(table))?;
                Ok(RecordingName { path, sha256 })
            }
        }

        deserializer.deserialize_any(Name)
    }
}
