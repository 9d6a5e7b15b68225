//! How long the polling idle state spins before it gives up.

use serde::Serialize;
use wakepath_hardware::IdleStates;
use wakepath_units::{Nanoseconds, TickRate};

/// Settings of the polling limit ([`polling_limit`]): how long the polling idle state spins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct PollPolicy {
    /// Polling limit in us that the user asks for; without one, the idle states give it.
    pub request_us: Option<u64>,
    /// Rule that derives the polling limit from the idle states where no limit is asked for.
    pub rule: PollRule,
}

/// Shortest polling limit (`CPUIDLE_POLL_MIN`).
const SHORTEST: Nanoseconds = Nanoseconds::from_micros(10);

/// Longest time that a CPU spins in the polling idle state before it goes to sleep.
///
/// Without a latency request: the target residency of the first enabled state behind state 0 with at least 10 us.
/// Bounded by a sixteenth of the tick period, also the limit without such a state (`cpuidle_poll_time()`,
/// `drivers/cpuidle/cpuidle.c`, Linux 6.1 and 6.12). A governor's own limit overrides
/// ([`crate::idle::IdleGovernor::poll_limit`]).
///
/// `request_us` is an explicit wish in microseconds, as the proposed `cpuidle.poll=` parameter
/// gives it. It wins, but is clamped to between 10 us and a sixteenth of the tick period.
pub fn polling_limit(states: &IdleStates, tick: TickRate, request_us: Option<u64>) -> Nanoseconds {
    // Even at the highest tick rate, a sixteenth of the tick period is at least SHORTEST.
    let longest = Nanoseconds(tick.period().0 / 16);
    let wanted = match request_us {
        Some(us) => Nanoseconds::from_micros(us).max(SHORTEST),
        None => states
            .iter()
            .skip(1)
            .find(|state| !state.disabled && state.target_residency >= SHORTEST)
            .map_or(longest, |state| state.target_residency),
    };
    wanted.min(longest)
}

/// Idle state whose target residency becomes the polling limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub enum PollRule {
    /// The first state that pays off after 10 us or more: see [`polling_limit`].
    #[default]
    Current,
    /// The first enabled sleeping state, however soon it pays off, as in Linux 4.20 to 5.10; the
    /// tick period without one.
    First,
}

/// Polling limit of a CPU under a polling policy, which may ask for a fixed limit or for the older
/// rule.
pub fn polling_limit_under_policy(
    policy: &PollPolicy,
    states: &IdleStates,
    tick: TickRate,
) -> Nanoseconds {
    match (policy.rule, policy.request_us) {
        (PollRule::First, None) => states
            .iter()
            .skip(1)
            .find(|state| !state.disabled)
            .map_or(tick.period(), |state| state.target_residency),
        (_, request_us) => polling_limit(states, tick, request_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::{any_state_table, make_states};
    use proptest::prelude::*;

    fn published(residencies_us: &[u64], request_us: Option<u64>) -> u64 {
        let times: Vec<_> = [0]
            .iter()
            .chain(residencies_us)
            .map(|&us| (us * 1_000, us * 1_000))
            .collect();
        polling_limit(&make_states(&times, true), TickRate::HZ_250, request_us).as_micros()
    }

    #[test]
    fn the_older_rule_takes_the_first_enabled_state() {
        let old = PollPolicy {
            request_us: None,
            rule: PollRule::First,
        };
        let three = make_states(&[(0, 0), (2_000, 2_000), (10_000, 20_000)], true);
        let limit = polling_limit_under_policy(&old, &three, TickRate::HZ_250);
        assert_eq!(limit, Nanoseconds::from_micros(2));
        let limit =
            polling_limit_under_policy(&old, &make_states(&[(0, 0)], true), TickRate::HZ_250);
        assert_eq!(limit, TickRate::HZ_250.period());
        let request = PollPolicy {
            request_us: Some(40),
            ..old
        };
        let some = make_states(&[(0, 0), (2_000, 2_000)], true);
        let limit = polling_limit_under_policy(&request, &some, TickRate::HZ_250);
        assert_eq!(limit, Nanoseconds::from_micros(40));
    }

    #[test]
    fn the_published_cases_come_out() {
        assert_eq!(published(&[2, 20, 100, 400], None), 20);
        assert_eq!(published(&[2], None), 250);
        assert_eq!(published(&[2, 800], None), 250);
    }

    #[test]
    fn a_request_wins_within_its_bounds() {
        assert_eq!(published(&[2, 20], Some(100)), 100);
        assert_eq!(published(&[2, 20], Some(0)), 10);
        assert_eq!(published(&[2, 20], Some(u64::MAX)), 250);
    }

    #[test]
    fn a_disabled_state_sets_no_limit() {
        let mut list = make_states(&[(0, 0), (2_000, 20_000), (9_000, 30_000)], true)
            .as_slice()
            .to_vec();
        list[1].disabled = true;
        let list = IdleStates::new(list).unwrap();
        assert_eq!(
            polling_limit(&list, TickRate::HZ_250, None),
            Nanoseconds(30_000)
        );
    }

    proptest! {
        #[test]
        fn it_stays_between_10_us_and_a_sixteenth_of_a_tick(
            list in any_state_table(),
            hz in 1_u32..=6250,
            request in prop::option::of(any::<u64>()),
        ) {
            let tick = TickRate::new(hz).unwrap();
            let limit = polling_limit(&list, tick, request);
            prop_assert!(limit >= SHORTEST && limit.0 <= tick.period().0 / 16);
        }
    }
}
