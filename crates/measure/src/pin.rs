//! Threads that stay on a CPU.

use std::io;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::MeasureError;

/// The error for a CPU that cannot be used any more.
pub(crate) fn gone(cpu: usize, why: &str) -> MeasureError {
    MeasureError::Impossible(format!(
        "CPU {cpu} has gone away ({why}); put it online again and repeat the measurement"
    ))
}

/// Binds the calling thread to a CPU.
pub(crate) fn pin_to(cpu: usize) -> Result<(), MeasureError> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(gone(cpu, "its number is too high to run a thread there"));
    }
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|e| gone(cpu, &io::Error::from(e).to_string()))
}
