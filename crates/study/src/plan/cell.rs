//! A run's machine, workload, policy and repeat.

/// A workload on a machine under a policy, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Index among the plan's machines.
    pub machine: usize,
    /// Index among the plan's workloads.
    pub workload: usize,
    /// Index among the plan's policies.
    pub policy: usize,
    /// Repeat, from 0.
    pub repeat: u32,
}
