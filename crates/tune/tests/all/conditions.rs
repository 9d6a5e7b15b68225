//! Conditions that the answer keeps, and what there is when no set keeps them.

use wakepath_tune::{TuneError, search_space};

use crate::made_up::{Effect, MadeUp, best_set, in_full, load, request, saves, space, tune};

const SLOW_AND_FAST: [(&str, Effect); 2] = [
    (
        "teo",
        Effect {
            mean_mw: -200.0,
            p99_us: 50.0,
            iops: 0.0,
        },
    ),
    (
        "ladder",
        Effect {
            mean_mw: -100.0,
            p99_us: -20.0,
            iops: 0.0,
        },
    ),
];

#[test]
fn the_answer_keeps_the_condition() {
    let space = space(&[("idle", &["teo", "ladder"])]);
    let without = tune(&SLOW_AND_FAST, &space, &[]);
    assert_eq!(best_set(&without), in_full("teo"));
    let with = tune(&SLOW_AND_FAST, &space, &["p99_us < 120"]);
    assert_eq!(best_set(&with), in_full("ladder"));
    assert!(with.best.unwrap().surely_keeps_conditions());
}

#[test]
fn a_relative_condition_counts_from_what_is_in_force() {
    let space = space(&[("idle", &["teo", "ladder"])]);
    let narrow = tune(&SLOW_AND_FAST, &space, &["p99_us <= +40%"]);
    assert_eq!(best_set(&narrow), in_full("ladder"));
    let wide = tune(&SLOW_AND_FAST, &space, &["p99_us <= +60%"]);
    assert_eq!(best_set(&wide), in_full("teo"));
}

#[test]
fn a_set_that_keeps_the_condition_is_taken_though_it_draws_more() {
    let space = space(&[("idle", &["teo", "ladder"])]);
    let effects = [("teo", saves(-100.0, -50.0)), ("ladder", saves(100.0, 0.0))];
    let answer = tune(&effects, &space, &["p99_us < 80"]);
    assert_eq!(best_set(&answer), in_full("teo"));
    assert_eq!(answer.contributions[0].broken_without, ["p99_us < 80 on a"]);
}

#[test]
fn without_a_set_that_keeps_the_condition_the_nearest_come_first() {
    let space = space(&[("idle", &["teo", "ladder", "haltpoll"])]);
    let effects = [
        ("teo", saves(300.0, -10.0)),
        ("ladder", saves(0.0, -60.0)),
        ("haltpoll", saves(0.0, -30.0)),
    ];
    let answer = tune(&effects, &space, &["p99_us < 20"]);
    assert!(answer.best.is_none());
    let next: Vec<&str> = answer
        .next
        .iter()
        .map(|finalist| finalist.set.as_str())
        .collect();
    assert_eq!(next, ["ladder", "haltpoll", "teo"].map(in_full));
    assert!(!answer.next[0].keeps_conditions());
}

#[test]
fn a_load_without_a_rate_is_not_slowed_down_to_save_power() {
    let space = space(&[("idle", &["teo", "ladder"])]);
    let half = Effect {
        mean_mw: -400.0,
        p99_us: 0.0,
        iops: -500.0,
    };
    let machine = MadeUp::new(&[("teo", half), ("ladder", saves(50.0, 0.0))]);
    let mut closed = request(&[], 100_000);
    closed.loads = vec![load("a", "")];
    let answer = search_space(&space, &closed, &machine).unwrap();
    assert_eq!(best_set(&answer), in_full("ladder"));
    assert!(
        answer.notes.iter().any(|note| note.contains("no rate")),
        "{:?}",
        answer.notes
    );
    // With a rate the set that does half as much is as good as any other.
    let open = search_space(&space, &request(&[], 100_000), &machine).unwrap();
    assert_eq!(best_set(&open), in_full("teo"));
}

#[test]
fn a_condition_on_a_load_that_there_is_not_names_the_loads() {
    let space = space(&[("idle", &["teo"])]);
    let refused = search_space(
        &space,
        &request(&["p99_us(db) < 5"], 100_000),
        &MadeUp::new(&[]),
    );
    assert_eq!(
        refused.unwrap_err().to_string(),
        "p99_us(db) < 5: no load of this name; there are a"
    );
}

#[test]
fn a_condition_on_a_metric_that_runs_lack_names_those_they_have() {
    let space = space(&[("idle", &["teo"])]);
    let refused = search_space(
        &space,
        &request(&["wake_p99_us < 5"], 100_000),
        &MadeUp::new(&[]),
    );
    let refused = refused.unwrap_err();
    assert!(matches!(refused, TuneError::NoMetric { .. }), "{refused}");
    assert!(
        refused.to_string().contains("mean_mw, p99_us, iops"),
        "{refused}"
    );
}

#[test]
fn a_limit_in_another_unit_is_noted() {
    let space = space(&[("idle", &["teo"])]);
    let answer = tune(&[("teo", saves(50.0, 0.0))], &space, &["p99_us < 0.12"]);
    assert!(
        answer.notes[0].contains("limits are in us"),
        "{:?}",
        answer.notes
    );
}
