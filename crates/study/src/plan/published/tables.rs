//! Tables with published values, their cells, and expectations.

use toml::Spanned;
use wakepath_results::Condition;

use super::value::Published;
use crate::file::{Across, Aggregate, ExpectEntry, Names, Selection, Show};
use crate::plan::cell::Cell;

/// A table with published values.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name used in expectations.
    pub name: String,
    /// Heading, if shown.
    pub title: Option<String>,
    /// Line in the file.
    pub line: usize,
    /// Headings for labels.
    pub columns: Vec<String>,
    /// Index of the label spread over columns, if any.
    pub wide: Option<usize>,
    /// Cells.
    pub cells: Vec<PublishedCell>,
    /// Recipe for values.
    pub recipe: ValueRecipe,
}

/// Recipe for a value from runs.
#[derive(Clone, Debug)]
pub struct ValueRecipe {
    /// Metric per run, or a decision's name without runs.
    pub metric: Quantity,
    /// Metric to divide by.
    pub per: Option<Quantity>,
    /// Divisor for the unit.
    pub divisor: f64,
    /// ValueRecipe to combine runs.
    pub runs: Aggregate,
    /// ValueRecipe to show a pair.
    pub show: Show,
    /// ValueRecipe to combine workloads.
    pub across: Option<Across>,
    /// Metrics shown for both cells in a pair.
    pub beside: Vec<Quantity>,
}

/// A metric, or a combination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Metric by name: the dictionary's, or the study's own.
    Metric(String),
    /// `rate`: operations per second, or requests where there are none.
    Rate,
    /// `time`: duration per operation or request.
    Time,
}

/// A cell in a table.
#[derive(Clone, Debug)]
pub struct PublishedCell {
    /// Labels, one per column. An extreme's workload is empty until runs are known.
    pub labels: Vec<String>,
    /// Runs behind the value; several where workloads are combined.
    pub pairs: Vec<Pair>,
    /// A policy's decision, if shown in place of a metric.
    pub decided: Option<String>,
    /// Published value.
    pub published: Published,
    /// Whether a model's figure was chosen with this value in view.
    pub fitted: bool,
    pub(super) names: CellNames,
}

/// A cell and its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The cell.
    pub at: Cell,
    /// Base.
    pub base: Option<Cell>,
}

/// Names for choosing a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CellNames {
    pub(super) drive: String,
    pub(super) workload: String,
    pub(super) machine: String,
    /// Policy, or policy pair.
    pub(super) policy: String,
    /// First policy in a pair.
    pub(super) first: String,
}

/// An expectation about tables.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// Entry in the file.
    pub entry: ExpectEntry,
    /// Cells concerned: table and index.
    pub cells: Vec<[usize; 2]>,
    /// Cells to compare against.
    pub against: Vec<[usize; 2]>,
    /// Condition on cells.
    pub condition: Option<(Quantity, Condition)>,
    /// Condition on cells' bases.
    pub base_condition: Option<(Quantity, Condition)>,
}

impl CellNames {
    /// Whether a selection has the cell.
    pub(super) fn are_in(&self, selection: &Selection) -> bool {
        allows_cell(selection.drive.as_ref(), &self.drive)
            && allows_cell(selection.workload.as_ref(), &self.workload)
            && allows_cell(selection.machine.as_ref(), &self.machine)
            && (allows_cell(selection.policy.as_ref(), &self.policy)
                || allows_cell(selection.policy.as_ref(), &self.first))
    }
}

/// Whether names, if given, have a name.
fn allows_cell(names: Option<&Spanned<Names>>, name: &str) -> bool {
    names.is_none_or(|n| n.get_ref().has(name))
}
