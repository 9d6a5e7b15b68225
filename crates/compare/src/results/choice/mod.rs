//! Choice of the best policy by one metric, among policies that keep conditions.

mod answers;
mod candidate;
mod choose;
mod front;
mod sentences;
mod subset;

pub use answers::{Answer, answer_question, answer_all_questions};
pub use candidate::{Candidate, Choice, Compliance, MetricFigure};
pub use choose::{Objective, choose_policy};
pub use front::{Point, find_pareto_front, are_on_pareto_front};
pub use subset::Subset;
