//! Power at rest under an answer, where the search itself had no use for it.

use std::sync::atomic::AtomicBool;

use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;

use crate::TuneError;
use crate::answer::{Finalist, LoadFigures, SearchAnswer};
use crate::evaluator::{Effort, Evaluator, TrialOutcome};
use crate::figures::mean;
use crate::simulation::Simulation;

/// Simulates the machine at rest under what is in force and under the best set, on the seeds that decided, and adds
/// `mean_mw` of both as the load `rest`. Nothing else of the answer changes but the number of simulated requests. Adds nothing
/// where the answer has power at rest already, or the machine has no figures of power.
///
/// # Errors
/// Called off by the user.
pub fn add_power_at_rest_to_answer(
    machine: &Machine,
    answer: &mut SearchAnswer,
    cancelled: &AtomicBool,
) -> Result<(), TuneError> {
    let simulation = Simulation::new(machine, &[], true, cancelled, &|_| ())?;
    let effort = Effort {
        first_seed: answer.first_seed_of_decision,
        repeats: answer.repeats,
        shortened: 1,
    };
    for finalist in [&mut answer.in_force].into_iter().chain(&mut answer.best) {
        if finalist.loads.iter().any(|load| load.load == "rest") {
            continue;
        }
        answer.simulated += add_power_at_rest(&simulation, finalist, effort)?;
    }
    Ok(())
}

/// Adds power at rest to a set's figures; returns the number of simulated requests.
fn add_power_at_rest(
    simulation: &Simulation<'_>,
    finalist: &mut Finalist,
    effort: Effort,
) -> Result<u64, TuneError> {
    // `unchanged` is a set as well: the one that changes nothing.
    let Ok(set) = finalist.set.parse::<PolicySet>() else {
        return Ok(0);
    };
    let Some(TrialOutcome::Ran(trial)) = simulation.run_sets_in_order(&[set], effort)?.pop() else {
        return Ok(0);
    };
    if let Some(power) = trial.rest.metric_of_each_run("mean_mw") {
        finalist.loads.push(LoadFigures {
            load: "rest".to_owned(),
            metrics: vec![("mean_mw".to_owned(), mean(&power))],
        });
    }
    Ok(trial.requests)
}
