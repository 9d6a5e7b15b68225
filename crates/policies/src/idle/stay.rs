//! Whether a state was the right one for a stay, as the kernel counts it.

use wakepath_hardware::IdleStates;

/// The latency request when nobody asks for anything, in ns: 2147483647 us
/// (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`, `include/linux/pm_qos.h`).
pub const NO_LATENCY_REQUEST: i64 = 2_147_483_647_000;

/// How a state fits the stay in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Left before its target residency, although a shallower state is enabled.
    TooDeep,
    /// The stay was as long as a deeper enabled state wants.
    TooShallow,
    /// Neither.
    Right,
}

/// Judges a stay of `residency` ns in `state`, exit latency included: the kernel's `above` and `below`
/// counters (`cpuidle_enter_state()`, `drivers/cpuidle/cpuidle.c`, Linux 6.1 and 6.12).
pub fn judge(states: &IdleStates, state: usize, residency: u64) -> Fit {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::states;

    #[test]
    fn a_stay_is_too_short_or_too_long_for_its_state() {
        let list = states(&[(0, 0), (2_000, 10_000), (50_000, 200_000)], true);
        assert_eq!(judge(&list, 1, 9_999), Fit::TooDeep);
        assert_eq!(judge(&list, 1, 10_000), Fit::Right);
        assert_eq!(judge(&list, 1, 201_999), Fit::Right);
        assert_eq!(judge(&list, 1, 202_000), Fit::TooShallow);
        assert_eq!(judge(&list, 2, u64::MAX), Fit::Right);
        assert_eq!(judge(&list, 0, 1), Fit::Right);
    }

    #[test]
    fn disabled_states_do_not_count() {
        let mut list = states(&[(0, 0), (2_000, 10_000), (50_000, 200_000)], true)
            .as_slice()
            .to_vec();
        list[0].disabled = true;
        list[2].disabled = true;
        let list = IdleStates::new(list).unwrap();
        assert_eq!(judge(&list, 1, 1), Fit::Right);
        assert_eq!(judge(&list, 1, 1_000_000), Fit::Right);
    }
}
