//! The scheduler: which task runs on which CPU, and when.
//!
//! Task order follows the completely fair scheduler, and placement `select_task_rq_fair()` (`kernel/sched/fair.c`,
//! Linux 6.1). Balancing is simpler than the kernel's.
//!
//! - Setup: `setup` has a machine's figures.
//! - State: `state` is the scheduler's view of a task, and the order among tasks. `run_queue` has a CPU's tasks.
//!   `fair_server` is the deadline server (`kernel/sched/deadline.c`), as far as its timer wakes CPUs.
//! - Events: `placement` and `first_cpu` choose a CPU, `wake_up` has wake-ups, sleep and ticks, `events` queues and
//!   picks tasks, `balance` moves tasks.

mod balance;
mod events;
pub(crate) mod fair_server;
mod first_cpu;
mod placement;
pub(crate) mod run_queue;
pub(crate) mod setup;
pub(crate) mod state;
mod wake_up;
