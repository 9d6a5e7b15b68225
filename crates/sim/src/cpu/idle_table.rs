//! The idle states of a cluster's CPUs, as the engine needs them.

use wakepath_hardware::Machine;
use wakepath_hardware::idle::IdleStates;
use wakepath_hardware::machine::{Cluster, MachineIdleState, Scope};
use wakepath_policies::idle::fit::FitBounds;
use wakepath_policies::poll::{self, PollPolicy};
use wakepath_units::Nanoseconds;

use crate::core::basics::{Cycles, NEVER};
use crate::core::random::ServiceTime;
use crate::error::SimError;

/// Idle states that are looked at side by side: most machines have no more.
const GROUP: usize = 4;

/// An idle state as it really is.
#[derive(Clone, Debug)]
pub(crate) struct TrueState {
    pub(super) index: usize,
    pub(super) entry: u64,
    /// Mean.
    pub(super) exit: u64,
    /// How it varies, if it does.
    pub(super) exit_spread: Option<ServiceTime>,
    pub(super) cold_start: Cycles,
    pub(super) whole_cluster: bool,
    pub(super) polling: bool,
    /// Another CPU wakes it without an interrupt.
    pub(super) mwait: bool,
    disabled: bool,
    /// Declared.
    target_residency: u64,
    /// By what is declared, for the kernel's too-deep and too-shallow counters.
    pub(super) fit: FitBounds,
}

impl TrueState {
    fn new(index: usize, s: &MachineIdleState, declared: &IdleStates) -> Self {
        Self {
            index,
            entry: s.true_entry_us.micros().0,
            exit: s.true_exit_us.micros().0,
            exit_spread: (s.exit_spread.value > 0.0)
                .then(|| ServiceTime::new(s.true_exit_us.value * 1e3, s.exit_spread.value)),
            cold_start: s.cold_start_kcycles.kilocycles(),
            whole_cluster: s.scope == Scope::Cluster,
            polling: s.polling,
            mwait: s.mwait,
            disabled: s.disabled,
            target_residency: s.target_residency_us.micros().0,
            fit: FitBounds::new(declared, index),
        }
    }
}

/// The idle states of one kind of CPU.
#[derive(Clone, Debug)]
pub(crate) struct IdleTable {
    /// As declared to the governors.
    pub(super) declared: IdleStates,
    pub(super) states: Vec<TrueState>,
    /// The declared target residencies of the enabled states, [`GROUP`] by [`GROUP`]; [`NEVER`] for the others.
    residencies: Vec<[u64; GROUP]>,
    /// The shallowest enabled state.
    shallowest: usize,
    /// How long a polling state spins.
    pub(super) poll_limit: Nanoseconds,
    /// See [`deepest_alone`].
    deepest_alone: Option<usize>,
}

impl IdleTable {
    pub(crate) fn new(
        machine: &Machine,
        cluster: &Cluster,
        poll: Option<PollPolicy>,
    ) -> Result<Self, SimError> {
        let declared = machine.declared_idle_states_of(cluster)?;
        let machine_states = machine.idle_states_of(cluster);
        let states = machine_states.iter().enumerate();
        let states: Vec<TrueState> = states
            .map(|(index, state)| TrueState::new(index, state, &declared))
            .collect();
        Ok(Self {
            poll_limit: poll::limit_under(
                &poll.unwrap_or_default(),
                &declared,
                machine.tick_rate(),
            ),
            residencies: (states.chunks(GROUP))
                .map(|states| {
                    let mut residencies = [NEVER; GROUP];
                    for (residency, state) in residencies.iter_mut().zip(states) {
                        if !state.disabled {
                            *residency = state.target_residency;
                        }
                    }
                    residencies
                })
                .collect(),
            shallowest: states.iter().position(|s| !s.disabled).unwrap_or(0),
            deepest_alone: deepest_alone(&machine_states),
            states,
            declared,
        })
    }

    /// The state that a CPU in `state` is in while its cluster is up.
    pub(crate) fn alone_in<'a>(&'a self, state: &'a TrueState) -> &'a TrueState {
        match self.deepest_alone {
            Some(index) if state.whole_cluster => &self.states[index],
            _ => state,
        }
    }

    /// The deepest enabled state whose target residency is within this time, else the shallowest enabled one.
    pub(crate) fn fitting(&self, idle: u64) -> usize {
        let mut fitting = self.shallowest;
        // All of them are looked at: nobody can tell which one it will be, and a wrong guess costs more.
        for (group, residencies) in self.residencies.iter().enumerate() {
            for (state, residency) in residencies.iter().enumerate() {
                if *residency <= idle {
                    fitting = group * GROUP + state;
                }
            }
        }
        fitting
    }
}

/// Index of the state in which a CPU waits for its cluster to go down: the deepest one of its own in which it
/// sleeps. Without one it is in the cluster's state by itself.
pub(crate) fn deepest_alone(states: &[MachineIdleState]) -> Option<usize> {
    let own = |s: &MachineIdleState| s.scope == Scope::Cpu && !s.disabled && !s.polling;
    states.iter().rposition(own)
}
