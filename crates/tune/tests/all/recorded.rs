//! Searches over recordings: each set is replayed once, and the budget counts the replays.

use std::collections::BTreeSet;
use std::sync::Mutex;

use wakepath_policies::PolicySet;
use wakepath_tune::{
    AnswerOrigin, Effort, Evaluator, SearchAnswer, Space, TrialOutcome, TuneError,
    search_best_policy_set,
};

use crate::made_up::{COST, MadeUp, best_set, request, saves, space};

/// Blocks of time in a recording.
const BLOCKS: u32 = 20;

/// A made-up machine as a recording: whatever the effort, a set has the same figures.
struct Recorded {
    machine: MadeUp,
    /// Texts of the sets that were replayed.
    replayed: Mutex<BTreeSet<String>>,
}

impl Recorded {
    fn new(machine: MadeUp) -> Self {
        Self {
            machine,
            replayed: Mutex::default(),
        }
    }

    fn count_replays(&self) -> u64 {
        self.replayed.lock().unwrap().len() as u64
    }
}

impl Evaluator for Recorded {
    fn run_sets_in_order(
        &self,
        sets: &[PolicySet],
        _effort: Effort,
    ) -> Result<Vec<TrialOutcome>, TuneError> {
        let texts = sets.iter().map(ToString::to_string);
        self.replayed.lock().unwrap().extend(texts);
        let whole = Effort {
            first_seed: 7,
            repeats: BLOCKS,
            shortened: 1,
        };
        let mut outcomes = self.machine.run_sets_in_order(sets, whole)?;
        for outcome in &mut outcomes {
            if let TrialOutcome::Ran(trial) = outcome {
                trial.requests = COST;
            }
        }
        Ok(outcomes)
    }

    fn requests_of_replay(&self) -> Option<u64> {
        Some(COST)
    }

    fn origin(&self) -> AnswerOrigin {
        AnswerOrigin::Recording
    }
}

/// 4 x 6 x 5 sets, whose best needs one policy of each mechanism.
fn recorded() -> (Space, Recorded) {
    let space = space(&[
        ("idle", &["teo", "ladder", "menu@6.1"]),
        (
            "cpu-latency",
            &[
                "cpu-latency[limit=1us]",
                "cpu-latency[limit=10us]",
                "cpu-latency[limit=100us]",
                "cpu-latency[limit=200us]",
                "cpu-latency[limit=300us]",
            ],
        ),
        (
            "psd",
            &[
                "psd[timeout=1ms]",
                "psd[timeout=3ms]",
                "psd[timeout=10ms]",
                "psd[timeout=30ms]",
            ],
        ),
    ]);
    let machine = MadeUp::new(&[
        ("teo", saves(40.0, 0.0)),
        ("cpu-latency[limit=200us]", saves(100.0, 0.0)),
        ("cpu-latency[limit=300us]", saves(70.0, 0.0)),
        ("psd[timeout=10ms]", saves(60.0, 0.0)),
        ("psd[timeout=3ms]", saves(30.0, 0.0)),
    ]);
    (space, Recorded::new(machine))
}

const BEST: &str = "teo@6.12 + cpu-latency[limit=200us] + psd[timeout=10ms]";

fn search(replays: u64) -> Result<(SearchAnswer, u64), TuneError> {
    let (space, recorded) = recorded();
    let asked = request(&[], replays * COST);
    let answer = search_best_policy_set(&space, &asked, &recorded)?;
    Ok((answer, recorded.count_replays()))
}

#[test]
fn every_set_is_replayed_where_the_budget_is_enough() {
    let (answer, replays) = search(120).unwrap();
    assert_eq!((answer.space, answer.tried), (120, 120));
    assert!(answer.is_exhaustive);
    assert_eq!((replays, answer.simulated), (120, 120 * COST));
    assert_eq!(best_set(&answer).parse::<PolicySet>(), BEST.parse());
    // A larger one replays nothing twice.
    let (more, replays) = search(10_000).unwrap();
    assert_eq!((replays, more.simulated), (120, 120 * COST));
    assert_eq!(best_set(&more), best_set(&answer));
}

#[test]
fn a_budget_for_some_sets_is_kept_and_finds_the_best_by_steps() {
    for replays in [40, 60, 119] {
        let (answer, made) = search(replays).unwrap();
        assert!(!answer.is_exhaustive);
        assert!(made <= replays, "{made} of {replays}");
        assert!(made > replays / 2, "{made} of {replays}");
        assert_eq!(answer.simulated, made * COST);
        assert!(answer.tried < answer.space);
        assert_eq!(
            best_set(&answer).parse::<PolicySet>(),
            BEST.parse(),
            "{replays}"
        );
        let (again, _) = search(replays).unwrap();
        assert_eq!(format!("{answer:?}"), format!("{again:?}"));
    }
}

#[test]
fn the_least_budget_of_a_recording_is_named_and_enough() {
    let refused = search(9).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a budget of 900 replayed requests is too small: an answer takes 10 replays of the recordings, each of 100 requests; give \
         at least 1000"
    );
    let (answer, made) = search(10).unwrap();
    assert!(made <= 10, "{made}");
    assert!(answer.best.is_some());
}
