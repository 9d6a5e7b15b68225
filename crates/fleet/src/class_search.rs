//! The search for a class: on the class's stand-in, then the set that it found on further machines.
//!
//! A [`ClassSearch`] has the machines' descriptions as text, so that another process answers as this one would.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_system::capture::machine::describe_machine;
use wakepath_system::{Root, System};
use wakepath_tune::{
    Budget, Finalist, SearchAnswer, SearchRequest, Simulation, Space, TuneError, find_least_budget,
    search_best_policy_set,
};
use wakepath_units::causes::with_causes;

use crate::FleetError;
use crate::known_runs::{KnownRuns, RememberingEvaluator};
use crate::survey::{FleetClass, FleetMachine};

/// Most further machines for trying a class's set.
const MOST_TRIED: usize = 4;

/// A request for decisions.
pub struct DecisionRequest<'a> {
    /// Loads, objective, conditions, and the budget of each class.
    pub search: &'a SearchRequest,
    /// Mechanisms to change, as for `tune --over`; empty: the usual.
    pub over: &'a [String],
    /// A class with fewer machines joins the nearest class.
    pub fewest_machines: usize,
    /// Set to end the search.
    pub cancelled: &'a AtomicBool,
    /// Called with numbers of simulated requests.
    pub report_requests: &'a (dyn Fn(u64) + Sync),
    /// Runs that an earlier question about the same machines and search has made.
    pub known_runs: &'a KnownRuns,
}

/// A decision's effect in a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassOutcome {
    /// Name of the class.
    pub class: String,
    /// The searched machine.
    pub machine: String,
    /// The objective's unit.
    pub unit: String,
    /// The objective with what is in force.
    pub in_force: f64,
    /// The objective with the set.
    pub objective: f64,
    /// Gain in %; positive is better.
    pub gain_percent: f64,
    /// The gain's confidence interval in %.
    pub gain_interval: [f64; 2],
    /// Lowest and highest gain in % on machines of the class with other settings in force, the searched one included.
    pub spread_percent: [f64; 2],
    /// Number of machines behind the spread.
    pub tried: usize,
    /// Each condition with each load that it concerns, on the searched machine.
    #[serde(default)]
    pub conditions: Vec<OutcomeOfCondition>,
    /// Conditions broken on further machines.
    pub broken: Vec<String>,
    /// How far predictions on the searched machine were off, in words; absent: it was not calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<String>,
}

/// A condition's metric before and after a change of settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutcomeOfCondition {
    /// The condition, as the user wrote it.
    pub condition: String,
    /// Name of the load.
    pub load: String,
    /// The metric with what is in force, in its own unit.
    pub in_force: f64,
    /// The metric with the set.
    pub value: f64,
    /// The limit.
    pub limit: f64,
    /// Whether the mean with the set keeps the condition.
    pub is_kept: bool,
    /// Whether the whole confidence interval with the set keeps the condition.
    pub is_sure: bool,
}

impl OutcomeOfCondition {
    /// The conditions of a chosen set, each beside its value with what is in force.
    fn list_with_values_in_force(chosen: &Finalist, in_force: &Finalist) -> Vec<Self> {
        let with_before = chosen.conditions.iter().filter_map(|kept| {
            let before = in_force
                .conditions
                .iter()
                .find(|before| before.condition == kept.condition && before.load == kept.load)?;
            Some(Self {
                condition: kept.condition.clone(),
                load: kept.load.clone(),
                in_force: before.value,
                value: kept.value,
                limit: kept.limit,
                is_kept: kept.is_kept,
                is_sure: kept.is_sure,
            })
        });
        with_before.collect()
    }
}

/// The answer of a class's search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum ClassAnswer {
    /// The class's policy set, or no change.
    Decided {
        /// The policy set; `None`: leave everything as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<PolicySet>,
        /// The set's effect.
        outcome: Box<ClassOutcome>,
    },
    /// The class has no decision.
    Undecided {
        /// Why.
        why: String,
    },
}

/// What the search for a class needs, as values that another process can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClassSearch {
    /// Name of the class.
    class: String,
    /// The class's stand-in.
    representative: DescribedMachine,
    /// Machines with other settings in force.
    #[serde(default)]
    others: Vec<DescribedMachine>,
    /// Policy sets that doctor recommends for the stand-in; the search begins with them.
    #[serde(default)]
    fixes: Vec<PolicySet>,
}

/// A machine of the fleet, described for the simulator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DescribedMachine {
    /// The machine's name in the fleet.
    name: String,
    /// Text of the machine file.
    file: String,
}

/// Why a search has no answer.
enum ClassError {
    /// The search as a whole cannot go on.
    Called(FleetError),
    /// This class cannot be searched.
    Machine(String),
}

impl From<TuneError> for ClassError {
    fn from(error: TuneError) -> Self {
        match error {
            TuneError::Interrupted => Self::Called(FleetError::Interrupted),
            TuneError::InForce(_)
            | TuneError::Space(_)
            | TuneError::NoMetric { .. }
            | TuneError::FewRequests { .. }
            | TuneError::Budget { .. } => Self::Machine(with_causes(&error)),
            other => Self::Called(other.into()),
        }
    }
}

impl ClassAnswer {
    /// Name of the class with the decision; `None` without a decision.
    pub(crate) fn decided_class(&self) -> Option<&str> {
        match self {
            Self::Decided { outcome, .. } => Some(&outcome.class),
            Self::Undecided { .. } => None,
        }
    }
}

impl ClassSearch {
    /// Name of the class.
    pub(crate) fn class(&self) -> &str {
        &self.class
    }

    /// Describes a class's stand-in, and up to [`MOST_TRIED`] machines with other settings in force.
    ///
    /// # Errors
    /// A sentence: the stand-in's capture cannot be simulated.
    pub(crate) fn describe(class: &FleetClass) -> Result<Self, String> {
        let representative = class.representative();
        let mut known = BTreeSet::from([&representative.settings]);
        let others = class
            .machines
            .iter()
            .filter(|machine| known.insert(&machine.settings));
        let fixes = class.findings.iter().filter_map(|found| found.fix.as_ref());
        Ok(Self {
            class: class.name.clone(),
            // A file by another version of doctor may recommend what this version does not know.
            fixes: fixes.filter_map(|fix| fix.parse().ok()).collect(),
            representative: DescribedMachine::describe(representative)?,
            others: others
                .take(MOST_TRIED)
                .filter_map(|machine| DescribedMachine::describe(machine).ok())
                .collect(),
        })
    }

    /// Searches the best set on the stand-in, and tries the set on the other machines.
    ///
    /// # Errors
    /// The loads fit no search; it was called off. A class that cannot be simulated is an answer.
    pub(crate) fn answer(&self, request: &DecisionRequest<'_>) -> Result<ClassAnswer, FleetError> {
        match self.find_set(request) {
            Ok(answer) => Ok(answer),
            Err(ClassError::Called(error)) => Err(error),
            Err(ClassError::Machine(why)) => Ok(ClassAnswer::Undecided { why }),
        }
    }

    /// The least budget for the stand-in; 0 where the class cannot be searched.
    ///
    /// # Errors
    /// The loads fit no search; it was called off.
    pub(crate) fn find_least_budget(
        &self,
        request: &DecisionRequest<'_>,
    ) -> Result<u64, FleetError> {
        let found = match self.representative.read() {
            Ok(machine) => {
                find_least_budget_on_machine(&machine, &self.representative.name, request)
                    .map_err(Into::into)
            }
            Err(why) => Err(ClassError::Machine(why)),
        };
        match found {
            Ok(budget) => Ok(budget.0),
            Err(ClassError::Called(error)) => Err(error),
            Err(ClassError::Machine(_)) => Ok(0),
        }
    }

    fn find_set(&self, request: &DecisionRequest<'_>) -> Result<ClassAnswer, ClassError> {
        let machine = self.representative.read().map_err(ClassError::Machine)?;
        let answer = search_on_machine(
            &machine,
            &self.representative.name,
            request,
            &Choice::Space { fixes: &self.fixes },
        )?;
        let best = answer.best.as_ref();
        let chosen = best.filter(|best| !best.changes_nothing());
        let set = chosen
            .map(|best| best.set.parse::<PolicySet>())
            .transpose()
            .map_err(|error| ClassError::Machine(error.to_string()))?;
        if best.is_none() {
            return Err(ClassError::Machine(
                "no policy set keeps every condition".to_owned(),
            ));
        }
        let mut outcome = self.describe_outcome(&answer, chosen);
        outcome.prediction = machine.describe_prediction_error();
        if let Some(set) = &set {
            self.try_on_others(set, request, &mut outcome)?;
        }
        Ok(ClassAnswer::Decided {
            set,
            outcome: Box::new(outcome),
        })
    }

    fn describe_outcome(&self, answer: &SearchAnswer, chosen: Option<&Finalist>) -> ClassOutcome {
        let gain = chosen.and_then(|chosen| chosen.gain);
        let percent = gain.map_or(0.0, |gain| gain.percent);
        ClassOutcome {
            class: self.class.clone(),
            machine: self.representative.name.clone(),
            unit: answer.unit.clone(),
            in_force: answer.in_force.objective,
            objective: chosen.unwrap_or(&answer.in_force).objective,
            gain_percent: percent,
            gain_interval: gain.map_or([0.0, 0.0], |gain| gain.interval),
            spread_percent: [percent, percent],
            tried: 1,
            conditions: OutcomeOfCondition::list_with_values_in_force(
                chosen.unwrap_or(&answer.in_force),
                &answer.in_force,
            ),
            broken: Vec::new(),
            prediction: None,
        }
    }

    /// Tries the class's set on machines with other settings in force.
    fn try_on_others(
        &self,
        set: &PolicySet,
        request: &DecisionRequest<'_>,
        outcome: &mut ClassOutcome,
    ) -> Result<(), ClassError> {
        for other in &self.others {
            let machine = other.read().map_err(ClassError::Machine)?;
            let answer = match search_on_machine(&machine, &other.name, request, &Choice::Only(set))
            {
                Ok(answer) => answer,
                // With such settings in force the set changes nothing, or the machine refuses it.
                Err(TuneError::Space(_) | TuneError::InForce(_)) => continue,
                Err(error) => return Err(error.into()),
            };
            let with_set = answer
                .best
                .iter()
                .chain(&answer.next)
                .find(|finalist| !finalist.changes_nothing());
            let Some(finalist) = with_set else {
                continue;
            };
            if let Some(gain) = finalist.gain {
                outcome.spread_percent[0] = outcome.spread_percent[0].min(gain.percent);
                outcome.spread_percent[1] = outcome.spread_percent[1].max(gain.percent);
                outcome.tried += 1;
            }
            let broken = finalist.conditions.iter().filter(|kept| !kept.is_kept);
            outcome.broken.extend(
                broken.map(|kept| {
                    format!("{} under {} on {}", kept.condition, kept.load, other.name)
                }),
            );
        }
        Ok(())
    }
}

impl DescribedMachine {
    /// Describes a captured machine for the simulator, with calibrated figures, if any.
    fn describe(found: &FleetMachine) -> Result<Self, String> {
        let system = System::new(Root::at_directory(&found.path));
        let (mut machine, _) =
            describe_machine(&system, &found.name).map_err(|error| with_causes(&error))?;
        if let Some(path) = &found.calibration {
            let calibrated = Machine::load(path).map_err(|error| with_causes(&error))?;
            if !machine
                .take_calibrated_figures(&calibrated, |_| false)
                .is_empty()
            {
                machine.prediction = calibrated.prediction;
            }
            machine.check().map_err(|error| with_causes(&error))?;
        }
        Ok(Self {
            name: found.name.clone(),
            file: machine.to_toml().map_err(|error| with_causes(&error))?,
        })
    }

    fn read(&self) -> Result<Machine, String> {
        Machine::parse(&self.file, &self.name).map_err(|error| with_causes(&error))
    }
}

/// The policy sets to choose from.
enum Choice<'a> {
    /// All sets over the wanted mechanisms, beginning with fixes.
    Space { fixes: &'a [PolicySet] },
    /// A single set.
    Only(&'a PolicySet),
}

fn new_simulation<'a>(
    machine: &'a Machine,
    request: &'a DecisionRequest<'_>,
) -> Result<Simulation<'a>, TuneError> {
    Simulation::new(
        machine,
        &request.search.loads,
        request.search.objective.counts_hours_of_rest(),
        request.cancelled,
        request.report_requests,
    )
}

fn find_least_budget_on_machine(
    machine: &Machine,
    name: &str,
    request: &DecisionRequest<'_>,
) -> Result<Budget, TuneError> {
    let simulation = new_simulation(machine, request)?;
    let mut space = Space::new(machine, request.over, |set| {
        simulation.policies_in_force_under(set)
    })?;
    space.leave_out_what_is_only_measured()?;
    let evaluator = RememberingEvaluator {
        simulation: &simulation,
        machine: name,
        known: request.known_runs,
    };
    find_least_budget(&space, request.search, &evaluator)
}

/// Searches on a machine for the best policy set.
fn search_on_machine(
    machine: &Machine,
    name: &str,
    request: &DecisionRequest<'_>,
    choice: &Choice<'_>,
) -> Result<SearchAnswer, TuneError> {
    let simulation = new_simulation(machine, request)?;
    let space = match choice {
        Choice::Only(set) => {
            let in_force = simulation
                .policies_in_force_under(&PolicySet::default())
                .map_err(TuneError::InForce)?;
            let with_set = simulation
                .policies_in_force_under(set)
                .map_err(TuneError::InForce)?;
            if in_force.describe_decisions() == with_set.describe_decisions() {
                return Err(TuneError::Space("nothing changes".to_owned()));
            }
            Space {
                profiles: vec![(*set).clone()],
                ..Space::default()
            }
        }
        Choice::Space { fixes } => {
            let mut space = Space::new(machine, request.over, |set| {
                simulation.policies_in_force_under(set)
            })?;
            space.leave_out_what_is_only_measured()?;
            space.try_sets_first(fixes);
            space
        }
    };
    let evaluator = RememberingEvaluator {
        simulation: &simulation,
        machine: name,
        known: request.known_runs,
    };
    search_best_policy_set(&space, request.search, &evaluator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::{SurveyRequest, survey_fleet};
    use std::path::Path;

    #[test]
    fn a_class_is_searched_from_the_fixes_that_doctor_recommends() {
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples");
        let survey = |examined_per_class| {
            survey_fleet(&SurveyRequest {
                folder: Path::new(examples),
                labels_for: &|_| Vec::new(),
                includes: &|name| name == "captured-laptop",
                examined_per_class,
                cancelled: &AtomicBool::new(false),
                report_read: &|_| {},
            })
        };
        let examined = survey(1).unwrap();
        let class = &examined.classes[0];
        let search = ClassSearch::describe(class).unwrap();
        assert!(!search.fixes.is_empty(), "{:?}", class.findings);
        let text = toml::to_string(&search).unwrap();
        assert_eq!(toml::from_str::<ClassSearch>(&text).unwrap(), search);
        let unexamined = survey(0).unwrap();
        let bare = ClassSearch::describe(&unexamined.classes[0]).unwrap();
        assert!(bare.fixes.is_empty());
    }
}
