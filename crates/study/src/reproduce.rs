//! Published experiments, simulated.
//!
//! The published numbers are data in `data/`; whatever stands beside them comes out of the
//! simulator.

use serde::{Deserialize, Serialize};
use wakepath_hardware::Machine;
use wakepath_hardware::machine::MachineError;
use wakepath_policies::spec::{PolicySpec, SpecError};
use wakepath_sim::{Combination, SimError, compare, median};
use wakepath_workloads::fio::{self, FioError};

const PART_B: &str = include_str!("../data/published-b.toml");
const PART_B_JOB: &str = include_str!("../../../workloads/part-b-rk3399.fio");

/// Why an experiment could not be reproduced.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[expect(missing_docs, reason = "each variant is the error it wraps")]
pub enum ReproduceError {
    Published(#[from] toml::de::Error),
    Machine(#[from] MachineError),
    Workload(#[from] FioError),
    Policy(#[from] SpecError),
    Simulation(#[from] SimError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    title: String,
    source: String,
    machine: String,
    metric: String,
    cell: Vec<PublishedCell>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedCell {
    idle: String,
    freq: String,
    iops: Vec<f64>,
    #[serde(default)]
    fitted: bool,
}

/// An experiment: what was published and what the simulator gives.
#[derive(Clone, Debug, Serialize)]
pub struct Reproduction {
    /// What was measured.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// The model of the machine.
    pub machine: String,
    /// What the numbers are.
    pub metric: String,
    /// Figures of the machine that were fitted, and with what in view.
    pub fitted_figures: Vec<FittedFigure>,
    /// One row per policy combination.
    pub cells: Vec<Cell>,
}

/// A fitted figure of a machine.
#[derive(Clone, Debug, Serialize)]
pub struct FittedFigure {
    /// Key in the machine's file.
    pub key: String,
    /// Its value.
    pub value: f64,
    /// What it was fitted to.
    pub fitted: String,
}

/// One number of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// Idle governor.
    pub idle: String,
    /// Frequency policy.
    pub freq: String,
    /// The published runs.
    pub published: Vec<f64>,
    /// Their median.
    pub published_median: f64,
    /// Median of the simulated runs.
    pub simulated_median: f64,
    /// Simulated over published, minus 1.
    pub relative_error: f64,
    /// Whether the model was fitted with this cell in view.
    pub fitted: bool,
}

/// Simulates part B: fio on RK3399 under two idle governors, with and without schedutil's iowait
/// boost.
///
/// # Errors
/// Only if the built-in data were broken.
pub fn part_b(seeds: &[u64]) -> Result<Reproduction, ReproduceError> {
    let published: Published = toml::from_str(PART_B)?;
    let machine = Machine::find(&published.machine)?;
    let job = fio::parse(PART_B_JOB, "part-b-rk3399.fio")?;
    let combinations = published
        .cell
        .iter()
        .map(|cell| {
            let spec = |name: &str| name.parse::<PolicySpec>();
            Ok(Combination {
                idle: spec(&cell.idle)?,
                freq: spec(&cell.freq)?,
                psd: None,
                apst: None,
            })
        })
        .collect::<Result<Vec<_>, SpecError>>()?;
    let comparison = compare(&machine, &job, &combinations, seeds)?;
    let cells = published
        .cell
        .into_iter()
        .zip(comparison.results)
        .map(|(cell, result)| {
            let published_median = median(cell.iops.clone());
            Cell {
                idle: result.idle.to_string(),
                freq: result.freq.to_string(),
                published: cell.iops,
                published_median,
                simulated_median: result.iops,
                relative_error: result.iops / published_median - 1.0,
                fitted: cell.fitted,
            }
        })
        .collect();
    let fitted_figures = machine
        .figures()
        .into_iter()
        .filter_map(|(key, figure)| {
            let fitted = figure.fitted_to()?.to_owned();
            Some(FittedFigure {
                key,
                value: figure.value,
                fitted,
            })
        })
        .collect();
    Ok(Reproduction {
        title: published.title,
        source: published.source,
        machine: machine.title,
        metric: published.metric,
        fitted_figures,
        cells,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_b_comes_out_in_the_published_order_and_within_a_fifth() {
        let b = part_b(&[1, 2, 3]).unwrap();
        let by_published = |f: fn(&Cell) -> f64| {
            let mut order: Vec<usize> = (0..b.cells.len()).collect();
            order.sort_by(|x, y| f(&b.cells[*x]).total_cmp(&f(&b.cells[*y])));
            order
        };
        assert_eq!(
            by_published(|c| c.published_median),
            by_published(|c| c.simulated_median)
        );
        for cell in &b.cells {
            assert!(cell.relative_error.abs() <= 0.2, "{cell:?}");
        }
        assert!(b.fitted_figures.len() <= 3);
        assert!(
            b.cells.iter().any(|c| !c.fitted),
            "a cell has to be left to judge by"
        );
    }
}
