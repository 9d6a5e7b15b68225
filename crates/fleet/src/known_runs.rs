//! Runs of what is in force, kept for the next question about the same machine.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use wakepath_policies::PolicySet;
use wakepath_tune::{Effort, Evaluator, Simulation, TrialOutcome, TuneError};

/// Runs of what is in force on a fleet's machines. The least budget and the search ask for the same ones.
#[derive(Debug, Default)]
pub struct KnownRuns(Mutex<BTreeMap<(String, Effort), TrialOutcome>>);

/// A simulation of one machine that looks runs of what is in force up, and keeps those that it had to make.
pub(crate) struct RememberingEvaluator<'a> {
    pub(crate) simulation: &'a Simulation<'a>,
    /// The machine's name in the fleet.
    pub(crate) machine: &'a str,
    pub(crate) known: &'a KnownRuns,
}

impl Evaluator for RememberingEvaluator<'_> {
    fn run_sets_in_order(
        &self,
        sets: &[PolicySet],
        effort: Effort,
    ) -> Result<Vec<TrialOutcome>, TuneError> {
        let [set] = sets else {
            return self.simulation.run_sets_in_order(sets, effort);
        };
        if !set.is_empty() {
            return self.simulation.run_sets_in_order(sets, effort);
        }
        let place = (self.machine.to_owned(), effort);
        let lock = || self.known.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = lock().get(&place).cloned();
        if let Some(known) = found {
            return Ok(vec![known]);
        }
        let outcomes = self.simulation.run_sets_in_order(sets, effort)?;
        if let [outcome] = &outcomes[..] {
            lock().insert(place, outcome.clone());
        }
        Ok(outcomes)
    }
}
