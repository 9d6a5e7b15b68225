//! How often a search finds the best set: five spaces, many seeds, an exhaustive reference, and random search.
//!
//! Every set of a space is simulated once per seed into a table. Searches look runs up in the table, so many searches cost no
//! more than a single search. The reference has other seeds than the searches. Usage: `search_quality FOLDER [SPACE]`; the
//! tables are kept in the folder, with the figures that `bench/search_optuna.py` searches.

#![expect(
    clippy::expect_used,
    reason = "the problems are constants of this file"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rand::SeedableRng;
use rand::seq::index;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_results::Goal;
use wakepath_results::LoadCondition;
use wakepath_tune::{
    Budget, DailyLoad, Effort, Evaluator, LoadRuns, SearchObjective, SearchRequest, Simulation,
    Space, Trial, TrialOutcome, TuneError, search_best_policy_set,
};
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;

/// Number of seeds of the searches in a table.
const SEARCH_SEEDS: u32 = 20;

/// Number of seeds of the reference.
const REFERENCE_SEEDS: u32 = 30;

/// Number of sets with runs of the reference: the best by the mean over the searches' seeds.
const REFERENCE_SETS: usize = 150;

/// The first seed of the reference, far from the searches' seeds.
const FIRST_REFERENCE_SEED: u64 = 1_000_000;

/// Number of searches for each space.
const SEARCHES: u64 = 100;

/// An answer counts if the objective is at most this share worse than the best.
const TOLERANCE: f64 = 0.01;

/// A search may simulate this share of the requests of the exhaustive search.
const BUDGET_SHARE: f64 = 0.02;

/// Runs per set of random search.
const RANDOM_REPEATS: usize = 3;

/// A space to search, with the question.
struct Problem {
    name: &'static str,
    machine: &'static str,
    job: &'static str,
    hours: f64,
    millis: u64,
    over: &'static [&'static str],
    objective: &'static str,
    condition: &'static str,
}

/// What may be changed where idle states are limited for good.
const IDLE_AND_FREQUENCY: [&str; 5] = [
    "idle",
    "idle-states",
    "cpu-latency",
    "frequency",
    "frequency-limits",
];

/// What may be changed where leases limit idle states.
const LEASES_AND_FREQUENCY: [&str; 4] = ["idle", "psd", "frequency", "frequency-limits"];

const PROBLEMS: [Problem; 5] = [
    Problem {
        name: "board-power",
        machine: "rk3399",
        job: "rw=randread\nbs=4k\ndirect=1\n",
        hours: 8.0,
        millis: 20,
        over: &IDLE_AND_FREQUENCY,
        objective: "mean_mw",
        condition: "p99_us <= -10%",
    },
    Problem {
        name: "board-latency",
        machine: "rk3399",
        job: "rw=randread\nbs=4k\ndirect=1\n",
        hours: 8.0,
        millis: 20,
        over: &IDLE_AND_FREQUENCY,
        objective: "mean_us",
        condition: "mean_mw <= +15%",
    },
    Problem {
        name: "board-bursts",
        machine: "rk3399",
        job: "rw=randread\nbs=4k\ndirect=1\nthinktime=2ms\nthinktime_blocks=8\n",
        hours: 12.0,
        millis: 40,
        over: &LEASES_AND_FREQUENCY,
        objective: "mean_mw",
        condition: "mean_us <= -10%",
    },
    Problem {
        name: "board-rate",
        machine: "rk3399",
        job: "rw=randread\nbs=4k\ndirect=1\nrate_iops=800\n",
        hours: 8.0,
        millis: 40,
        over: &LEASES_AND_FREQUENCY,
        objective: "mean_mw",
        condition: "p99_us <= -20%",
    },
    Problem {
        name: "board-writes",
        machine: "rk3399",
        job: "rw=randwrite\nbs=16k\ndirect=1\n",
        hours: 4.0,
        millis: 20,
        over: &IDLE_AND_FREQUENCY,
        objective: "mean_mw",
        condition: "p90_us <= -15%",
    },
];

/// A run's figures for a question, and the number of requests.
#[derive(Clone, Serialize, Deserialize)]
struct TabledRun {
    /// The load's metrics.
    load: BTreeMap<String, f64>,
    /// Power at rest.
    rest_mw: f64,
    requests: u64,
}

/// All runs in a space.
#[derive(Serialize, Deserialize)]
struct Table {
    /// Number of choices per dimension, without "no change".
    dimensions: Vec<usize>,
    /// Names of the sets.
    sets: Vec<String>,
    /// For each set the runs on the searches' seeds; empty where the machine refuses the set.
    runs: Vec<Vec<TabledRun>>,
    /// As `runs`, for shortened runs.
    shortened: Vec<Vec<TabledRun>>,
    /// Sets of the reference, with runs on the reference's seeds.
    reference: BTreeMap<usize, Vec<TabledRun>>,
}

/// Metrics named by the questions.
const METRICS: [&str; 5] = ["mean_mw", "mean_us", "p90_us", "p99_us", "iops"];

fn find_metric(run: &[(String, f64)], metric: &str) -> Option<f64> {
    let found = run.iter().find(|(name, _)| name == metric);
    found.map(|(_, value)| *value)
}

fn tabled_runs(outcome: TrialOutcome) -> Vec<TabledRun> {
    let TrialOutcome::Ran(trial) = outcome else {
        return Vec::new();
    };
    let runs = trial.loads[0].runs.len().max(1);
    let rest = trial.rest.metric_of_each_run("mean_mw").unwrap_or_default();
    (0..trial.loads[0].runs.len())
        .map(|index| TabledRun {
            load: METRICS
                .iter()
                .filter_map(|metric| {
                    let value = find_metric(&trial.loads[0].runs[index], metric)?;
                    Some(((*metric).to_owned(), value))
                })
                .collect(),
            rest_mw: rest.get(index).copied().unwrap_or(f64::NAN),
            requests: trial.requests / runs as u64,
        })
        .collect()
}

/// The mean of a metric over runs of a load.
fn mean_of_runs(runs: &[TabledRun], metric: &str) -> f64 {
    runs.iter().map(|run| run.load[metric]).sum::<f64>() / runs.len() as f64
}

/// Runs sets in parts that fit into memory.
fn run_sets_in_parts(
    simulation: &Simulation<'_>,
    sets: &[PolicySet],
    effort: Effort,
) -> Result<Vec<Vec<TabledRun>>, TuneError> {
    let mut runs = Vec::new();
    for part in sets.chunks(64) {
        let outcomes = simulation.run_sets_in_order(part, effort)?;
        runs.extend(outcomes.into_iter().map(tabled_runs));
    }
    Ok(runs)
}

impl Table {
    /// A set's runs as random search with this seed sees them.
    fn runs_of_random_search(&self, number: usize, seed: u64) -> Vec<TabledRun> {
        let runs = &self.runs[number];
        (0..RANDOM_REPEATS.min(runs.len()))
            .map(|repeat| runs[(seed as usize + repeat) % SEARCH_SEEDS as usize].clone())
            .collect()
    }
}

impl Problem {
    fn request(&self, seed: u64, budget: u64) -> SearchRequest {
        let text = format!(
            "[j]\nfilename=/dev/nvme0n1\ntime_based\nruntime=1s\n{}",
            self.job
        );
        let file = wakepath_workloads::fio::parse(&text, "j.fio").expect("a job");
        let workload = Workload::from(file)
            .with_time_limit_and_fio_warm_up(Some(Nanoseconds::from_millis(self.millis)), None);
        SearchRequest {
            loads: vec![DailyLoad {
                name: "j".to_owned(),
                workload: Some(workload),
                hours: self.hours,
            }],
            objective: SearchObjective::new(self.objective, Goal::Minimise).expect("a metric"),
            conditions: vec![
                self.condition
                    .parse::<LoadCondition>()
                    .expect("a condition"),
            ],
            budget: Budget(budget),
            seed,
        }
    }

    fn space_with_simulation<T>(
        &self,
        work: impl FnOnce(&Space, &Simulation<'_>) -> Result<T, TuneError>,
    ) -> Result<T, TuneError> {
        let machine = Machine::find(self.machine).expect("a built-in machine");
        let request = self.request(1, 1);
        let cancelled = AtomicBool::new(false);
        let simulation = Simulation::new(&machine, &request.loads, true, &cancelled, &|_| ())?;
        let over: Vec<String> = self.over.iter().map(|name| (*name).to_owned()).collect();
        let space = Space::new(&machine, &over, |set| {
            simulation.policies_in_force_under(set)
        })?;
        work(&space, &simulation)
    }

    fn simulate_table(
        &self,
        space: &Space,
        simulation: &Simulation<'_>,
    ) -> Result<Table, TuneError> {
        let policy_sets: Vec<Option<PolicySet>> = (0..space.count_sets())
            .map(|number| {
                space
                    .policy_set_of_choice(&space.choice_by_number(number))
                    .ok()
            })
            .collect();
        let all: Vec<PolicySet> = policy_sets
            .iter()
            .map(|set| set.clone().unwrap_or_default())
            .collect();
        let full = Effort {
            first_seed: 0,
            repeats: SEARCH_SEEDS,
            shortened: 1,
        };
        let quarter = Effort {
            first_seed: 0,
            repeats: 4,
            shortened: 4,
        };
        let reference = Effort {
            first_seed: FIRST_REFERENCE_SEED,
            repeats: REFERENCE_SEEDS,
            shortened: 1,
        };
        let runs = run_sets_in_parts(simulation, &all, full)?;
        let shortened = run_sets_in_parts(simulation, &all, quarter)?;
        let mut table = Table {
            dimensions: space.dimensions.iter().map(|d| d.choices.len()).collect(),
            sets: policy_sets
                .iter()
                .map(|set| set.as_ref().map_or_else(String::new, ToString::to_string))
                .collect(),
            runs,
            shortened,
            reference: BTreeMap::new(),
        };
        let mut best = self.rank_by_search_seeds(&table);
        best.truncate(REFERENCE_SETS);
        best.push(0);
        let best_sets: Vec<PolicySet> = best.iter().map(|number| all[*number].clone()).collect();
        let again = run_sets_in_parts(simulation, &best_sets, reference)?;
        table.reference = best.into_iter().zip(again).collect();
        Ok(table)
    }

    /// Numbers of the sets, the best first: by the conditions, then by the objective.
    fn rank_by_search_seeds(&self, table: &Table) -> Vec<usize> {
        let before = &table.runs[0];
        let mut ranked: Vec<(f64, f64, usize)> = table
            .runs
            .iter()
            .enumerate()
            .filter(|(_, runs)| !runs.is_empty())
            .map(|(number, runs)| {
                let (excess, objective) = self.excess_and_objective(runs, before);
                // The reference has room for sets a little beyond the limit.
                ((excess - 0.02).max(0.0), objective, number)
            })
            .collect();
        ranked.sort_by(|a, b| (a.0, a.1).partial_cmp(&(b.0, b.1)).expect("finite figures"));
        ranked.into_iter().map(|(.., number)| number).collect()
    }

    /// The distances beyond all limits as shares of the limits, and the objective over the day.
    fn excess_and_objective(&self, runs: &[TabledRun], before: &[TabledRun]) -> (f64, f64) {
        let request = self.request(1, 1);
        let conditions = request.conditions_with_implied_rates();
        let excess = conditions.iter().map(|condition| {
            let metric = &condition.condition.metric;
            condition
                .share_beyond_limit_or_0(mean_of_runs(runs, metric), mean_of_runs(before, metric))
        });
        let mut objective = mean_of_runs(runs, self.objective);
        if self.objective == "mean_mw" {
            let rest = runs.iter().map(|run| run.rest_mw).sum::<f64>() / runs.len() as f64;
            objective = (objective * self.hours + rest * (24.0 - self.hours)) / 24.0;
        }
        (excess.sum(), objective)
    }

    /// Whether a set keeps the conditions and is within the tolerance of the best, by the reference. Sets without reference
    /// are too bad.
    fn is_good(&self, table: &Table, number: usize) -> bool {
        let before = &table.reference[&0];
        let best = table
            .reference
            .values()
            .map(|runs| self.excess_and_objective(runs, before))
            .filter(|(excess, _)| *excess <= 0.0)
            .map(|(_, objective)| objective)
            .fold(f64::INFINITY, f64::min);
        let runs = table.reference.get(&number);
        runs.is_some_and(|runs| {
            let (excess, objective) = self.excess_and_objective(runs, before);
            excess <= 0.0 && objective <= best * (1.0 + TOLERANCE)
        })
    }

    fn requests_of_exhaustive_search(table: &Table) -> u64 {
        let all = table.runs.iter().flatten();
        let requests: u64 = all.map(|run| run.requests).sum();
        requests / u64::from(SEARCH_SEEDS) * u64::from(REFERENCE_SEEDS)
    }

    /// A set's figures in the runs that a search with a seed sees; `None` where the machine refuses the set.
    fn figures_of_search(
        &self,
        table: &Table,
        number: usize,
        seed: u64,
    ) -> Option<(f64, f64, u64)> {
        let runs = table.runs_of_random_search(number, seed);
        if runs.is_empty() {
            return None;
        }
        let before = table.runs_of_random_search(0, seed);
        let (excess, objective) = self.excess_and_objective(&runs, &before);
        let requests = runs.iter().map(|run| run.requests).sum();
        Some((excess, objective, requests))
    }

    /// Random search: sets drawn without replacement, each with a few runs; the best by means wins.
    fn random_answer(&self, table: &Table, seed: u64, budget: u64) -> usize {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut spent = 0;
        let mut best = (f64::INFINITY, f64::INFINITY, 0);
        for number in index::sample(&mut random, table.sets.len(), table.sets.len()) {
            let Some((excess, objective, requests)) = self.figures_of_search(table, number, seed)
            else {
                continue;
            };
            spent += requests;
            if spent > budget {
                break;
            }
            if (excess, objective) < (best.0, best.1) {
                best = (excess, objective, number);
            }
        }
        best.2
    }
}

/// The figures of each set for each first seed, for searches by other programs.
#[derive(Serialize)]
struct SearchTable<'a> {
    dimensions: &'a [usize],
    budget: u64,
    searches: u64,
    good: &'a [usize],
    /// Excess, objective and requests, by first seed and set.
    figures: Vec<Vec<Option<(f64, f64, u64)>>>,
}

fn write_table_for_other_searches(
    problem: &Problem,
    folder: &Path,
    table: &Table,
    good: &[usize],
    budget: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    let seeds = 0..u64::from(SEARCH_SEEDS);
    let figures = seeds.map(|seed| {
        (0..table.sets.len())
            .map(|number| problem.figures_of_search(table, number, seed))
            .collect()
    });
    let content = SearchTable {
        dimensions: &table.dimensions,
        budget,
        searches: SEARCHES,
        good,
        figures: figures.collect(),
    };
    let path = folder.join(format!("{}.searches.json", problem.name));
    fs::write(path, serde_json::to_string(&content)?)?;
    Ok(())
}

/// Looks runs up in a table.
struct TableEvaluator<'a> {
    table: &'a Table,
    numbers: BTreeMap<&'a str, usize>,
}

impl Evaluator for TableEvaluator<'_> {
    fn run_sets_in_order(
        &self,
        sets: &[PolicySet],
        effort: Effort,
    ) -> Result<Vec<TrialOutcome>, TuneError> {
        let runs_of = if effort.shortened > 1 {
            &self.table.shortened
        } else {
            &self.table.runs
        };
        let outcomes = sets.iter().map(|set| {
            let number = self.numbers[set.to_string().as_str()];
            let runs = &runs_of[number];
            if runs.is_empty() {
                return TrialOutcome::Refused("refused".to_owned());
            }
            let taken = (0..effort.repeats).map(|repeat| {
                let seed = effort.first_seed.wrapping_add(u64::from(repeat));
                &runs[(seed % runs.len() as u64) as usize]
            });
            let mut trial = Trial {
                loads: vec![LoadRuns::default()],
                rest: LoadRuns::default(),
                requests: 0,
            };
            for run in taken {
                let metrics = run.load.iter().map(|(name, value)| (name.clone(), *value));
                trial.loads[0].runs.push(metrics.collect());
                trial
                    .rest
                    .runs
                    .push(vec![("mean_mw".to_owned(), run.rest_mw)]);
                trial.requests += run.requests;
            }
            TrialOutcome::Ran(trial)
        });
        Ok(outcomes.collect())
    }
}

fn load_or_simulate_table(
    problem: &Problem,
    folder: &Path,
    space: &Space,
    simulation: &Simulation<'_>,
) -> Result<Table, Box<dyn std::error::Error>> {
    let path = folder.join(format!("{}.json", problem.name));
    if let Ok(text) = fs::read_to_string(&path) {
        return Ok(serde_json::from_str(&text)?);
    }
    let table = problem.simulate_table(space, simulation)?;
    fs::write(&path, serde_json::to_string(&table)?)?;
    Ok(table)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments
        .next()
        .ok_or("usage: search_quality FOLDER [SPACE]")?;
    let wanted = arguments.next();
    fs::create_dir_all(&folder)?;
    println!("space            sets  good  budget %  tune of {SEARCHES}  random of {SEARCHES}");
    let problems = PROBLEMS
        .iter()
        .filter(|problem| wanted.as_ref().is_none_or(|name| problem.name == name));
    for problem in problems {
        let mut failed = Ok(());
        problem.space_with_simulation(|space, simulation| {
            failed = judge_searches(problem, Path::new(&folder), space, simulation);
            Ok(())
        })?;
        failed?;
    }
    Ok(())
}

fn judge_searches(
    problem: &Problem,
    folder: &Path,
    space: &Space,
    simulation: &Simulation<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let table = load_or_simulate_table(problem, folder, space, simulation)?;
    let evaluator = TableEvaluator {
        numbers: table
            .sets
            .iter()
            .enumerate()
            .map(|(number, name)| (name.as_str(), number))
            .collect(),
        table: &table,
    };
    let exhaustive = Problem::requests_of_exhaustive_search(&table);
    let budget = (exhaustive as f64 * BUDGET_SHARE) as u64;
    let good: Vec<usize> = (0..table.sets.len())
        .filter(|number| problem.is_good(&table, *number))
        .collect();
    write_table_for_other_searches(problem, folder, &table, &good, budget)?;
    let (mut found, mut random, mut spent) = (0, 0, 0);
    let mut answers: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..SEARCHES {
        let answer = search_best_policy_set(space, &problem.request(seed, budget), &evaluator)?;
        spent += answer.simulated;
        let set = answer.best.map_or_else(String::new, |best| best.set);
        let number = evaluator.numbers.get(set.as_str());
        found += u64::from(number.is_some_and(|number| good.contains(number)));
        *answers.entry(set).or_default() += 1;
        random += u64::from(good.contains(&problem.random_answer(&table, seed, budget)));
    }
    println!(
        "{:<16} {:>4}  {:>4}  {:>8.1}  {:>11}  {:>13}",
        problem.name,
        table.sets.len(),
        good.len(),
        100.0 * spent as f64 / SEARCHES as f64 / exhaustive as f64,
        found,
        random
    );
    if std::env::var_os("SEARCH_QUALITY_ANSWERS").is_some() {
        for (set, count) in answers {
            let number = evaluator.numbers.get(set.as_str()).copied().unwrap_or(0);
            let runs = table.reference.get(&number);
            let judged = runs.map(|runs| problem.excess_and_objective(runs, &table.reference[&0]));
            println!("  {count:>3} {set} {judged:?}");
        }
        for number in good.iter().take(6) {
            let runs = &table.reference[number];
            let judged = problem.excess_and_objective(runs, &table.reference[&0]);
            println!("  good: {} {judged:?}", table.sets[*number]);
        }
    }
    Ok(())
}
