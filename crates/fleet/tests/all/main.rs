//! Integration tests of the crate, one binary.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

mod decisions;
mod generated_fleet;
mod parts;
mod planted_faults;
mod replays;
mod survey;
