//! The state of a search: the question, the sets tried, the seeds for each stage.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_policies::PolicySet;

use crate::TuneError;
use crate::evaluator::{Effort, Evaluator, Trial, TrialOutcome};
use crate::figures::Question;
use crate::space::{SetChoice, Space};

/// The state of a search.
pub(crate) struct SearchState<'a> {
    pub(crate) space: &'a Space,
    pub(crate) evaluator: &'a dyn Evaluator,
    pub(crate) question: Question<'a>,
    pub(crate) seed: u64,
    /// Fewest fresh runs of each finalist.
    pub(crate) fewest_repeats: u32,
    /// Number of requests simulated or replayed so far.
    pub(crate) simulated: u64,
    /// Number of requests in the costliest run so far, all loads together.
    pub(crate) costliest_run: u64,
    /// Texts of the sets whose replay has been counted; empty for simulated loads.
    pub(crate) replayed: BTreeSet<String>,
    /// Sets that ran.
    pub(crate) tried: BTreeSet<SetChoice>,
    /// Sets that the machine cannot run.
    pub(crate) refused: BTreeSet<SetChoice>,
    /// Number of requests in a whole run of a set, for sets with whole runs.
    pub(crate) run_costs: BTreeMap<SetChoice, u64>,
    /// Runs of the policies in force so far. Stages compare many sets with the same runs.
    pub(crate) in_force: BTreeMap<Effort, Trial>,
}

impl SearchState<'_> {
    /// Makes an effort whose seeds belong to a stage only.
    pub(crate) fn effort_with_stage_seeds(
        &self,
        stage: u64,
        repeats: u32,
        shortened: u32,
    ) -> Effort {
        Effort::with_stage_seeds(self.seed, stage, repeats, shortened)
    }

    /// Runs the policies in force, unless known from an earlier run with the same effort.
    ///
    /// # Errors
    /// The machine cannot run what is in force, or the user called the search off.
    pub(crate) fn run_policies_in_force(&mut self, effort: Effort) -> Result<Trial, TuneError> {
        if let Some(known) = self.in_force.get(&effort) {
            return Ok(known.clone());
        }
        match self
            .run_sets_and_count_requests(&[PolicySet::default()], effort)?
            .pop()
        {
            Some(TrialOutcome::Ran(trial)) => {
                self.in_force.insert(effort, trial.clone());
                Ok(trial)
            }
            Some(TrialOutcome::Refused(why)) => Err(TuneError::InForce(why)),
            None => Err(TuneError::InForce("no run".to_owned())),
        }
    }

    /// Runs policy sets, and counts the requests that were simulated. A recording gives a set equal figures each time: the
    /// replay of a set counts once.
    ///
    /// # Errors
    /// The user called the search off.
    pub(crate) fn run_sets_and_count_requests(
        &mut self,
        sets: &[PolicySet],
        effort: Effort,
    ) -> Result<Vec<TrialOutcome>, TuneError> {
        let outcomes = self.evaluator.run_sets_in_order(sets, effort)?;
        let is_recorded = self.evaluator.requests_of_replay().is_some();
        for (set, outcome) in sets.iter().zip(&outcomes) {
            if let TrialOutcome::Ran(trial) = outcome {
                if is_recorded && !self.replayed.insert(set.to_string()) {
                    continue;
                }
                self.simulated += trial.requests;
                let run = trial.requests / u64::from(effort.repeats.max(1));
                self.costliest_run = self.costliest_run.max(run);
            }
        }
        Ok(outcomes)
    }
}
