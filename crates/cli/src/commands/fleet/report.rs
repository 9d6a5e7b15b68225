//! A fleet's survey with replays and decisions.

use serde::Serialize;
use wakepath_fleet::{ClassReplay, FleetDecisions, FleetSurvey};

/// A fleet's survey with replays and decisions.
#[derive(Serialize)]
pub(super) struct FleetReport {
    /// Classes and outliers.
    #[serde(flatten)]
    pub(super) survey: FleetSurvey,
    /// Replays, by class.
    pub(super) replays: Vec<ClassReplay>,
    /// Decisions; absent without loads.
    pub(super) decisions: Option<FleetDecisions>,
}

/// Name of a class's settings file in the output folder.
pub(super) fn settings_file_name(class: &str) -> String {
    format!("{class}.settings.toml")
}
