//! The scheduler: which task runs on which CPU, and when.
//!
//! The order of tasks is that of the completely fair scheduler, and placement that of `select_task_rq_fair()`
//! (`kernel/sched/fair.c`, Linux 6.1). Balancing is simpler than the kernel's.
//!
//! - Setup: `setup` has the figures of a machine.
//! - State: `state` has what the scheduler knows of a task, and who runs before whom. `run_queue` has the tasks of a CPU. `fair_server` is the deadline server of
//!   `kernel/sched/deadline.c`, as far as its timer wakes CPUs.
//! - Events: `events` places, queues, picks and moves tasks.

pub(crate) mod events;
pub(crate) mod fair_server;
pub(crate) mod run_queue;
pub(crate) mod setup;
pub(crate) mod state;
