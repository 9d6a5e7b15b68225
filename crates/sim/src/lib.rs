//! A discrete-event simulator for I/O requests that meet sleeping hardware.
//!
//! [`simulate`] runs a workload on a machine under one policy set. Time is integer nanoseconds, work is cycles on the
//! machine's biggest core, and the same seed gives the same result: the same drive and the same background, whatever
//! the policies. `docs/background/model.md` says what is modelled, and what is not.

#![allow(
    clippy::inline_always,
    reason = "where it was measured to make runs shorter: small steps of every event"
)]

mod block;
mod core;
mod cpu;
mod drive;
mod emulator;
mod engine;
mod error;
mod frequency;
mod observe;
mod page_cache;
mod power;
mod rcu;
mod result;
mod run;
mod scheduler;
mod setup;
mod task;

pub use crate::core::observer;
#[doc(hidden)]
pub use crate::core::queue::pattern;
pub use drive::recorded::{
    RecordedDriveRun, run_drive_under_recorded_io, take_wake_ups_out_of_busy_periods,
};
pub use drive::result::{DriveRun, DriveStateTime, DriveWakeUpWaits};
pub use error::{SimError, Stuck};
pub use frequency::clocks::HwpBoostRun;
pub use observe::attribution::Attribution;
pub use observe::batches::Drift;
pub use observe::latency::{FsyncCalls, Latency, LatencyParts};
pub use page_cache::result::PageCacheRun;
pub use power::energy::Energy;
pub use result::details;
pub use result::job::JobRun;
pub use result::summary::{PolicyComparison, PolicyResult};
pub use result::{ClockTime, CpuTime, FrequencyTime, Run, StateTime};
pub use run::{Model, simulate, simulate_observed};
pub use setup::LONGEST_TIMED;
pub use setup::policies::{
    expand_profile_for_machine, machine_under_policies, notes_on_machine_and_policies,
    notes_on_policies, policies_in_force,
};
pub use task::fio::rates::{FoundDepth, RateRun};
pub use task::fio::replay::ReplayRun;
pub use task::fio::setup::LONGEST_UNTIMED;
pub use task::rtapp::result::{Halted, Spread, TaskRun, ThreadsRun, WakeAttribution};
pub use task::server::result::{DiskPerReply, ServerRun};
