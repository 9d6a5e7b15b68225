//! Time slots in which hardware looks at the clocks.

use crate::core::basics::TaskId;
use crate::frequency::clocks::Domain;
use crate::frequency::setup::FrequencySetup;

/// The hardware's time slots, and schedutil's threads, which change clocks.
#[derive(Debug)]
pub(crate) struct ClockControl {
    pub(super) slots: ClockSlots,
    /// schedutil's threads by clock; empty if the driver needs none.
    sugov: Vec<TaskId>,
}

impl ClockControl {
    /// `has_limit`: packages have a power limit, applied at the ends of slots.
    pub(crate) fn new(setup: &FrequencySetup, has_limit: bool, domains: &[Domain]) -> Self {
        Self {
            slots: ClockSlots::new(setup, has_limit, domains),
            sugov: Vec::new(),
        }
    }

    /// Adds the task of schedutil's thread for the next clock.
    pub(crate) fn add_sugov_thread(&mut self, task: TaskId) {
        self.sugov.push(task);
    }

    /// The task of schedutil's thread for a clock.
    pub(crate) fn sugov_thread(&self, clock: usize) -> TaskId {
        self.sugov[clock]
    }
}

/// Time slots in which the hardware looks at clocks, if the hardware has anything to decide.
///
/// A sleeping cluster has no slots, which would change nothing. A wake-up makes up for the decisions meanwhile.
#[derive(Debug, Default)]
pub(super) struct ClockSlots {
    /// State of the slots by cluster; empty if no cluster uses slots.
    pub(super) clusters: Vec<ClusterSlots>,
    /// By CPU, how often it had gone idle by the end of the last slot.
    pub(super) times_idle: Vec<u64>,
    /// By CPU, whether it was awake at any time in the last slot.
    pub(super) active: Vec<bool>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ClusterSlots {
    pub(super) used: bool,
    pub(super) running: bool,
}

impl ClockSlots {
    fn new(setup: &FrequencySetup, has_limit: bool, domains: &[Domain]) -> Self {
        let mut slots: Vec<ClusterSlots> = setup
            .clusters
            .iter()
            .map(|c| ClusterSlots {
                used: !c.turbo.is_empty() || has_limit,
                running: false,
            })
            .collect();
        for domain in domains {
            let has_slots = setup.clusters[domain.cluster()].slot > 0;
            slots[domain.cluster()].used |= has_slots && domain.follows_hardware_slots();
        }
        if !slots.iter().any(|c| c.used) {
            return Self::default();
        }
        let cpus = domains.iter().map(|d| d.cpus().len()).sum();
        Self {
            clusters: slots,
            times_idle: vec![0; cpus],
            active: vec![false; cpus],
        }
    }
}
