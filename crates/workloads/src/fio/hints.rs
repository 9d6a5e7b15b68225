//! What fio tells the kernel about a file before it reads the file.

use serde::Serialize;

/// What fio tells the kernel about the order of a job's reads (`fadvise_hint`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FadviseHint {
    /// Nothing (`0`).
    Off,
    /// As `rw` has it (`1`).
    #[default]
    Pattern,
    /// Random reads.
    Random,
    /// Sequential reads.
    Sequential,
}

impl FadviseHint {
    /// All hints with fio's names for them.
    pub(super) const NAMES: [(&'static str, Self); 6] = [
        ("0", Self::Off),
        ("none", Self::Off),
        ("1", Self::Pattern),
        ("pattern", Self::Pattern),
        ("random", Self::Random),
        ("sequential", Self::Sequential),
    ];
}

/// Whether fio drops what is cached of a file when it opens the file (`invalidate`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Invalidation(pub bool);

impl Default for Invalidation {
    fn default() -> Self {
        Self(true)
    }
}
