//! Choice of the best policy by one metric, among policies that keep conditions.

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
