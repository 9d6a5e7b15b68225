//! Many machines: which classes a fleet has, which machines stand out, and the settings for each class.
//!
//! - [`FleetInventory`]: what lies in the fleet's folder. Every file in it comes from somebody else.
//! - [`survey_fleet`]: machines by class (processor, drives, kernel series, labels), and machines unlike their class.
//! - [`replay_class`]: recordings of a class under other idle governors.
//! - [`decide_for_classes`]: a search for each class, equal answers merged, small classes joined to the nearest.

mod decision;
mod error;
mod facts;
mod inventory;
mod outlier;
mod replayed;
mod survey;

pub use decision::{
    ClassOutcome, DecisionRequest, FleetDecision, FleetDecisions, decide_for_classes,
};
pub use error::FleetError;
pub use facts::{ClassKey, MachineFacts};
pub use inventory::{FleetInventory, FoundMaterial};
pub use outlier::{Deviation, DividedFact};
pub use replayed::{ClassReplay, GovernorChoices, replay_class};
pub use survey::{
    ClassFinding, FleetClass, FleetMachine, FleetSurvey, SurveyRequest, survey_fleet,
};
