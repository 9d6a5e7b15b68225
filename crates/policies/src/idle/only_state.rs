//! The kernel's shortcut for a driver with one idle state: it takes that state and asks no governor
//! (`cpuidle_idle_call()`, `kernel/sched/idle.c`, Linux 6.1.192, 6.12.117 and 7.3.4).
//!
//! What counts is how many states the driver has, whether they are on or off.

use super::table::StateTable;
use super::{IdleDecision, IdleGovernor, IdleOutcome, IdlePolicy, IdleQuery};
use wakepath_hardware::IdleStates;

/// Kernel releases in which a driver's only state stops the tick if the tick ended the idle period
/// before, "sched: idle: Consolidate the handling of two special cases".
const STOPS_AFTER_TICK: &[(u16, u16, u16)] = &[
    (6, 1, 167),
    (6, 6, 130),
    (6, 12, 78),
    (6, 18, 20),
    (6, 19, 10),
    (7, 0, 0),
];
/// Kernel releases in which no governor is asked about a driver's only state; before
/// [`STOPS_AFTER_TICK`] the tick goes on. "cpuidle: Skip governor when only one idle state is
/// available". For 6.1 no release in between is known.
const SKIPS: &[(u16, u16, u16)] = &[
    (6, 1, 167),
    (6, 6, 128),
    (6, 12, 75),
    (6, 18, 14),
    (6, 19, 4),
    (7, 0, 0),
];

/// Rule of a driver with one idle state: always state 0, without a governor.
#[derive(Clone, Debug)]
pub struct OnlyState {
    pub(in crate::idle) table: StateTable,
    stops_after_tick: bool,
}

impl OnlyState {
    /// The kernel's rule in place of the governor; `None` where the kernel asks the governor, or
    /// where the policy is not the kernel's.
    pub fn replacing_governor(policy: &IdlePolicy, states: &IdleStates) -> Option<Self> {
        let kernel = policy.kernel_version().filter(|_| states.len() <= 1)?;
        kernel.has_change_released_in(SKIPS).then(|| Self {
            table: StateTable::new(states),
            stops_after_tick: kernel.has_change_released_in(STOPS_AFTER_TICK),
        })
    }
}

impl IdleGovernor for OnlyState {
    #[inline]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        IdleDecision {
            state: 0,
            stop_tick: self.stops_after_tick && query.after_tick,
        }
    }

    #[inline]
    fn reflect(&mut self, _entered: usize, _outcome: &IdleOutcome) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::Governor;
    use crate::idle::testing::make_states;
    use wakepath_units::TickRate;

    fn governor(policy: &str, count: usize) -> Governor {
        let policy = policy
            .parse::<crate::PolicySpec>()
            .unwrap()
            .as_idle_policy()
            .unwrap();
        let all = [(0, 0), (2_000, 20_000)];
        let list = make_states(&all[..count], false);
        Governor::new_or_only_state(&policy, &list, TickRate::HZ_250)
    }

    fn skips_governor(policy: &str, count: usize) -> bool {
        matches!(governor(policy, count), Governor::OnlyState(_))
    }

    #[test]
    fn the_kernel_asks_no_governor_about_one_state() {
        for (kernel, skips) in [
            ("6.1.166", false),
            ("6.1", true),
            ("6.2", false),
            ("6.12.74", false),
            ("6.12.75", true),
            ("6.12", true),
            ("6.17", false),
            ("6.18.13", false),
            ("6.19.4", true),
            ("7.0", true),
            ("7.3", true),
        ] {
            for name in ["menu", "teo", "ladder", "haltpoll"] {
                assert_eq!(
                    skips_governor(&format!("{name}@{kernel}"), 1),
                    skips,
                    "{name} {kernel}"
                );
            }
        }
        assert!(!skips_governor("menu@7.3", 2));
        assert!(!skips_governor("shallowest", 1) && !skips_governor("oracle", 1));
    }

    /// `cpuidle_idle_call(got_tick)`.
    #[test]
    fn the_tick_stops_after_it_ended_an_idle_period() {
        for (kernel, after_tick, stops) in [
            ("7.3", false, false),
            ("7.3", true, true),
            ("6.12.77", false, false),
            ("6.12.77", true, false),
            // menu stops it at once where the state does not poll.
            ("6.12.74", false, true),
        ] {
            let query = IdleQuery {
                sleep_length: 100_000_000,
                delta_tick: 4_000_000,
                latency_request: i64::MAX,
                after_tick,
                ..IdleQuery::default()
            };
            let decision = governor(&format!("menu@{kernel}"), 1).select(&query);
            assert_eq!((decision.state, decision.stop_tick), (0, stops), "{kernel}");
        }
    }
}
