//! What the machine is asked to do: fio job files and block traces for I/O, rt-app files for the scheduler, servers that answer
//! requests, and tasks of given steps.

pub mod block_trace;
mod file;
pub mod fio;
pub mod rtapp;
pub mod server;
pub mod tasks;
mod text;
mod workload;

pub use workload::{Workload, WorkloadError, WorkloadWarning};
