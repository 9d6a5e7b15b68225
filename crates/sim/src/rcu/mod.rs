//! RCU as far as it wakes CPUs: callbacks, grace periods, and their thread.
//!
//! As `kernel/rcu/tree.c` in Linux 6.1 to 7.3, for CPUs never in a reader when a tick or a scan looks. A machine
//! without `[rcu]` pays nothing.
//!
//! - Setup: `setup` has a machine's figures.
//! - State: `state` has a CPU's callbacks, and the running grace period.
//!   `GracePeriods` has methods for ticks, the soft interrupt and the thread; `cpu` and `task` have the CPUs and
//!   tasks.

pub(crate) mod setup;
pub(crate) mod state;
