//! The idle loop of a CPU: its governor, the state that it is in, and what the governor is still to be told.

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
    /// The state that was chosen last, and when.
    pub(super) state: usize,
    pub(super) since: u64,
    /// The governor does not count so much of the present idle period, in ns: it was still about to choose.
    pub(super) uncounted: u64,
    /// A tick came since the CPU went idle.
    pub(super) got_tick: bool,
    /// In a polling state, and when that gives up.
    pub(super) polling_until: Option<u64>,
    /// When the event came that ended the last idle period in a state other than polling.
    pub(super) wake_began: u64,
    /// When the CPU last was ready to work after an idle period.
    pub(super) awake_since: u64,
    /// Time with interrupts in the present idle period in a polling state, in ns.
    pub(super) busy_in_period: u64,
    /// Residency of an idle period that the governor has not been told about, and whether polling reached its limit in it.
    pub(super) unreflected: Option<(u64, bool)>,
    /// What the hardware knows of the CPU's wake-ups, where it demotes.
    pub(super) demotion: Demotion,
    /// The hardware entered a shallower state than the one chosen.
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
