//! RCU as far as it wakes CPUs: callbacks, grace periods, and their thread.
//!
//! As `kernel/rcu/tree.c` of Linux 6.1 to 7.3, for CPUs that are never in a reader when a tick or a scan looks. A machine
//! without `[rcu]` pays for none of it.
//!
//! - Setup: `setup` has the figures of a machine.
//! - State: `state` has the callbacks of a CPU, and the grace period that runs.
//!   The methods of `GracePeriods` are what ticks, the soft interrupt and the thread do; their CPUs and tasks are in `cpu` and `task`.

pub(crate) mod setup;
pub(crate) mod state;
