//! Study files: workloads and policies in one TOML file.
//!
//! This module reads and checks the file itself; [`crate::plan`] finds the named machine, workloads and policies.
//! `docs/guides/studies.md` describes the format.

mod check;
mod error;
mod names;
mod policy;
mod published;
mod recording;
mod study;
mod text;

pub use error::StudyError;
pub(crate) use error::unknown_name_message;
pub use names::Names;
pub use policy::{NamedSet, PolicyEntry, PolicyItem, list_named_sets};
pub use published::{
    Across, Aggregate, ChangeWithin, CompareEntry, Decision, ExpectEntry, FittedAtMost,
    FittedEntry, LessThan, Printed, PublishedEntry, RowEntry, Selection, Show, Take,
};
pub use recording::RecordingName;
pub use study::{MetricEntry, QuestionEntry, StudyFile, WorkloadEntry};
pub use text::StudyText;
pub(crate) use text::check_name_length_and_characters;

/// Largest study file.
pub const MAX_BYTES: u64 = 1 << 20;
