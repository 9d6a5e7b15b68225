//! Tables of published values, their cells, and what is expected of them.

use toml::Spanned;
use wakepath_results::Condition;

use super::value::Published;
use crate::file::{Across, Aggregate, ExpectEntry, Names, Selection, Show};
use crate::plan::cell::Cell;

/// A table of published values.
#[derive(Clone, Debug)]
pub struct Table {
    /// What expectations call it.
    pub name: String,
    /// Its heading, if it is shown.
    pub title: Option<String>,
    /// Its line in the file.
    pub line: usize,
    /// The headings of the labels.
    pub columns: Vec<String>,
    /// Which of them has a column for each of its labels.
    pub wide: Option<usize>,
    /// Its cells.
    pub cells: Vec<Wanted>,
    /// How their values are made.
    pub how: How,
}

/// How a value is made of runs.
#[derive(Clone, Debug)]
pub struct How {
    /// What of a run; the name of a decision if there is no run.
    pub metric: Quantity,
    /// What it is divided by.
    pub per: Option<Quantity>,
    /// What brings it to its unit, by division.
    pub divisor: f64,
    /// How several runs become one.
    pub runs: Aggregate,
    /// What is shown of a pair.
    pub show: Show,
    /// How several workloads become one.
    pub across: Option<Across>,
    /// Metrics that are shown of both cells of a pair.
    pub beside: Vec<Quantity>,
}

/// A metric, or what is made of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Of the dictionary, or the study's own.
    Metric(String),
    /// `rate`: operations per second, or requests where there are none.
    Rate,
    /// `time`: what one of these takes.
    Time,
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What it belongs to, one per column. The workload of an extreme is empty: the runs say which it is.
    pub labels: Vec<String>,
    /// Which runs it is made of; several where workloads become one.
    pub pairs: Vec<Pair>,
    /// What a policy decides, if that is what is shown.
    pub decided: Option<String>,
    /// What was published.
    pub published: Published,
    /// Whether a figure of a model was chosen with it in view.
    pub fitted: bool,
    pub(super) names: CellNames,
}

/// A cell of the study, and the one that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The cell.
    pub at: Cell,
    /// The other one.
    pub base: Option<Cell>,
}

/// By which names a cell of a table can be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CellNames {
    pub(super) drive: String,
    pub(super) workload: String,
    pub(super) machine: String,
    /// The policy, or the pair of policies.
    pub(super) policy: String,
    /// Of a pair: the policy.
    pub(super) first: String,
}

/// Something that has to hold of tables.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// As the file has it.
    pub entry: ExpectEntry,
    /// Of which cells: table and cell.
    pub cells: Vec<[usize; 2]>,
    /// The cells that these are held against.
    pub against: Vec<[usize; 2]>,
    /// Only of cells that keep it.
    pub condition: Option<(Quantity, Condition)>,
    /// Only of cells that are compared with one that keeps it.
    pub base_condition: Option<(Quantity, Condition)>,
}

impl CellNames {
    /// Whether a selection has the cell.
    pub(super) fn are_in(&self, selection: &Selection) -> bool {
        let has = |names: &Option<Spanned<Names>>, name: &String| {
            names.as_ref().is_none_or(|n| n.get_ref().has(name))
        };
        has(&selection.drive, &self.drive)
            && has(&selection.workload, &self.workload)
            && has(&selection.machine, &self.machine)
            && (has(&selection.policy, &self.policy) || has(&selection.policy, &self.first))
    }
}
