//! What the machine is asked to do: fio job files for I/O, rt-app files for the scheduler.

mod file;
pub mod fio;
pub mod rtapp;
mod text;
mod workload;

pub use workload::{Workload, WorkloadError, WorkloadWarning};
