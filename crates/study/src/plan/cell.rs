//! What is run once: a workload on a machine under a policy.

/// A workload on a machine under a policy, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Which machine of the plan.
    pub machine: usize,
    /// Which workload of the plan.
    pub workload: usize,
    /// Which policy of the plan.
    pub policy: usize,
    /// Which repeat, from 0.
    pub repeat: u32,
}
