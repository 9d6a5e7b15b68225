//! The policy that is best by one metric among the policies that keep conditions.

mod answers;
mod candidate;
mod choose;
mod front;
mod sentences;
mod subset;

pub use answers::{Answer, answer, answers};
pub use candidate::{Candidate, Choice, Compliance, MetricFigure};
pub use choose::{Objective, choose};
pub use front::{Point, front, front_of};
pub use subset::Subset;
