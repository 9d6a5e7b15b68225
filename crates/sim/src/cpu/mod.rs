//! CPUs

pub(crate) mod idle_loop;
pub(crate) mod idle_table;
pub(crate) mod interrupts;
pub(crate) mod phases;
pub(crate) mod pulled;
pub(crate) mod shortest_sleep;
pub(crate) mod smt;
pub(crate) mod state;
pub(crate) mod tick;
pub(crate) mod timers;
