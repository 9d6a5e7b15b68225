//! Form of comparisons and choices in files.

use serde::Serialize;

use super::choice::{Answer, Point, Subset};
use super::comparison::Comparison;
use super::error::CompareError;

/// A comparison with the answers to the studies' questions, as a file has both.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ComparisonFile<'a> {
    /// Answers to questions of the studies that have a goal.
    pub answers: &'a [Answer],
    /// The whole comparison.
    #[serde(flatten)]
    pub comparison: &'a Comparison,
}

/// A statement about one machine, or over all machines.
#[derive(Clone, Debug, Serialize)]
pub struct MachineScope<T> {
    /// Machine of the statement; `None`: over all machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The statement.
    #[serde(flatten)]
    pub said: T,
}

/// Makes statements about each machine, if there are several, and then over all machines. Machines
/// without a statement are left out.
///
/// # Errors
///
/// There is no statement about any machine.
pub fn say_per_machine<T>(
    comparison: &Comparison,
    say: impl Fn(Subset) -> Result<T, CompareError>,
) -> Result<Vec<MachineScope<T>>, CompareError> {
    let several = comparison.machines.len() > 1;
    let machines = comparison.machines.iter().filter(|_| several);
    let statements = machines.map(Some).chain([None]).map(|machine| {
        let loads = comparison.loads.iter();
        let on_machine = loads.filter(|load| machine == Some(&load.machine));
        let said = say(Subset {
            loads: on_machine.cloned().collect(),
            ..Subset::default()
        })?;
        Ok(MachineScope {
            machine: machine.cloned(),
            said,
        })
    });
    let (statements, mut errors): (Vec<_>, Vec<_>) = statements.partition(Result::is_ok);
    match errors.pop() {
        Some(Err(error)) if statements.is_empty() => Err(error),
        _ => statements.into_iter().collect(),
    }
}

/// Statements in a file: as a list, or the statement itself if there is only one.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum ScopeList<'a, T> {
    /// The only statement, over all machines.
    One(&'a MachineScope<T>),
    /// Statements about each machine, and over all machines.
    Several(&'a [MachineScope<T>]),
}

impl<'a, T> From<&'a [MachineScope<T>]> for ScopeList<'a, T> {
    fn from(scopes: &'a [MachineScope<T>]) -> Self {
        match scopes {
            [only] => Self::One(only),
            several => Self::Several(several),
        }
    }
}

/// Policies with their values in some metrics.
#[derive(Clone, Debug, Serialize)]
pub struct Points {
    /// Metric names.
    pub metrics: Vec<String>,
    /// The policies.
    pub points: Vec<Point>,
}
