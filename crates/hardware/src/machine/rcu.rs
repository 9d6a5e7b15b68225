//! Read-copy-update in the kernel: grace periods, the grace-period thread, and their effect on sleeping CPUs.

use serde::{Deserialize, Serialize};

use super::Figure;

/// CPU cost of RCU; the rules follow `kernel/rcu/tree.c`, Linux 6.1 to 7.3.
///
/// Without it nobody waits for grace periods, and callbacks do not exist.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rcu {
    /// Work of the grace-period thread (`rcu_preempt`, `rcu_sched`) per wake-up, in thousands of cycles.
    pub thread_kcycles: Figure,
    /// Work of RCU's soft interrupt, raised by a tick that finds pending work, in thousands of cycles.
    pub softirq_kcycles: Figure,
    /// Default source for the table's figures.
    pub source: String,
}

impl Rcu {
    /// All figures by key.
    pub(super) fn figures(&self) -> [(&'static str, &Figure); 2] {
        [
            ("thread_kcycles", &self.thread_kcycles),
            ("softirq_kcycles", &self.softirq_kcycles),
        ]
    }
}
