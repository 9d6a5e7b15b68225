//! State tables and inputs for the tests in this module.

use proptest::prelude::*;
use wakepath_hardware::idle::MAX_STATES;
use wakepath_hardware::{IdleState, IdleStates};
use wakepath_units::Nanoseconds;

use super::{IdleOutcome, IdleQuery};

/// Idle states with these exit latencies and target residencies, in ns; state 0 polls if
/// `first_polls`.
pub(crate) fn make_states(times: &[(u64, u64)], first_polls: bool) -> IdleStates {
    IdleStates::new(
        times
            .iter()
            .enumerate()
            .map(|(i, &(exit, target))| IdleState {
                name: format!("S{i}"),
                exit_latency: Nanoseconds(exit),
                target_residency: Nanoseconds(target),
                polling: first_polls && i == 0,
                disabled: false,
            })
            .collect(),
    )
    .unwrap()
}

/// Strategy for property tests: any table of 1 to 10 idle states, in any order.
pub(crate) fn any_state_table() -> impl Strategy<Value = IdleStates> {
    let time = prop_oneof![0_u64..2_000_000, 0_u64..30_000, Just(i64::MAX as u64)];
    let state = (time.clone(), time, any::<bool>(), prop::bool::weighted(0.2));
    prop::collection::vec(state, 1..=MAX_STATES).prop_map(|list| {
        IdleStates::new(
            list.into_iter()
                .map(|(exit, target, polling, disabled)| IdleState {
                    name: "S".to_owned(),
                    exit_latency: Nanoseconds(exit),
                    target_residency: Nanoseconds(target),
                    polling,
                    disabled,
                })
                .collect(),
        )
        .unwrap()
    })
}

/// Strategy for property tests: any governor call, however absurd, with an outcome.
pub(crate) fn any_governor_call() -> impl Strategy<Value = (IdleQuery, IdleOutcome)> {
    let signed = || prop_oneof![-1_000_i64..20_000_000, any::<i64>(), Just(i64::MAX)];
    let unsigned = || prop_oneof![0_u64..20_000_000, any::<u64>(), Just(0)];
    (
        (signed(), signed(), any::<bool>(), signed(), unsigned()),
        prop_oneof![Just(0_u32), Just(u32::MAX), any::<u32>()],
        (unsigned(), unsigned(), any::<bool>(), any::<bool>()),
    )
        .prop_map(
            |((sleep, delta, stopped, latency, clock), waiting, (after, length, tick, limit))| {
                (
                    IdleQuery {
                        sleep_length: sleep,
                        delta_tick: delta,
                        tick_stopped: stopped,
                        after_tick: false,
                        latency_request: latency,
                        nr_iowait: waiting,
                        clock,
                        true_idle: length,
                        package_saving: 0,
                    },
                    IdleOutcome {
                        clock: after,
                        residency: length,
                        got_tick: tick,
                        poll_limit_hit: limit,
                    },
                )
            },
        )
}
