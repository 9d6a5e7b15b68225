//! Tests of the search over made-up machines, whose best set is known, and over the simulator.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

mod chance;
mod conditions;
mod made_up;
mod recorded;
mod search;
mod search_quality;
mod simulation;
