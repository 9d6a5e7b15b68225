//! Filling published tables with the values of simulated runs.

use wakepath_units::median;

use super::{TableCell, Value};
use crate::file::{Across, Aggregate, Show, StudyError};
use crate::plan::published::{Pair, PublishedCell, Quantity, Table, ValueRecipe};
use crate::plan::{Cell, Plan};

/// The metrics of a run by name.
pub(super) type Metrics = Vec<(String, f64)>;

/// The simulated runs of a plan so far.
pub(super) struct PlanRuns<'a> {
    pub(super) plan: &'a Plan,
    /// Metrics of each cell's runs, in plan order.
    runs: Vec<Vec<Metrics>>,
}

impl<'a> PlanRuns<'a> {
    /// A plan without any runs so far.
    pub(super) fn without_runs(plan: &'a Plan) -> Self {
        let runs = vec![Vec::new(); plan.cells_of_first_repeat().len()];
        Self { plan, runs }
    }

    /// Adds the metrics of the run with an index.
    pub(super) fn add_run(&mut self, index: usize, metrics: Metrics) {
        let cells = self.runs.len();
        self.runs[index % cells].push(metrics);
    }

    /// The number of runs in the cell that has fewest.
    pub(super) fn runs_in_cell_with_fewest(&self) -> usize {
        self.runs.iter().map(Vec::len).min().unwrap_or_default()
    }

    /// A table's cells.
    pub(super) fn fill_table(&self, table: &Table) -> Result<Vec<TableCell>, StudyError> {
        let cells = table
            .cells
            .iter()
            .map(|wanted| self.fill_cell(table, wanted));
        cells.collect()
    }

    fn fill_cell(&self, table: &Table, wanted: &PublishedCell) -> Result<TableCell, StudyError> {
        let recipe = &table.recipe;
        let mut labels = wanted.labels.clone();
        let simulated = if let Some(text) = &wanted.decided {
            Value::Text(text.clone())
        } else {
            let values: Vec<f64> = wanted
                .pairs
                .iter()
                .map(|pair| self.value_as_table_shows_it(table, *pair))
                .collect::<Result<_, _>>()?;
            let (value, representative) =
                combine_values_and_pick_representative(recipe, wanted, &values);
            if recipe.across == Some(Across::Extreme)
                && let Some(at) = table.columns.iter().position(|c| c == "workload")
            {
                let workload = wanted.pairs[representative].at.workload;
                labels[at].clone_from(&self.plan.workloads[workload].name);
            }
            Value::Number(value)
        };
        for metric in &recipe.beside {
            let pair = wanted.pairs.first();
            for cell in pair.into_iter().flat_map(|pair| [pair.base, Some(pair.at)]) {
                let value = cell
                    .map(|cell| self.combine_metric_over_runs(table, metric, cell))
                    .transpose()?;
                labels.push(value.map(format_value_label).unwrap_or_default());
            }
        }
        let published = wanted.published.clone();
        Ok(TableCell::new(labels, published, simulated, wanted.fitted))
    }

    /// A pair's value as the table shows it.
    fn value_as_table_shows_it(&self, table: &Table, pair: Pair) -> Result<f64, StudyError> {
        let recipe = &table.recipe;
        let mut value = self.value_relative_to_base(table, &recipe.metric, pair)?;
        if let Some(per) = &recipe.per {
            value /= self.value_relative_to_base(table, per, pair)?;
        }
        let value = match recipe.show {
            Show::Value => value / recipe.divisor,
            Show::Ratio => value,
            Show::Percent => (value - 1.0) * 100.0,
        };
        if value.is_finite() {
            return Ok(value);
        }
        Err(self.error_in_table_cell(table, pair.at, "no number comes out"))
    }

    /// A cell's metric divided by its base's metric, or the metric itself without a base.
    fn value_relative_to_base(
        &self,
        table: &Table,
        metric: &Quantity,
        pair: Pair,
    ) -> Result<f64, StudyError> {
        let value = self.combine_metric_over_runs(table, metric, pair.at)?;
        Ok(match pair.base {
            Some(base) => value / self.combine_metric_over_runs(table, metric, base)?,
            None => value,
        })
    }

    /// A cell's metric, combined over its runs.
    pub(super) fn combine_metric_over_runs(
        &self,
        table: &Table,
        metric: &Quantity,
        cell: Cell,
    ) -> Result<f64, StudyError> {
        let index = self
            .plan
            .cells_of_first_repeat()
            .iter()
            .position(|planned| *planned == cell);
        let runs = index
            .and_then(|index| self.runs.get(index))
            .map_or(&[][..], Vec::as_slice);
        let values = runs
            .iter()
            .map(|run| metric.value_in_run(run))
            .collect::<Option<Vec<f64>>>()
            .ok_or_else(|| {
                let name = match metric {
                    Quantity::Metric(name) => name,
                    Quantity::Rate | Quantity::Time => "ops_per_s` or `iops",
                };
                self.error_in_table_cell(table, cell, &format!("no `{name}` among the results"))
            })?;
        Ok(match table.recipe.runs {
            Aggregate::Median => median(values).unwrap_or(0.0),
            Aggregate::Sum => values.into_iter().sum(),
        })
    }

    fn error_in_table_cell(&self, table: &Table, cell: Cell, message: &str) -> StudyError {
        let (workload, policy) = (
            &self.plan.workloads[cell.workload],
            &self.plan.policies[cell.policy],
        );
        StudyError::File {
            origin: self.plan.origin.clone(),
            line: table.line,
            message: format!(
                "{}: {message} of `{}` under `{}`",
                table.name, workload.name, policy.name
            ),
        }
    }
}

impl Quantity {
    /// The quantity's value in one run; `None` if the run lacks the metric.
    fn value_in_run(&self, run: &Metrics) -> Option<f64> {
        match self {
            Self::Metric(name) => find_metric(run, name),
            Self::Rate => find_metric(run, "ops_per_s").or_else(|| find_metric(run, "iops")),
            Self::Time => Self::Rate.value_in_run(run).map(f64::recip),
        }
    }
}

fn find_metric(run: &Metrics, name: &str) -> Option<f64> {
    let (_, value) = run.iter().find(|(metric, _)| metric == name)?;
    Some(*value)
}

/// Combines the values of several workloads; returns the index of the representative one, too.
fn combine_values_and_pick_representative(
    recipe: &ValueRecipe,
    wanted: &PublishedCell,
    values: &[f64],
) -> (f64, usize) {
    match recipe.across {
        Some(Across::GeometricMean) => {
            let logs: f64 = values.iter().map(|value| value.ln()).sum();
            ((logs / values.len().max(1) as f64).exp(), 0)
        }
        Some(Across::Extreme) => {
            let sign = wanted.published.number_or_median().unwrap_or(1.0).signum();
            let farthest = values
                .iter()
                .enumerate()
                .max_by(|a, b| (a.1 * sign).total_cmp(&(b.1 * sign)));
            farthest.map_or((f64::NAN, 0), |(index, value)| (*value, index))
        }
        None => (values.first().copied().unwrap_or(f64::NAN), 0),
    }
}

/// A number as a label, with one decimal at most.
fn format_value_label(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0")
        .map_or_else(|| text.clone(), str::to_owned)
}
