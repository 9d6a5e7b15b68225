//! The kernel's read-copy-update: grace periods, the thread that ends them, and what they keep awake.

use serde::{Deserialize, Serialize};

use super::Figure;

/// What RCU costs the CPUs of a machine; its rules are those of `kernel/rcu/tree.c`, Linux 6.1 to 7.3.
///
/// Without it nobody waits for grace periods, and callbacks do not exist.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rcu {
    /// Work of the thread of grace periods (`rcu_preempt`, `rcu_sched`) each time that it wakes up, in thousands of cycles.
    pub thread_kcycles: Figure,
    /// Work of RCU's soft interrupt, after a tick that finds something to do for it, in thousands of cycles.
    pub softirq_kcycles: Figure,
    /// Source of the plain figures.
    pub source: String,
}

impl Rcu {
    /// Every figure with its key.
    pub(super) fn figures(&self) -> [(&'static str, &Figure); 2] {
        [
            ("thread_kcycles", &self.thread_kcycles),
            ("softirq_kcycles", &self.softirq_kcycles),
        ]
    }
}
