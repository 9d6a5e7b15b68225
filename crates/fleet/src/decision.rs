//! Decisions for all classes: equal answers are merged, and small classes join the nearest.

use serde::Serialize;
use wakepath_policies::PolicySet;
use wakepath_settings::PersistentSettings;

use crate::FleetError;
use crate::class_search::{ClassAnswer, ClassOutcome, ClassSearch, DecisionRequest};
use crate::question::FleetQuestion;
use crate::survey::{FleetClass, FleetSurvey};

/// Least likeness of a near class: equal drives.
const LEAST_LIKENESS: u32 = 4;

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

/// Decisions for all classes.
#[derive(Clone, Debug, Serialize)]
pub struct FleetDecisions {
    /// What the classes were searched for.
    pub question: FleetQuestion,
    /// The decisions, for most machines first.
    pub decisions: Vec<FleetDecision>,
    /// Small classes, each with the joined class.
    pub joined: Vec<(String, String)>,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// A class with a decision, before equal decisions are merged.
struct DecidedClass<'a> {
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
    let (large, _) = divide_by_size(survey, request.fewest_machines);
    let mut answers = Vec::new();
    for class in large {
        let answer = match ClassSearch::describe(class) {
            Ok(search) => search.answer(request)?,
            Err(why) => ClassAnswer::Undecided { why },
        };
        answers.push(answer);
    }
    let question = FleetQuestion::from_request(request.search);
    Ok(merge_answers(
        survey,
        question,
        request.fewest_machines,
        answers,
    ))
}

/// The least budget with which every class of a survey can be searched, as far as a class can be searched at all.
///
/// # Errors
/// The loads fit no search; it was called off.
pub fn find_least_budget_for_classes(
    survey: &FleetSurvey,
    request: &DecisionRequest<'_>,
) -> Result<u64, FleetError> {
    let (large, _) = divide_by_size(survey, request.fewest_machines);
    let mut least = 0;
    for class in large {
        // A class that cannot be described has its reason among the decisions.
        if let Ok(search) = ClassSearch::describe(class) {
            least = least.max(search.find_least_budget(request)?);
        }
    }
    Ok(least)
}

/// Divides classes into those with a search of their own, and small classes.
pub(crate) fn divide_by_size(
    survey: &FleetSurvey,
    fewest_machines: usize,
) -> (Vec<&FleetClass>, Vec<&FleetClass>) {
    survey
        .classes
        .iter()
        .partition(|class| class.machines.len() >= fewest_machines)
}

/// Makes decisions of the answers, one for each class with a search of its own, in the survey's order.
pub(crate) fn merge_answers(
    survey: &FleetSurvey,
    question: FleetQuestion,
    fewest_machines: usize,
    answers: Vec<ClassAnswer>,
) -> FleetDecisions {
    let (large, small) = divide_by_size(survey, fewest_machines);
    let mut notes = Vec::new();
    let mut decided: Vec<DecidedClass<'_>> = Vec::new();
    for (class, answer) in large.into_iter().zip(answers) {
        match answer {
            ClassAnswer::Decided { set, outcome } => {
                notes.extend(
                    outcome
                        .prediction
                        .iter()
                        .map(|text| format!("{}: {}: {text}", class.name, outcome.machine)),
                );
                decided.push(DecidedClass {
                    class,
                    set,
                    outcome: *outcome,
                    joined: Vec::new(),
                });
            }
            ClassAnswer::Undecided { why } => {
                notes.push(format!("{}: no decision: {why}", class.name));
            }
        }
    }
    let mut joined = Vec::new();
    for class in small {
        let nearest = decided
            .iter_mut()
            .map(|other| (other.class.key.likeness(&class.key), other))
            .filter(|(likeness, _)| *likeness >= LEAST_LIKENESS)
            // Among equals the first has most machines.
            .reduce(|best, next| if next.0 > best.0 { next } else { best });
        let count = class.machines.len();
        match nearest {
            Some((_, other)) => {
                joined.push((class.name.clone(), other.class.name.clone()));
                other.joined.push(class);
            }
            None => notes.push(format!(
                "{}: no decision: {} too few, and no class has its processor or its drives",
                class.name,
                if count == 1 {
                    "1 machine is".to_owned()
                } else {
                    format!("{count} machines are")
                }
            )),
        }
    }
    FleetDecisions {
        question,
        decisions: merge_equal_sets(decided),
        joined,
        notes,
    }
}

/// Merges classes with the same set.
fn merge_equal_sets(classes: Vec<DecidedClass<'_>>) -> Vec<FleetDecision> {
    let mut decisions: Vec<(Option<PolicySet>, Vec<DecidedClass<'_>>)> = Vec::new();
    for decided in classes {
        let key = decided.set.as_ref().map(ToString::to_string);
        let same = decisions
            .iter_mut()
            .find(|(set, _)| set.as_ref().map(ToString::to_string) == key);
        match same {
            Some((_, merged)) => merged.push(decided),
            None => decisions.push((decided.set.clone(), vec![decided])),
        }
    }
    let mut merged: Vec<FleetDecision> = decisions
        .into_iter()
        .map(|(set, classes)| describe_decision(set, classes))
        .collect();
    merged.sort_by_key(|decision| std::cmp::Reverse(decision.machines));
    merged
}

fn describe_decision(set: Option<PolicySet>, decided: Vec<DecidedClass<'_>>) -> FleetDecision {
    let classes: Vec<&FleetClass> = decided
        .iter()
        .flat_map(|one| std::iter::once(one.class).chain(one.joined.iter().copied()))
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
    let drives = list_drive_models(&classes);
    let settings_file = set.as_ref().map(|set| {
        PersistentSettings::for_machines(set.clone(), processor.clone(), drives).to_commented_text()
    });
    FleetDecision {
        set: set.map(|set| set.to_string()),
        classes: classes.iter().map(|class| class.name.clone()).collect(),
        machines: classes.iter().map(|class| class.machines.len()).sum(),
        outcomes: decided.into_iter().map(|one| one.outcome).collect(),
        processor,
        settings_file,
    }
}

/// Models of the drives in some classes, each once; `None`: no drive tells its model.
fn list_drive_models(classes: &[&FleetClass]) -> Option<Vec<String>> {
    let mut models: Vec<String> = classes
        .iter()
        .flat_map(|class| &class.key.drives)
        .filter(|model| !model.is_empty())
        .cloned()
        .collect();
    models.sort();
    models.dedup();
    (!models.is_empty()).then_some(models)
}
