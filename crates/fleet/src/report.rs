//! A fleet's survey with replays and decisions.

use serde::Serialize;

use crate::decision::FleetDecisions;
use crate::replayed::ClassReplay;
use crate::survey::FleetSurvey;

/// A fleet's survey with replays and decisions.
#[derive(Clone, Debug, Serialize)]
pub struct FleetReport {
    /// Classes and outliers.
    #[serde(flatten)]
    pub survey: FleetSurvey,
    /// Replays, by class.
    pub replays: Vec<ClassReplay>,
    /// Decisions; absent without loads.
    pub decisions: Option<FleetDecisions>,
}

impl FleetReport {
    /// Notes for readers: about the survey, facts that divide classes, replays, decisions.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.survey.notes.clone();
        for class in &self.survey.classes {
            for divided in &class.divided {
                let values: Vec<String> = divided
                    .values
                    .iter()
                    .map(|(value, count)| format!("{value} on {count}"))
                    .collect();
                notes.push(format!(
                    "{}: {} differs: {}",
                    class.name,
                    divided.what,
                    values.join(", ")
                ));
            }
        }
        notes.extend(self.replays.iter().flat_map(|replay| replay.notes.clone()));
        if let Some(decisions) = &self.decisions {
            notes.extend(decisions.notes.iter().cloned());
        }
        notes
    }
}
