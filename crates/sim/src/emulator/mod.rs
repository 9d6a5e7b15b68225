//! Machines whose CPUs take turns: guests in an emulator with one thread for all CPUs.
//!
//! The rule comes from the laboratory's guests (`docs/background/model.md`, "CPUs that take turns"): one clock counts for all
//! CPUs, and no other CPU begins anything during a turn. Only machines with `[emulator]` pay for turns.
//!
//! - State: `state` has the turn's holder, waiting CPUs, and the CPU that plays the drives (the player).
//! - Events: `turn_taking` says which CPU may act; `events` passes and cuts turns.

pub(crate) mod events;
pub(crate) mod state;
pub(crate) mod turn_taking;
