//! How often a search finds the best set: five spaces, many seeds, an exhaustive reference, and random search.
//!
//! Every set of a space is simulated once per seed into a table. Searches look runs up in the table, so many searches cost no
//! more than a single search. Decisions have seeds of their own, simulated when first asked for. The reference has other
//! seeds than the searches. Usage: `search_quality FOLDER [SEARCHES [SPACE...]]`, or 100 searches in every space; tables are kept in
//! the folder, with figures for `bench/search_optuna.py`. After a change of a condition only the reference is made anew. Exit
//! code 1: a goal is missed.

mod evaluator;
mod problem;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use rand::SeedableRng;
use rand::seq::index;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wakepath_policies::PolicySpec;
use wakepath_tune::{Dimension, Simulation, Space, TuneError, search_best_policy_set};

use crate::evaluator::{DecisionRun, TableEvaluator};
use crate::problem::{PROBLEMS, Problem};
use crate::table::{REFERENCE_SEEDS, Reference, SEARCH_SEEDS, Table, TabledRun};

/// Number of searches for each space, unless the arguments say otherwise.
const SEARCHES: u64 = 100;

/// How the program is called.
const USAGE: &str = "usage: search_quality FOLDER [SEARCHES [SPACE...]]";

/// Distance between the seeds of two searches, so that they share few seeds of decisions.
const SEARCH_STEP: u64 = 7;

/// A search may simulate this share of the requests of the exhaustive search.
const BUDGET_SHARE: f64 = 0.0125;

/// Least share of searches that find a good set.
const LEAST_FOUND: f64 = 0.95;

/// Largest share of random searches that find a good set: in an easier space, finding one shows little. At least [`SEARCHES`] of
/// these searches count, which cost no simulation.
const MOST_FOUND_AT_RANDOM: f64 = 0.5;

/// Runs per set of random search.
const RANDOM_REPEATS: usize = 3;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or(USAGE)?;
    let searches = match arguments.next() {
        Some(number) => number.parse::<u64>().map_err(|_| USAGE)?,
        None => SEARCHES,
    };
    let wanted: Vec<String> = arguments.collect();
    if let Some(unknown) = wanted
        .iter()
        .find(|name| PROBLEMS.iter().all(|problem| problem.name != **name))
    {
        return Err(format!("no space is called {unknown}; {USAGE}").into());
    }
    fs::create_dir_all(&folder)?;
    println!(
        "{:<16} {:>4}  {:>4}  {:>6}  {:>8}  {:>11}  {:>13}",
        "space",
        "sets",
        "good",
        "sure %",
        "budget %",
        format!("tune of {searches}"),
        format!("random of {searches}")
    );
    let problems = PROBLEMS
        .iter()
        .filter(|problem| wanted.is_empty() || wanted.iter().any(|name| problem.name == name));
    let mut found_by_space = Vec::new();
    for problem in problems {
        let judged = problem.space_with_simulation(|space, simulation| {
            let folder = Path::new(&folder);
            Ok(judge_searches(problem, searches, folder, space, simulation))
        })?;
        found_by_space.push((problem.name, judged?));
    }
    let mut all_met = true;
    for (name, found) in found_by_space {
        let ShareFound { tune, random } = found;
        all_met &= print_share(
            &format!("searches of tune that find a good set, {name}"),
            tune,
            &format!("at least {:.0} %", 100.0 * LEAST_FOUND),
            tune >= LEAST_FOUND,
        );
        all_met &= print_share(
            &format!(
                "random searches that do, of {}, {name}",
                searches.max(SEARCHES)
            ),
            random,
            &format!("at most {:.0} %", 100.0 * MOST_FOUND_AT_RANDOM),
            random <= MOST_FOUND_AT_RANDOM,
        );
    }
    Ok(ExitCode::from(u8::from(!all_met)))
}

/// Prints a share with its goal. Returns whether the goal is met.
fn print_share(what: &str, share: f64, goal: &str, is_met: bool) -> bool {
    let met = if is_met { "met" } else { "NOT MET" };
    println!("{what:<62} {:>6.1} %   {goal:<22} {met}", 100.0 * share);
    is_met
}

/// The shares of searches that found a good set of a space.
struct ShareFound {
    tune: f64,
    random: f64,
}

/// Prints a row for a space. Returns which share of searches found a good set.
fn judge_searches(
    problem: &Problem,
    searches: u64,
    folder: &Path,
    space: &Space,
    simulation: &Simulation<'_>,
) -> Result<ShareFound, Box<dyn Error>> {
    if std::env::var_os("SQ_TIME").is_some() {
        eprintln!("{} sets {}", problem.name, space.count_sets());
    }
    let table: Table = read_or_make(
        &problem.path_in(folder, ""),
        |_| true,
        || Table::simulate(space, simulation),
    )?;
    let reference: Reference = read_or_make(
        &problem.path_in(folder, ".reference"),
        |reference: &Reference| reference.question == problem.question(),
        || Reference::simulate(problem, &table, simulation),
    )?;
    let decisions: Vec<(DecisionRun, TabledRun)> = read_or_make(
        &problem.path_in(folder, ".decisions"),
        |_| true,
        || Ok(Vec::new()),
    )?;
    let alike = table.alike();
    let evaluator = TableEvaluator {
        alike: &alike,
        numbers: table
            .sets
            .iter()
            .enumerate()
            .map(|(number, name)| (name.as_str(), number))
            .collect(),
        table: &table,
        simulation,
        decisions: Mutex::new(decisions.into_iter().collect()),
    };
    let exhaustive = table.requests_of_exhaustive_search();
    let budget = (exhaustive as f64 * BUDGET_SHARE) as u64;
    let places: Vec<usize> = (0..REFERENCE_SEEDS as usize).collect();
    let good_kinds = problem.good_sets(&reference, &places);
    let good: Vec<usize> = (0..table.sets.len())
        .filter(|number| good_kinds.contains(&alike[*number]))
        .collect();
    let (mut found, mut spent) = (0, 0);
    let is_found_at_random: Vec<bool> = (0..searches.max(SEARCHES))
        .map(|seed| good.contains(&problem.random_answer(&table, seed, budget)))
        .collect();
    let mut answers: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..searches {
        let request = problem.request(seed * SEARCH_STEP, budget);
        let answer = search_best_policy_set(space, &request, &evaluator)?;
        spent += answer.simulated;
        let set = answer.best.map_or_else(String::new, |best| best.set);
        let number = evaluator.numbers.get(set.as_str());
        found += u64::from(number.is_some_and(|number| good.contains(number)));
        *answers.entry(set).or_default() += 1;
    }
    let beside_tune = is_found_at_random.iter().take(searches as usize);
    let random = beside_tune.filter(|is_found| **is_found).count() as u64;
    let TableEvaluator {
        decisions, numbers, ..
    } = evaluator;
    let decisions = decisions
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let decisions: Vec<(DecisionRun, TabledRun)> = decisions.into_iter().collect();
    fs::write(
        problem.path_in(folder, ".decisions"),
        serde_json::to_string(&decisions)?,
    )?;
    let answers_found = GoodAnswers {
        tune: found,
        random,
    };
    let content = SearchTable {
        dimensions: &table.dimensions,
        ordered: space.dimensions.iter().map(has_order).collect(),
        budget,
        searches,
        good: &good,
        found: answers_found,
        figures: list_figures_of_searches(problem, &table),
    };
    let path = folder.join(format!("{}.searches.json", problem.name));
    fs::write(path, serde_json::to_string(&content)?)?;
    println!(
        "{:<16} {:>4}  {:>4}  {:>6.0}  {:>8.1}  {:>11}  {:>13}",
        problem.name,
        table.sets.len(),
        good.len(),
        100.0 * problem.sureness(&reference, &good_kinds),
        100.0 * spent as f64 / searches.max(1) as f64 / exhaustive as f64,
        found,
        random
    );
    if std::env::var_os("SEARCH_QUALITY_ANSWERS").is_some() {
        let before = reference.in_force();
        for (set, count) in answers {
            let number = numbers.get(set.as_str()).copied().unwrap_or(0);
            let runs = reference.runs.get(&alike[number]);
            let judged = runs.map(|runs| problem.excess_and_objective(runs, before));
            println!("  {count:>3} {set} {judged:?}");
        }
        for number in &good_kinds {
            let judged = problem.excess_and_objective(&reference.runs[number], before);
            println!("  good: {} {judged:?}", table.sets[*number]);
        }
    }
    let all_random = is_found_at_random.iter().filter(|is_found| **is_found);
    Ok(ShareFound {
        tune: found as f64 / searches.max(1) as f64,
        random: all_random.count() as f64 / is_found_at_random.len() as f64,
    })
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
    /// Path of a table in the folder, by kind.
    fn path_in(&self, folder: &Path, kind: &str) -> PathBuf {
        folder.join(format!("{}{kind}.json", self.name))
    }

    /// A set's figures in the runs for a search with a seed; `None` where the machine refuses the set.
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

/// How many searches found a good set.
#[derive(Clone, Copy, Serialize)]
struct GoodAnswers {
    tune: u64,
    random: u64,
}

/// The figures of each set for each first seed, for searches by other programs.
#[derive(Serialize)]
struct SearchTable<'a> {
    dimensions: &'a [usize],
    /// Whether a dimension's choices are values of one key, in their order; "no change" then is as a value beyond the last.
    ordered: Vec<bool>,
    budget: u64,
    searches: u64,
    good: &'a [usize],
    found: GoodAnswers,
    /// Excess, objective and requests, by first seed and set.
    figures: Vec<Vec<Option<(f64, f64, u64)>>>,
}

/// Whether all choices of a dimension give one key of one policy a value.
fn has_order(dimension: &Dimension) -> bool {
    let names: BTreeSet<Option<String>> = dimension.choices.iter().map(find_only_key).collect();
    dimension.choices.len() > 1 && names.len() == 1 && !names.contains(&None)
}

/// A policy's name with its only key, `cpu-latency[limit`; `None` with more keys or none.
fn find_only_key(policy: &PolicySpec) -> Option<String> {
    let text = policy.to_string();
    let (name, value) = text.split_once('=')?;
    (!value.contains('=')).then(|| name.to_owned())
}

/// For each seed of a search, each set's figures.
fn list_figures_of_searches(problem: &Problem, table: &Table) -> Vec<Vec<Option<(f64, f64, u64)>>> {
    let seeds = 0..u64::from(SEARCH_SEEDS);
    let figures = seeds.map(|seed| {
        (0..table.sets.len())
            .map(|number| problem.figures_of_search(table, number, seed))
            .collect()
    });
    figures.collect()
}

/// Reads a file from an earlier call, or makes the content and writes the file.
fn read_or_make<T: Serialize + DeserializeOwned>(
    path: &Path,
    is_current: impl Fn(&T) -> bool,
    make: impl FnOnce() -> Result<T, TuneError>,
) -> Result<T, Box<dyn Error>> {
    if let Ok(text) = fs::read_to_string(path) {
        let content: T = serde_json::from_str(&text)?;
        if is_current(&content) {
            return Ok(content);
        }
    }
    let made = make()?;
    fs::write(path, serde_json::to_string(&made)?)?;
    Ok(made)
}
