//! What the machine is asked to do: fio job files, and other workload descriptions in time.

pub mod fio;
mod workload;

pub use workload::{Workload, WorkloadError, WorkloadWarning};
