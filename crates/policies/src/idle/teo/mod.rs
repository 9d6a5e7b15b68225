//! The timer-events-oriented governor: trust the next timer unless most recent wake-ups came before
//! it, and then choose the state that most of those early wake-ups would have suited.
//!
//! Source: `drivers/cpuidle/governors/teo.c`. [`Teo61`] is Linux 6.1's; [`generations`] has the differences between
//! later kernels.
//!
//! Every idle state has a bin of idle durations, from its target residency to the next state's. A wake-up in the
//! expected timer's bin is a *hit*; a wake-up in a shallower bin is an *intercept* there.

mod bins;
mod generations;
mod since_6_12;
mod v6_1;

pub use since_6_12::Teo;
pub use v6_1::Teo61;

use wakepath_hardware::IdleStates;
use wakepath_units::{KernelVersion, TickRate};

use self::generations::GENERATIONS;
use super::IdleOutcome;
use super::generations::{Entry, Generation, any_generation, index_of};
use super::table::{StateSet, StateTable};

any_generation!(
    $ teo AnyTeo for_each_teo Teo: G0
    G1 = 1 G2 = 2 G3 = 3 G4 = 4 G5 = 5 G6 = 6 G7 = 7
);

impl AnyTeo {
    /// teo as a kernel from 6.11 on has it, for a CPU that has never been idle; none for an older kernel, which has
    /// [`Teo61`].
    pub fn new(kernel: KernelVersion, states: &IdleStates, tick: TickRate) -> Option<Self> {
        let later = index_of(generations(), kernel).checked_sub(1)?;
        Some(Self::of_generation(later, states, tick))
    }
}

/// Whether teo's decisions in a kernel are known. From 6.3 to 6.10 teo used the CPU's utilisation, an input that
/// other governors do not get.
pub fn is_known(kernel: KernelVersion) -> bool {
    let (major, minor, _) = kernel.release();
    !((6, 3)..(6, 11)).contains(&(major, minor))
}

/// Generations of teo, oldest series first.
pub fn generations() -> impl Iterator<Item = &'static Generation> + Clone {
    const FIRST: &Generation = &generations::LINUX_6_1;
    const LATER: &[Entry<generations::Rules>] = &GENERATIONS;
    std::iter::once(FIRST).chain(LATER.iter().map(|entry| &entry.generation))
}

/// The idle period that has just been decided on.
#[derive(Clone, Copy, Debug)]
struct Expectation {
    /// Time to the next timer, as far as the governor looked: [`i64::MAX`] if it did not.
    sleep_length: i64,
    /// Bin of the expected time.
    bin: usize,
    /// The CPU's clock at the decision.
    clock: u64,
}

impl Expectation {
    /// Expects a timer after `sleep_length`.
    #[inline]
    fn new(table: &StateTable, sleep_length: i64, clock: u64) -> Self {
        Self {
            sleep_length,
            bin: bin(table, sleep_length),
            clock,
        }
    }

    /// Expects no timer.
    #[inline]
    fn endless(table: &StateTable, clock: u64) -> Self {
        Self {
            sleep_length: i64::MAX,
            bin: table.deepest_index(),
            clock,
        }
    }

    /// How long the CPU is taken to have slept; [`u64::MAX`] if at least until the timer. Then the wake-up was due to
    /// the timer, or to a tick or a polling limit that only cut the sleep short.
    #[inline]
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "a branch on these would be mispredicted"
    )]
    fn measured(self, table: &StateTable, tick: i64, entered: usize, outcome: &IdleOutcome) -> u64 {
        let elapsed = outcome.clock.wrapping_sub(self.clock) as i64;
        let until_timer = (outcome.poll_limit_hit & table.polls(entered))
            | (outcome.got_tick & (self.sleep_length > tick))
            | (elapsed >= self.sleep_length);
        // An exit takes perhaps half of its worst case on average.
        let exit_latency = table.exit_latency(entered) as u64;
        let slept = if outcome.residency >= exit_latency {
            outcome.residency - exit_latency / 2
        } else {
            outcome.residency / 2
        };
        if until_timer { u64::MAX } else { slept }
    }

    /// The bin of a measured idle duration, at most the expected bin.
    #[inline]
    fn measured_bin(self, table: &StateTable, measured: u64) -> usize {
        let measured = measured.min(i64::MAX as u64) as i64;
        bin(table, measured.min(self.sleep_length))
    }
}

/// The bin of an idle duration: the deepest state that pays off, enabled or not; else the first bin.
#[inline]
fn bin(table: &StateTable, duration: i64) -> usize {
    table.paying_off_within(duration).deepest().unwrap_or(0)
}

/// The state to take instead of `candidate` when most wake-ups come early.
///
/// `majority` is the deepest state that would have suited more than half of the early wake-ups.
/// `deep_enough` tells whether a state may be used at all, which matters once the tick is stopped.
/// The answer is `majority` if it may be used, otherwise the shallowest usable state between it and
/// the candidate, otherwise the candidate itself.
#[inline]
fn early_wakeup_state(
    enabled: StateSet,
    candidate: usize,
    majority: usize,
    deep_enough: impl Fn(usize) -> bool,
) -> usize {
    let mut between = enabled.shallower_than(candidate).deeper_than(majority);
    // If not even the next state is deep enough, the search ends there.
    if between.deepest().is_some_and(|next| !deep_enough(next)) {
        return candidate;
    }
    if enabled.contains(majority) && deep_enough(majority) {
        return majority;
    }
    while let Some(state) = between.shallowest() {
        if deep_enough(state) {
            return state;
        }
        between = between.deeper_than(state);
    }
    candidate
}
