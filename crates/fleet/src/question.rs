//! What a fleet's classes are searched for, in words.

use serde::Serialize;
use wakepath_tune::SearchRequest;
use wakepath_units::printable;

use crate::search::FleetSearch;

/// What a fleet's classes are searched for: whoever gets a settings file sees what the set is good for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetQuestion {
    /// Name of the metric that is made small.
    pub minimised: String,
    /// The loads, each with its hours per day.
    pub loads: Vec<String>,
    /// Conditions on each set.
    pub conditions: Vec<String>,
    /// Requests to simulate for each class.
    pub budget: u64,
    /// The number from which all seeds follow.
    pub seed: u64,
}

impl FleetQuestion {
    /// The question of a search.
    pub(crate) fn from_request(request: &SearchRequest) -> Self {
        let loads = request.loads.iter();
        Self {
            minimised: request.objective.metric.name.to_string(),
            loads: loads
                .map(|load| describe_load(&load.name, load.hours))
                .collect(),
            conditions: request.conditions.iter().map(ToString::to_string).collect(),
            budget: request.budget.0,
            seed: request.seed,
        }
    }

    /// The question of a search whose loads and conditions are still text. An unreadable condition stays as it is.
    pub(crate) fn from_search(search: &FleetSearch) -> Self {
        let loads = search.loads.iter();
        Self {
            minimised: search.minimise.clone(),
            loads: loads
                .map(|load| describe_load(&load.name, load.hours))
                .collect(),
            conditions: search.conditions_in_usual_form(),
            budget: search.budget,
            seed: search.seed,
        }
    }

    /// The question as a sentence: a prediction, for which loads, under which conditions.
    pub fn describe(&self) -> String {
        let conditions = if self.conditions.is_empty() {
            "no condition".to_owned()
        } else {
            self.conditions.join(", ")
        };
        let sentence = format!(
            "Predicted by simulation: the least {} for {}, with {conditions}; {} requests a class, seed {}.",
            self.minimised,
            self.loads.join(", "),
            self.budget,
            self.seed
        );
        printable::escape_for_one_line(&sentence).into_owned()
    }
}

fn describe_load(name: &str, hours: f64) -> String {
    format!("{name} {} h a day", (hours * 10.0).round() / 10.0)
}
