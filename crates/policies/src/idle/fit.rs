//! Whether a state was the right one for an idle period, as the kernel counts it.

use wakepath_hardware::IdleStates;

/// The latency request when nobody asks for anything, in ns: 2147483647 us
/// (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`, `include/linux/pm_qos.h`).
pub const NO_LATENCY_REQUEST: i64 = 2_147_483_647_000;

/// Lengths of the idle periods that an idle state is right for, in ns, exit latency included: the
/// kernel's `above` and `below` counters (`cpuidle_enter_state()`, `drivers/cpuidle/cpuidle.c`,
/// Linux 6.1 and 6.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FitBounds {
    /// Idle periods shorter than this, in ns, are too short for the state: a shallower one was
    /// right.
    pub shortest: u64,
    /// Idle periods longer than this, in ns, are too long for the state: a deeper one was right.
    pub longest: u64,
}

impl FitBounds {
    /// Figures for `state`.
    pub fn for_state(states: &IdleStates, state: usize) -> Self {
        let entered = &states[state];
        let shallower = states[..state].iter().any(|s| !s.disabled);
        let deeper = states[state + 1..].iter().find(|s| !s.disabled);
        let exit = entered.exit_latency.0;
        Self {
            shortest: if shallower {
                entered.target_residency.0
            } else {
                0
            },
            longest: deeper.map_or(u64::MAX, |deeper| {
                let pays = exit.saturating_add(deeper.target_residency.0.max(1));
                pays.max(entered.target_residency.0) - 1
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::{any_state_table, make_states};
    use proptest::prelude::*;

    /// How a state fits the idle period in it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fit {
        /// Left before its target residency, although a shallower state is enabled.
        TooDeep,
        /// The idle period was as long as a deeper enabled state wants.
        TooShallow,
        /// Neither.
        Right,
    }

    /// Judges an idle period of `residency` ns in `state` as the kernel does, one question after the other.
    fn judge(states: &IdleStates, state: usize, residency: u64) -> Fit {
        let entered = &states[state];
        if residency < entered.target_residency.0 {
            if states[..state].iter().any(|s| !s.disabled) {
                return Fit::TooDeep;
            }
        } else if residency > entered.exit_latency.0
            && let Some(deeper) = states[state + 1..].iter().find(|s| !s.disabled)
            && residency - entered.exit_latency.0 >= deeper.target_residency.0
        {
            return Fit::TooShallow;
        }
        Fit::Right
    }

    proptest! {
        #[test]
        fn bounds_judge_alike(list in any_state_table(), length in any::<u64>(), near in -2_i64..3) {
            for state in 0..list.len() {
                let bounds = FitBounds::for_state(&list, state);
                for length in [
                    length,
                    length >> 40,
                    bounds.shortest.saturating_add_signed(near),
                    bounds.longest.saturating_add_signed(near),
                ] {
                    let fit = if length < bounds.shortest {
                        Fit::TooDeep
                    } else if length > bounds.longest {
                        Fit::TooShallow
                    } else {
                        Fit::Right
                    };
                    prop_assert_eq!(fit, judge(&list, state, length));
                }
            }
        }
    }

    #[test]
    fn an_idle_period_is_too_short_or_too_long_for_its_state() {
        let list = make_states(&[(0, 0), (2_000, 10_000), (50_000, 200_000)], true);
        assert_eq!(judge(&list, 1, 9_999), Fit::TooDeep);
        assert_eq!(judge(&list, 1, 10_000), Fit::Right);
        assert_eq!(judge(&list, 1, 201_999), Fit::Right);
        assert_eq!(judge(&list, 1, 202_000), Fit::TooShallow);
        assert_eq!(judge(&list, 2, u64::MAX), Fit::Right);
        assert_eq!(judge(&list, 0, 1), Fit::Right);
    }

    #[test]
    fn disabled_states_do_not_count() {
        let mut list = make_states(&[(0, 0), (2_000, 10_000), (50_000, 200_000)], true)
            .as_slice()
            .to_vec();
        list[0].disabled = true;
        list[2].disabled = true;
        let list = IdleStates::new(list).unwrap();
        assert_eq!(judge(&list, 1, 1), Fit::Right);
        assert_eq!(judge(&list, 1, 1_000_000), Fit::Right);
    }
}
