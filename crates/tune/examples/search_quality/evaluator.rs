//! An evaluator that looks runs up in a table.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use wakepath_policies::PolicySet;
use wakepath_tune::{Effort, Evaluator, LoadRuns, Simulation, Trial, TrialOutcome, TuneError};

use crate::table::{Table, TabledRun, run_sets_in_parts};

/// Most repeats of an effort with seeds from the table. Efforts of more repeats are decisions.
const MOST_TABLED_REPEATS: u32 = 6;

/// Number of seeds of decisions.
const DECISION_SEEDS: u64 = 60;

/// The first seed of decisions.
const FIRST_DECISION_SEED: u64 = 500_000;

/// A run of a decision: number of the set, how much the run is shortened, place among the decisions' seeds.
pub(crate) type DecisionRun = (usize, u32, u64);

/// Looks runs up in a table, and simulates the runs for decisions.
pub(crate) struct TableEvaluator<'a> {
    pub(crate) table: &'a Table,
    pub(crate) numbers: BTreeMap<&'a str, usize>,
    /// For each set the first alike set.
    pub(crate) alike: &'a [usize],
    pub(crate) simulation: &'a Simulation<'a>,
    pub(crate) decisions: Mutex<BTreeMap<DecisionRun, TabledRun>>,
}

impl TableEvaluator<'_> {
    /// Runs of a set for an effort; none where the machine refuses the set.
    fn find_runs(&self, set: &PolicySet, effort: Effort) -> Result<Vec<TabledRun>, TuneError> {
        let number = self.numbers[set.to_string().as_str()];
        let runs = if effort.shortened > 1 {
            &self.table.shortened[number]
        } else {
            &self.table.runs[number]
        };
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let seeds = (0..effort.repeats).map(|repeat| effort.first_seed.wrapping_add(repeat.into()));
        if effort.repeats <= MOST_TABLED_REPEATS {
            let tabled = seeds.map(|seed| runs[(seed % runs.len() as u64) as usize].clone());
            return Ok(tabled.collect());
        }
        let wanted: Vec<DecisionRun> = seeds
            .map(|seed| (self.alike[number], effort.shortened, seed % DECISION_SEEDS))
            .collect();
        let mut decisions = self
            .decisions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let missing: Vec<DecisionRun> = wanted
            .iter()
            .filter(|run| !decisions.contains_key(run))
            .copied()
            .collect();
        let made: Vec<_> = missing
            .par_iter()
            .map(|(_, shortened, place)| {
                let effort = Effort {
                    first_seed: FIRST_DECISION_SEED + place,
                    repeats: 1,
                    shortened: *shortened,
                };
                run_sets_in_parts(self.simulation, std::slice::from_ref(set), effort)
            })
            .collect();
        for (key, run) in missing.into_iter().zip(made) {
            decisions.extend(run?.into_iter().flatten().map(|run| (key, run)));
        }
        Ok(wanted.iter().map(|run| decisions[run].clone()).collect())
    }
}

impl Evaluator for TableEvaluator<'_> {
    fn run_sets_in_order(
        &self,
        sets: &[PolicySet],
        effort: Effort,
    ) -> Result<Vec<TrialOutcome>, TuneError> {
        let mut outcomes = Vec::new();
        for set in sets {
            let runs = self.find_runs(set, effort)?;
            if runs.is_empty() {
                outcomes.push(TrialOutcome::Refused("refused".to_owned()));
                continue;
            }
            let mut trial = Trial {
                loads: vec![LoadRuns::default()],
                rest: LoadRuns::default(),
                requests: 0,
            };
            for run in runs {
                trial.requests += run.requests;
                trial.loads[0].runs.push(run.load.into_iter().collect());
                trial
                    .rest
                    .runs
                    .push(vec![("mean_mw".to_owned(), run.rest_mw)]);
            }
            outcomes.push(TrialOutcome::Ran(trial));
        }
        Ok(outcomes)
    }
}
