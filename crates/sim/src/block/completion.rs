//! Where completions go: hardware queues, the CPUs that they interrupt, and when they do.

use wakepath_hardware::Machine;

use crate::core::basics::CpuId;

/// The queues of the drives.
#[derive(Clone, Debug)]
pub(crate) struct CompletionSetup {
    cpus: usize,
    /// Per drive; at most one per CPU.
    queues: usize,
    fixed: Option<CpuId>,
    /// Share of the completions that come to the CPU of the queue; absent: all.
    pub(super) same_cpu_share: Option<f64>,
    pub(super) coalescing: Option<Coalescing>,
    /// By CPU: interrupts go elsewhere if they can; empty if there are none such.
    kept_free: Vec<bool>,
}

/// A queue that collects completions before it interrupts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coalescing {
    pub(super) threshold: usize,
    /// How long the first one waits at most, in ns.
    pub(super) time: u64,
}

impl CompletionSetup {
    pub(crate) fn new(machine: &Machine) -> Self {
        let of = &machine.io_path.completion;
        let cpus = machine.cpus();
        let share = &of.same_cpu_share;
        let isolation = &machine.isolation;
        let mut kept_free = Vec::new();
        if isolation.managed_irq {
            kept_free.extend((0..cpus).map(|cpu| isolation.isolcpus.contains(&cpu)));
        }
        Self {
            cpus,
            kept_free,
            queues: of.queues.unwrap_or(cpus).clamp(1, cpus),
            fixed: of.cpu,
            same_cpu_share: (share.is_given() && share.value < 1.0).then_some(share.value),
            coalescing: (of.coalesce.value > 1.0).then(|| Coalescing {
                threshold: of.coalesce.value as usize,
                time: of.coalesce_us.micros().0,
            }),
        }
    }

    /// Number of queues of `drives` drives that collect completions before they interrupt.
    pub(crate) fn collecting_queues(&self, drives: usize) -> usize {
        match self.coalescing {
            Some(_) => drives * self.queues,
            None => 0,
        }
    }

    /// The queue of a drive that a CPU submits to, numbered over all drives.
    pub(crate) fn queue(&self, drive: usize, cpu: CpuId) -> usize {
        drive * self.queues + cpu * self.queues / self.cpus
    }

    /// The CPU that a drive interrupts when what `cpu` submitted is finished.
    ///
    /// The CPUs of a queue follow each other. The kernel gives each interrupt to the one of them that
    /// has the fewest so far, so that the drives take turns.
    #[inline]
    pub(crate) fn cpu(&self, drive: usize, cpu: CpuId) -> CpuId {
        match self.fixed {
            Some(fixed) => fixed,
            None if self.queues == self.cpus => cpu,
            None => self.cpu_of_shared(drive, cpu),
        }
    }

    /// That of a queue of several CPUs.
    #[inline(never)]
    fn cpu_of_shared(&self, drive: usize, cpu: CpuId) -> CpuId {
        let queue = cpu * self.queues / self.cpus;
        let first = (queue * self.cpus).div_ceil(self.queues);
        let next = ((queue + 1) * self.cpus).div_ceil(self.queues);
        if self
            .kept_free
            .get(first..next)
            .is_some_and(|free| free.contains(&true))
        {
            let others: Vec<CpuId> = (first..next).filter(|cpu| !self.kept_free[*cpu]).collect();
            if let Some(cpu) = others.get(drive % others.len().max(1)) {
                return *cpu;
            }
        }
        first + drive % (next - first)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn setup(cpus: usize, queues: usize) -> CompletionSetup {
        CompletionSetup {
            cpus,
            queues,
            fixed: None,
            same_cpu_share: None,
            coalescing: None,
            kept_free: Vec::new(),
        }
    }

    #[test]
    fn drives_take_turns_among_the_cpus_of_a_queue() {
        let two_each = setup(8, 4);
        assert_eq!([4, 5].map(|cpu| two_each.cpu(0, cpu)), [4, 4]);
        assert_eq!([4, 5].map(|cpu| two_each.cpu(1, cpu)), [5, 5]);
        let uneven = setup(6, 4);
        let groups: Vec<_> = (0..6).map(|cpu| uneven.queue(0, cpu)).collect();
        assert_eq!(groups, [0, 0, 1, 2, 2, 3]);
    }

    proptest! {
        #[test]
        fn a_queue_interrupts_one_of_the_cpus_that_submit_to_it(
            cpus in 1_usize..200,
            share in 0.0..=1.0_f64,
            drive in 0_usize..8,
        ) {
            let queues = ((cpus as f64 * share) as usize).max(1);
            let setup = setup(cpus, queues);
            for cpu in 0..cpus {
                let to = setup.cpu(drive, cpu);
                prop_assert_eq!(setup.queue(drive, to), setup.queue(drive, cpu));
                prop_assert!(setup.queue(drive, cpu) < (drive + 1) * setup.queues);
            }
        }
    }
}
