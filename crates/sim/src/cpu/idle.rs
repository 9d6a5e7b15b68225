//! The idle loop of a CPU: governor, idle state, and the outcome that the governor does not know yet.

use wakepath_hardware::c1_demotion::Demotion;
use wakepath_policies::idle::Governor;
use wakepath_policies::psd::{Lease, PsdPolicy};

use crate::core::basics::NEVER;
use crate::cpu::idle_table::IdleTable;

/// The idle loop of a CPU.
#[derive(Debug)]
pub(crate) struct Idle<'a> {
    /// The idle states.
    pub(super) table: &'a IdleTable,
    pub(super) governor: Governor,
    /// The longest exit latency in ns that the governor may choose.
    pub(super) latency_request: i64,
    /// Power-sleep demotion prevention, if in use.
    pub(super) lease: Option<(Lease, PsdPolicy)>,
    /// The lease's timer runs.
    pub(super) lease_timer: bool,
    /// In the kernel's idle loop, whatever interrupts are served meanwhile.
    pub(super) in_loop: bool,
    /// Index and time of the last choice.
    pub(super) state: usize,
    pub(super) since: u64,
    /// Time in ns of the present idle period in which the governor was still choosing.
    pub(super) uncounted: u64,
    /// A tick came since the CPU went idle.
    pub(super) got_tick: bool,
    /// End of the polling limit, in a polling state.
    pub(super) polling_until: Option<u64>,
    /// Time of the event that ended the last sleep.
    pub(super) wake_began: u64,
    /// End of the last idle period.
    pub(super) awake_since: u64,
    /// Time with interrupts in the present idle period in a polling state, in ns.
    pub(super) busy_in_period: u64,
    /// Residency of an idle period that the governor has not been told about, and whether polling reached its limit in it.
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

    /// Whether the CPU is in a state of its whole cluster.
    pub(super) fn is_in_cluster_state(&self) -> bool {
        !self.demoted && self.table.states[self.state].whole_cluster
    }
}
