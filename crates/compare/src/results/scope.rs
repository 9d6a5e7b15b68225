//! What is said of each machine, and over all of them.

use serde::Serialize;

use super::{Among, CompareError, Comparison, Point};

/// What is said of a machine, or over all machines.
#[derive(Clone, Debug, Serialize)]
pub struct MachineScope<T> {
    /// The machine; none: over all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// What is said.
    #[serde(flatten)]
    pub said: T,
}

/// What is said over all machines, and before that of each if there are several. Those of which nothing can be said are
/// left out.
///
/// # Errors
/// Nothing can be said of any.
pub fn scopes<T>(
    comparison: &Comparison,
    say: impl Fn(Among) -> Result<T, CompareError>,
) -> Result<Vec<MachineScope<T>>, CompareError> {
    let several = comparison.machines.len() > 1;
    let machines = comparison.machines.iter().filter(|_| several);
    let scopes = machines.map(Some).chain([None]);
    let said = scopes.map(|machine| {
        let loads = comparison.loads.iter();
        let loads = loads.filter(|load| machine == Some(&load.machine)).cloned();
        let said = say(Among {
            loads: loads.collect(),
            ..Among::default()
        })?;
        Ok(MachineScope {
            machine: machine.cloned(),
            said,
        })
    });
    let (said, mut errors): (Vec<_>, Vec<_>) = said.partition(Result::is_ok);
    match errors.pop() {
        Some(Err(error)) if said.is_empty() => Err(error),
        _ => said.into_iter().collect(),
    }
}

/// What is said, in files: one thing, or of several machines a list.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum InFiles<'a, T> {
    /// Over all.
    One(&'a MachineScope<T>),
    /// Of each machine, and over all.
    Several(&'a [MachineScope<T>]),
}

impl<'a, T> From<&'a [MachineScope<T>]> for InFiles<'a, T> {
    fn from(scopes: &'a [MachineScope<T>]) -> Self {
        match scopes {
            [only] => Self::One(only),
            several => Self::Several(several),
        }
    }
}

/// Policies with their values of these metrics.
#[derive(Clone, Debug, Serialize)]
pub struct Points {
    /// Names of the metrics.
    pub metrics: Vec<String>,
    /// The policies.
    pub points: Vec<Point>,
}
