//! Planned tables with published values, their cells, and expectations about them.

use toml::Spanned;
use wakepath_results::Condition;

use super::value::Published;
use crate::file::{Across, Aggregate, ExpectEntry, Names, Selection, Show};
use crate::plan::cell::Cell;

/// A planned table with published values.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name that expectations use for the table.
    pub name: String,
    /// Heading, if shown.
    pub title: Option<String>,
    /// Line of the table in the study file.
    pub line: usize,
    /// Headings for labels.
    pub columns: Vec<String>,
    /// Index of the label that is spread over columns, if any.
    pub wide: Option<usize>,
    /// Cells.
    pub cells: Vec<PublishedCell>,
    /// Recipe for values.
    pub recipe: ValueRecipe,
}

/// How a table's values are made from runs.
#[derive(Clone, Debug)]
pub struct ValueRecipe {
    /// Metric of each run, or a decision's name without runs.
    pub metric: Quantity,
    /// Metric that the values are divided by.
    pub per: Option<Quantity>,
    /// Divisor that converts the metric to the table's unit.
    pub divisor: f64,
    /// How the runs of a cell are combined.
    pub runs: Aggregate,
    /// How a cell is shown beside its base.
    pub show: Show,
    /// How several workloads are combined.
    pub across: Option<Across>,
    /// Metrics that are shown as columns, for a cell and its base.
    pub beside: Vec<Quantity>,
}

/// A quantity in a table: a metric, or one made from several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A metric by name: the dictionary's, or the study's own.
    Metric(String),
    /// `rate`: operations per second, or requests where there are none.
    Rate,
    /// `time`: duration per operation or request.
    Time,
}

/// A cell in a planned table.
#[derive(Clone, Debug)]
pub struct PublishedCell {
    /// Labels of the cell, one per column. For an extreme, the workload is empty until runs are known.
    pub labels: Vec<String>,
    /// Cells of the plan behind the value, with their bases; several where workloads are combined.
    pub pairs: Vec<Pair>,
    /// The policy's decision in words, if shown in place of a metric.
    pub decided: Option<String>,
    /// Published value.
    pub published: Published,
    /// Whether a figure in a model was chosen with this value in view.
    pub fitted: bool,
    pub(super) names: CellNames,
}

/// A cell of the plan, and the cell that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The cell.
    pub at: Cell,
    /// Base.
    pub base: Option<Cell>,
}

/// Names by which a cell can be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CellNames {
    pub(super) drive: String,
    pub(super) workload: String,
    pub(super) machine: String,
    /// Name of the policy, or of the policy pair.
    pub(super) policy: String,
    /// Name of the first policy in a pair.
    pub(super) first: String,
}

/// A planned expectation about tables.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The expectation's entry in the study file.
    pub entry: ExpectEntry,
    /// Cells that the requirement is about, each as table index and cell index.
    pub cells: Vec<[usize; 2]>,
    /// Cells that the values are compared with, each as table index and cell index.
    pub against: Vec<[usize; 2]>,
    /// Condition on cells.
    pub condition: Option<(Quantity, Condition)>,
    /// Condition that the base of a cell has to meet before the cell counts.
    pub base_condition: Option<(Quantity, Condition)>,
}

impl CellNames {
    /// Whether a selection chooses the cell with these names.
    pub(super) fn are_selected_by(&self, selection: &Selection) -> bool {
        allows_cell(selection.drive.as_ref(), &self.drive)
            && allows_cell(selection.workload.as_ref(), &self.workload)
            && allows_cell(selection.machine.as_ref(), &self.machine)
            && (allows_cell(selection.policy.as_ref(), &self.policy)
                || allows_cell(selection.policy.as_ref(), &self.first))
    }
}

/// Whether a list of names includes `name`; no list includes every name.
fn allows_cell(names: Option<&Spanned<Names>>, name: &str) -> bool {
    names.is_none_or(|n| n.get_ref().include_name_or_its_group(name))
}
