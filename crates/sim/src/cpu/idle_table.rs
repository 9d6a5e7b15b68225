//! A cluster's idle states, as the engine needs them.

use wakepath_hardware::Machine;
use wakepath_hardware::idle::IdleStates;
use wakepath_hardware::machine::{Cluster, Figure, MachineIdleState, Scope};
use wakepath_policies::idle::fit::FitBounds;
use wakepath_policies::poll::{self, PollPolicy};
use wakepath_units::Nanoseconds;

use crate::core::basics::{Cycles, NEVER};
use crate::core::random::ServiceTime;
use crate::error::SimError;

/// Number of idle states compared side by side; most machines have no more.
const GROUP: usize = 4;

/// An idle state's true figures.
#[derive(Clone, Debug)]
pub(crate) struct TrueState {
    pub(super) index: usize,
    pub(super) entry: u64,
    /// Mean.
    pub(super) exit: u64,
    /// Distribution of exit times, if they vary.
    pub(super) exit_spread: Option<ServiceTime>,
    /// What the state becomes by itself after a time.
    deeper: Option<DeeperSleep>,
    pub(super) cold_start: Cycles,
    pub(super) whole_cluster: bool,
    pub(super) polling: bool,
    /// Whether another CPU's write wakes a CPU in the state without an interrupt (`mwait`).
    pub(super) mwait: bool,
    disabled: bool,
    /// Declared.
    target_residency: u64,
    /// Bounds of a fitting residency by declared figures, for the kernel's `above` and `below` counters.
    pub(super) fit: FitBounds,
}

/// What a state becomes by itself: a virtual machine's host sleeps on, or the hardware promotes.
#[derive(Clone, Debug)]
struct DeeperSleep {
    /// Time in the state from which on the CPU is deeper, in ns.
    after: u64,
    /// Mean exit time from then on, in ns.
    exit: u64,
    exit_spread: Option<ServiceTime>,
}

impl TrueState {
    /// Mean exit time in ns after `stay` ns in the state, and its distribution if exit times vary.
    pub(super) fn exit_after(&self, stay: u64) -> (u64, Option<&ServiceTime>) {
        match &self.deeper {
            Some(deeper) if stay >= deeper.after => (deeper.exit, deeper.exit_spread.as_ref()),
            _ => (self.exit, self.exit_spread.as_ref()),
        }
    }

    fn new(index: usize, s: &MachineIdleState, declared: &IdleStates) -> Self {
        Self {
            index,
            entry: s.true_entry_us.micros_to_time().0,
            exit: s.true_exit_us.micros_to_time().0,
            exit_spread: exit_distribution(&s.true_exit_us, s),
            deeper: s.deeper_after_us.is_given().then(|| DeeperSleep {
                after: s.deeper_after_us.micros_to_time().0,
                exit: s.deeper_exit_us.micros_to_time().0,
                exit_spread: exit_distribution(&s.deeper_exit_us, s),
            }),
            cold_start: s.cold_start_kcycles.kilocycles_to_cycles(),
            whole_cluster: s.scope == Scope::Cluster,
            polling: s.polling,
            mwait: s.mwait,
            disabled: s.disabled,
            target_residency: s.target_residency_us.micros_to_time().0,
            fit: FitBounds::for_state(declared, index),
        }
    }
}

/// Distribution of a state's exit times about a mean, if they vary.
fn exit_distribution(mean_us: &Figure, state: &MachineIdleState) -> Option<ServiceTime> {
    let spread = state.exit_spread.value;
    (spread > 0.0).then(|| ServiceTime::new(mean_us.value * 1e3, spread))
}

/// Idle states for one kind of CPU.
#[derive(Clone, Debug)]
pub(crate) struct IdleTable {
    /// The idle states as declared to the governors.
    pub(super) declared: IdleStates,
    pub(super) states: Vec<TrueState>,
    /// The declared target residencies of the enabled states, [`GROUP`] by [`GROUP`]; [`NEVER`] for the others.
    residencies: Vec<[u64; GROUP]>,
    /// Index of the shallowest enabled idle state.
    shallowest: usize,
    /// How long a CPU polls in a polling state at most.
    pub(super) poll_limit: Nanoseconds,
    /// Index of the deepest sleep state of a CPU alone: see [`deepest_state_without_cluster`].
    deepest_alone: Option<usize>,
}

impl IdleTable {
    pub(crate) fn new(
        machine: &Machine,
        cluster: &Cluster,
        poll: Option<PollPolicy>,
    ) -> Result<Self, SimError> {
        let declared = machine.declared_idle_states_on_cluster(cluster)?;
        let machine_states = machine.idle_states_on_cluster(cluster);
        let states: Vec<TrueState> = (machine_states.iter().enumerate())
            .map(|(index, state)| TrueState::new(index, state, &declared))
            .collect();
        Ok(Self {
            poll_limit: poll::polling_limit_under_policy(
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
            deepest_alone: deepest_state_without_cluster(&machine_states),
            states,
            declared,
        })
    }

    /// The idle state that a CPU in `state` really has while other CPUs keep the cluster up.
    pub(crate) fn state_while_cluster_is_up<'a>(&'a self, state: &'a TrueState) -> &'a TrueState {
        match self.deepest_alone {
            Some(index) if state.whole_cluster => &self.states[index],
            _ => state,
        }
    }

    /// Index of the shallowest state without polling: what a thread reaches on a core that is awake.
    pub(super) fn halt_state(&self) -> usize {
        self.states.iter().position(|s| !s.polling).unwrap_or(0)
    }

    /// Index of the deepest enabled state with a target residency within `idle_ns`, else of the shallowest enabled state.
    pub(crate) fn deepest_fitting_state(&self, idle_ns: u64) -> usize {
        let mut fitting = self.shallowest;
        // All states are compared without a break: a mispredicted branch costs more.
        for (group, residencies) in self.residencies.iter().enumerate() {
            for (state, residency) in residencies.iter().enumerate() {
                if *residency <= idle_ns {
                    fitting = group * GROUP + state;
                }
            }
        }
        fitting
    }
}

/// Index of a CPU's state while the cluster is still up: the deepest sleep state without the cluster. Without any, the
/// CPU is in the cluster's state alone.
pub(crate) fn deepest_state_without_cluster(states: &[MachineIdleState]) -> Option<usize> {
    states
        .iter()
        .rposition(|s| s.scope == Scope::Cpu && !s.disabled && !s.polling)
}
