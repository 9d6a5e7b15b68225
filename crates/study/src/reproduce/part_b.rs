//! Part B: what the iowait heuristics of idle governor and schedutil are worth on RK3399.

use serde::Deserialize;
use wakepath_hardware::Machine;
use wakepath_policies::spec::{PolicySpec, SpecError};
use wakepath_sim::{Combination, Experiment};
use wakepath_workloads::fio;

use super::{
    Cell, Criterion, FittedFigure, Plan, Published, ReproduceError, Reproduction, Section, Value,
};

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

/// fio on RK3399 under two idle governors, with and without schedutil's iowait boost.
pub(super) fn plan() -> Result<Plan, ReproduceError> {
    let published: Data = toml::from_str(PART_B)?;
    let machine = Machine::find(&published.machine)?;
    let workload = fio::parse(PART_B_JOB, "part-b-rk3399.fio")?.into();
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
    let experiments = vec![Experiment {
        machine: machine.clone(),
        workload,
        combinations,
    }];
    Ok(Plan::new(experiments, move |comparisons| {
        let results = comparisons.into_iter().flat_map(|c| c.results);
        let cells: Vec<Cell> = published
            .cell
            .into_iter()
            .zip(results)
            .map(|(cell, result)| {
                Cell::new(
                    vec![result.idle.to_string(), result.freq.to_string()],
                    Published::Runs(cell.iops),
                    Value::Number(result.iops),
                    cell.fitted,
                )
            })
            .collect();
        let fitted_figures = FittedFigure::of(None, machine.figures());
        Ok(Reproduction {
            title: published.title,
            source: published.source,
            criteria: vec![
                Criterion::within("every cell within 10 % of the median", 0.1, &cells),
                Criterion::same_order("cells in the published order", &cells),
                Criterion::new(
                    "at most three fitted numbers, and a cell left to judge by",
                    format!("{} fitted", fitted_figures.len()),
                    fitted_figures.len() <= 3 && cells.iter().any(|c| !c.fitted),
                ),
            ],
            fitted_figures,
            machine: machine.title,
            sections: vec![Section {
                metric: published.metric,
                columns: vec!["idle", "freq"],
                cells,
            }],
        })
    }))
}

#[cfg(test)]
mod tests {
    use crate::reproduce::{Part, reproduce};

    #[test]
    fn part_b_meets_its_criteria() {
        let b = reproduce(&[Part::find("B").unwrap()], &[1, 2, 3]).unwrap();
        let criteria = &b[0].reproduction.criteria;
        assert!(criteria.iter().all(|c| c.met), "{criteria:#?}");
    }
}
