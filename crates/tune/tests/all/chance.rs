//! How often chance alone looks like a gain: machines whose policies have no effect at all.

use wakepath_tune::{
    Effort, Evaluator, MeasuredSet, SearchAnswer, SearchRequest, Space, Trial, TrialOutcome,
    decide_by_measurements, search_best_policy_set,
};

use crate::made_up::{MadeUp, request, space};

/// Number of questions, each with runs of its own.
const QUESTIONS: u64 = 300;

/// Distance between the seeds of two questions, so that no run decides in both.
const SEED_STEP: u64 = 1000;

/// One question in twenty.
const MOST_WRONG: usize = 15;

/// Twice the standard deviation of a count of [`MOST_WRONG`] among [`QUESTIONS`].
const BINOMIAL_NOISE: usize = 7;

/// Noise beside which the least difference of half a percent counts little.
const OWN_NOISE: f64 = 0.1;

/// The first seed of measured runs, which no search has.
const FIRST_MEASURED_SEED: u64 = 700_000_000;

fn machine_without_effects() -> MadeUp {
    MadeUp {
        own_noise: OWN_NOISE,
        ..MadeUp::new(&[])
    }
}

/// Fifteen sets beside what is in force.
fn space_without_effects() -> Space {
    space(&[
        ("idle", &["teo", "ladder", "haltpoll"]),
        (
            "epp",
            &[
                "epp[value=power]",
                "epp[value=balance_power]",
                "epp[value=performance]",
            ],
        ),
    ])
}

fn request_with_seed(number: u64) -> SearchRequest {
    SearchRequest {
        seed: number * SEED_STEP,
        ..request(&[], 100_000)
    }
}

fn answers_of_searches() -> Vec<SearchAnswer> {
    let (space, machine) = (space_without_effects(), machine_without_effects());
    let searches =
        (0..QUESTIONS).map(|n| search_best_policy_set(&space, &request_with_seed(n), &machine));
    searches.collect::<Result<_, _>>().unwrap()
}

/// Five runs of a set.
fn measure_set(machine: &MadeUp, set: &str, first_seed: u64) -> Trial {
    let effort = Effort {
        first_seed,
        repeats: 5,
        shortened: 1,
    };
    let sets = [set.parse().unwrap()];
    let Some(TrialOutcome::Ran(trial)) = machine.run_sets_in_order(&sets, effort).unwrap().pop()
    else {
        panic!("{set} did not run");
    };
    trial
}

/// Three measured sets beside what is in force, as many times as there are questions.
fn answers_of_measurements() -> Vec<SearchAnswer> {
    let machine = machine_without_effects();
    let predicted =
        search_best_policy_set(&space_without_effects(), &request_with_seed(0), &machine).unwrap();
    let answers = (0..QUESTIONS).map(|number| {
        let first_seed = FIRST_MEASURED_SEED + number * SEED_STEP;
        let sets = ["teo", "ladder", "haltpoll"].map(|set| MeasuredSet {
            set: set.to_owned(),
            changes: 1,
            trial: measure_set(&machine, set, first_seed),
        });
        let in_force = measure_set(&machine, "unchanged", first_seed);
        decide_by_measurements(&request_with_seed(number), in_force, &sets, &predicted)
    });
    answers.collect::<Result<_, _>>().unwrap()
}

/// Number of answers that change something, though nothing has an effect.
fn count_changes(answers: &[SearchAnswer]) -> usize {
    let changes = answers
        .iter()
        .filter_map(|answer| answer.best.as_ref())
        .filter(|best| !best.changes_nothing());
    changes.count()
}

/// Number of answers of which at least one shown gain has an interval without 0.
fn count_gains_beyond_intervals(answers: &[SearchAnswer]) -> usize {
    let beyond = answers.iter().filter(|answer| {
        let shown = answer.best.iter().chain(&answer.next);
        let mut gains = shown.filter_map(|finalist| finalist.gain);
        gains.any(|gain| gain.interval[0] > 0.0 || gain.interval[1] < 0.0)
    });
    beyond.count()
}

/// Checks that hardly any answer changes something, or shows a gain beyond its interval.
///
/// Half of the gains that chance makes are losses, so that about half of [`MOST_WRONG`] is expected, and the limit needs no
/// allowance for binomial noise. Intervals are wrong in both directions: their limit has that allowance.
fn check_answers_to_chance(answers: &[SearchAnswer]) {
    let changes = count_changes(answers);
    assert!(changes <= MOST_WRONG, "{changes} of {QUESTIONS}");
    let beyond = count_gains_beyond_intervals(answers);
    assert!(
        beyond <= MOST_WRONG + BINOMIAL_NOISE,
        "{beyond} of {QUESTIONS}"
    );
}

#[test]
fn chance_makes_hardly_any_search_change_something() {
    let answers = answers_of_searches();
    check_answers_to_chance(&answers);
    assert!(answers.iter().all(|answer| answer.next.len() >= 5));
}

#[test]
fn chance_makes_hardly_any_measurement_change_something() {
    let answers = answers_of_measurements();
    check_answers_to_chance(&answers);
}
