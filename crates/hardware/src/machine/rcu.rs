//! Read-copy-update in the kernel: grace periods, the grace-period thread, and their effect on sleeping CPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figure;

/// CPU cost of RCU; the rules follow `kernel/rcu/tree.c`, Linux 6.1 to 7.3.
///
/// Without it nobody waits for grace periods, and callbacks do not exist.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rcu {
    /// Work of the grace-period thread (`rcu_preempt`, `rcu_sched`) per wake-up.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub thread_kcycles: Figure,
    /// Work of RCU's soft interrupt, raised by a tick that finds pending work.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub softirq_kcycles: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}
