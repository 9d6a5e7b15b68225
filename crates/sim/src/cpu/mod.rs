//! A CPU: its idle loop, tick, timers, interrupts, and the threads that share a core.
//!
//! The idle loop is the kernel's (`kernel/sched/idle.c`, Linux 6.1 to 7.3) around a governor of `wakepath-policies`:
//! sleep length, stopped ticks, polling, and what the governor is told afterwards. C1 demotion is the hardware's
//! (`wakepath-hardware`).
//!
//! - Setup: `setup` has the CPUs of a machine, `idle_table` a cluster's idle
//!   states, `shortest_sleep` the shortest sleep that fio finds.
//! - State: `state` is one CPU, and `phase`, `idle`, `clock_events` and `power_times` are its parts. `migratory_timers`
//!   are the timers that other CPUs take over.
//! - Events: `idle_loop`, `tick`, `interrupts`, `phases` (work in progress), `smt`.
//! - Totals: the time in each state, powered, polling and waking, in `totals`, and what `result` says of them.

pub(crate) mod clock_events;
pub(crate) mod idle;
pub(crate) mod idle_loop;
pub(crate) mod idle_table;
pub(crate) mod interrupts;
pub(crate) mod migratory_timers;
pub(crate) mod phase;
pub(crate) mod phases;
pub(crate) mod power_times;
pub(crate) mod result;
pub(crate) mod setup;
pub(crate) mod shortest_sleep;
pub(crate) mod smt;
pub(crate) mod state;
pub(crate) mod tick;
pub(crate) mod timers;
pub(crate) mod totals;
