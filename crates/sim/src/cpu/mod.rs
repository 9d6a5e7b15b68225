//! A CPU: idle loop, tick, timers, interrupts, threads sharing a core, and time stolen by a host.
//!
//! The idle loop is the kernel's (`kernel/sched/idle.c`, Linux 6.1 to 7.3) around a governor from `wakepath-policies`:
//! sleep length, stopped ticks, polling, and reports to the governor afterwards. C1 demotion is the hardware's
//! (`wakepath-hardware`).
//!
//! - Setup: `setup` has a machine's CPUs, `idle_table` a cluster's idle states, `shortest_sleep` fio's shortest sleep,
//!   `stolen_setup` a virtual machine's host.
//! - State: `state` is one CPU, with parts `phase`, `idle`, `clock_events` and `power_times`. `migratory_timers` move
//!   between CPUs.
//! - Events: `idle_loop`, `tick`, `interrupts`, `phases` (work in progress), `smt`, `core_sleep`, `stolen_events`.
//! - Totals: `totals` has times by state, powered, polling and waking; `result` the figures for a run.

pub(crate) mod clock_events;
pub(crate) mod core_sleep;
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
pub(crate) mod stolen_events;
pub(crate) mod stolen_setup;
pub(crate) mod tick;
pub(crate) mod timers;
pub(crate) mod totals;
