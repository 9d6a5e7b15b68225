//! Many machines: which classes a fleet has, which machines stand out, and the settings for each class.
//!
//! - [`FleetInventory`]: what lies in the fleet's folder. Every file in it comes from somebody else.
//! - [`survey_fleet`]: machines by class (processor, drives, kernel series, labels), and machines unlike their class.
//! - [`replay_classes`]: recordings of all classes under other idle governors.
//! - [`decide_for_classes`]: a search for each class, equal answers merged, small classes joined to the nearest.
//! - [`FleetParts`]: the same replays and searches as parts for other processes.
//! - [`FleetReport`]: all of that; the page, the list of machines and the settings files.

mod class_search;
mod decision;
mod error;
mod facts;
mod inventory;
mod known_runs;
mod name_pattern;
mod outlier;
mod output;
mod page;
mod parts;
mod question;
mod replayed;
mod report;
pub mod rows;
mod search;
mod survey;

pub use class_search::{ClassOutcome, DecisionRequest, OutcomeOfCondition};
pub use decision::{
    FleetDecision, FleetDecisions, decide_for_classes, find_least_budget_for_classes,
};
pub use error::FleetError;
pub use facts::{ClassKey, MachineFacts};
pub use inventory::{FleetInventory, FoundMaterial, is_capture};
pub use known_runs::KnownRuns;
pub use name_pattern::{LabelPattern, NamePattern};
pub use outlier::{Deviation, DividedFact};
pub use output::{LIST, PAGE, ReportFile};
pub use parts::{FleetPart, FleetParts, PartAnswer};
pub use question::FleetQuestion;
pub use replayed::{ClassReplay, GovernorChoices, replay_classes};
pub use report::FleetReport;
pub use search::{FleetLoad, FleetSearch, SurveyOptions};
pub use survey::{
    ClassFinding, FleetClass, FleetMachine, FleetSurvey, SurveyRequest, survey_fleet,
};
