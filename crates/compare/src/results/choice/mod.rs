//! Choice of the best policy by one metric, among policies that keep conditions.

mod answers;
mod candidate;
mod choose;
mod front;
mod sentences;
mod subset;

pub use answers::{Answer, answer_all_questions, answer_question};
pub use candidate::{Candidate, Choice, Compliance, MetricFigure};
pub use choose::{Objective, choose_policy};
pub use front::{Point, are_on_pareto_front, find_pareto_front};
pub use subset::Subset;
