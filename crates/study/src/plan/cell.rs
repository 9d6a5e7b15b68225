//! A cell of a plan: the machine, workload, policy and repeat of a run.

/// A cell: a workload on a machine under a policy, run once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Index of the machine in the plan.
    pub machine: usize,
    /// Index of the workload in the plan.
    pub workload: usize,
    /// Index of the policy in the plan.
    pub policy: usize,
    /// Repeat, from 0.
    pub repeat: u32,
}
