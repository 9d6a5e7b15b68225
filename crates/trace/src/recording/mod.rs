//! Recordings: events on a real machine, in wakepath's own file format.
//!
//! A recording is a list of [`Event`]s with [`Metadata`] about the machine, in a Parquet file (`docs/reference/trace-format.md`).
//! `wakepath record` and `wakepath import` use [`Writer`], `wakepath replay` uses [`Reader`]; both need bounded memory.
//! [`IdleTracker`] puts idle periods together; [`IdlePairs`] makes idle periods from the entries and exits in kernel traces.

mod error;
mod event;
mod headers;
mod idle_tracker;
mod metadata;
mod packed;
mod pages;
mod pairs;
mod reader;
mod residency;
mod rows;
mod writer;

pub use error::{RecordingError, unfinished_tail_path};
pub use event::{
    Before, Block, ClockCycles, Durability, Event, EventKind, IdleInputs, IdlePeriod, Interrupt,
    QueueStep, TaskStep, TimerKind,
};
pub use headers::is_recording_file;
pub use idle_tracker::{IdleTracker, OpenIdlePeriod};
pub use metadata::{
    BlockDevice, CpuIdleStates, DataQuality, FrequencyDomain, MAX_NAMES, Metadata, Recorded,
    RecordedSetting, SCHEMA, Warning,
};
pub use pairs::{IdlePairs, PairCounts};
pub use reader::{Batch, Reader, Visitor};
pub use residency::{IdleResidency, ReachedState, RequestedState};
pub use rows::{FlagCounts, PackedIdlePeriod};
pub use writer::{Overwrite, Writer};

#[cfg(test)]
mod tests;
