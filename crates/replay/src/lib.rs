//! Replay: what another idle governor would have chosen on a recorded load, and what it would have
//! cost.
//!
//! [`replay`] goes through a recording, twice if the package counts. On each CPU it puts together the *idle spans*:
//! from when the CPU ran out of work until something other than its own tick or polling limit woke it ([`span`]).
//! Each idle span goes through the kernel's idle loop with every governor in question ([`idle_loop`]). Each idle
//! period is set against what the oracle would have done with the idle span ([`cost`]). So is the sleep of the
//! package, while every CPU is idle ([`package`]). The load itself is as recorded: it does not answer to being served
//! later or sooner.
//!
//! Beside that, the governor that really ran is asked what it was asked then, to see whether it
//! answers the same ([`agreement`]); and the drives' requests are counted ([`drives`]).

#![expect(
    clippy::inline_always,
    reason = "an idle period takes a hundred nanoseconds; measured, it made a difference"
)]

pub mod agreement;
mod blocks;
pub mod cost;
pub mod drives;
pub mod idle_loop;
mod leases;
pub mod package;
mod report;
mod run;
pub mod score;
mod setup;
pub mod span;
mod windows;

pub use blocks::MAX_BLOCKS;
pub use report::{BlockPolicy, BlockReport, FEWEST_SPANS, PolicyReport, Report, StateReport, Sums};
pub use run::{ReplayError, replay};
pub use setup::{LatencyLimits, Ran, Setup, SetupError, States};

#[cfg(test)]
mod tests;
