//! Machines whose CPUs take turns: guests of an emulator with one thread for all CPUs.
//!
//! The rule is that of the laboratory's guests (`docs/model.md`, "CPUs that take turns"): one clock counts what all CPUs do, and
//! nobody else begins anything during a turn. Only machines with `[emulator]` pay for it.
//!
//! - State: `state` has whose turn it is, who waits with what, and the CPU that plays the drives.
//! - Events: `turn_taking` says who may act; `events` passes and cuts turns.

pub(crate) mod events;
pub(crate) mod state;
pub(crate) mod turn_taking;
