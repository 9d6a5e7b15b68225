//! Published experiments, simulated.
//!
//! An experiment is a study with `[[published]]` and `[[expect]]` ([`crate::file`]): a machine, workloads and policies,
//! what was published of them, and what is expected of the simulation. [`reproduce`] runs any number of them,
//! all runs spread over the threads of the current rayon pool, and sets the published values beside the simulated ones.
//! The result is the same for any number of threads.
//!
//! `docs/experiments.md` says how to add one.

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
use crate::run::each;
use crate::run::sim::Sim;
pub use cell::{TableCell, Value};
pub use criterion::{Criterion, percent};
pub use fitted::FittedFigure;
use table::Found;

/// An experiment: a file, or the built-in one of this name.
///
/// # Errors
/// As [`Plan::load`], and a study without anything published.
pub fn load(path: &Path) -> Result<Plan, StudyError> {
    let plan = Plan::load(path, RunOrigin::Sim)?;
    if plan.tables.is_empty() {
        let message =
            "nothing to reproduce: an experiment is a study with [[published]] and [[expect]]";
        let source = StudyText {
            origin: &plan.origin,
            text: plan.file_text.as_deref(),
        };
        return Err(source.error(&plan.file.name, message));
    }
    Ok(plan)
}

/// Simulates these experiments, all with their first seed before any goes on to the second. When `waiting` calls it off,
/// the result has the experiments all of whose cells had at least one run by then.
///
/// # Errors
/// A run that cannot be simulated, or that gives none of what was published.
pub fn reproduce(plans: &[Plan], control: &RunControl<'_>) -> Result<Vec<Outcome>, StudyError> {
    let sims = plans.iter().map(Sim::new).collect::<Result<Vec<_>, _>>()?;
    let mut runs = Vec::new();
    for (position, plan) in plans.iter().enumerate() {
        runs.extend((0..plan.runs()).map(|index| (plan.cell(index).repeat, position, index)));
    }
    runs.sort_unstable();
    let one = |(_, position, index): (u32, usize, usize)| {
        let plan: &Plan = &plans[position];
        let cell = plan.cell(index);
        let mut run = RunRecord::new(plan.key(index), None, cell.repeat, index as u32);
        sims[position].measure(cell, &mut run, control.cancelled)?;
        (control.finished)(1);
        Ok((position, index, run.metrics))
    };
    let mut found: Vec<Found<'_>> = plans.iter().map(Found::new).collect();
    for (position, index, metrics) in each(runs, true, control.cancelled, one)? {
        found[position].add(index, metrics);
    }
    let outcomes = found.iter().filter(|found| found.fewest() > 0);
    outcomes.map(Outcome::of).collect()
}

/// An experiment that was simulated: what was published, and what came out.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its name.
    pub experiment: String,
    /// Runs per cell; fewer than asked for when the user had no more time.
    pub runs: usize,
    /// In short.
    pub summary: ReproductionSummary,
    /// What was measured.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// The models of the machines.
    pub machines: Vec<String>,
    /// The results, by what was measured.
    pub sections: Vec<Section>,
    /// What is expected of the cells, and whether it holds.
    pub criteria: Vec<Criterion>,
    /// Figures of the models that were fitted, and with what in view.
    pub fitted_figures: Vec<FittedFigure>,
}

/// A table of results.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// What the values are, with unit.
    pub metric: String,
    /// What the labels of a row are.
    pub columns: Vec<String>,
    /// Which of them is printed as a column for each of its labels; JSON and CSV have a row per value all the same.
    #[serde(skip)]
    pub wide: Option<usize>,
    /// One row per value.
    pub cells: Vec<TableCell>,
}

impl Outcome {
    fn of(found: &Found<'_>) -> Result<Self, StudyError> {
        let plan = found.plan;
        let cells: Vec<Vec<TableCell>> = plan
            .tables
            .iter()
            .map(|table| found.table(table))
            .collect::<Result<_, _>>()?;
        let fitted_figures = fitted::figures(plan);
        let criteria = plan.expectations.iter().map(|expectation| {
            Criterion::of(
                expectation,
                &plan.tables,
                &cells,
                found,
                fitted_figures.len(),
            )
        });
        let criteria: Vec<Criterion> = criteria.collect::<Result<_, _>>()?;
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
            runs: found.fewest(),
            summary: ReproductionSummary::of(&sections, &criteria),
            title: plan.title().to_owned(),
            source: plan.file.source.clone().unwrap_or_default(),
            machines,
            sections,
            criteria,
            fitted_figures,
        })
    }
}

/// An experiment in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproductionSummary {
    /// Cells with something published to compare with.
    pub compared: usize,
    /// Those that a model was fitted to.
    pub fitted: usize,
    /// Median of the absolute relative error over the cells that were not fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_error: Option<f64>,
    /// The largest absolute relative error among these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_error: Option<f64>,
    /// Criteria.
    pub criteria: usize,
    /// Those that are met.
    pub met: usize,
}

impl ReproductionSummary {
    fn of(sections: &[Section], criteria: &[Criterion]) -> Self {
        let cells = || sections.iter().flat_map(|s| &s.cells);
        let compared = || cells().filter(|c| c.relative_error.is_some() || c.agrees.is_some());
        let criteria = || criteria.iter().filter(|c| !c.observation);
        let errors: Vec<f64> = cells()
            .filter(|c| !c.fitted)
            .filter_map(|c| Some(c.relative_error?.abs()))
            .collect();
        Self {
            compared: compared().count(),
            fitted: compared().filter(|c| c.fitted).count(),
            worst_error: errors.iter().copied().reduce(f64::max),
            median_error: median(errors),
            criteria: criteria().count(),
            met: criteria().filter(|c| c.met).count(),
        }
    }
}
