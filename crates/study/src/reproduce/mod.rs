//! Published experiments, simulated.
//!
//! An experiment is a study with `[[published]]` and `[[expect]]` ([`crate::file`]): a machine, workloads and policies,
//! published values, and expectations about the simulation. [`reproduce`] runs experiments on all threads in the current
//! rayon pool, and sets published beside simulated values. The result is independent from the number of threads.
//!
//! `docs/guides/experiments.md` says how to add one.

mod cell;
mod criterion;
mod fitted;
mod table;

use std::path::Path;

use serde::Serialize;
use wakepath_results::{RunOrigin, RunRecord};
use wakepath_units::median;

use crate::file::{StudyError, StudyText};
use crate::plan::Plan;
use crate::run::RunControl;
use crate::run::run_items_in_order;
use crate::run::sim::Sim;
pub use cell::{TableCell, Value};
pub use criterion::{Criterion, format_share};
pub use fitted::FittedFigure;
use table::PlanRuns;

/// Plans an experiment: a file, or a built-in study by name.
///
/// # Errors
/// As [`Plan::load`], and a study without published values.
pub fn load_experiment(path: &Path) -> Result<Plan, StudyError> {
    let plan = Plan::load(path, RunOrigin::Sim)?;
    if plan.tables.is_empty() {
        let message =
            "nothing to reproduce: an experiment is a study with [[published]] and [[expect]]";
        let source = StudyText {
            origin: &plan.origin,
            text: plan.file_text.as_deref(),
        };
        return Err(source.error_at_value(&plan.file.name, message));
    }
    Ok(plan)
}

/// Simulates experiments: all with their first seed before any goes on to the second. After cancellation, returns the
/// experiments with at least one run in every cell.
///
/// # Errors
/// A run that cannot be simulated, or lacks all published metrics.
pub fn reproduce(plans: &[Plan], control: &RunControl<'_>) -> Result<Vec<Outcome>, StudyError> {
    let sims = plans.iter().map(Sim::new).collect::<Result<Vec<_>, _>>()?;
    let mut runs = Vec::new();
    for (position, plan) in plans.iter().enumerate() {
        runs.extend(
            (0..plan.run_count()).map(|index| (plan.cell_at(index).repeat, position, index)),
        );
    }
    runs.sort_unstable();
    let mut found: Vec<PlanRuns<'_>> = plans.iter().map(PlanRuns::without_runs).collect();
    for (position, index, metrics) in run_items_in_order(
        runs,
        true,
        control.cancelled,
        |(_, position, index): (u32, usize, usize)| {
            let plan: &Plan = &plans[position];
            let cell = plan.cell_at(index);
            let mut run = RunRecord::new(plan.key_at(index), None, cell.repeat, index as u32);
            sims[position].simulate_into_record(cell, &mut run, control.cancelled)?;
            (control.finished)(1);
            Ok((position, index, run.metrics))
        },
    )? {
        found[position].add_run(index, metrics);
    }
    let outcomes = found
        .iter()
        .filter(|found| found.runs_in_cell_with_fewest() > 0);
    outcomes.map(Outcome::new).collect()
}

/// A simulated experiment: its published and simulated values, and the criteria.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Name.
    pub experiment: String,
    /// Number of runs per cell; fewer than asked for if the user cancelled.
    pub runs: usize,
    /// In short.
    pub summary: ReproductionSummary,
    /// Title.
    pub title: String,
    /// Publication.
    pub source: String,
    /// Machine models.
    pub machines: Vec<String>,
    /// Tables.
    pub sections: Vec<Section>,
    /// Expectations about the experiment, and whether they hold.
    pub criteria: Vec<Criterion>,
    /// Figures that were fitted, and what they were fitted to.
    pub fitted_figures: Vec<FittedFigure>,
}

/// A result table.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Metric with unit.
    pub metric: String,
    /// Label headings.
    pub columns: Vec<String>,
    /// Index of the label that becomes columns in print; JSON and CSV keep a row per value.
    #[serde(skip)]
    pub wide: Option<usize>,
    /// Cells of the table, one row per value.
    pub cells: Vec<TableCell>,
}

impl Outcome {
    fn new(found: &PlanRuns<'_>) -> Result<Self, StudyError> {
        let plan = found.plan;
        let cells: Vec<Vec<TableCell>> = plan
            .tables
            .iter()
            .map(|table| found.fill_table(table))
            .collect::<Result<_, _>>()?;
        let fitted_figures = fitted::list_fitted_figures(plan);
        let criteria: Vec<Criterion> = plan
            .expectations
            .iter()
            .map(|expectation| {
                Criterion::judge(
                    expectation,
                    &plan.tables,
                    &cells,
                    found,
                    fitted_figures.len(),
                )
            })
            .collect::<Result<_, _>>()?;
        let sections: Vec<Section> = plan
            .tables
            .iter()
            .zip(cells)
            .filter_map(|(table, cells)| {
                Some(Section {
                    metric: table.title.clone()?,
                    columns: table.columns.clone(),
                    wide: table.wide,
                    cells,
                })
            })
            .collect();
        let models = plan.machines.iter().filter_map(|m| m.model.as_ref());
        let mut machines: Vec<String> = models.map(|model| model.title.clone()).collect();
        machines.dedup();
        Ok(Self {
            experiment: plan.file.name.get_ref().clone(),
            runs: found.runs_in_cell_with_fewest(),
            summary: ReproductionSummary::new(&sections, &criteria),
            title: plan.title().to_owned(),
            source: plan.file.source.clone().unwrap_or_default(),
            machines,
            sections,
            criteria,
            fitted_figures,
        })
    }
}

/// An experiment's outcome in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproductionSummary {
    /// Number of cells that have something published to compare with.
    pub compared: usize,
    /// Fitted cells.
    pub fitted: usize,
    /// Median absolute relative error over cells that were not fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_error: Option<f64>,
    /// Largest absolute relative error over cells that were not fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_error: Option<f64>,
    /// Criteria.
    pub criteria: usize,
    /// Expectations met.
    pub met: usize,
}

impl ReproductionSummary {
    fn new(sections: &[Section], criteria: &[Criterion]) -> Self {
        let cells = sections.iter().flat_map(|s| &s.cells);
        let compared: Vec<&TableCell> = cells
            .clone()
            .filter(|c| c.relative_error.is_some() || c.agrees.is_some())
            .collect();
        let counted = criteria.iter().filter(|c| !c.observation);
        let errors: Vec<f64> = cells
            .filter(|c| !c.fitted)
            .filter_map(|c| Some(c.relative_error?.abs()))
            .collect();
        Self {
            compared: compared.len(),
            fitted: compared.iter().filter(|c| c.fitted).count(),
            worst_error: errors.iter().copied().reduce(f64::max),
            median_error: median(errors),
            criteria: counted.clone().count(),
            met: counted.filter(|c| c.met).count(),
        }
    }
}
