//! A CPU's idle loop: governor, idle state, and the outcome not yet told to the governor.

use wakepath_hardware::c1_demotion::Demotion;
use wakepath_policies::idle::Governor;
use wakepath_policies::psd::{Ceiling, Lease, PsdPolicy};
use wakepath_units::Nanoseconds;

use crate::core::basics::NEVER;
use crate::cpu::idle_table::IdleTable;

/// State of a CPU's idle loop.
#[derive(Debug)]
pub(crate) struct Idle<'a> {
    /// Idle states of the CPU's cluster.
    pub(super) table: &'a IdleTable,
    pub(super) governor: Governor,
    /// Longest exit latency in ns that the governor may choose.
    pub(super) latency_request: i64,
    /// The CPU's PSD lease (power-sleep demotion prevention) and its policy, if in use.
    pub(super) lease: Option<(Lease, PsdPolicy)>,
    /// Whether a timer for the PSD lease is running.
    pub(super) lease_timer: bool,
    /// Whether the CPU is in the kernel's idle loop, also while it serves an interrupt there.
    pub(super) in_loop: bool,
    /// The last chosen idle state's index, and when the CPU entered it.
    pub(super) state: usize,
    pub(super) since: u64,
    /// Time in ns in the present idle period while the governor was still choosing.
    pub(super) uncounted: u64,
    /// Whether a tick came since the CPU went idle.
    pub(super) got_tick: bool,
    /// Time in ns when polling reaches its limit; `None` outside a polling state.
    pub(super) polling_until: Option<u64>,
    /// Time in ns of the event that ended the last sleep.
    pub(super) wake_began: u64,
    /// Time in ns when the last idle period ended.
    pub(super) awake_since: u64,
    /// Time with interrupts in the present idle period in a polling state, in ns.
    pub(super) busy_in_period: u64,
    /// The last residency in ns and whether polling reached its limit; `None` once the governor has been told.
    pub(super) unreflected: Option<(u64, bool)>,
    /// Recent wake-ups, by which the hardware's C1 demotion decides.
    pub(super) demotion: Demotion,
    /// Whether the hardware entered a shallower state than the governor chose (C1 demotion).
    pub(super) demoted: bool,
    /// Time in ns when demoting hardware goes on to the chosen state.
    pub(super) undemoted_at: u64,
    /// How long the cluster had been down when the CPU fell asleep in a state of the cluster.
    pub(super) down_before: u64,
}

impl<'a> Idle<'a> {
    pub(super) fn new(
        table: &'a IdleTable,
        governor: Governor,
        latency_request: i64,
        lease: Option<(Lease, PsdPolicy)>,
    ) -> Self {
        Self {
            table,
            governor,
            latency_request,
            lease,
            lease_timer: false,
            in_loop: true,
            state: 0,
            since: 0,
            uncounted: 0,
            got_tick: false,
            polling_until: None,
            wake_began: 0,
            awake_since: 0,
            busy_in_period: 0,
            unreflected: None,
            demotion: Demotion::default(),
            demoted: false,
            undemoted_at: NEVER,
            down_before: 0,
        }
    }

    /// The exit latency ceiling of the CPU's PSD lease, while the lease holds.
    #[inline(always)]
    pub(super) fn latency_ceiling_of_lease(&self, now: u64) -> Option<Ceiling> {
        match &self.lease {
            Some((lease, policy)) if lease.holds_at(Nanoseconds(now)) => Some(policy.ceiling),
            _ => None,
        }
    }

    /// Whether the CPU is in an idle state that takes the whole cluster down.
    pub(super) fn is_in_cluster_state(&self) -> bool {
        !self.demoted && self.table.states[self.state].whole_cluster
    }
}
