//! What several of the tests use.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

pub(crate) mod browser;
pub(crate) mod results;
pub(crate) mod sample;
