//! What a search minimises or maximises.

use wakepath_results::{Goal, Metric, unknown_metric_message};

use crate::TuneError;

/// What a search is for: a metric and its wanted direction.
#[derive(Clone, Debug)]
pub struct SearchObjective {
    /// The metric.
    pub metric: &'static Metric,
    /// The direction.
    pub goal: Goal,
}

impl SearchObjective {
    /// An objective for a metric by name.
    ///
    /// # Errors
    /// No such metric.
    pub fn new(name: &str, goal: Goal) -> Result<Self, TuneError> {
        let metric = Metric::find(name).ok_or_else(|| TuneError::Condition {
            condition: name.to_owned(),
            problem: unknown_metric_message(name),
        })?;
        Ok(Self { metric, goal })
    }

    /// Whether the objective counts hours of rest: power is drawn at rest, too.
    pub fn counts_hours_of_rest(&self) -> bool {
        self.metric.unit == "mW"
    }
}
