//! Integration tests of the crate, one binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

mod canary_input;
mod error_rates;
mod roll_outs;
mod simulated_fleet;
