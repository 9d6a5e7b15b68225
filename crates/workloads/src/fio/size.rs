//! Sizes in a fio job file: bytes, percentages, ranges.

use std::fmt;

use serde::Serialize;

/// An amount of data in a job file: bytes, or a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// An amount in bytes, at least 1.
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

/// Size of each file: a number of bytes, or random sizes within a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FileSize {
    /// Smallest file in bytes, at least 1.
    pub least: u64,
    /// Largest file in bytes.
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

/// So many percent of a number of bytes, rounded down.
pub(super) fn percent_of(bytes: u64, percent: u8) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}
