//! Errors for which a simulation has no result.

use wakepath_policies::spec::SpecError;
use wakepath_workloads::block_trace::BlockTraceError;
use wakepath_workloads::fio::FioError;

/// Nanoseconds in a year of 365 days.
const YEAR: u64 = 365 * 86_400 * 1_000_000_000;

/// The latest simulated time in ns, about 146 years: half the range that governors' signed nanoseconds can count.
pub(crate) const LATEST: u64 = 1 << 62;

/// Error messages, each on a line.
fn join_reasons_by_line(reasons: &[SimError]) -> String {
    let reasons: Vec<String> = reasons.iter().map(SimError::to_string).collect();
    reasons.join("\n")
}

/// Errors for which a simulation has no result.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A job file asks for something that the simulator does not model.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// A block trace cannot be replayed on this machine, or not be read again.
    #[error(transparent)]
    BlockTrace(#[from] BlockTraceError),
    /// A fio job asks for something that the simulator does not model.
    #[error("job '{job}': the simulator does not model {what}")]
    Workload {
        /// Job name.
        job: String,
        /// What the workload asks for and the simulator does not model, in words for the message.
        what: String,
    },
    /// An rt-app task asks for something that the simulator does not model.
    #[error("line {line}: task '{task}': the simulator does not model {what}")]
    Task {
        /// The task's line.
        line: usize,
        /// Task name.
        task: String,
        /// What the workload asks for and the simulator does not model, in words for the message.
        what: String,
    },
    /// Several errors for one workload, each something that the simulator does not model.
    #[error("{}", join_reasons_by_line(.0))]
    Several(Vec<Self>),
    /// A policy, or a part, that the simulator does not model.
    #[error("policy '{policy}': the simulator does not model {what}")]
    Policy {
        /// Policy name.
        policy: String,
        /// Part of the policy that the simulator does not model, in words for the message.
        what: String,
    },
    /// A machine's cluster lacks a figure that the frequency policy needs.
    #[error(
        "cluster '{cluster}' of this machine gives no {what}, which {policy} needs: add it to the \
         machine's file (docs/reference/machines.md), or take schedutil, ondemand, performance or powersave"
    )]
    NoClock {
        /// Cluster name.
        cluster: String,
        /// Policy name.
        policy: String,
        /// Figure missing in the cluster's description.
        what: String,
    },
    /// The workload comes to nothing: threads wait for each other, or do something endless without taking time.
    #[error("after {seconds} s the workload makes no progress: {what}")]
    NoProgress {
        /// Simulated seconds until the workload stopped making progress.
        seconds: f64,
        /// What each stuck thread waits for or repeats.
        what: String,
    },
    /// A run was given up: time stood still, no request finished, or the run was too long.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// No request finished before the jobs ended.
    #[error(
        "no request was finished in {seconds} s of simulated time: the jobs are too short, or pause for longer than what follows their warm-up or ramp_time (--warm-up 0 counts from the first request)"
    )]
    NoRequest {
        /// Simulated seconds for which the jobs ran.
        seconds: f64,
    },
    /// No request arrived at a server before the run ended.
    #[error(
        "no request arrived at server '{name}' in {seconds} s of simulated time: raise its rate, or simulate longer (--seconds)"
    )]
    NoArrival {
        /// Server name.
        name: String,
        /// Simulated seconds, without the warm-up.
        seconds: f64,
    },
    /// Requests arrived at a server, and none got its reply before the run ended.
    #[error(
        "server '{name}' cannot keep up: none of the {arrived} requests that arrived in {seconds} s got its reply, so that \
         it can do less than {:.3} per second; give it less work, or simulate longer (--seconds)",
        1.0 / seconds
    )]
    NoReply {
        /// Server name.
        name: String,
        /// Requests that arrived.
        arrived: u64,
        /// Simulated seconds, without the warm-up.
        seconds: f64,
    },
    /// A machine's cluster has no operating point; holds the cluster's name.
    #[error("cluster '{0}' has no operating point")]
    NoFrequency(String),
    /// An APST policy was asked for, but the drive model has no power states; holds the drive's name.
    #[error(
        "drive '{0}' has no power states in this model, so APST has nothing to choose from; name a drive (--drive)"
    )]
    NoPowerStates(String),
    /// A policy that this machine cannot have.
    #[error("policy '{policy}': {why}")]
    OnMachine {
        /// Policy name.
        policy: String,
        /// What the machine lacks for the policy, in words.
        why: String,
    },
    /// A user-written governor no longer answers; holds the cause.
    #[error("the governor {0}")]
    Governor(String),
    /// The policy text of a machine or recorded system cannot be parsed.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The idle states in the machine's description do not form a valid table.
    #[error(transparent)]
    IdleStates(#[from] wakepath_hardware::idle::IdleStatesError),
}

/// Reasons to give up a run without progress, or beyond the latest simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// Events are handled endlessly while simulated time stands still.
    #[error(
        "the run was given up: simulated time stands still at {at_ns} ns: {events} events without an end"
    )]
    Time {
        /// When, in ns.
        at_ns: u64,
        /// Events handled at this one instant.
        events: u64,
    },
    /// Simulated time passes, but no request finishes.
    #[error(
        "the run was given up: no request was finished between {:.3} s and {:.3} s of simulated time \
         ({events} events). The job's think time, or the work of ticks, background and interrupts, \
         leaves no room for it",
        *from_ns as f64 / 1e9,
        *to_ns as f64 / 1e9
    )]
    Requests {
        /// Simulated time in ns since which no request has finished.
        from_ns: u64,
        /// Simulated time in ns when the run was given up.
        to_ns: u64,
        /// Events handled between the two times.
        events: u64,
    },
    /// Simulated time went beyond the latest representable time.
    #[error("the run was given up after {} years of simulated time: it is too long", LATEST / YEAR)]
    TooLong,
}
