//! A CPU: its idle loop, tick, timers, interrupts, and the threads that share a core.
//!
//! The idle loop is the kernel's (`kernel/sched/idle.c`, Linux 6.1 to 7.3) around a governor of `wakepath-policies`:
//! sleep length, stopped ticks, polling, and what the governor is told afterwards. C1 demotion is the hardware's
//! (`wakepath-hardware`).
//!
//! - Setup: `idle_table` has a cluster's idle states, `shortest_sleep` the shortest sleep that fio finds.
//! - State: `state` is one CPU, `timers` its timers, `pulled` the timers that other CPUs take over.
//! - Events: `idle_loop`, `tick`, `interrupts`, `phases` (work in progress), `smt`.
//! - Totals: the time in each state, powered, polling and waking, in `state`.

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
