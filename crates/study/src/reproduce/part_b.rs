//! Part B: what the iowait heuristics of idle governor and schedutil are worth on RK3399, and what
//! that predicts for another machine and for other workloads.

use serde::Deserialize;
use wakepath_hardware::Machine;
use wakepath_policies::mechanism::Kind;
use wakepath_policies::spec::{PolicySet, SpecError};
use wakepath_sim::{Comparison, Experiment};
use wakepath_workloads::{Workload, fio};

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
    prediction: Prediction,
    work_between: Vec<WorkBetween>,
    at_depth: AtDepth,
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Prediction {
    machine: String,
    boost_over_none: f64,
    teo_over_menu: f64,
    cell: Vec<DataCell>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkBetween {
    thinkcycles: u64,
    boost_over_none: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AtDepth {
    ioengine: String,
    iodepth: u32,
    numjobs: u32,
    boost_over_none: f64,
}

/// What came out under menu and teo, each with and without boost: the order of the cells in the data.
struct Four {
    /// IOPS.
    menu: [f64; 2],
    teo: [f64; 2],
    /// Mean frequency in MHz while the CPUs ran tasks without boost, under menu and under teo.
    unboosted_mhz: [f64; 2],
}

impl Four {
    fn of(comparison: &Comparison) -> Option<Self> {
        let [menu, menu_off, teo, teo_off] = &comparison.results[..] else {
            return None;
        };
        Some(Self {
            menu: [menu.iops, menu_off.iops],
            teo: [teo.iops, teo_off.iops],
            unboosted_mhz: [menu_off.mean_mhz, teo_off.mean_mhz],
        })
    }

    /// IOPS with boost over IOPS without, by idle governor.
    fn gains(&self) -> [(&'static str, f64); 2] {
        [("menu", self.menu), ("teo", self.teo)].map(|(idle, [on, off])| (idle, on / off))
    }
}

/// fio on RK3399 under two idle governors, with and without schedutil's iowait boost.
pub(super) fn plan() -> Result<Plan, ReproduceError> {
    let data: Data = toml::from_str(PART_B)?;
    let machine = Machine::find(&data.machine)?;
    let workload = job("")?;
    let policies = data
        .cell
        .iter()
        .map(|cell| PolicySet::named([&*cell.idle, &*cell.freq]))
        .collect::<Result<Vec<_>, SpecError>>()?;
    let on = |machine: &Machine, workload: &Workload| Experiment {
        machine: machine.clone(),
        workload: workload.clone(),
        policies: policies.clone(),
    };
    let predicted = Machine::find(&data.prediction.machine)?;
    let mut experiments = vec![on(&machine, &workload), on(&predicted, &workload)];
    for work in &data.work_between {
        let more = format!("runtime=10\nthinkcycles={}\n", work.thinkcycles);
        experiments.push(on(&machine, &job(&more)?));
    }
    let AtDepth {
        ioengine,
        iodepth,
        numjobs,
        ..
    } = &data.at_depth;
    experiments.push(on(
        &machine,
        &job(&format!(
            "runtime=10\nioengine={ioengine}\niodepth={iodepth}\nnumjobs={numjobs}\n"
        ))?,
    ));
    Ok(Plan::new(experiments, move |comparisons| {
        Ok(reproduction(data, machine, &comparisons))
    }))
}

/// The published job with further lines, which win over those before.
fn job(more: &str) -> Result<Workload, ReproduceError> {
    let text = format!("{}\n{more}", PART_B_JOB.trim_end());
    Ok(fio::parse(&text, "part-b-rk3399.fio")?.into())
}

fn reproduction(data: Data, machine: Machine, comparisons: &[Comparison]) -> Reproduction {
    let fitted_figures = FittedFigure::of(None, machine.figures());
    let mut comparisons = comparisons.iter();
    let mut next = || comparisons.next();
    let cells = measured_cells(&data.cell, next());
    let predicted = next();
    let predicted_cells = measured_cells(&data.prediction.cell, predicted);
    let (boost, governors) = predicted_ratios(&data.prediction, predicted.and_then(Four::of));
    let mut others = comparisons.filter_map(Four::of);
    let between = work_between(&data.work_between, others.by_ref());
    let alone = raised_alone(&between, &machine);
    let depth = at_depth(&data.at_depth, others);
    let criteria = vec![
        Criterion::within("every cell within 10 % of the median", 0.1, &cells),
        Criterion::same_order("cells in the published order", &cells),
        Criterion::new(
            "at most three fitted numbers, and a cell left to judge by",
            format!("{} fitted", fitted_figures.len()),
            fitted_figures.len() <= 3 && cells.iter().any(|c| !c.fitted),
        ),
        Criterion::within("M1 Pro: teo gains nothing (within 3 %)", 0.03, &governors),
        Criterion::within(
            "M1 Pro: the boost is worth half as much again (within 10 %)",
            0.1,
            &boost,
        ),
        Criterion::within(
            "the boost is worth nothing (within 2 %) with much CPU work between I/Os",
            0.02,
            between.iter().map(|w| &w.gain),
        ),
        alone,
        Criterion::within(
            "the boost is worth nothing (within 2 %) at depth",
            0.02,
            &depth,
        ),
    ];
    let policies = &["idle", "freq"];
    Reproduction {
        title: data.title,
        source: data.source,
        criteria,
        fitted_figures,
        machine: machine.title,
        sections: vec![
            Section::new(&data.metric, policies, cells),
            Section::new("predicted for the M1 Pro: IOPS", policies, predicted_cells),
            Section::new(
                "predicted for the M1 Pro: IOPS with boost over IOPS without",
                &["idle"],
                boost,
            ),
            Section::new(
                "predicted for the M1 Pro: IOPS of teo over IOPS of menu",
                &["boost"],
                governors,
            ),
            Section::new(
                "CPU work between I/Os: IOPS with boost over IOPS without",
                &["thinkcycles", "idle", "MHz without boost"],
                between.into_iter().map(|w| w.gain).collect(),
            ),
            Section::new(
                "reads at depth: IOPS with boost over IOPS without",
                &["workload", "idle"],
                depth,
            ),
        ],
    }
}

fn measured_cells(published: &[DataCell], simulated: Option<&Comparison>) -> Vec<Cell> {
    let results = simulated.map_or(&[][..], |c| &c.results);
    published
        .iter()
        .zip(results)
        .map(|(cell, result)| {
            Cell::new(
                [Kind::Idle, Kind::Frequency]
                    .map(|kind| result.policy.get(kind).map(ToString::to_string))
                    .map(Option::unwrap_or_default)
                    .to_vec(),
                Published::Runs(cell.iops.clone()),
                Value::Number(result.iops),
                cell.fitted,
            )
        })
        .collect()
}

/// A ratio that nothing was fitted to.
fn ratio(labels: Vec<String>, published: Option<f64>, simulated: f64) -> Cell {
    let published = published.map_or(Published::Nothing, Published::Number);
    Cell::new(labels, published, Value::Number(simulated), false)
}

/// Gains of the boost, and of teo over menu.
fn predicted_ratios(published: &Prediction, result: Option<Four>) -> (Vec<Cell>, Vec<Cell>) {
    let Some(four) = result else {
        return (Vec::new(), Vec::new());
    };
    let boost = four
        .gains()
        .map(|(idle, gain)| ratio(vec![idle.to_owned()], Some(published.boost_over_none), gain));
    let governors = [("on", 0), ("off", 1)].map(|(boost, index)| {
        ratio(
            vec![boost.to_owned()],
            Some(published.teo_over_menu),
            four.teo[index] / four.menu[index],
        )
    });
    (boost.into(), governors.into())
}

/// What the boost is worth with work between I/Os.
struct WithWork {
    gain: Cell,
    /// Mean frequency in MHz without it.
    unboosted_mhz: f64,
}

fn work_between(published: &[WorkBetween], results: impl Iterator<Item = Four>) -> Vec<WithWork> {
    published
        .iter()
        .zip(results)
        .flat_map(|(work, four)| {
            let both = four.gains().into_iter().zip(four.unboosted_mhz);
            both.map(|((idle, gain), mhz)| {
                let labels = vec![
                    work.thinkcycles.to_string(),
                    idle.to_owned(),
                    format!("{mhz:.0}"),
                ];
                WithWork {
                    gain: ratio(labels, work.boost_over_none, gain),
                    unboosted_mhz: mhz,
                }
            })
        })
        .collect()
}

/// Where a task builds up so much utilisation on its own that schedutil raises the frequency without
/// boost, the boost is worth nothing.
fn raised_alone(between: &[WithWork], machine: &Machine) -> Criterion {
    let home = &machine.scheduler.home.cluster;
    let lowest = machine
        .cluster
        .iter()
        .find(|c| c.name == *home)
        .and_then(|c| c.opps.first())
        .map_or(0.0, |o| f64::from(o.khz) / 1e3);
    let gains: Vec<f64> = between
        .iter()
        .filter(|w| w.unboosted_mhz > lowest * 1.1)
        .filter_map(|w| w.gain.simulated.number())
        .collect();
    let most = gains.iter().copied().fold(0.0, f64::max);
    Criterion::new(
        "the boost is worth nothing (within 2 %) where the work alone raises the frequency",
        format!(
            "{} of {} cells, at most {most:.2}",
            gains.len(),
            between.len()
        ),
        !gains.is_empty() && gains.iter().all(|g| (g - 1.0).abs() <= 0.02),
    )
}

fn at_depth(published: &AtDepth, results: impl Iterator<Item = Four>) -> Vec<Cell> {
    let AtDepth {
        ioengine,
        iodepth,
        numjobs,
        ..
    } = published;
    results
        .flat_map(|four| four.gains())
        .map(|(idle, gain)| {
            let job = format!("{ioengine}, {numjobs} jobs, depth {iodepth}");
            ratio(
                vec![job, idle.to_owned()],
                Some(published.boost_over_none),
                gain,
            )
        })
        .collect()
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
