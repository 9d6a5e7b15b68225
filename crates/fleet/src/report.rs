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
    /// Names the fleet's folder as the user knows it, where the files lay in a copy: in notes and findings, the only texts with
    /// paths.
    pub fn show_folder_as(&mut self, copy: &str, shown: &str) {
        let FleetSurvey { classes, notes } = &mut self.survey;
        let findings = classes.iter_mut().flat_map(|class| {
            let titles = class.findings.iter_mut().map(|finding| &mut finding.title);
            let machines = class.machines.iter_mut();
            let deviations = machines.flat_map(|machine| &mut machine.deviations);
            titles.chain(deviations.map(|deviation| &mut deviation.value))
        });
        let replays = self.replays.iter_mut().flat_map(|replay| &mut replay.notes);
        let decisions = self.decisions.iter_mut().flat_map(|all| &mut all.notes);
        let texts = notes.iter_mut().chain(findings);
        for text in texts.chain(replays).chain(decisions) {
            if text.contains(copy) {
                *text = text.replace(copy, shown);
            }
        }
    }

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
