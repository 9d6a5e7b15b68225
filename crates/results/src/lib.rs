//! A study's results: a directory that can be read again years later.
//!
//! Simulator, replay, measurement and import leave the same kind of directory, so a single comparison and report serve
//! all. `docs/reference/results.md` describes every file.
//!
//! - [`metric`]: the metric dictionary, with the meaning of each number.
//! - [`document`]: `result.json`, with machines, workloads, policies and method.
//! - [`question`]: a study's questions, also with a goal and conditions.
//! - [`rows`]: rows in the Parquet tables.
//! - [`directory`]: writing, one finished run after the other; [`ResultReader`] reads.
//! - [`mod@shard`]: parts of a study that run apart; [`merge_shards`] puts them together.
//! - [`laboratory`]: runs in virtual machines in virtual time.
//! - [`import`]: results from other tools (fio, MMTests, hyperfine) as runs.

mod atomic;
pub mod directory;
pub mod document;
mod error;
mod folder;
pub mod import;
pub mod laboratory;
mod layout;
mod load_condition;
mod mean;
mod merge;
pub mod metric;
mod plan;
pub mod question;
mod reader;
pub mod rows;
mod run_record;
pub mod shard;
mod table_files;
mod tables;
mod text;
pub mod timeline;

pub use directory::{Mode, ResultWriter};
pub use document::{
    Design, Document, MachineInfo, PolicyInfo, RequestSubset, RequestedRate, RunOrigin, StudyInfo,
    WorkloadInfo,
};
pub use error::ResultsError;
pub use load_condition::{ConditionError, LoadCondition, unknown_metric_message};
pub use mean::Mean;
pub use merge::{MergeError, merge_shards};
pub use metric::{Better, METRICS, Metric};
pub use question::{Condition, Goal, Question};
pub use reader::ResultReader;
pub use rows::{
    AttributionAt, AttributionRow, FrequencyResidency, FrequencyRow, Idle, IdleRow, LatencyCount,
    LatencyPart, LatencyRow, MetricRow, RunKey, TimelineRow, TimelineSpan,
};
pub use run_record::RunRecord;
pub use shard::Shard;
