//! Comparison of result directories: a row for every metric, workload and policy.

mod baselines;
mod choice;
mod compare;
mod comparison;
mod error;
mod idle_rates;
mod output;
mod selection;
mod series;
mod source;

pub use choice::{
    Answer, Candidate, Choice, Compliance, MetricFigure, Objective, Point, Subset, answer, answers,
    choose, front, front_of,
};
pub use compare::compare;
pub use comparison::{CORRECTION, Comparison, Family, Row, Summary};
pub use error::CompareError;
pub use idle_rates::add_idle_rates;
pub use output::{ComparisonFile, MachineScope, Points, ScopeList, scopes};
pub use selection::CompareOptions;
pub use source::{Load, Source, policy_name};
