//! CPU idle states in a form suited to governors' searches.
//!
//! A governor asks questions such as "which states stay within this latency" and "what is the
//! deepest enabled state above that one". Sets of states are bit masks here, so that each question
//! costs a few instructions and no unpredictable branch.

use wakepath_hardware::IdleStates;
use wakepath_hardware::idle::MAX_STATES;
use wakepath_units::Nanoseconds;

/// A set of idle states as a bit mask: bit 0 is the shallowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateSet(u32);

impl StateSet {
    #[inline]
    pub(crate) fn contains(self, state: usize) -> bool {
        self.0.wrapping_shr(state as u32) & 1 != 0
    }

    /// The shallowest member.
    #[inline]
    pub(crate) fn shallowest(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// The deepest member.
    #[inline]
    pub(crate) fn deepest(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.ilog2() as usize)
    }

    /// Members of the set that are shallower than `state`.
    #[inline]
    pub(crate) fn shallower_than(self, state: usize) -> Self {
        Self(self.0 & ((1 << state) - 1))
    }

    /// Members of the set that are deeper than `state`.
    #[inline]
    pub(crate) fn deeper_than(self, state: usize) -> Self {
        Self(self.0 & (!1 << state))
    }

    /// `state`, if a member, and all deeper members.
    #[inline]
    pub(crate) fn at_or_deeper_than(self, state: usize) -> Self {
        Self(self.0 & (!0 << state))
    }

    /// `state`, if a member, and all shallower members.
    #[inline]
    pub(crate) fn at_or_shallower_than(self, state: usize) -> Self {
        self.shallower_than(state + 1)
    }

    #[inline]
    pub(crate) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    #[inline]
    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline]
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// Room in a table for a time per idle state: a power of two, so that any index can be cut to a
/// valid one.
const SLOTS: usize = 16;

/// Length of a short table: most CPUs have no more idle states. Loops over all states are short for
/// them, and have a fixed number of turns either way.
pub(super) const SHORT_TABLE: usize = 4;
/// Length of a medium table: nearly all other CPUs have no more idle states.
pub(super) const MEDIUM_TABLE: usize = 8;

/// Exit latency or target residency of each idle state, in nanoseconds; 0 where there is no state.
#[derive(Clone, Debug)]
struct Times([i64; SLOTS]);

impl Times {
    fn new(times: impl Iterator<Item = Nanoseconds>) -> Self {
        let mut slots = [0; SLOTS];
        for (slot, time) in slots.iter_mut().zip(times) {
            *slot = time.0 as i64;
        }
        Self(slots)
    }

    #[inline]
    fn time_in_state(&self, state: usize) -> i64 {
        self.0[state % SLOTS]
    }

    /// Indices of the states with a time above `limit`, among the first `count` states.
    #[inline]
    fn states_above(&self, limit: i64, count: usize) -> StateSet {
        // The compiler unrolls loops of a known length.
        if count <= SHORT_TABLE {
            indices_above(limit, &self.0[..SHORT_TABLE])
        } else if count <= MEDIUM_TABLE {
            indices_above(limit, &self.0[..MEDIUM_TABLE])
        } else {
            indices_above(limit, &self.0[..MAX_STATES])
        }
    }
}

#[inline(always)]
fn indices_above(limit: i64, times: &[i64]) -> StateSet {
    let mut set = 0;
    for (i, &time) in times.iter().enumerate() {
        set |= u32::from(time > limit) << i;
    }
    StateSet(set)
}

/// A CPU's idle states as governors see them. All times in nanoseconds.
///
/// Indices above the deepest state exist and describe a state that takes no time and does not poll. So do the unused
/// entries of the kernel's `struct cpuidle_driver`. `ladder` and `haltpoll` can choose state 1 of a table that has
/// only one.
#[derive(Clone, Debug)]
pub(crate) struct StateTable {
    exit_latency: Times,
    target_residency: Times,
    count: usize,
    present: StateSet,
    enabled: StateSet,
    polling: StateSet,
    /// Longest exit latency.
    slowest: i64,
}

impl StateTable {
    pub(crate) fn new(states: &IdleStates) -> Self {
        let mut table = Self {
            exit_latency: Times::new(states.iter().map(|s| s.exit_latency)),
            target_residency: Times::new(states.iter().map(|s| s.target_residency)),
            count: states.len(),
            present: StateSet((1 << states.len()) - 1),
            enabled: StateSet(0),
            polling: StateSet(0),
            slowest: states
                .iter()
                .map(|s| s.exit_latency.0 as i64)
                .max()
                .unwrap_or(0),
        };
        for (i, state) in states.iter().enumerate() {
            table.enabled.0 |= u32::from(!state.disabled) << i;
            table.polling.0 |= u32::from(state.polling) << i;
        }
        table
    }

    /// Number of idle states of the driver.
    #[inline]
    pub(crate) fn state_count(&self) -> usize {
        self.count
    }

    #[inline]
    pub(crate) fn deepest_index(&self) -> usize {
        self.count - 1
    }

    #[inline]
    pub(crate) fn exit_latency(&self, state: usize) -> i64 {
        self.exit_latency.time_in_state(state)
    }

    #[inline]
    pub(crate) fn target_residency(&self, state: usize) -> i64 {
        self.target_residency.time_in_state(state)
    }

    /// Idle states that are not switched off.
    #[inline]
    pub(crate) fn enabled_states(&self) -> StateSet {
        self.enabled
    }

    #[inline]
    pub(crate) fn is_enabled(&self, state: usize) -> bool {
        self.enabled.contains(state)
    }

    #[inline]
    pub(crate) fn is_polling(&self, state: usize) -> bool {
        self.polling.contains(state)
    }

    /// Switches an idle state off or on, as writing to its `disable` file in sysfs does. An index
    /// that the table does not have is ignored.
    pub(crate) fn set_disabled(&mut self, state: usize, disabled: bool) {
        if state < self.count {
            let bit = 1 << state;
            self.enabled.0 = self.enabled.0 & !bit | if disabled { 0 } else { bit };
        }
    }

    /// Idle states, enabled or not, whose target residency is at most `time` ns.
    #[inline]
    pub(crate) fn states_paying_off_within(&self, time: i64) -> StateSet {
        self.present
            .without(self.target_residency.states_above(time, self.count))
    }

    /// Enabled idle states whose exit latency is longer than `limit` ns.
    #[inline]
    pub(crate) fn enabled_slower_than(&self, limit: i64) -> StateSet {
        // Shortcut: usually nobody limits latency, so that this check is the whole cost.
        if limit >= self.slowest {
            return StateSet(0);
        }
        self.enabled
            .intersection(self.exit_latency.states_above(limit, self.count))
    }

    /// Enabled idle states whose target residency is longer than `time` ns.
    #[inline]
    pub(crate) fn enabled_longer_than(&self, time: i64) -> StateSet {
        self.enabled
            .intersection(self.target_residency.states_above(time, self.count))
    }

    /// Enabled idle state to fall back to from `state` when only `time` ns are left: the deepest
    /// shallower one that pays off, or else the shallowest one, or else `state` itself.
    #[inline]
    pub(crate) fn fall_back_state(&self, state: usize, time: i64) -> usize {
        let shallower = self.enabled.shallower_than(state);
        let fitting = shallower.without(self.enabled_longer_than(time));
        fitting
            .deepest()
            .or(shallower.shallowest())
            .unwrap_or(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::{any_state_table, make_states};
    use proptest::prelude::*;

    #[test]
    fn indices_beyond_the_deepest_state_take_no_time_and_are_in_no_set() {
        let table = StateTable::new(&make_states(&[(0, 0)], true));
        assert_eq!(table.state_count(), 1);
        assert_eq!((table.exit_latency(1), table.target_residency(1)), (0, 0));
        assert!(!table.is_polling(1));
        assert!(table.enabled_longer_than(-1).shallowest() == Some(0));
        assert!(table.enabled_longer_than(-1).deepest() == Some(0));
    }

    proptest! {
        #[test]
        fn a_fallback_is_the_deepest_fitting_one(
            list in any_state_table(),
            state in 0_usize..MAX_STATES,
            time in -10_i64..2_000_000,
        ) {
            let table = StateTable::new(&list);
            let shallower: Vec<usize> = (0..state.min(list.len()))
                .filter(|&i| !list[i].disabled)
                .collect();
            let expected = shallower
                .iter()
                .rev()
                .find(|&&i| list[i].target_residency.0 as i64 <= time)
                .or(shallower.first())
                .copied()
                .unwrap_or(state);
            prop_assert_eq!(table.fall_back_state(state, time), expected);
        }

        #[test]
        fn disabling_a_state_takes_it_out_of_every_set(list in any_state_table(), state in 0_usize..12) {
            let mut table = StateTable::new(&list);
            table.set_disabled(state, true);
            prop_assert!(!table.enabled_states().contains(state));
            prop_assert!(!table.enabled_slower_than(-1).contains(state));
            prop_assert!(!table.enabled_longer_than(-1).contains(state));
            table.set_disabled(state, false);
            prop_assert_eq!(table.enabled_states().contains(state), state < list.len());
        }
    }
}
