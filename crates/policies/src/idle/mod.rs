//! CPU idle governors: which idle state to enter, and whether to stop the tick.
//!
//! [`IdleGovernor::select`] is called when a CPU runs out of work, [`IdleGovernor::reflect`] afterwards with the
//! outcome. [`Governor`] holds any governor.

pub mod fit;
pub mod generations;
pub mod haltpoll;
mod interface;
pub mod kernel;
pub mod ladder;
pub mod limit;
pub mod menu;
pub mod only_state;
pub mod oracle;
mod policy;
pub mod power;
pub mod program;
pub mod simple;
mod table;
pub mod teo;

#[cfg(test)]
pub(crate) mod testing;

use wakepath_hardware::IdleStates;
pub use wakepath_units::KernelVersion;

pub use interface::{
    HaltpollParameters, IdleDecision, IdleGovernor, IdleOutcome, IdleQuery, OracleGoal,
    WithGovernor,
};
pub use policy::IdlePolicy;

use wakepath_units::{Nanoseconds, TickRate};

use self::generations::Generation;
use self::haltpoll::Haltpoll;
use self::ladder::Ladder;
use self::menu::{AnyMenu, for_each_menu};
use self::only_state::OnlyState;
use self::oracle::Oracle;
use self::power::IdlePower;
use self::program::ProgramGovernor;
use self::simple::{Deepest, Shallowest};
use self::table::StateTable;
use self::teo::{AnyTeo, Teo61, for_each_teo};
use crate::utilisation::CpuUtilisation;

impl IdlePolicy {
    /// Governor generation that the policy stands for; `None` for a governor that never changed.
    pub fn generation(&self) -> Option<&'static Generation> {
        match *self {
            Self::Menu(kernel) => generations::find_generation(menu::menu_generations(), kernel),
            Self::Teo(kernel) => generations::find_generation(teo::teo_generations(), kernel),
            _ => None,
        }
    }
}

/// Any idle governor, with memory for a single CPU.
#[derive(Debug)]
#[expect(
    missing_docs,
    reason = "each variant is documented as a type of its own"
)]
pub enum Governor {
    Menu(AnyMenu),
    Teo61(Teo61),
    Teo(AnyTeo),
    Ladder(Ladder),
    Haltpoll(Haltpoll),
    Shallowest(Shallowest),
    Deepest(Deepest),
    Oracle(Oracle),
    OnlyState(OnlyState),
    Program(ProgramGovernor),
}

/// Evaluates an expression for whichever governor a [`Governor`] holds, without a virtual call.
macro_rules! for_each_governor {
    ($governor:expr, $name:ident => $what:expr) => {
        match $governor {
            Governor::Menu(menu) => for_each_menu!(menu, $name => $what),
            Governor::Teo61($name) => $what,
            Governor::Teo(teo) => for_each_teo!(teo, $name => $what),
            Governor::Ladder($name) => $what,
            Governor::Haltpoll($name) => $what,
            Governor::Shallowest($name) => $what,
            Governor::Deepest($name) => $what,
            Governor::Oracle($name) => $what,
            Governor::OnlyState($name) => $what,
            Governor::Program($name) => $what,
        }
    };
}

impl Governor {
    /// The policy's governor for a CPU that has never been idle.
    pub fn new(policy: &IdlePolicy, states: &IdleStates, tick: TickRate) -> Self {
        match *policy {
            IdlePolicy::Menu(kernel) => Self::Menu(AnyMenu::new(kernel, states, tick)),
            IdlePolicy::Teo(kernel) => AnyTeo::new(kernel, states, tick)
                .map_or_else(|| Self::Teo61(Teo61::new(states, tick)), Self::Teo),
            IdlePolicy::Ladder(_) => Self::Ladder(Ladder::new(states)),
            IdlePolicy::Haltpoll(version, parameters) => {
                Self::Haltpoll(Haltpoll::new(states, version, parameters))
            }
            IdlePolicy::Shallowest => Self::Shallowest(Shallowest::new(states)),
            IdlePolicy::Deepest => Self::Deepest(Deepest::new(states)),
            IdlePolicy::Oracle(goal) => Self::Oracle(Oracle::new(states, goal, tick)),
            IdlePolicy::Program(ref program) => {
                Self::Program(ProgramGovernor::new(program, states, tick))
            }
        }
    }

    /// The policy's governor, or on a driver with one idle state the kernel's rule that asks no
    /// governor.
    pub fn new_or_only_state(policy: &IdlePolicy, states: &IdleStates, tick: TickRate) -> Self {
        OnlyState::replacing_governor(policy, states)
            .map_or_else(|| Self::new(policy, states, tick), Self::OnlyState)
    }

    /// Like [`Governor::new_or_only_state`], on a machine with known idle power. Only the oracle
    /// uses the power.
    pub fn new_with_power(
        policy: &IdlePolicy,
        states: &IdleStates,
        tick: TickRate,
        power: &IdlePower,
    ) -> Self {
        match *policy {
            IdlePolicy::Oracle(goal) => {
                Self::Oracle(Oracle::new_with_power(states, goal, tick, power))
            }
            _ => Self::new_or_only_state(policy, states, tick),
        }
    }

    /// Switches an idle state off or on and keeps all that the governor has learnt, as writing to
    /// the state's `disable` file in sysfs does. An index that does not exist is ignored.
    pub fn set_disabled(&mut self, state: usize, disabled: bool) {
        match self {
            Self::Program(program) => program.set_disabled(state, disabled),
            _ => self.state_table_mut().set_disabled(state, disabled),
        }
    }

    /// Why a user's own governor no longer answers; since then every query gets state 0.
    pub fn failure_reason(&self) -> Option<&str> {
        match self {
            Self::Program(program) => program.failure_reason(),
            _ => None,
        }
    }

    /// Whether the governor must be told the CPU's utilisation before each query.
    #[inline]
    pub fn wants_utilisation(&self) -> bool {
        matches!(self, Self::Program(_))
    }

    /// Runs an operation on the governor itself, whose type the compiler then knows.
    #[inline]
    pub fn run_operation(&mut self, operation: impl WithGovernor) {
        for_each_governor!(self, governor => operation.run_with(governor));
    }

    /// Replays a call log in which every state chosen was also the one entered, and hands each
    /// decision to `decided`. Quicker than asking call by call: which governor it is, is settled
    /// once. Between its idle periods the CPU counts as busy ([`CpuUtilisation`]).
    pub fn replay_log<'a>(
        &mut self,
        log: impl Iterator<Item = (&'a IdleQuery, &'a IdleOutcome)>,
        mut decided: impl FnMut(IdleDecision),
    ) {
        for_each_governor!(self, governor => replay_log_with(governor, log, &mut decided));
    }

    fn state_table_mut(&mut self) -> &mut StateTable {
        for_each_governor!(self, governor => &mut governor.table)
    }
}

fn replay_log_with<'a, G: IdleGovernor>(
    governor: &mut G,
    log: impl Iterator<Item = (&'a IdleQuery, &'a IdleOutcome)>,
    decided: &mut impl FnMut(IdleDecision),
) {
    let mut busy = CpuUtilisation::default();
    for (query, outcome) in log {
        if G::WANTS_UTILISATION {
            governor.set_utilisation(busy.begin_idle_period(query.clock));
        }
        let decision = governor.select(query);
        governor.reflect(decision.state, outcome);
        if G::WANTS_UTILISATION && outcome.residency > 0 {
            busy.end_idle_period(outcome.clock);
        }
        decided(decision);
    }
}

// `select` and `reflect` are functions of their own here: with many generations, inlined calls
// would dominate the caller. Each also saves only the registers in use, not the maximum over all
// generations.

#[inline(never)]
fn select<G: IdleGovernor>(governor: &mut G, query: &IdleQuery) -> IdleDecision {
    governor.select(query)
}

#[inline(never)]
fn reflect<G: IdleGovernor>(governor: &mut G, entered: usize, outcome: &IdleOutcome) {
    governor.reflect(entered, outcome);
}

impl IdleGovernor for Governor {
    #[inline(always)]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        for_each_governor!(self, governor => select(governor, query))
    }

    #[inline(always)]
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        for_each_governor!(self, governor => reflect(governor, entered, outcome));
    }

    #[inline]
    fn poll_limit(&self) -> Option<Nanoseconds> {
        for_each_governor!(self, governor => governor.poll_limit())
    }

    fn pattern_passes(&self) -> u32 {
        for_each_governor!(self, governor => governor.pattern_passes())
    }

    fn set_utilisation(&mut self, share: u16) {
        for_each_governor!(self, governor => governor.set_utilisation(share));
    }
}

#[cfg(test)]
mod tests;
