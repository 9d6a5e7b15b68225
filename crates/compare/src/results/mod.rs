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
    Answer, Candidate, Choice, Compliance, MetricFigure, Objective, Point, Subset,
    answer_all_questions, answer_question, are_on_pareto_front, choose_policy, find_pareto_front,
};
pub use compare::compare_results;
pub use comparison::{CORRECTION, Comparison, Family, Row, Summary};
pub use error::CompareError;
pub use idle_rates::add_idle_rates;
pub use output::{ComparisonFile, MachineScope, Points, ScopeList, say_per_machine};
pub use selection::CompareOptions;
pub use source::{Load, Source, name_beside_sources};
