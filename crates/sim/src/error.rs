//! Why a simulation cannot be had.

use wakepath_policies::spec::SpecError;
use wakepath_workloads::fio::FioError;

/// A year in ns.
const YEAR: u64 = 365 * 86_400 * 1_000_000_000;

/// The latest simulated time in ns, about 146 years: half the range that governors' signed nanoseconds can count.
pub(crate) const LATEST: u64 = 1 << 62;

/// Every reason on a separate line.
fn lines(reasons: &[SimError]) -> String {
    let reasons: Vec<String> = reasons.iter().map(SimError::to_string).collect();
    reasons.join("\n")
}

/// Why a simulation cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The simulator has no model for something in a job file.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// The simulator has no model for something in the job.
    #[error("job '{job}': the simulator does not model {what}")]
    Workload {
        /// Job name.
        job: String,
        /// The unmodelled request.
        what: String,
    },
    /// The simulator has no model for something in a task.
    #[error("line {line}: task '{task}': the simulator does not model {what}")]
    Task {
        /// The task's line.
        line: usize,
        /// Task name.
        task: String,
        /// The unmodelled request.
        what: String,
    },
    /// The simulator has no model for several things in a workload.
    #[error("{}", lines(.0))]
    Several(Vec<Self>),
    /// The simulator has no model for a policy.
    #[error("policy '{policy}': the simulator does not model {what}")]
    Policy {
        /// Policy name.
        policy: String,
        /// The unmodelled part.
        what: String,
    },
    /// A cluster does not say what a frequency policy needs.
    #[error(
        "cluster '{cluster}' of this machine gives no {what}, which {policy} needs: add it to the \
         machine's file (docs/reference/machines.md), or take schedutil, ondemand, performance or powersave"
    )]
    NoClock {
        /// Cluster name.
        cluster: String,
        /// Policy name.
        policy: String,
        /// The missing figure.
        what: String,
    },
    /// The workload comes to nothing: threads wait for each other, or do something endless without taking time.
    #[error("after {seconds} s the workload makes no progress: {what}")]
    NoProgress {
        /// Simulated time until then.
        seconds: f64,
        /// Which thread does what.
        what: String,
    },
    /// The run goes nowhere.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// The jobs end before they have done anything.
    #[error(
        "no request was finished in {seconds} s of simulated time: the jobs are too short, or pause for longer than what follows their warm-up (--warm-up 0 counts from the first request)"
    )]
    NoRequest {
        /// How long the jobs ran.
        seconds: f64,
    },
    /// A cluster without operating points.
    #[error("cluster '{0}' has no operating point")]
    NoFrequency(String),
    /// An APST policy for a drive without power states.
    #[error(
        "drive '{0}' has no power states in this model, so APST has nothing to choose from; name a drive (--drive)"
    )]
    NoPowerStates(String),
    /// A policy impossible on this machine.
    #[error("policy '{policy}': {why}")]
    OnMachine {
        /// Policy name.
        policy: String,
        /// What the machine lacks.
        why: String,
    },
    /// A user-written governor no longer answers.
    #[error("the governor {0}")]
    Governor(String),
    /// A recorded system's policy does not exist.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The machine's idle states are no state table.
    #[error(transparent)]
    IdleStates(#[from] wakepath_hardware::idle::IdleStatesError),
}

/// How a run goes nowhere, or too far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// Events follow each other, but time stands still.
    #[error(
        "the run was given up: simulated time stands still at {at_ns} ns: {events} events without an end"
    )]
    Time {
        /// When, in ns.
        at_ns: u64,
        /// Events at that time.
        events: u64,
    },
    /// Time passes without any result.
    #[error(
        "the run was given up: no request was finished between {:.3} s and {:.3} s of simulated time \
         ({events} events). The job's think time, or the work of ticks, background and interrupts, \
         leaves no room for it",
        *from_ns as f64 / 1e9,
        *to_ns as f64 / 1e9
    )]
    Requests {
        /// Since when, in ns.
        from_ns: u64,
        /// Up to when, in ns.
        to_ns: u64,
        /// Events in between.
        events: u64,
    },
    /// Beyond what is counted.
    #[error("the run was given up after {} years of simulated time: it is too long", LATEST / YEAR)]
    TooLong,
}
