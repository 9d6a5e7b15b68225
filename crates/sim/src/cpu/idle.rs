//! A CPU's idle loop: governor, idle state, and the outcome not yet told to the governor.

use wakepath_hardware::c1_demotion::Demotion;
use wakepath_policies::idle::Governor;
use wakepath_policies::psd::{Ceiling, Lease, PsdPolicy};
use wakepath_units::Nanoseconds;

use crate::core::basics::NEVER;
use crate::cpu::idle_table::IdleTable;

/// A CPU's idle loop.
#[derive(Debug)]
pub(crate) struct Idle<'a> {
    /// The idle states.
    pub(super) table: &'a IdleTable,
    pub(super) governor: Governor,
    /// The longest exit latency in ns allowed to the governor.
    pub(super) latency_request: i64,
    /// Power-sleep demotion prevention, if in use.
    pub(super) lease: Option<(Lease, PsdPolicy)>,
    /// The lease's timer runs.
    pub(super) lease_timer: bool,
    /// In the kernel's idle loop, whatever interrupts are served meanwhile.
    pub(super) in_loop: bool,
    /// Last choice: index and time.
    pub(super) state: usize,
    pub(super) since: u64,
    /// Time in ns in the present idle period while the governor was still choosing.
    pub(super) uncounted: u64,
    /// A tick came since the CPU went idle.
    pub(super) got_tick: bool,
    /// End of the polling limit, in a polling state.
    pub(super) polling_until: Option<u64>,
    /// Time when the last sleep ended, by the event.
    pub(super) wake_began: u64,
    /// When the last idle period ended.
    pub(super) awake_since: u64,
    /// Time with interrupts in the present idle period in a polling state, in ns.
    pub(super) busy_in_period: u64,
    /// Residency not yet told to the governor, and whether polling reached the limit.
    pub(super) unreflected: Option<(u64, bool)>,
    /// Recent wake-ups, for hardware that demotes.
    pub(super) demotion: Demotion,
    /// The hardware entered a shallower state than the governor chose.
    pub(super) demoted: bool,
    /// When the hardware goes on to the state chosen.
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

    /// The ceiling on exit latency while a lease holds.
    #[inline(always)]
    pub(super) fn lease_ceiling(&self, now: u64) -> Option<Ceiling> {
        match &self.lease {
            Some((lease, policy)) if lease.holds_at(Nanoseconds(now)) => Some(policy.ceiling),
            _ => None,
        }
    }

    /// Whether the CPU is in a whole-cluster state.
    pub(super) fn is_in_cluster_state(&self) -> bool {
        !self.demoted && self.table.states[self.state].whole_cluster
    }
}
