//! What holds for all governors, and small histories worked out by hand.

use proptest::prelude::*;

use super::fit::NO_LATENCY_REQUEST;
use super::generations::Generation;
use super::testing::{any_governor_call, any_state_table, make_states};
use super::*;

/// A kernel of every generation of menu or teo.
fn kernels<'g>(generations: impl Iterator<Item = &'g Generation>) -> Vec<KernelVersion> {
    let first = generations.map(|generation| {
        let (major, minor, patch) = generation.since[0];
        format!("{major}.{minor}.{patch}").parse().unwrap()
    });
    first.collect()
}

fn menus() -> Vec<IdlePolicy> {
    let kernels = kernels(menu::menu_generations());
    kernels.into_iter().map(IdlePolicy::Menu).collect()
}

fn menus_and_teos() -> Vec<IdlePolicy> {
    let teos = kernels(teo::teo_generations());
    let mut both = menus();
    both.extend(teos.into_iter().map(IdlePolicy::Teo));
    both
}

fn all() -> Vec<IdlePolicy> {
    let mut all = menus_and_teos();
    for version in [KernelVersion::V6_1, KernelVersion::V6_12] {
        all.push(IdlePolicy::Ladder(version));
        all.push(IdlePolicy::Haltpoll(version, HaltpollParameters::default()));
    }
    all.extend([
        IdlePolicy::Shallowest,
        IdlePolicy::Deepest,
        IdlePolicy::Oracle(OracleGoal::Energy),
        IdlePolicy::Oracle(OracleGoal::Latency),
    ]);
    all
}

fn skylake() -> IdleStates {
    make_states(
        &[
            (0, 0),
            (2_000, 2_000),
            (10_000, 20_000),
            (33_000, 100_000),
            (133_000, 400_000),
        ],
        true,
    )
}

/// Idles that all last `us`, with the next timer `timer_us` away; returns the last choice.
fn regular(policy: &IdlePolicy, us: u64, timer_us: u64, tick_stopped: bool) -> IdleDecision {
    let mut governor = Governor::new(policy, &skylake(), TickRate::HZ_250);
    let mut decision = IdleDecision {
        state: 0,
        stop_tick: false,
    };
    for i in 0..50 {
        let clock = i * (us + 10) * 1_000;
        decision = governor.select(&IdleQuery {
            sleep_length: (timer_us * 1_000) as i64,
            delta_tick: (timer_us * 1_000) as i64,
            tick_stopped,
            after_tick: false,
            latency_request: i64::from(i32::MAX) * 1_000,
            nr_iowait: 0,
            clock,
            true_idle: us * 1_000,
            package_saving: 0,
        });
        governor.reflect(
            decision.state,
            &IdleOutcome {
                clock: clock + us * 1_000,
                residency: us * 1_000,
                got_tick: false,
                poll_limit_hit: false,
            },
        );
    }
    decision
}

#[test]
fn all_learn_that_idles_are_short_although_the_timer_is_far() {
    for policy in &menus_and_teos() {
        let decision = regular(policy, 50, 3_900, false);
        assert_eq!(
            decision,
            IdleDecision {
                state: 2,
                stop_tick: false
            },
            "{policy:?}"
        );
    }
}

#[test]
fn all_trust_a_timer_that_always_fires() {
    for policy in &menus_and_teos() {
        let decision = regular(policy, 20_000, 20_000, false);
        assert_eq!(
            decision,
            IdleDecision {
                state: 4,
                stop_tick: true
            },
            "{policy:?}"
        );
    }
}

#[test]
fn with_the_tick_stopped_menu_and_teo_go_for_the_timer() {
    for policy in &menus_and_teos() {
        let decision = regular(policy, 50, 50_000, true);
        assert_eq!(
            decision,
            IdleDecision {
                state: 4,
                stop_tick: true
            },
            "{policy:?}"
        );
    }
}

/// The limit of the exit latency to the prediction went with 6.12.44 and 6.17; the condition for a state that beats polling
/// came back with 6.12.58 and 6.17.8.
#[test]
fn menu_polls_if_no_state_is_left_as_soon_as_the_wakeup_is_expected() {
    for (kernel, polls) in [
        ("6.1", true),
        ("6.12.43", true),
        ("6.12.44", false),
        ("6.12.57", false),
        ("6.12.58", true),
        ("6.13", true),
        ("6.16", true),
        ("6.17.0", false),
        ("6.17.7", false),
        ("6.17.8", true),
        ("7.3", true),
    ] {
        let menu = IdlePolicy::Menu(kernel.parse().unwrap());
        let mut governor = Governor::new(&menu, &skylake(), TickRate::HZ_250);
        let query = IdleQuery {
            sleep_length: 3_000_000,
            delta_tick: 3_000_000,
            latency_request: i64::MAX,
            ..IdleQuery::default()
        };
        let outcome = IdleOutcome {
            residency: 1_000,
            ..IdleOutcome::default()
        };
        for _ in 0..50 {
            governor.select(&query);
            governor.reflect(0, &outcome);
        }
        assert_eq!(governor.select(&query).state == 0, polls, "{kernel}");
    }
}

#[test]
fn waiting_for_io_makes_menu_6_1_shallower_and_6_12_not() {
    let query = |nr_iowait| IdleQuery {
        sleep_length: 3_000_000,
        delta_tick: 3_000_000,
        tick_stopped: false,
        latency_request: i64::MAX,
        nr_iowait,
        ..IdleQuery::default()
    };
    let first_choice = |version, waiting| {
        Governor::new(&IdlePolicy::Menu(version), &skylake(), TickRate::HZ_250)
            .select(&query(waiting))
            .state
    };
    assert_eq!(first_choice(KernelVersion::V6_12, 0), 4);
    assert_eq!(first_choice(KernelVersion::V6_12, 5), 4);

    let long_idles = |waiting| {
        let mut governor = Governor::new(
            &IdlePolicy::Menu(KernelVersion::V6_1),
            &skylake(),
            TickRate::HZ_250,
        );
        let mut state = 0;
        for i in 0..50 {
            state = governor.select(&query(waiting)).state;
            let residency = 3_000_000 + i * 1_000;
            governor.reflect(
                state,
                &IdleOutcome {
                    residency,
                    ..IdleOutcome::default()
                },
            );
        }
        state
    };
    assert_eq!(long_idles(0), 4);
    // 3 ms / 31 = 97 us: C6 takes 133 us to leave.
    assert_eq!(long_idles(3), 3);
    // 3 ms / 301 = 9.97 us: C1E takes 10 us.
    assert_eq!(long_idles(30), 1);
}

#[test]
fn the_ladder_climbs_one_rung_after_four_long_idle_periods() {
    let mut governor = Governor::new(
        &IdlePolicy::Ladder(KernelVersion::V6_12),
        &skylake(),
        TickRate::HZ_250,
    );
    let query = IdleQuery {
        latency_request: i64::MAX,
        ..IdleQuery::default()
    };
    let mut chosen = Vec::new();
    for residency in [90_000; 10].into_iter().chain([1_000, 90_000]) {
        let decision = governor.select(&query);
        chosen.push(decision.state);
        governor.reflect(
            decision.state,
            &IdleOutcome {
                residency,
                ..IdleOutcome::default()
            },
        );
    }
    // A device that was never idle has stayed 0 ns in C1, less than its exit latency, which the
    // kernel's unsigned comparison takes for a very long idle period: the first of four.
    // The idle period of 1 us in C3 counts as the fourth long one there by the same comparison.
    assert_eq!(chosen, [1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4]);
}

#[test]
fn a_ladder_over_one_polling_state_steps_to_a_state_that_does_not_exist() {
    let list = make_states(&[(0, 0)], true);
    let policy = IdlePolicy::Ladder(KernelVersion::V6_1);
    let mut governor = Governor::new(&policy, &list, TickRate::HZ_250);
    let request = |latency_request| IdleQuery {
        latency_request,
        ..IdleQuery::default()
    };
    assert_eq!(governor.select(&request(1)).state, 1);
    assert_eq!(governor.select(&request(0)).state, 0);
    assert_eq!(governor.select(&request(1)).state, 0);
}

#[test]
fn every_kernel_has_the_generation_that_began_last_before_it() {
    let index = |kernel: &str, list: &[&Generation]| {
        generations::index_of_generation_or_first(list.iter().copied(), kernel.parse().unwrap())
    };
    let menus: Vec<_> = menu::menu_generations().collect();
    let teos: Vec<_> = teo::teo_generations().collect();
    for (kernel, menu, teo) in [
        ("6.1.0", "6.1, 6.2", "6.1"),
        ("6.1", "6.1.158", "6.1"),
        ("6.2", "6.1, 6.2", "6.1"),
        ("6.11.3", "6.6, 6.7, 6.12", "6.11"),
        ("6.12.30", "6.6, 6.7, 6.12", "6.11"),
        ("6.12.31", "6.6.93, 6.12.31", "6.11"),
        ("6.12.48", "6.6.103, 6.12.44", "6.11"),
        ("6.12.60", "6.6.117, 6.12.58", "6.11"),
        ("6.12.117", "6.6.128, 6.12.75", "6.12.64"),
        ("6.12", "6.6.128, 6.12.75", "6.12.64"),
        ("6.14.2", "6.13", "6.14"),
        ("6.16", "6.15", "6.14"),
        ("6.17", "6.17.8, 6.18", "6.14"),
        ("6.18.0", "6.17.8, 6.18", "6.14"),
        ("6.18", "6.18.14, 6.19.4", "6.18.3"),
        ("6.19.0", "6.18.3, 6.19", "6.19"),
        ("7.0", "7.0", "7.0"),
        ("7.3.4", "7.1", "7.1"),
    ] {
        assert_eq!(
            menus[index(kernel, &menus)].first_releases(),
            menu,
            "menu of {kernel}"
        );
        assert_eq!(
            teos[index(kernel, &teos)].first_releases(),
            teo,
            "teo of {kernel}"
        );
    }
    // teo of these is not known.
    for (kernel, menu) in [
        ("6.5.13", "6.1, 6.2"),
        ("6.6.92", "6.6, 6.7, 6.12"),
        ("6.6.93", "6.6.93, 6.12.31"),
        ("6.6.102", "6.6.93, 6.12.31"),
        ("6.6.103", "6.6.103, 6.12.44"),
        ("6.6.115", "6.6.115, 6.12.56"),
        ("6.6.117", "6.6.117, 6.12.58"),
        ("6.6.120", "6.6.120, 6.12.64"),
        ("6.6", "6.6.128, 6.12.75"),
        ("6.7.0", "6.6, 6.7, 6.12"),
        ("6.8", "6.6, 6.7, 6.12"),
    ] {
        assert_eq!(
            menus[index(kernel, &menus)].first_releases(),
            menu,
            "menu of {kernel}"
        );
        assert!(
            !teo::has_built_in_teo_rules(kernel.parse().unwrap()),
            "{kernel}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_input_makes_a_governor_panic_or_leave_the_table(
        list in any_state_table(),
        history in prop::collection::vec(any_governor_call(), 1..40),
        hz in prop_oneof![Just(TickRate::HZ_250), Just(TickRate::HZ_1000)],
    ) {
        for policy in all() {
            let mut governor = Governor::new(&policy, &list, hz);
            for (query, outcome) in &history {
                let decision = governor.select(query);
                let beyond = matches!(policy, IdlePolicy::Ladder(_) | IdlePolicy::Haltpoll(..));
                prop_assert!(decision.state < list.len() || beyond && decision.state == 1);
                governor.reflect(decision.state, outcome);
            }
            governor.reflect(usize::MAX, &history[0].1);
        }
    }

    #[test]
    fn a_disabled_state_is_never_chosen_while_state_0_is_enabled(
        list in any_state_table(),
        history in prop::collection::vec(any_governor_call(), 1..40),
        off in 1_usize..10,
    ) {
        for policy in &menus_and_teos() {
            let mut governor = Governor::new(policy, &list, TickRate::HZ_250);
            governor.set_state_disabled(0, false);
            governor.set_state_disabled(off, true);
            for (query, outcome) in &history {
                let state = governor.select(query).state;
                prop_assert!(state != off);
                prop_assert!(state == 0 || !list[state].disabled);
                governor.reflect(state, outcome);
            }
        }
    }

    #[test]
    fn a_latency_request_is_kept_wherever_state_0_meets_it(
        list in any_state_table(),
        history in prop::collection::vec(any_governor_call(), 1..40),
    ) {
        for policy in &menus() {
            let mut governor = Governor::new(policy, &list, TickRate::HZ_250);
            governor.set_state_disabled(0, false);
            for (query, outcome) in &history {
                let state = governor.select(query).state;
                let stuck = query.tick_stopped && query.latency_request > 0;
                prop_assert!(
                    state == 0
                        || list[state].exit_latency.0 as i64 <= query.latency_request
                        || stuck
                );
                governor.reflect(state, outcome);
            }
        }
    }

    #[test]
    fn turning_a_state_off_and_on_again_changes_nothing(
        list in any_state_table(),
        history in prop::collection::vec(any_governor_call(), 1..20),
        state in 0_usize..10,
    ) {
        for policy in all() {
            let mut plain = Governor::new(&policy, &list, TickRate::HZ_250);
            let mut toggled = Governor::new(&policy, &list, TickRate::HZ_250);
            for (query, outcome) in &history {
                if list.get(state).is_some_and(|s| !s.disabled) {
                    toggled.set_state_disabled(state, true);
                    toggled.set_state_disabled(state, false);
                }
                let decision = plain.select(query);
                prop_assert_eq!(decision, toggled.select(query));
                plain.reflect(decision.state, outcome);
                toggled.reflect(decision.state, outcome);
            }
        }
    }
}

#[test]
fn teo_polls_under_a_request_that_excludes_a_state_which_it_would_not_with_that_state_off() {
    let list = make_states(&[(0, 0), (2_000, 20_000), (100_000, 600_000)], true);
    let learnt = || {
        let policy = IdlePolicy::Teo(KernelVersion::V6_12);
        let mut governor = Governor::new(&policy, &list, TickRate::HZ_250);
        let mut query = IdleQuery {
            latency_request: NO_LATENCY_REQUEST,
            ..IdleQuery::default()
        };
        // By turns a timer that C6 is right for, one that C1 is right for, and a wake-up long before a timer.
        for _ in 0..40 {
            for (sleep_length, residency) in
                [(3_000_000, 3_000_000), (50_000, 50_000), (3_000_000, 500)]
            {
                query.sleep_length = sleep_length;
                query.delta_tick = sleep_length;
                let state = governor.select(&query).state;
                query.clock += residency;
                let outcome = IdleOutcome {
                    clock: query.clock,
                    residency,
                    ..IdleOutcome::default()
                };
                governor.reflect(state, &outcome);
            }
        }
        (governor, query)
    };
    let (mut off, query) = learnt();
    off.set_state_disabled(2, true);
    assert_eq!(off.select(&query).state, 1);
    let (mut governor, mut query) = learnt();
    query.latency_request = 20_000;
    assert_eq!(governor.select(&query).state, 0);
}
