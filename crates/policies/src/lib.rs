//! The kernel's power policies as pure functions: no I/O, no clock, no randomness.
//!
//! A policy is told what its counterpart in the kernel may know, and returns a decision. The same
//! code runs in the simulator, over recorded traces and on a real machine. Every rule names the
//! kernel file and version that it follows; the conformance tool holds each of them against that
//! very file, compiled. What a policy is asked can be written down as text: [`input`].

#![allow(
    clippy::inline_always,
    reason = "where it was measured to make runs shorter: what every idle CPU asks"
)]

pub mod apst;
pub mod freq;
pub mod idle;
pub mod input;
pub mod kernel_config;
pub mod latency;
pub mod mechanism;
pub mod poll;
pub mod profile;
pub mod psd;
pub mod search_space;
pub mod spec;
pub mod utilisation;

pub use spec::{PolicySet, PolicySpec};
