//! Where the CPU's time for a read goes at depth 1: submission, interrupt, resume.
//!
//! Submission and interrupt are timed by a thread that submits through io_uring and spins. The reading thread's own account
//! has submission and resume together, so the resume is the difference. Cycles are not split so: a counter of a thread has no
//! interrupts, and one of a CPU does not tell whose they are.

use std::time::Duration;

use serde::Serialize;
use wakepath_system::System;

use crate::ExperimentControl;
use crate::drive::{AccessDirection, LoadTarget, choose_biggest_cpus, watch_interrupts};
use crate::summary::Estimate;
use crate::test_file::TestFile;

/// CPU time for a 4 KiB direct random read at depth 1, part by part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReadParts {
    /// Requests that were watched.
    pub n: u64,
    /// From the system call to the moment at which the drive has the request.
    pub submission: Estimate,
    /// What the interrupt keeps a running thread from its CPU.
    pub interrupt: Estimate,
    /// The reading thread's time on its CPU less the submission, in ns: going to sleep, and from the wake-up to the return.
    /// Absent: the kernel keeps no account of threads, or the difference is below 0.
    pub resume_ns: Option<f64>,
}

/// Watches reads through io_uring on the biggest CPUs, as the work per I/O is fitted there. `task_ns`: the reading thread's time
/// on its CPU for each read at depth 1. The error says why parts are not told apart.
pub(super) fn measure_parts(
    system: &System,
    file: &TestFile,
    task_ns: Option<f64>,
    time: Duration,
    control: ExperimentControl<'_>,
) -> Result<ReadParts, String> {
    let target = LoadTarget {
        file: file.file(),
        bytes: file.bytes(),
    };
    let watched = choose_biggest_cpus(system)
        .and_then(|cpus| watch_interrupts(target, AccessDirection::Read, time, control, &cpus));
    match watched.map_err(|error| error.to_string())? {
        Some(view) => Ok(ReadParts {
            n: view.n,
            submission: view.submission,
            interrupt: view.interruption,
            resume_ns: subtract_submission(task_ns, view.submission),
        }),
        None if control.is_cancelled() => Err("a signal came first".to_owned()),
        None => {
            Err("interrupts come to other CPUs, or too few reads could be begun at once".to_owned())
        }
    }
}

/// The thread's time besides the submission; `None` if nothing is left.
fn subtract_submission(task_ns: Option<f64>, submission: Estimate) -> Option<f64> {
    task_ns
        .map(|task| task - submission.ns)
        .filter(|rest| *rest > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resume_is_what_the_submission_leaves() {
        let submission = Estimate {
            ns: 1_500.0,
            low: 1_400.0,
            high: 1_600.0,
        };
        assert_eq!(
            subtract_submission(Some(4_000.0), submission),
            Some(2_500.0)
        );
        assert_eq!(subtract_submission(Some(1_000.0), submission), None);
        assert_eq!(subtract_submission(None, submission), None);
    }
}
