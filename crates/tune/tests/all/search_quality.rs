//! How often the search finds the best set of a space that is also run as a whole (`make nightly`).

use std::sync::atomic::AtomicBool;

use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_results::Goal;
use wakepath_tune::{
    Budget, Effort, Evaluator, SearchObjective, SearchRequest, Simulation, Space, Trial,
    TrialOutcome, search_best_policy_set,
};
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;

use crate::made_up::load;

/// Number of searches, each with a seed of its own.
const SEARCHES: u64 = 20;

/// Distance between the seeds of two searches, so that no two decide by the same runs.
const SEED_STEP: u64 = 1000;

/// Fewest searches whose answer counts.
const FOUND: usize = 19;

/// A search may simulate this share of the requests of the exhaustive search.
const BUDGET_SHARE: f64 = 0.1;

/// Runs of each set in the exhaustive search, on seeds that no search has.
const REFERENCE: Effort = Effort {
    first_seed: 500_000_000,
    repeats: 30,
    shortened: 1,
};

/// An answer counts if its objective is at most this share worse than the best.
const TOLERANCE: f64 = 0.01;

/// Random reads of a board for 100 ms: the least latency at a power that lies between those of two sets.
fn request() -> SearchRequest {
    let mut reads = load("reads", "bs=4k\ndirect=1\n");
    if let Some(Workload::Fio(file)) = &mut reads.workload {
        file.jobs[0].at_most = Some(Nanoseconds::from_millis(100));
    }
    SearchRequest {
        loads: vec![reads],
        objective: SearchObjective::new("mean_us", Goal::Minimise).unwrap(),
        conditions: vec!["mean_mw < 165".parse().unwrap()],
        budget: Budget(0),
        seed: 0,
    }
}

fn mean_of_load(trial: &Trial, metric: &str) -> f64 {
    let values = trial.metric_in_each_seed(0, metric).unwrap();
    values.iter().sum::<f64>() / values.len() as f64
}

fn keeps_every_condition(trial: &Trial, in_force: &Trial, request: &SearchRequest) -> bool {
    let conditions = request.conditions_with_implied_rates();
    conditions.iter().all(|condition| {
        let metric = &condition.condition.metric;
        condition.is_kept_by_value(mean_of_load(trial, metric), mean_of_load(in_force, metric))
    })
}

#[test]
#[ignore = "nightly: simulates a whole space, and twenty searches"]
fn at_least_19_of_20_searches_find_the_best_with_a_tenth_of_the_requests() {
    let machine = Machine::find("rk3399").unwrap();
    let request = request();
    let called_off = AtomicBool::new(false);
    let simulation =
        Simulation::new(&machine, &request.loads, false, &called_off, &|_| ()).unwrap();
    let over = ["idle", "cpu-latency", "frequency"].map(str::to_owned);
    let space = Space::new(&machine, &over, |set| {
        simulation.policies_in_force_under(set)
    })
    .unwrap();
    assert!(space.count_sets() > 80, "{}", space.count_sets());
    let sets: Vec<PolicySet> = (0..space.count_sets())
        .filter_map(|number| {
            space
                .policy_set_of_choice(&space.choice_by_number(number))
                .ok()
        })
        .collect();
    let mut trials: Vec<(String, Trial)> = Vec::new();
    for part in sets.chunks(64) {
        let outcomes = simulation.run_sets_in_order(part, REFERENCE).unwrap();
        for (set, outcome) in part.iter().zip(outcomes) {
            if let TrialOutcome::Ran(trial) = outcome {
                trials.push((set.to_string(), trial));
            }
        }
    }
    let exhaustive: u64 = trials.iter().map(|(_, trial)| trial.requests).sum();
    let (unchanged, in_force) = &trials[0];
    assert_eq!(unchanged, "unchanged");
    let keeping: Vec<(&str, f64)> = trials
        .iter()
        .filter(|(_, trial)| keeps_every_condition(trial, in_force, &request))
        .map(|(set, trial)| (set.as_str(), mean_of_load(trial, "mean_us")))
        .collect();
    let best = keeping
        .iter()
        .map(|(_, latency)| *latency)
        .fold(f64::INFINITY, f64::min);
    let good: Vec<&str> = keeping
        .iter()
        .filter(|(_, latency)| *latency <= best * (1.0 + TOLERANCE))
        .map(|(set, _)| *set)
        .collect();
    // A space in which any answer is good would show nothing.
    assert!(
        !good.is_empty() && good.len() * 20 < trials.len(),
        "{good:?}"
    );
    let budget = Budget((exhaustive as f64 * BUDGET_SHARE) as u64);
    let answers: Vec<String> = (0..SEARCHES)
        .map(|seed| {
            let request = SearchRequest {
                budget,
                seed: seed * SEED_STEP,
                ..request.clone()
            };
            let answer = search_best_policy_set(&space, &request, &simulation).unwrap();
            assert!(answer.simulated <= budget.0, "{}", answer.simulated);
            answer.best.map_or_else(String::new, |best| best.set)
        })
        .collect();
    let found = answers.iter().filter(|set| good.contains(&set.as_str()));
    assert!(found.count() >= FOUND, "{answers:?}, good: {good:?}");
}
