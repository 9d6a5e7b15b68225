//! The timer-events-oriented governor: trust the next timer unless most recent wake-ups came before
//! it, and then choose the state that most of those early wake-ups would have suited.
//!
//! Source: `drivers/cpuidle/governors/teo.c`. [`Teo61`] is Linux 6.1's; `generations` has the differences between
//! later kernels.
//!
//! Every idle state has a bin of idle durations, from its target residency to the next state's. A wake-up in the
//! expected timer's bin is a *hit*; a wake-up in a shallower bin is an *intercept* there.

mod bins;
mod expectation;
mod generations;
mod since_6_12;
mod v6_1;

pub use since_6_12::Teo;
pub use v6_1::Teo61;

use wakepath_hardware::IdleStates;
use wakepath_units::{KernelVersion, TickRate};

use self::generations::GENERATIONS;
use super::generations::{Entry, Generation, any_generation, index_of_generation_or_first};

any_generation!(
    $ teo AnyTeo for_each_teo Teo: G0
    G1 = 1 G2 = 2 G3 = 3 G4 = 4 G5 = 5 G6 = 6 G7 = 7
);

impl AnyTeo {
    /// The teo governor of a kernel from 6.11 on, for a CPU that has never been idle; `None` for an
    /// older kernel, which has [`Teo61`].
    pub fn new(kernel: KernelVersion, states: &IdleStates, tick: TickRate) -> Option<Self> {
        let later = index_of_generation_or_first(teo_generations(), kernel).checked_sub(1)?;
        Some(Self::new_for_generation(later, states, tick))
    }
}

/// Whether teo's rules in a kernel are built in. From 6.3 to 6.10 teo used the CPU's utilisation,
/// an input that other governors do not get.
pub fn has_built_in_teo_rules(kernel: KernelVersion) -> bool {
    let (major, minor, _) = kernel.release();
    !((6, 3)..(6, 11)).contains(&(major, minor))
}

/// Generations of the teo governor, oldest series first.
pub fn teo_generations() -> impl Iterator<Item = &'static Generation> + Clone {
    const FIRST: &Generation = &generations::LINUX_6_1;
    const LATER: &[Entry<generations::Rules>] = &GENERATIONS;
    std::iter::once(FIRST).chain(LATER.iter().map(|entry| &entry.generation))
}
