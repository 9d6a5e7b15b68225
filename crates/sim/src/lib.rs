//! Filled in.
pub mod pelt;
pub mod queue;
