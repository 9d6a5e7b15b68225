//! The policy set for each class: searched on the class's stand-in, then tried on further machines.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_settings::PersistentSettings;
use wakepath_system::capture::machine::describe_machine;
use wakepath_system::{Root, System};
use wakepath_tune::{
    Finalist, SearchAnswer, SearchRequest, Simulation, Space, TuneError, search_best_policy_set,
};
use wakepath_units::causes::with_causes;

use crate::FleetError;
use crate::survey::{FleetClass, FleetMachine, FleetSurvey};

/// Most further machines for trying a class's set.
const MOST_TRIED: usize = 4;

/// Least likeness of a near class: equal drives.
const LEAST_LIKENESS: u32 = 4;

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
}

/// A policy set for one or several classes.
#[derive(Clone, Debug, Serialize)]
pub struct FleetDecision {
    /// The policy set; `None`: leave everything as it is.
    pub set: Option<String>,
    /// The classes, by name.
    pub classes: Vec<String>,
    /// Number of machines in all classes.
    pub machines: usize,
    /// The set's effect in each searched class.
    pub outcomes: Vec<ClassOutcome>,
    /// The processor that the settings file names; `None`: the classes have several.
    pub processor: Option<String>,
    /// Content of the settings file for `/etc/wakepath/settings.toml`; `None` without a set.
    #[serde(skip)]
    pub settings_file: Option<String>,
}

/// A decision's effect in a class.
#[derive(Clone, Debug, Serialize)]
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
    /// Conditions broken on further machines.
    pub broken: Vec<String>,
}

/// Decisions for all classes.
#[derive(Clone, Debug, Serialize)]
pub struct FleetDecisions {
    /// The decisions, for most machines first.
    pub decisions: Vec<FleetDecision>,
    /// Small classes, each with the joined class.
    pub joined: Vec<(String, String)>,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// The answer of a class before equal answers are merged.
struct ClassAnswer<'a> {
    class: &'a FleetClass,
    set: Option<PolicySet>,
    outcome: ClassOutcome,
    /// Joined classes.
    joined: Vec<&'a FleetClass>,
}

/// Decides for each class of a survey.
///
/// # Errors
/// The loads fit no search; it was called off. A class that cannot be simulated is a note.
pub fn decide_for_classes(
    survey: &FleetSurvey,
    request: &DecisionRequest<'_>,
) -> Result<FleetDecisions, FleetError> {
    let mut notes = Vec::new();
    let mut answers: Vec<ClassAnswer<'_>> = Vec::new();
    let (large, small): (Vec<&FleetClass>, Vec<&FleetClass>) = survey
        .classes
        .iter()
        .partition(|class| class.machines.len() >= request.fewest_machines);
    for class in large {
        match decide_for_class(class, request) {
            Ok(answer) => answers.push(answer),
            Err(ClassError::Called(error)) => return Err(error),
            Err(ClassError::Machine(why)) => {
                notes.push(format!("{}: no decision: {why}", class.name));
            }
        }
    }
    let mut joined = Vec::new();
    for class in small {
        let nearest = answers
            .iter_mut()
            .map(|answer| (answer.class.key.likeness(&class.key), answer))
            .filter(|(likeness, _)| *likeness >= LEAST_LIKENESS)
            // Among equals the first has most machines.
            .reduce(|best, next| if next.0 > best.0 { next } else { best });
        let count = class.machines.len();
        match nearest {
            Some((_, answer)) => {
                joined.push((class.name.clone(), answer.class.name.clone()));
                answer.joined.push(class);
            }
            None => notes.push(format!(
                "{}: no decision: {count} machines are too few, and no class has its processor or its drives",
                class.name
            )),
        }
    }
    Ok(FleetDecisions {
        decisions: merge_equal_answers(answers),
        joined,
        notes,
    })
}

/// Why a class has no decision.
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
            | TuneError::Budget { .. } => Self::Machine(with_causes(&error)),
            other => Self::Called(other.into()),
        }
    }
}

fn decide_for_class<'a>(
    class: &'a FleetClass,
    request: &DecisionRequest<'_>,
) -> Result<ClassAnswer<'a>, ClassError> {
    let representative = class.representative();
    let machine = describe_for_search(representative).map_err(ClassError::Machine)?;
    let answer = search_on_machine(&machine, request, None)?;
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
    let mut outcome = describe_outcome(class, &answer, chosen);
    if let Some(set) = &set {
        try_on_others(class, set, request, &mut outcome)?;
    }
    Ok(ClassAnswer {
        class,
        set,
        outcome,
        joined: Vec::new(),
    })
}

fn describe_outcome(
    class: &FleetClass,
    answer: &SearchAnswer,
    chosen: Option<&Finalist>,
) -> ClassOutcome {
    let gain = chosen.and_then(|chosen| chosen.gain);
    let percent = gain.map_or(0.0, |gain| gain.percent);
    ClassOutcome {
        class: class.name.clone(),
        machine: class.representative().name.clone(),
        unit: answer.unit.clone(),
        in_force: answer.in_force.objective,
        objective: chosen.unwrap_or(&answer.in_force).objective,
        gain_percent: percent,
        gain_interval: gain.map_or([0.0, 0.0], |gain| gain.interval),
        spread_percent: [percent, percent],
        tried: 1,
        broken: Vec::new(),
    }
}

/// Tries the class's set on machines with other settings in force.
fn try_on_others(
    class: &FleetClass,
    set: &PolicySet,
    request: &DecisionRequest<'_>,
    outcome: &mut ClassOutcome,
) -> Result<(), ClassError> {
    let representative = class.representative();
    let mut known = BTreeSet::from([&representative.settings]);
    let others = class
        .machines
        .iter()
        .filter(|machine| known.insert(&machine.settings));
    for other in others.take(MOST_TRIED) {
        let Ok(machine) = describe_for_search(other) else {
            continue;
        };
        let answer = match search_on_machine(&machine, request, Some(set)) {
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
            broken.map(|kept| format!("{} under {} on {}", kept.condition, kept.load, other.name)),
        );
    }
    Ok(())
}

/// Describes a captured machine for the simulator, with calibrated figures, if any.
fn describe_for_search(found: &FleetMachine) -> Result<Machine, String> {
    let system = System::new(Root::at_directory(&found.path));
    let (mut machine, _) =
        describe_machine(&system, &found.name).map_err(|error| with_causes(&error))?;
    if let Some(path) = &found.calibration {
        let calibrated = Machine::load(path).map_err(|error| with_causes(&error))?;
        machine.take_calibrated_figures(&calibrated, |_| false);
        machine.check().map_err(|error| with_causes(&error))?;
    }
    Ok(machine)
}

/// Searches on a machine; `only` limits the search to a single set.
fn search_on_machine(
    machine: &Machine,
    request: &DecisionRequest<'_>,
    only: Option<&PolicySet>,
) -> Result<SearchAnswer, TuneError> {
    let simulation = Simulation::new(
        machine,
        &request.search.loads,
        request.search.objective.counts_hours_of_rest(),
        request.cancelled,
        request.report_requests,
    )?;
    let space = match only {
        Some(set) => {
            let in_force = simulation
                .policies_in_force_under(&PolicySet::default())
                .map_err(TuneError::InForce)?;
            let with_set = simulation
                .policies_in_force_under(set)
                .map_err(TuneError::InForce)?;
            if in_force == with_set {
                return Err(TuneError::Space("nothing changes".to_owned()));
            }
            Space {
                dimensions: Vec::new(),
                profiles: vec![set.clone()],
                left_out: Vec::new(),
            }
        }
        None => Space::new(machine, request.over, |set| {
            simulation.policies_in_force_under(set)
        })?,
    };
    search_best_policy_set(&space, request.search, &simulation)
}

/// Merges classes whose answers are the same set.
fn merge_equal_answers(answers: Vec<ClassAnswer<'_>>) -> Vec<FleetDecision> {
    let mut decisions: Vec<(Option<PolicySet>, Vec<ClassAnswer<'_>>)> = Vec::new();
    for answer in answers {
        let key = answer.set.as_ref().map(ToString::to_string);
        let same = decisions
            .iter_mut()
            .find(|(set, _)| set.as_ref().map(ToString::to_string) == key);
        match same {
            Some((_, merged)) => merged.push(answer),
            None => decisions.push((answer.set.clone(), vec![answer])),
        }
    }
    let mut merged: Vec<FleetDecision> = decisions
        .into_iter()
        .map(|(set, answers)| describe_decision(set, answers))
        .collect();
    merged.sort_by_key(|decision| std::cmp::Reverse(decision.machines));
    merged
}

fn describe_decision(set: Option<PolicySet>, answers: Vec<ClassAnswer<'_>>) -> FleetDecision {
    let classes: Vec<&FleetClass> = answers
        .iter()
        .flat_map(|answer| std::iter::once(answer.class).chain(answer.joined.iter().copied()))
        .collect();
    let mut processors: Vec<&str> = classes
        .iter()
        .map(|class| class.key.processor.as_str())
        .collect();
    processors.dedup();
    let processor = match &processors[..] {
        [one] => Some((*one).to_owned()),
        _ => None,
    };
    let settings_file = set.as_ref().map(|set| {
        PersistentSettings {
            any_supply: Some(set.clone()),
            mains: None,
            battery: None,
            cpus: None,
            processor: processor.clone(),
            enforce: false,
        }
        .to_commented_text()
    });
    FleetDecision {
        set: set.map(|set| set.to_string()),
        classes: classes.iter().map(|class| class.name.clone()).collect(),
        machines: classes.iter().map(|class| class.machines.len()).sum(),
        outcomes: answers.into_iter().map(|answer| answer.outcome).collect(),
        processor,
        settings_file,
    }
}
