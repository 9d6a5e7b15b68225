//! The rt-app version that a file was written for.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Version of rt-app. Versions differ in the name that `suspend` waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum RtAppVersion {
    /// Up to May 2025, including 1.0 in distributions: `suspend` waits for the given name.
    #[serde(rename = "1.0")]
    V1,
    /// Since commit 32fcddf from 2025-05-31: `suspend` waits for its task's name, whatever is given.
    #[default]
    #[serde(rename = "2025")]
    V2025,
}

impl RtAppVersion {
    const NAMES: [(Self, &str); 2] = [(Self::V1, "1.0"), (Self::V2025, "2025")];

    /// Version name: `1.0` or `2025`.
    pub fn name(self) -> &'static str {
        (Self::NAMES.iter().find(|(version, _)| *version == self)).map_or("", |(_, name)| name)
    }
}

impl fmt::Display for RtAppVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for RtAppVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::NAMES.iter().find(|(_, name)| *name == text);
        known.map(|(version, _)| *version).ok_or_else(|| {
            "expected 1.0 (`suspend` waits for the name that it gives) or 2025 (since 2025-05-31 for its own task's)".to_owned()
        })
    }
}
