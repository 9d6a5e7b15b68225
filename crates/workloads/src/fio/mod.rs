//! fio job files, as far as they say anything about power management.
//!
//! [`parse`] reads what fio 3.33 (Debian 12) reads, and resolves every default as fio does, so that
//! the same file runs in real fio and in the simulator. It is stricter where fio silently drops part
//! of a value. An option that could change when an I/O is issued or how long it takes, and that the
//! simulator has no model of, is listed in [`FioJobFile::unmodelled`]: such a file runs in fio only. What
//! cannot matter is a [`FioWarning`].
//!
//! ```
//! let file = wakepath_workloads::fio::parse(
//!     "[global]\ndirect=1\n[reader]\nrw=randread\nruntime=30\ntime_based\n",
//!     "reader.fio",
//! )?;
//! assert_eq!(file.jobs[0].block_size.read, 4096);
//! assert_eq!(file.jobs[0].runtime.map(|t| t.as_secs_f64()), Some(30.0));
//! # Ok::<(), wakepath_workloads::fio::FioError>(())
//! ```

mod batching;
mod blocks;
mod cached_reads;
mod command_line;
mod defaults;
mod engine;
mod error;
mod extent;
mod hints;
mod io_log;
mod job;
mod limits;
mod lines;
mod log_reading;
mod options;
mod paths;
mod per_direction;
mod places;
mod poll_options;
mod polling;
mod print;
mod random_map;
mod read;
mod read_back;
mod read_write;
mod replay;
mod sections;
mod size;
mod steering;
mod surroundings;
mod syntax;
mod targets;
mod uneven_places;
mod values;
mod verify;
mod walk;
pub mod warm_up;

#[cfg(test)]
mod tests;

pub use batching::{Batching, BufferFilling, IoSizes};
pub use blocks::{Batches, BlockSizes, Content, SplitPart};
pub use cached_reads::ReadHint;
pub use command_line::{
    COMMAND_LINE_ORIGIN, begins_as_command_line, job_file_text_of_command_line, parse_command_line,
};
pub use engine::IoEngine;
pub use error::{FioError, FioProblem, FioWarning};
pub use hints::{FadviseHint, Invalidation};
pub use io_log::IoLogReplay;
pub use job::{CpusPolicy, ExitWhat, FioJob, FioJobFile, MAX_IODEPTH, MAX_JOBS, Rate, ThinkBlocks};
pub use limits::ProcessLimits;
pub use lines::MAX_FILE_BYTES;
pub use options::{
    FioTimeUnit, OptionDescription, OptionSupport, OptionValues, describe_options, known_options,
    line_sets_option_or_opposite,
};
pub use paths::{JobPaths, list_job_paths};
pub use per_direction::PerDirection;
pub use places::{Places, ZoneMode, Zones};
pub use poll_options::Polling;
pub use read::{load, parse, parse_in_surroundings};
pub use read_back::ReadBack;
pub use read_write::ReadWrite;
pub use size::{FileSize, Size};
pub use steering::{DepthSearch, DepthStep, FlowCounter, JOBS_START_AFTER, SteadyStateDetector};
pub use surroundings::{FioSurroundings, MachineFigures};
pub use targets::{Flow, LatencyTarget, SteadyFigure, SteadyState};
pub use uneven_places::UnevenPlaces;
pub use verify::{Checksum, Verify};
pub use walk::{Draw, NextIo, Walk};
