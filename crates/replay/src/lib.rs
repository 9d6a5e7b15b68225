//! Replay of a recorded load under other idle governors: what would each have chosen, at which cost?
//!
//! [`replay_recording`] reads a recording, twice if the package counts. On each CPU it puts together the *idle spans*: from when the
//! CPU ran out of work until something other than the CPU's tick or polling limit caused a wake-up ([`span`]).
//! Each idle span goes through the kernel's idle loop with every governor in question ([`idle_loop`]).
//! Each idle period is compared with an oracle on the same idle span ([`cost`]). So is the sleep of the
//! package, while every CPU is idle ([`package`]). The load is as recorded, and does not answer to faster or slower service.
//!
//! [`busy_periods`] are what a drive needs to be put through other tables of power states.
//!
//! Besides, the governor that really ran is asked again with the recorded inputs, to see whether the answers are the
//! same ([`agreement`]), and the drives' requests are counted ([`drives`]).

#![expect(
    clippy::inline_always,
    reason = "an idle period takes a hundred nanoseconds; measured, it made a difference"
)]

pub mod agreement;
mod blocks;
pub mod busy_periods;
pub mod cost;
mod cpu;
pub mod drives;
mod error;
mod events;
mod hotplug;
pub mod idle_loop;
mod leases;
pub mod package;
mod package_stage;
mod report;
mod run;
pub mod score;
mod setup;
pub mod span;
mod summary;
mod windows;

pub use blocks::MAX_BLOCKS;
pub use error::ReplayError;
pub use report::{
    FEWEST_SPANS, PolicyReport, Report, StateReport, Sums, TimeBlockPolicy, TimeBlockReport,
};
pub use run::replay_recording;
pub use setup::{GroupIdleStates, LatencyLimits, RecordedGovernor, Setup, SetupError};

#[cfg(test)]
mod tests;
