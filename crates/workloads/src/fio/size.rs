//! Sizes in a job file.

use std::fmt;

use serde::Serialize;

/// How much a job transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// A number of bytes, at least 1.
    Bytes(u64),
    /// A share of the files or the device in percent, 1 to 100.
    Percent(u8),
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Size of a file in bytes: a number, or random choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FileSize {
    /// The smallest, at least 1.
    pub least: u64,
    /// The largest.
    pub most: u64,
}

impl fmt::Display for FileSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least == self.most {
            self.least.fmt(f)
        } else {
            write!(f, "{}-{}", self.least, self.most)
        }
    }
}

/// A share of some bytes in percent.
pub(super) fn share_of(bytes: u64, percent: u8) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}
