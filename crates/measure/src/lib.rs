//! What a machine's hardware takes, by experiment. Every setting is put back afterwards.
//!
//! - [`drive`]: service time, parallel units, flush and sleep of a drive, through a file on it.
//! - [`wake`]: what waking a CPU from each idle state takes.
//! - [`path`]: what the CPU does for an I/O, and what system calls, context switches and ticks take.
//! - [`background`]: what wakes the CPUs of a machine at rest.
//! - [`power`]: what the machine draws at rest, busy, and in each idle state.
//! - [`summary`]: quantiles and intervals of samples.
//! - [`ExperimentControl`]: progress and cancellation of an experiment.
//!
//! An experiment has a plan, which says before what will be done and how long it takes. Settings are changed through
//! `wakepath_settings::Session`: journalled, and put back when the experiment ends, however it ends.

pub mod background;
mod clock;
mod conditions;
mod control;
pub mod drive;
mod error;
mod file_size;
pub mod path;
mod pin;
pub mod power;
mod shallow;
mod storage;
pub mod summary;
mod test_file;
pub mod wake;

pub use conditions::Conditions;
pub use control::ExperimentControl;
pub use error::MeasureError;
pub use file_size::TestFileSize;
pub use shallow::ShallowHold;
pub use storage::StorageStack;
pub use test_file::write_random_file;
