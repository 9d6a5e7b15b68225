//! Recordings: what happened on a real machine, in wakepath's own file format.
//!
//! A recording is a list of [`Event`]s with [`Metadata`] about the machine, in one Parquet file
//! (`docs/trace-format.md`). `wakepath record` and `wakepath import` write it through [`Writer`],
//! `wakepath replay` reads it through [`Reader`]; both keep a bounded part of it in memory.
//! [`IdlePairs`] makes idle periods from what kernel traces have: an entry here, an exit there.

mod event;
mod headers;
mod metadata;
mod packed;
mod pages;
mod pairs;
mod reader;
mod rows;
mod writer;

pub use event::{
    Before, Block, Event, EventKind, IdleInputs, IdlePeriod, Interrupt, QueueStep, TaskStep,
    TimerKind,
};
pub use metadata::{
    BlockDevice, CpuIdleStates, FrequencyDomain, Known, MAX_NAMES, Metadata, Recorded,
    RecordedSetting, SCHEMA, Warning,
};
pub use pairs::{IdlePairs, PairCounts};
pub use reader::{Batch, Reader, Visitor};
pub use rows::{FlagCounts, PackedIdlePeriod};
pub use writer::{Overwrite, Writer};

use std::path::{Path, PathBuf};

/// Where the machine's description is kept among Parquet's key-value metadata.
const METADATA_KEY: &str = "wakepath.recording";

/// Why a recording could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file could not be opened, read or written.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// There is a file already.
    #[error("{} exists already; give another name, or --force to replace it", .0.display())]
    Exists(PathBuf),
    /// It is not a Parquet file, or a damaged one.
    #[error("{}: {cause}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the Parquet library said.
        cause: parquet::errors::ParquetError,
    },
    /// It is a Parquet file, but no recording as this version writes them.
    #[error("{}: {problem}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what was expected.
        problem: String,
    },
}

impl RecordingError {
    fn io(path: &Path) -> impl Fn(std::io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::Io {
            path: path.clone(),
            cause,
        }
    }

    fn parquet(path: &Path) -> impl Fn(parquet::errors::ParquetError) -> Self {
        let path = path.to_owned();
        move |cause| Self::Parquet {
            path: path.clone(),
            cause,
        }
    }
}

/// The file beside an unfinished recording that says how far it goes.
pub fn tail_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tail");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
