//! What a machine's hardware takes, by experiment. Every setting is put back afterwards.
//!
//! - [`drive`]: service time, parallel units, flush and sleep of a drive, through a file on it.
//! - [`wake`]: what waking a CPU from each idle state takes.
//! - [`summary`]: quantiles and intervals of samples.
//! - [`ExperimentControl`]: progress and cancellation of an experiment.
//!
//! An experiment has a plan, which says before what will be done and how long it takes. Settings are changed through
//! `wakepath_settings::Session`: journalled, and put back when the experiment ends, however it ends.

mod conditions;
mod control;
pub mod drive;
mod error;
mod shallow;
pub mod summary;
mod test_file;
pub mod wake;

pub use conditions::Conditions;
pub use control::ExperimentControl;
pub use error::MeasureError;
pub use shallow::ShallowHold;
