//! APST plans against what is published of the kernel's, over every drive of the library, and
//! against what must hold for any drive.

#![allow(
    clippy::unwrap_used,
    reason = "a failed test may panic in a helper too"
)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use wakepath_hardware::drive::{Drive, DriveLibrary, PowerState};
use wakepath_policies::apst::{
    ApstPlan, ApstProblem, ApstQuirks, ApstRule, ApstSettings, ApstTable, ApstVerdict,
    MAX_TIMEOUT_MS, NoApstTable, plan_apst_table,
};

fn table_of(npss: u8, states: &[PowerState], settings: &ApstSettings) -> ApstPlan {
    plan_apst_table(npss, true, states, settings).unwrap()
}

fn targets(drive: &Drive) -> Vec<(u8, u64)> {
    table_of(drive.npss, &drive.states, &ApstSettings::default())
        .chosen_states_with_timeouts_ms()
        .collect()
}

fn state(entry_latency_us: u32, exit_latency_us: u32) -> PowerState {
    PowerState {
        non_operational: true,
        entry_latency_us,
        exit_latency_us,
        ..PowerState::default()
    }
}

/// Two operational states and two or more others.
fn states(others: &[PowerState]) -> Vec<PowerState> {
    let mut all = vec![PowerState::default(); 2];
    all.extend_from_slice(others);
    all
}

#[test]
fn library_drives_fall_into_the_known_classes() {
    let mut classes = BTreeMap::new();
    for table in DriveLibrary::builtin().tables() {
        let drive = &table.drive;
        let plan = table_of(drive.npss, &drive.states, &ApstSettings::default());
        let deepest = drive.npss;
        let chosen: Vec<_> = plan
            .states
            .iter()
            .filter(|c| c.verdict.timeout_ms().is_some())
            .collect();
        let class = match chosen[..] {
            [] => "none",
            [one] => match one.verdict {
                ApstVerdict::Primary(_) if one.state == deepest => "primary, deepest",
                ApstVerdict::Primary(_) => "primary, not deepest",
                _ => "secondary",
            },
            [_, last] if last.state == deepest => "both, deepest",
            [..] => "both, not deepest",
        };
        *classes.entry(class).or_insert(0) += 1;
    }
    let expected = [
        ("both, deepest", 546),
        ("both, not deepest", 30),
        ("none", 217),
        ("primary, deepest", 264),
        ("primary, not deepest", 86),
        ("secondary", 28),
    ];
    assert_eq!(classes.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn known_drives_get_their_known_tables() {
    let library = DriveLibrary::builtin();
    let entries_of_table = |name: &str| {
        targets(
            &library
                .find_one_model(name)
                .unwrap()
                .most_frequent_table()
                .drive,
        )
    };
    // Deepest state within 15 ms: straight there after 100 ms, the shallower one never used.
    for straight in [
        "Intel 760p 256GB",
        "PM991 NVMe Samsung 256GB",
        "BC511 NVMe SK hynix 256GB",
        "Samsung SSD 970 EVO 500GB",
    ] {
        assert_eq!(entries_of_table(straight), [(4, 100)], "{straight}");
    }
    for both in [
        "WDC PC SN530 SDBPNPZ-256G-1006",
        "KBG40ZNS256G NVMe KIOXIA 256GB",
    ] {
        assert_eq!(entries_of_table(both), [(3, 100), (4, 2000)], "{both}");
    }
}

#[test]
fn entries_hold_the_target_for_every_shallower_state() {
    let library = DriveLibrary::builtin();
    let drive = &library
        .find_one_model("SDBPNPZ-256G-1006")
        .unwrap()
        .most_frequent_table()
        .drive;
    let plan = table_of(drive.npss, &drive.states, &ApstSettings::default());
    let to_3 = 3 << 3 | 100 << 8;
    let to_4 = 4 << 3 | 2000 << 8;
    assert_eq!(plan.table.0[..6], [to_3, to_3, to_3, to_4, 0, 0]);
    assert_eq!(
        plan.states[4].explain(&ApstSettings::default()),
        "exit latency 39000 us within budget 100000 us; total 44000 us > primary tolerance \
         15000 us, <= secondary tolerance 100000 us -> after 2000 ms"
    );
}

#[test]
fn what_switches_apst_off_leaves_a_zero_table() {
    let drive = states(&[state(1000, 2000)]);
    let on = ApstSettings::default();
    let cases = [
        ApstSettings {
            max_latency_us: 0,
            ..on
        },
        ApstSettings {
            enabled: false,
            ..on
        },
        ApstSettings {
            quirks: ApstQuirks {
                no_apst: true,
                no_deepest: false,
            },
            ..on
        },
    ];
    for settings in cases {
        let plan = table_of(2, &drive, &settings);
        assert!(!plan.enabled);
        assert_eq!(plan.table, ApstTable::default());
    }
    // Nothing to choose from: zero too, but enabled.
    let plan = table_of(1, &drive, &on);
    assert!(plan.enabled);
    assert_eq!(plan.table, ApstTable::default());
}

#[test]
fn without_the_feature_there_is_no_table() {
    let settings = ApstSettings::default();
    let outcome = plan_apst_table(4, false, &[], &settings);
    assert_eq!(outcome, Err(NoApstTable::Unsupported));
    let outcome = plan_apst_table(32, true, &[], &settings);
    assert_eq!(outcome, Err(NoApstTable::TooManyStates(32)));
    // Missing descriptors count as zeros, which are operational.
    assert!(
        table_of(31, &[], &settings)
            .chosen_states_with_timeouts_ms()
            .next()
            .is_none()
    );
}

#[test]
fn the_quirk_skips_the_last_state_only() {
    let settings = ApstSettings {
        quirks: ApstQuirks {
            no_deepest: true,
            no_apst: false,
        },
        ..ApstSettings::default()
    };
    let plan = table_of(3, &states(&[state(1, 1), state(2, 2)]), &settings);
    assert_eq!(
        plan.chosen_states_with_timeouts_ms().collect::<Vec<_>>(),
        [(2, 100)]
    );
}

#[test]
fn the_budget_is_compared_with_the_exit_latency_alone() {
    let settings = ApstSettings {
        max_latency_us: 5_000,
        ..ApstSettings::default()
    };
    let within = table_of(2, &states(&[state(9_000, 5_000)]), &settings);
    assert_eq!(
        within.chosen_states_with_timeouts_ms().collect::<Vec<_>>(),
        [(2, 100)]
    );
    let over = table_of(2, &states(&[state(0, 5_001)]), &settings);
    assert_eq!(over.states[2].verdict, ApstVerdict::OverBudget);
}

#[test]
fn a_primary_parameter_of_0_means_the_legacy_rule() {
    let on = ApstSettings::default();
    let drive = states(&[state(1000, 2000), state(0, 1), state(50_000, 60_000)]);
    for settings in [
        ApstSettings {
            primary_timeout_ms: 0,
            ..on
        },
        ApstSettings {
            primary_tolerance_us: 0,
            ..on
        },
        ApstSettings {
            rule: ApstRule::Legacy,
            ..on
        },
    ] {
        let plan = table_of(4, &drive, &settings);
        assert_eq!(
            plan.chosen_states_with_timeouts_ms().collect::<Vec<_>>(),
            [(2, 150), (3, 1), (4, 5500)]
        );
    }
}

#[test]
fn legacy_timeouts_stop_at_24_bits() {
    let settings = ApstSettings {
        rule: ApstRule::Legacy,
        max_latency_us: u64::MAX,
        ..ApstSettings::default()
    };
    let plan = table_of(2, &states(&[state(u32::MAX, u32::MAX)]), &settings);
    assert_eq!(
        plan.chosen_states_with_timeouts_ms().collect::<Vec<_>>(),
        [(2, MAX_TIMEOUT_MS)]
    );
    assert_eq!(plan.table.find_problems(Some(2)), []);
}

#[test]
fn a_timeout_too_long_for_its_field_spills_as_in_the_kernel() {
    let settings = ApstSettings {
        primary_timeout_ms: 1 << 24 | 5,
        ..ApstSettings::default()
    };
    let plan = table_of(2, &states(&[state(1, 1)]), &settings);
    assert_eq!(plan.table.0[0], 2 << 3 | 5 << 8 | 1 << 32);
    assert_eq!(
        plan.table.find_problems(Some(2))[0],
        ApstProblem::ReservedBits {
            state: 0,
            bits: 1 << 32
        }
    );
}

#[test]
fn damaged_tables_are_found() {
    let mut table = ApstTable::default();
    assert_eq!(table.find_problems(Some(0)), []);
    table.0[0] = 9 << 3 | 1 << 8;
    table.0[2] = 1 << 3 | 1 << 8;
    table.0[7] = 8 << 3 | 1 << 8 | 0b101;
    let found = table.find_problems(Some(4));
    assert_eq!(
        found,
        [
            ApstProblem::TargetBeyondNpss {
                state: 0,
                target: 9,
                npss: 4
            },
            ApstProblem::NotDeeper {
                state: 2,
                target: 1
            },
            ApstProblem::ReservedBits {
                state: 7,
                bits: 0b101
            },
            ApstProblem::EntryBeyondNpss { state: 7, npss: 4 },
        ]
    );
    assert_eq!(table.find_problems(None).len(), 2);
    assert!(ApstTable::from_bytes(&[0; 255]).is_err());
}

#[test]
fn hexadecimal_text_is_what_xxd_prints() {
    let mut table = ApstTable::default();
    table.0[0] = 3 << 3 | 100 << 8;
    let text = table.to_string();
    assert_eq!(text.lines().count(), 16);
    assert_eq!(
        text.lines().next(),
        Some("18640000000000000000000000000000")
    );
}

/// Figures around the tolerances and at the ends of the range.
fn latency() -> impl Strategy<Value = u32> {
    prop_oneof![
        Just(0),
        0_u32..20,
        0_u32..30_000,
        90_000_u32..110_000,
        any::<u32>()
    ]
}

fn power_state() -> impl Strategy<Value = PowerState> {
    (latency(), latency(), prop::bool::weighted(0.7)).prop_map(|(entry, exit, non_operational)| {
        PowerState {
            non_operational,
            ..state(entry, exit)
        }
    })
}

prop_compose! {
    fn drive()(states in prop::collection::vec(power_state(), 1..=32)) -> (u8, Vec<PowerState>) {
        ((states.len() - 1) as u8, states)
    }
}

prop_compose! {
    fn settings()(
        legacy in any::<bool>(),
        primary_timeout_ms in 0_u64..200,
        primary_tolerance_us in 0_u64..30_000,
        // The kernel does not insist on this order; monotony does.
        longer_ms in 0_u64..5_000,
        secondary_off in prop::bool::weighted(0.2),
        secondary_tolerance_us in 0_u64..200_000,
        max_latency_us in prop_oneof![Just(0), 1_u64..200_000, Just(u64::MAX)],
        no_deepest in any::<bool>(),
    ) -> ApstSettings {
        ApstSettings {
            rule: if legacy { ApstRule::Legacy } else { ApstRule::Current },
            primary_timeout_ms,
            primary_tolerance_us,
            secondary_timeout_ms: if secondary_off { 0 } else { primary_timeout_ms + longer_ms },
            secondary_tolerance_us,
            max_latency_us,
            enabled: true,
            quirks: ApstQuirks { no_deepest, no_apst: false },
        }
    }
}

proptest! {
    #[test]
    fn bytes_round_trip(raw in prop::array::uniform32(any::<u64>())) {
        let table = ApstTable(raw);
        prop_assert_eq!(ApstTable::from_bytes(&table.to_bytes()), Ok(table));
        for (entry, raw) in table.entries().zip(raw) {
            let again = u64::from(entry.target) << 3 | u64::from(entry.timeout_ms) << 8;
            prop_assert_eq!(again | entry.reserved, raw);
        }
    }

    #[test]
    fn targets_can_be_reached_and_sleep((npss, states) in drive(), settings in settings()) {
        let plan = table_of(npss, &states, &settings);
        prop_assert_eq!(plan.enabled, settings.max_latency_us != 0);
        for (target, _) in plan.chosen_states_with_timeouts_ms() {
            let chosen = &states[usize::from(target)];
            prop_assert!(chosen.non_operational);
            prop_assert!(u64::from(chosen.exit_latency_us) <= settings.max_latency_us);
            prop_assert!(!(settings.quirks.no_deepest && target == npss));
        }
        prop_assert_eq!(plan.table.find_problems(Some(npss)), []);
        // An entry leads to the nearest deeper state that was chosen, after that state's time.
        for entry in plan.table.entries().take(usize::from(npss) + 1) {
            let next = plan.chosen_states_with_timeouts_ms().find(|(target, _)| *target > entry.state);
            let (target, ms) = next.unwrap_or_default();
            prop_assert_eq!((entry.target, u64::from(entry.timeout_ms)), (target, ms));
        }
        prop_assert!(plan.table.0[usize::from(npss)..].iter().all(|raw| *raw == 0));
    }

    #[test]
    fn the_current_rule_chooses_two_states_at_most((npss, states) in drive(), settings in settings()) {
        prop_assume!(settings.rule_or_legacy_fallback() == ApstRule::Current);
        let plan = table_of(npss, &states, &settings);
        let chosen: Vec<_> = plan.chosen_states_with_timeouts_ms().collect();
        prop_assert!(chosen.len() <= 2);
        // The deeper of two is the secondary one, so it comes later.
        prop_assert!(chosen.is_sorted_by_key(|(_, ms)| *ms));
    }

    #[test]
    fn the_legacy_rule_spends_2_percent_in_transitions((npss, states) in drive(), s in settings()) {
        let settings = ApstSettings { rule: ApstRule::Legacy, ..s };
        for (target, ms) in table_of(npss, &states, &settings).chosen_states_with_timeouts_ms() {
            let total = states[usize::from(target)].entry_and_exit_latency_us();
            let idle_us = u128::from(ms) * 1000;
            prop_assert!(ms == MAX_TIMEOUT_MS || idle_us >= u128::from(total) * 50);
            prop_assert!(idle_us < u128::from(total) * 50 + 1000);
        }
    }

    #[test]
    fn every_state_has_an_explanation((npss, states) in drive(), settings in settings()) {
        let plan = table_of(npss, &states, &settings);
        prop_assert_eq!(plan.states.len(), states.len());
        for (i, choice) in plan.states.iter().enumerate() {
            prop_assert_eq!(usize::from(choice.state), i);
            prop_assert!(!choice.explain(&settings).is_empty());
        }
    }
}
