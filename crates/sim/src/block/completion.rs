//! Completions: hardware queues, the CPUs to interrupt, and when to do so.

use wakepath_hardware::Machine;

use crate::core::basics::CpuId;

/// A drive's completion queues, and which CPUs they interrupt.
#[derive(Clone, Debug)]
pub(crate) struct CompletionSetup {
    cpus: usize,
    /// Completion queues per drive; at most one per CPU.
    queues: usize,
    fixed: Option<CpuId>,
    /// Share of completion interrupts that arrive at the queue's own CPU; absent: all.
    pub(super) same_cpu_share: Option<f64>,
    pub(super) coalescing: Option<Coalescing>,
    /// Whether a queue interrupts only once the drive has ended all of its requests.
    pub(super) when_empty: bool,
    /// Whether the requests that a drive has from each queue are counted.
    pub(super) counts_unended: bool,
    /// By CPU, whether completion interrupts avoid the CPU if possible (`managed_irq`); empty if none does.
    kept_free: Vec<bool>,
}

/// Interrupt coalescing: a queue collects completions before it interrupts a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coalescing {
    pub(super) threshold: usize,
    /// Longest time in ns that a queue holds its first completion back.
    pub(super) time: u64,
}

impl CompletionSetup {
    pub(crate) fn new(machine: &Machine) -> Self {
        let figures = &machine.io_path.completion;
        let cpus = machine.cpus();
        let share = &figures.same_cpu_share;
        let isolation = &machine.isolation;
        let mut kept_free = Vec::new();
        if isolation.managed_irq {
            kept_free.extend((0..cpus).map(|cpu| isolation.isolcpus.contains(&cpu)));
        }
        Self {
            cpus,
            kept_free,
            queues: figures.queues.unwrap_or(cpus).clamp(1, cpus),
            fixed: figures.cpu,
            same_cpu_share: (share.is_given() && share.value < 1.0).then_some(share.value),
            coalescing: (figures.coalesce.value > 1.0).then(|| Coalescing {
                threshold: figures.coalesce.value as usize,
                time: figures.coalesce_us.micros_to_time().0,
            }),
            when_empty: figures.when_empty.value > 0.0,
            counts_unended: figures.when_empty.value > 0.0
                || machine.io_path.doorbell_share.value > 0.0,
        }
    }

    /// Number of queues over all drives.
    pub(crate) fn queue_count(&self, drives: usize) -> usize {
        drives * self.queues
    }

    /// Number of queues that keep completions back, over all drives; 0 if none does.
    pub(crate) fn collecting_queue_count(&self, drives: usize) -> usize {
        if self.when_empty || self.coalescing.is_some() {
            self.queue_count(drives)
        } else {
            0
        }
    }

    /// Number of the queue that takes a CPU's submissions to a drive, counted over all drives.
    pub(crate) fn queue_number_across_drives(&self, drive: usize, submitter: CpuId) -> usize {
        drive * self.queues + submitter * self.queues / self.cpus
    }

    /// The CPU to interrupt when a drive has finished what `submitter` submitted.
    ///
    /// A queue serves consecutive CPUs. The kernel gives each interrupt to the CPU with the fewest so far, so that
    /// drives take turns.
    #[inline]
    pub(crate) fn interrupted_cpu(&self, drive: usize, submitter: CpuId) -> CpuId {
        match self.fixed {
            Some(fixed) => fixed,
            None if self.queues == self.cpus => submitter,
            None => self.interrupted_cpu_if_queue_is_shared(drive, submitter),
        }
    }

    /// The CPU that a completion interrupts, for a queue shared by several submitting CPUs.
    #[inline(never)]
    fn interrupted_cpu_if_queue_is_shared(&self, drive: usize, submitter: CpuId) -> CpuId {
        let queue = submitter * self.queues / self.cpus;
        let first = (queue * self.cpus).div_ceil(self.queues);
        let next = ((queue + 1) * self.cpus).div_ceil(self.queues);
        if self
            .kept_free
            .get(first..next)
            .is_some_and(|free| free.contains(&true))
        {
            let others: Vec<CpuId> = (first..next)
                .filter(|submitter| !self.kept_free[*submitter])
                .collect();
            if let Some(submitter) = others.get(drive % others.len().max(1)) {
                return *submitter;
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
            when_empty: false,
            counts_unended: false,
            kept_free: Vec::new(),
        }
    }

    #[test]
    fn drives_take_turns_among_the_cpus_of_a_queue() {
        let two_each = setup(8, 4);
        assert_eq!([4, 5].map(|cpu| two_each.interrupted_cpu(0, cpu)), [4, 4]);
        assert_eq!([4, 5].map(|cpu| two_each.interrupted_cpu(1, cpu)), [5, 5]);
        let uneven = setup(6, 4);
        let groups: Vec<_> = (0..6)
            .map(|cpu| uneven.queue_number_across_drives(0, cpu))
            .collect();
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
                let to = setup.interrupted_cpu(drive, cpu);
                prop_assert_eq!(setup.queue_number_across_drives(drive, to), setup.queue_number_across_drives(drive, cpu));
                prop_assert!(setup.queue_number_across_drives(drive, cpu) < (drive + 1) * setup.queues);
            }
        }
    }
}
