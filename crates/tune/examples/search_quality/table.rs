//! Every set of a space on the searches' seeds, and the best sets on other seeds.

use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use wakepath_policies::PolicySet;
use wakepath_tune::{Effort, Evaluator, Simulation, Space, TrialOutcome, TuneError};

use crate::problem::Problem;

/// Number of seeds of the searches in a table.
pub(crate) const SEARCH_SEEDS: u32 = 20;

/// Number of seeds of the reference.
pub(crate) const REFERENCE_SEEDS: u32 = 30;

/// Number of sets with runs of the reference: the best by the mean over the searches' seeds, of alike sets one.
const REFERENCE_SETS: usize = 60;

/// Sets with equal figures on so many seeds are alike, such as two limits with a single allowed idle state. Only the first
/// of alike sets has further runs.
const SEEDS_TO_TELL_APART: u32 = 3;

/// The first seed of the reference, far from the searches' seeds.
const FIRST_REFERENCE_SEED: u64 = 1_000_000;

/// Sets beyond a limit by at most this share belong to the reference, since few seeds tell a limit roughly.
const REFERENCE_TOLERANCE: f64 = 0.03;

/// Number of draws from the seeds of the reference, to tell how sure the best set is.
const RESAMPLES: usize = 100;

/// An answer counts if the objective is at most this share worse than the best.
const TOLERANCE: f64 = 0.01;

/// Metrics named by the questions.
const METRICS: [&str; 5] = ["mean_mw", "mean_us", "p90_us", "p99_us", "iops"];

/// A run's figures for a question, and the number of requests.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct TabledRun {
    /// The load's metrics.
    pub(crate) load: BTreeMap<String, f64>,
    /// Power at rest.
    pub(crate) rest_mw: f64,
    pub(crate) requests: u64,
}

/// All runs in a space.
#[derive(Serialize, Deserialize)]
pub(crate) struct Table {
    /// Number of choices per dimension, without "no change".
    pub(crate) dimensions: Vec<usize>,
    /// Names of the sets.
    pub(crate) sets: Vec<String>,
    /// For each set the runs on the searches' seeds; empty where the machine refuses the set.
    pub(crate) runs: Vec<Vec<TabledRun>>,
    /// As `runs`, for shortened runs.
    pub(crate) shortened: Vec<Vec<TabledRun>>,
}

/// Candidates for the best set, on further seeds.
#[derive(Serialize, Deserialize)]
pub(crate) struct Reference {
    /// Objective and condition that chose the sets.
    pub(crate) question: String,
    /// Runs by number of the set.
    pub(crate) runs: BTreeMap<usize, Vec<TabledRun>>,
}

impl TabledRun {
    /// All figures bit by bit.
    fn bits(&self) -> impl Iterator<Item = u64> {
        let figures = self.load.values().chain([&self.rest_mw]);
        figures
            .map(|figure| figure.to_bits())
            .chain([self.requests])
    }
}

impl Table {
    /// Simulates every set of a space.
    pub(crate) fn simulate(space: &Space, simulation: &Simulation<'_>) -> Result<Self, TuneError> {
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
        let first = Effort {
            first_seed: 0,
            repeats: SEEDS_TO_TELL_APART,
            shortened: 1,
        };
        let further = Effort {
            first_seed: u64::from(SEEDS_TO_TELL_APART),
            repeats: SEARCH_SEEDS - SEEDS_TO_TELL_APART,
            shortened: 1,
        };
        let quarter = Effort {
            first_seed: 0,
            repeats: 4,
            shortened: 4,
        };
        let mut runs = run_sets_in_parts(simulation, &all, first)?;
        let alike = find_alike(&runs);
        let unlike: Vec<usize> = (0..all.len()).filter(|set| alike[*set] == *set).collect();
        let unlike_sets: Vec<PolicySet> = unlike.iter().map(|set| all[*set].clone()).collect();
        let mut shortened = vec![Vec::new(); all.len()];
        let more = run_sets_in_parts(simulation, &unlike_sets, further)?;
        let short = run_sets_in_parts(simulation, &unlike_sets, quarter)?;
        for ((set, more), short) in unlike.into_iter().zip(more).zip(short) {
            for other in (set..all.len()).filter(|other| alike[*other] == set) {
                runs[other].extend_from_slice(&more);
                shortened[other].clone_from(&short);
            }
        }
        Ok(Self {
            dimensions: space.dimensions.iter().map(|d| d.choices.len()).collect(),
            sets: policy_sets
                .iter()
                .map(|set| set.as_ref().map_or_else(String::new, ToString::to_string))
                .collect(),
            runs,
            shortened,
        })
    }

    /// For each set the first alike set.
    pub(crate) fn alike(&self) -> Vec<usize> {
        find_alike(&self.runs)
    }

    /// Number of requests of a search that runs every set on as many seeds as the reference has.
    pub(crate) fn requests_of_exhaustive_search(&self) -> u64 {
        let all = self.runs.iter().flatten();
        let requests: u64 = all.map(|run| run.requests).sum();
        requests / u64::from(SEARCH_SEEDS) * u64::from(REFERENCE_SEEDS)
    }
}

impl Reference {
    /// Simulates the best sets of a table, and the unchanged policies, on the seeds of the reference.
    pub(crate) fn simulate(
        problem: &Problem,
        table: &Table,
        simulation: &Simulation<'_>,
    ) -> Result<Self, TuneError> {
        let mut best = problem.rank_by_search_seeds(table);
        let alike = table.alike();
        best.retain(|number| alike[*number] == *number);
        best.truncate(REFERENCE_SETS);
        best.push(0);
        let sets: Vec<PolicySet> = best
            .iter()
            .map(|number| table.sets[*number].parse().unwrap_or_default())
            .collect();
        let effort = Effort {
            first_seed: FIRST_REFERENCE_SEED,
            repeats: REFERENCE_SEEDS,
            shortened: 1,
        };
        let runs = run_sets_in_parts(simulation, &sets, effort)?;
        Ok(Self {
            question: problem.question(),
            runs: best.into_iter().zip(runs).collect(),
        })
    }

    /// Runs of the unchanged policies.
    pub(crate) fn in_force(&self) -> &[TabledRun] {
        &self.runs[&0]
    }
}

impl Problem {
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
                ((excess - REFERENCE_TOLERANCE).max(0.0), objective, number)
            })
            .collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        ranked.into_iter().map(|(.., number)| number).collect()
    }

    /// The distances beyond all limits as shares of the limits, and the objective over the day.
    pub(crate) fn excess_and_objective(
        &self,
        runs: &[TabledRun],
        before: &[TabledRun],
    ) -> (f64, f64) {
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

    /// Numbers of sets within the tolerance of the best by the reference's runs at `places`. Good sets keep the conditions; sets
    /// without reference are too bad.
    pub(crate) fn good_sets(&self, reference: &Reference, places: &[usize]) -> Vec<usize> {
        let before = take_places(reference.in_force(), places);
        let keeping: Vec<(usize, f64)> = reference
            .runs
            .iter()
            .map(|(number, runs)| {
                (
                    *number,
                    self.excess_and_objective(&take_places(runs, places), &before),
                )
            })
            .filter(|(_, (excess, _))| *excess <= 0.0)
            .map(|(number, (_, objective))| (number, objective))
            .collect();
        let objectives = keeping.iter().map(|(_, objective)| *objective);
        let best = objectives.fold(f64::INFINITY, f64::min);
        let good = keeping
            .into_iter()
            .filter(|(_, objective)| *objective <= best * (1.0 + TOLERANCE));
        good.map(|(number, _)| number).collect()
    }

    /// How sure the reference is: the share of draws with replacement from the seeds in which a good set stays good.
    pub(crate) fn sureness(&self, reference: &Reference, good: &[usize]) -> f64 {
        let seeds = REFERENCE_SEEDS as usize;
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut same = 0;
        for _ in 0..RESAMPLES {
            let places: Vec<usize> = (0..seeds).map(|_| random.random_range(0..seeds)).collect();
            let again = self.good_sets(reference, &places);
            same += good.iter().filter(|number| again.contains(number)).count();
        }
        same as f64 / (RESAMPLES as f64 * good.len().max(1) as f64)
    }
}

/// For each set the first set with equal runs.
fn find_alike(runs: &[Vec<TabledRun>]) -> Vec<usize> {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    let numbered = runs.iter().enumerate();
    numbered
        .map(|(number, runs)| {
            let figures: Vec<u64> = runs.iter().flat_map(TabledRun::bits).collect();
            *first.entry(format!("{figures:?}")).or_insert(number)
        })
        .collect()
}

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

fn take_places(runs: &[TabledRun], places: &[usize]) -> Vec<TabledRun> {
    places.iter().map(|place| runs[*place].clone()).collect()
}

/// The mean of a metric over runs of a load.
fn mean_of_runs(runs: &[TabledRun], metric: &str) -> f64 {
    runs.iter().map(|run| run.load[metric]).sum::<f64>() / runs.len() as f64
}

/// Runs sets in parts that fit into memory.
pub(crate) fn run_sets_in_parts(
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
