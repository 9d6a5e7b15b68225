//! What is found, with which budget.

use std::sync::atomic::Ordering;

use wakepath_tune::{
    Budget, Dimension, Space, TuneError, find_least_budget, search_best_policy_set,
};

use crate::made_up::{COST, Effect, MadeUp, best_set, in_full, request, saves, space, tune};

/// Some 16,000 sets: limits and leases with a best one in the middle, and three mechanisms more.
fn large() -> (Space, MadeUp) {
    let limits: Vec<String> = (1..=20)
        .map(|us| format!("cpu-latency[limit={us}us]"))
        .collect();
    let leases: Vec<String> = (1..=12).map(|ms| format!("psd[timeout={ms}ms]")).collect();
    let mut large = space(&[
        ("idle", &["teo", "ladder", "haltpoll"]),
        (
            "epp",
            &[
                "epp[value=power]",
                "epp[value=balance_power]",
                "epp[value=performance]",
            ],
        ),
        (
            "hwp-boost",
            &["hwp-boost[value=on]", "hwp-boost[value=off]"],
        ),
    ]);
    let mut machine = MadeUp::new(&[
        ("teo", saves(50.0, 0.0)),
        ("ladder", saves(-20.0, 0.0)),
        ("haltpoll", saves(-10.0, 0.0)),
        ("epp[value=power]", saves(80.0, 40.0)),
        ("epp[value=balance_power]", saves(30.0, 5.0)),
        ("epp[value=performance]", saves(-100.0, -20.0)),
    ]);
    for (name, texts, middle) in [("cpu-latency", limits, 13.0), ("psd", leases, 6.0)] {
        let choices: Vec<_> = texts.iter().map(|text| text.parse().unwrap()).collect();
        for (index, policy) in choices.iter().enumerate() {
            let distance = index as f64 - middle;
            let name = format!("{policy}");
            machine
                .effects
                .push((name, saves(100.0 - 2.0 * distance * distance, 0.0)));
        }
        large.dimensions.push(Dimension { name, choices });
    }
    (large, machine)
}

/// The least power of any set of a space, without noise.
fn least_power(space: &Space, machine: &MadeUp, latency: f64) -> f64 {
    let sets = (0..space.count_sets()).filter_map(|number| {
        space
            .policy_set_of_choice(&space.choice_by_number(number))
            .ok()
    });
    sets.map(|set| machine.figures(&set.to_string()))
        .filter(|[_, p99_us, _]| *p99_us < latency)
        .map(|[mean_mw, ..]| mean_mw)
        .fold(f64::INFINITY, f64::min)
}

#[test]
fn the_best_of_a_large_space_is_found_within_the_budget() {
    let (space, machine) = large();
    assert!(space.count_sets() > 10_000, "{}", space.count_sets());
    let budget = 200_000;
    let answer =
        search_best_policy_set(&space, &request(&["p99_us < 120"], budget), &machine).unwrap();
    let [power, latency, _] = machine.figures(best_set(&answer));
    let least = least_power(&space, &machine, 120.0);
    assert!(
        power <= least * 1.01,
        "{} at {power}, least {least}",
        best_set(&answer)
    );
    assert!(latency < 120.0, "{latency}");
    assert!(!answer.is_exhaustive);
    assert!(answer.simulated <= budget, "{}", answer.simulated);
    assert_eq!(answer.simulated, machine.requests.load(Ordering::Relaxed));
}

#[test]
fn runs_are_shortened_only_where_that_makes_them_cheaper() {
    let (space, mut machine) = large();
    search_best_policy_set(&space, &request(&[], 200_000), &machine).unwrap();
    assert!(machine.shortened.load(Ordering::Relaxed) > 100);
    // A warm-up of three times the measured time: a run of a quarter costs four fifths.
    machine = MadeUp {
        warm_up: 3 * COST,
        ..machine
    };
    machine.shortened = 0.into();
    let answer = search_best_policy_set(&space, &request(&[], 800_000), &machine).unwrap();
    assert_eq!(machine.shortened.load(Ordering::Relaxed), 1);
    let [power, ..] = machine.figures(best_set(&answer));
    assert!(power <= 1.01 * least_power(&space, &machine, f64::INFINITY));
}

#[test]
fn the_same_seed_and_budget_give_the_same_answer() {
    let answers = [(), ()].map(|()| {
        let (space, machine) = large();
        let answer = search_best_policy_set(&space, &request(&[], 60_000), &machine).unwrap();
        format!("{answer:?}")
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn a_small_space_is_tried_as_a_whole() {
    let space = space(&[
        ("idle", &["teo", "ladder"]),
        ("hwp-boost", &["hwp-boost[value=on]"]),
    ]);
    let answer = tune(&[("teo", saves(50.0, 0.0))], &space, &[]);
    assert!(answer.is_exhaustive);
    assert_eq!(answer.tried, 6);
    assert_eq!(best_set(&answer), in_full("teo"));
}

#[test]
fn parts_that_contribute_nothing_are_left_out() {
    // On their own the boost and the lease are drawn, too, but only their combination with `teo` is a finalist.
    let space = space(&[
        ("idle", &["teo"]),
        (
            "hwp-boost",
            &["hwp-boost[value=on]", "hwp-boost[value=off]"],
        ),
        (
            "psd",
            &["psd[timeout=1ms]", "psd[timeout=2ms]", "psd[timeout=3ms]"],
        ),
    ]);
    // Too little for a difference, and enough for the first places.
    let tiny = saves(2.0, 0.0);
    let effects = [
        ("teo", saves(50.0, 0.0)),
        ("hwp-boost[value=on]", tiny),
        ("hwp-boost[value=off]", tiny),
        ("psd[timeout=1ms]", tiny),
        ("psd[timeout=2ms]", tiny),
        ("psd[timeout=3ms]", tiny),
    ];
    assert_eq!(best_set(&tune(&effects, &space, &[])), in_full("teo"));
}

#[test]
fn each_part_of_the_answer_has_its_contribution() {
    let space = space(&[("idle", &["teo"]), ("psd", &["psd[timeout=1ms]"])]);
    let effects = [
        ("teo", saves(50.0, 0.0)),
        ("psd[timeout=1ms]", saves(100.0, 0.0)),
    ];
    let answer = tune(&effects, &space, &[]);
    assert_eq!(best_set(&answer), in_full("teo + psd[timeout=1ms]"));
    let parts: Vec<&str> = answer
        .contributions
        .iter()
        .map(|part| part.part.as_str())
        .collect();
    assert_eq!(parts, [in_full("teo"), in_full("psd[timeout=1ms]")]);
    for (part, power) in answer.contributions.iter().zip([900.0, 950.0]) {
        let without = part.objective_without;
        assert!((without - power).abs() < 20.0, "{} {without}", part.part);
    }
}

#[test]
fn what_is_in_force_is_kept_where_nothing_is_better() {
    let space = space(&[("idle", &["teo", "ladder"])]);
    let answer = tune(
        &[("teo", saves(1.0, 0.0)), ("ladder", saves(-50.0, 0.0))],
        &space,
        &[],
    );
    assert!(
        answer.best.as_ref().unwrap().changes_nothing(),
        "{answer:?}"
    );
    assert!(answer.contributions.is_empty());
}

#[test]
fn of_sets_that_cannot_be_told_apart_the_smallest_change_is_taken() {
    let space = space(&[
        ("idle", &["teo"]),
        ("psd", &["psd[timeout=1ms]"]),
        ("epp", &["epp[value=power]"]),
    ]);
    let effects = [
        ("teo", saves(0.0, 0.0)),
        ("psd[timeout=1ms]", saves(0.0, 0.0)),
        ("epp[value=power]", saves(80.0, 0.0)),
    ];
    let answer = tune(&effects, &space, &[]);
    assert_eq!(best_set(&answer), in_full("epp[value=power]"));
    assert_eq!(answer.best.unwrap().changes, 1);
}

/// The best set saves 0.7 %, and a smaller change 0.35 %: as good as the best within the least difference, and no better than what is
/// in force.
#[test]
fn a_gain_below_the_least_difference_is_no_answer() {
    let space = space(&[("idle", &["teo"]), ("hwp-boost", &["hwp-boost[value=on]"])]);
    let effects = [
        ("teo", saves(3.5, 0.0)),
        ("hwp-boost[value=on]", saves(3.5, 0.0)),
    ];
    let answer = tune(&effects, &space, &[]);
    assert_eq!(best_set(&answer), in_full("teo + hwp-boost[value=on]"));
    let gain = answer.best.unwrap().gain.unwrap().percent;
    assert!(gain > 0.5, "{gain}");
}

#[test]
fn a_budget_that_is_too_small_names_the_least_one() {
    let (space, machine) = large();
    let refused = search_best_policy_set(&space, &request(&[], 10_000), &machine).unwrap_err();
    let TuneError::Budget {
        budget,
        least,
        is_estimate,
        ..
    } = refused
    else {
        panic!("{refused}");
    };
    assert_eq!((budget, is_estimate), (10_000, false));
    // A far smaller one is refused by shortened runs alone.
    let refused = search_best_policy_set(&space, &request(&[], 10), &machine).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("the finalists alone take about "),
        "{refused}"
    );
    assert!(
        refused
            .to_string()
            .contains(", and may take 40 % of a budget; give at least "),
        "{refused}"
    );
    let found = find_least_budget(&space, &request(&[], 1), &machine).unwrap();
    assert_eq!(found, Budget(least));
    let answer = search_best_policy_set(&space, &request(&[], least), &machine).unwrap();
    assert_eq!(answer.repeats, 5);
    assert!(matches!(
        search_best_policy_set(&space, &request(&[], least - 1), &machine),
        Err(TuneError::Budget { .. })
    ));
}

#[test]
fn maximising_takes_the_largest() {
    let space = space(&[("idle", &["teo", "ladder"])]);
    let faster = Effect {
        iops: 200.0,
        ..Effect::default()
    };
    let slower = Effect {
        iops: -200.0,
        ..Effect::default()
    };
    let mut wanted = request(&[], 100_000);
    wanted.objective =
        wakepath_tune::SearchObjective::new("iops", wakepath_results::Goal::Maximise).unwrap();
    let machine = MadeUp::new(&[("teo", faster), ("ladder", slower)]);
    let answer = search_best_policy_set(&space, &wanted, &machine).unwrap();
    assert_eq!(best_set(&answer), in_full("teo"));
    assert!(answer.best.unwrap().gain.unwrap().percent > 10.0);
}
