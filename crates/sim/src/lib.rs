//! A discrete-event simulator of I/O requests that meet sleeping hardware.
//!
//! [`simulate`] runs a workload on a machine under one policy set. Time is integer nanoseconds, work is
//! cycles of the machine's biggest core, and the same seed gives the same result: the same drive and the same
//! background, whatever the policies. What is modelled, and what is not, is in `docs/model.md`.

#![allow(
    clippy::inline_always,
    reason = "where it was measured to make runs shorter: small steps of every event"
)]

mod basics;
mod engine;
mod error;
mod observe;
mod queue;
mod random;
mod result;
mod run;
mod setup;
mod state;

pub use error::{SimError, Stuck};
pub use observe::attribution::Attribution;
pub use observe::batches::Drift;
pub use observe::observer;
#[doc(hidden)]
pub use queue::pattern;
pub use result::details;
pub use result::energy::Energy;
pub use result::rates::RateRun;
pub use result::summary::{PolicyComparison, PolicyResult};
pub use result::threads::{Halted, Spread, TaskRun, ThreadsRun, WakeAttribution};
pub use result::{
    ClockTime, CpuTime, DriveRun, DriveStateTime, FrequencyTime, Latency, LatencyParts,
    PageCacheRun, Run, StateTime,
};
pub use run::{simulate, simulate_observed};
pub use setup::policies::{expanded, in_force, machine_under, notes, policy_notes};
pub use setup::{LONGEST_TIMED, LONGEST_UNTIMED};
pub use state::clocks::HwpBoostRun;
