//! Part B: what the iowait heuristics of idle governor and schedutil are worth on RK3399.

use serde::Deserialize;
use wakepath_hardware::Machine;
use wakepath_policies::spec::{PolicySpec, SpecError};
use wakepath_sim::{Combination, compare};
use wakepath_workloads::fio;

use super::{Cell, FittedFigure, Published, ReproduceError, Reproduction, Section, Value};

const PART_B: &str = include_str!("../../data/published-b.toml");
const PART_B_JOB: &str = include_str!("../../../../workloads/part-b-rk3399.fio");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    title: String,
    source: String,
    machine: String,
    metric: String,
    cell: Vec<DataCell>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DataCell {
    idle: String,
    freq: String,
    iops: Vec<f64>,
    #[serde(default)]
    fitted: bool,
}

/// Simulates part B: fio on RK3399 under two idle governors, with and without schedutil's iowait
/// boost.
///
/// # Errors
/// Only if the built-in data were broken.
pub fn part_b(seeds: &[u64]) -> Result<Reproduction, ReproduceError> {
    let published: Data = toml::from_str(PART_B)?;
    let machine = Machine::find(&published.machine)?;
    let job = fio::parse(PART_B_JOB, "part-b-rk3399.fio")?.into();
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
            Cell::new(
                vec![result.idle.to_string(), result.freq.to_string()],
                Published::Runs(cell.iops),
                Value::Number(result.iops),
                cell.fitted,
            )
        })
        .collect();
    Ok(Reproduction {
        title: published.title,
        source: published.source,
        fitted_figures: FittedFigure::of(None, machine.figures()),
        machine: machine.title,
        sections: vec![Section {
            metric: published.metric,
            columns: vec!["idle", "freq"],
            cells,
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_b_comes_out_in_the_published_order_and_within_a_fifth() {
        let b = part_b(&[1, 2, 3]).unwrap();
        let cells = &b.sections[0].cells;
        let order_by = |f: fn(&Cell) -> f64| {
            let mut order: Vec<usize> = (0..cells.len()).collect();
            order.sort_by(|x, y| f(&cells[*x]).total_cmp(&f(&cells[*y])));
            order
        };
        assert_eq!(
            order_by(|c| c.published.number().unwrap()),
            order_by(|c| match c.simulated {
                Value::Number(n) => n,
                Value::Text(_) => unreachable!(),
            })
        );
        for cell in cells {
            assert!(cell.relative_error.unwrap().abs() <= 0.2, "{cell:?}");
        }
        assert!(b.fitted_figures.len() <= 3);
        assert!(
            cells.iter().any(|c| !c.fitted),
            "a cell has to be left to judge by"
        );
    }
}
