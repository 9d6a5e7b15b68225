//! What the machine is asked to do: fio job files for I/O, rt-app files for the scheduler, servers that answer requests.

mod file;
pub mod fio;
pub mod rtapp;
pub mod server;
mod text;
mod workload;

pub use workload::{Workload, WorkloadError, WorkloadWarning};
