//! The scheduler: which task runs on which CPU, and when.
//!
//! The order of tasks is that of the completely fair scheduler, and placement that of `select_task_rq_fair()`
//! (`kernel/sched/fair.c`, Linux 6.1). Balancing is simpler than the kernel's.
//!
//! - Setup: `setup` has the figures of a machine.
//! - State: `state` has what the scheduler knows of a task, and who runs before whom. `run_queue` has the tasks of a CPU. `fair_server` is the deadline server of
//!   `kernel/sched/deadline.c`, as far as its timer wakes CPUs.
//! - Events: `placement` and `first_cpu` choose a CPU, `wake_up` has wake-ups, sleep and ticks, `events` queues and picks tasks, `balance` moves
//!   them.

mod balance;
mod events;
pub(crate) mod fair_server;
mod first_cpu;
mod placement;
pub(crate) mod run_queue;
pub(crate) mod setup;
pub(crate) mod state;
mod wake_up;
