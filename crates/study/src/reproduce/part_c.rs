//! Part C: HWP dynamic boost.
//!
//! Every benchmark is a workload that does what matters of it. What is compared is the ratio of a
//! rate, or of a time, with the boost to that without.

use serde::Deserialize;
use wakepath_hardware::Machine;
use wakepath_sim::{Combination, CombinationResult, Comparison, Experiment, median};
use wakepath_units::Nanoseconds;
use wakepath_workloads::rtapp::{self, Event, RtTask};
use wakepath_workloads::{Workload, fio};

use super::{
    Cell, Criterion, FittedFigure, Plan, Published, ReproduceError, Reproduction, Section, Value,
};

const PART_C: &str = include_str!("../../data/published-c.toml");

/// A difference of a neutral benchmark that is none, as a share.
const NEUTRAL: f64 = 0.05;
/// How far off a simulated change may be at least, as a share.
const FIVE_POINTS: f64 = 0.05;
/// A difference of idle power that is none, as a share.
const IDLE_POWER: f64 = 0.01;

macro_rules! workloads {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../workloads/", $name)))),*]
    };
}

const WORKLOADS: &[(&str, &str)] = workloads![
    "async-random.fio",
    "async-sequential.fio",
    "build-like.json",
    "dbench-like.json",
    "fileio-like.fio",
    "hackbench-like.json",
    "idle.json",
    "pgbench-like-read.json",
    "pgbench-like-write.json",
    "ping-pong.json",
    "sqlite-like.json",
    "tiobench-like.fio",
    "web-like.json",
    "worker-pool.json",
    "x264-like.json",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    title: String,
    source: String,
    idle: String,
    without: String,
    with: String,
    idle_workload: String,
    warm_up_milliseconds: u64,
    performance_per_watt: [f64; 2],
    row: Vec<Row>,
    fitted: Vec<Fitted>,
}

/// A benchmark on a machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    benchmark: String,
    machine: String,
    workload: String,
    clients: Option<u32>,
    #[serde(default)]
    measure: Measure,
    before: Option<f64>,
    after: Option<f64>,
    ratio: Option<f64>,
    #[serde(default)]
    kind: Kind,
    #[serde(default)]
    fitted: bool,
}

/// What was published of a benchmark.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Measure {
    #[default]
    Rate,
    Time,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    #[default]
    Changes,
    Neutral,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fitted {
    workload: String,
    figures: Vec<String>,
    to: String,
}

impl Row {
    /// The published ratio of with to without; `None` where only "no difference" was published.
    fn published(&self) -> Option<f64> {
        self.ratio.or_else(|| Some(self.after? / self.before?))
    }

    fn labels(&self) -> Vec<String> {
        let measure = match self.measure {
            Measure::Rate => "rate",
            Measure::Time => "time",
        };
        vec![
            self.benchmark.clone(),
            self.machine.clone(),
            measure.to_owned(),
        ]
    }
}

/// The benchmarks, each with the boost and without.
pub(super) fn plan() -> Result<Plan, ReproduceError> {
    let data: Data = toml::from_str(PART_C)?;
    let combination = |freq: &str| Combination::named(&data.idle, freq);
    let combinations = vec![combination(&data.without)?, combination(&data.with)?];
    let warm_up = Nanoseconds::from_millis(data.warm_up_milliseconds);
    let mut experiments = Vec::with_capacity(data.row.len() + 2);
    let mut add = |machine: &str, name: &str, clients| -> Result<(), ReproduceError> {
        experiments.push(Experiment {
            machine: Machine::find(machine)?,
            workload: workload(name, clients, warm_up)?,
            combinations: combinations.clone(),
        });
        Ok(())
    };
    for row in &data.row {
        add(&row.machine, &row.workload, row.clients)?;
    }
    let machines = machines(&data);
    for machine in &machines {
        add(machine, &data.idle_workload, None)?;
    }
    let figures = fitted_figures(&data)?;
    Ok(Plan::new(experiments, move |comparisons| {
        Ok(reproduction(data, &machines, figures, &comparisons))
    }))
}

/// The machines, each once.
fn machines(data: &Data) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in &data.row {
        if !names.contains(&row.machine) {
            names.push(row.machine.clone());
        }
    }
    names
}

fn text_of(name: &str) -> &'static str {
    let found = WORKLOADS.iter().find(|(known, _)| *known == name);
    found.map_or("", |(_, text)| text)
}

/// A workload with so many clients: threads of the first task, or processes of the first job.
fn workload(
    name: &str,
    clients: Option<u32>,
    warm_up: Nanoseconds,
) -> Result<Workload, ReproduceError> {
    let text = text_of(name);
    if let Some((_, "fio")) = name.rsplit_once('.') {
        let mut file = fio::parse(text, name)?;
        if let (Some(job), Some(clients)) = (file.jobs.first_mut(), clients) {
            job.numjobs = clients;
        }
        return Ok(file.into());
    }
    let mut file = rtapp::parse(text, name)?;
    file.warm_up = warm_up;
    if let (Some(task), Some(clients)) = (file.tasks.first_mut(), clients) {
        task.instances = clients;
    }
    Ok(file.into())
}

/// The fitted figures of the workloads, in microseconds of work.
fn fitted_figures(data: &Data) -> Result<Vec<FittedFigure>, ReproduceError> {
    let mut figures = Vec::new();
    for fitted in &data.fitted {
        let file = rtapp::parse(text_of(&fitted.workload), &fitted.workload)?;
        let work = file.tasks.iter().flat_map(RtTask::events);
        let work = work.filter_map(|event| match event {
            Event::Run(time) => Some(time.0 as f64 / 1e3),
            _ => None,
        });
        for (key, value) in fitted.figures.iter().zip(work) {
            figures.push(FittedFigure {
                model: Some(fitted.workload.clone()),
                key: key.clone(),
                value,
                fitted: fitted.to.clone(),
            });
        }
    }
    Ok(figures)
}

/// What the boost changes of a workload.
struct Change {
    rate: f64,
    /// Power of the whole machine, and of its CPUs alone.
    power: f64,
    cpu_power: f64,
}

impl Change {
    fn of(comparison: &Comparison) -> Option<Self> {
        let [without, with] = &comparison.results[..] else {
            return None;
        };
        let power = |result: &CombinationResult| result.mean_mw.unwrap_or(f64::NAN);
        Some(Self {
            rate: rate(with) / rate(without),
            power: power(with) / power(without),
            cpu_power: cpu_power(with) / cpu_power(without),
        })
    }

    fn by(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Rate => self.rate,
            Measure::Time => self.rate.recip(),
        }
    }
}

/// Operations a second, or requests where the workload is a fio job; median over the runs.
fn rate(result: &CombinationResult) -> f64 {
    result.operations_per_second.unwrap_or(result.iops)
}

/// Mean power of all CPUs in mW; median over the runs.
fn cpu_power(result: &CombinationResult) -> f64 {
    let of_run = result.runs.iter().filter_map(|run| {
        let energy = run.energy.as_ref()?;
        Some(energy.cpus_mj.iter().sum::<f64>() / run.seconds)
    });
    median(of_run.collect())
}

fn reproduction(
    data: Data,
    machines: &[String],
    fitted_figures: Vec<FittedFigure>,
    comparisons: &[Comparison],
) -> Reproduction {
    let mut changes = comparisons.iter().filter_map(Change::of);
    let (mut changed, mut neutral) = (Vec::new(), Vec::new());
    let (mut per_watt, mut per_cpu_watt) = (Vec::new(), Vec::new());
    for (row, change) in data.row.iter().zip(changes.by_ref()) {
        let simulated = Value::Number(change.by(row.measure));
        match (row.kind, row.published()) {
            (Kind::Changes, Some(published)) => {
                let published = Published::Number(published);
                changed.push(Cell::new(row.labels(), published, simulated, row.fitted));
                for (cells, power) in [
                    (&mut per_watt, change.power),
                    (&mut per_cpu_watt, change.cpu_power),
                ] {
                    cells.push(Cell::new(
                        row.labels()[..2].to_vec(),
                        Published::Nothing,
                        Value::Number(change.rate / power),
                        false,
                    ));
                }
            }
            _ => neutral.push(Cell::new(
                row.labels()[..2].to_vec(),
                Published::between(1.0 - NEUTRAL, 1.0 + NEUTRAL),
                simulated,
                row.fitted,
            )),
        }
    }
    let idle: Vec<Cell> = machines
        .iter()
        .zip(changes)
        .map(|(machine, change)| {
            Cell::new(
                vec![machine.clone()],
                Published::between(1.0 - IDLE_POWER, 1.0 + IDLE_POWER),
                Value::Number(change.power),
                false,
            )
        })
        .collect();
    let criteria = vec![
        every(
            "the direction is right in every row",
            &changed,
            |published, simulated| published.signum() * simulated.signum() > 0.0,
        ),
        every(
            "every row within half of the published change or 5 points",
            &changed,
            |published, simulated| {
                (simulated - published).abs() <= (published.abs() / 2.0).max(FIVE_POINTS)
            },
        ),
        Criterion::agree("neutral rows within 5 %", &neutral),
        Criterion::agree("idle power unchanged (within 1 %)", &idle),
        performance_per_watt(data.performance_per_watt, &per_watt),
    ];
    Reproduction {
        title: data.title,
        source: data.source,
        machine: machines.join(", "),
        sections: vec![
            Section::new(
                "with the boost over without it",
                &["benchmark", "machine", "of"],
                changed,
            ),
            Section::new(
                "benchmarks that it left as they were: rate with over without",
                &["benchmark", "machine"],
                neutral,
            ),
            Section::new("idle power with over without", &["machine"], idle),
            Section::new(
                "performance per watt with over without, by all of the machine's power",
                &["benchmark", "machine"],
                per_watt,
            ),
            Section::new(
                "performance per watt with over without, by the power of the CPUs alone",
                &["benchmark", "machine"],
                per_cpu_watt,
            ),
        ],
        criteria,
        fitted_figures,
    }
}

/// Performance per watt goes down in every row, but by no more than was published.
fn performance_per_watt([from, to]: [f64; 2], cells: &[Cell]) -> Criterion {
    let ratios = || cells.iter().filter_map(|c| c.simulated.number());
    let least = ratios().fold(f64::INFINITY, f64::min);
    let most = ratios().fold(0.0, f64::max);
    Criterion::new(
        "performance per watt down by up to 10 %",
        format!("{least:.2} to {most:.2} times"),
        !cells.is_empty() && least >= from && most <= to,
    )
}

/// Whether `holds` of the published and the simulated change of every cell, as shares.
fn every(expected: &str, cells: &[Cell], holds: fn(f64, f64) -> bool) -> Criterion {
    let judged: Vec<(&Cell, bool)> = cells
        .iter()
        .filter_map(|cell| {
            let change = |ratio: Option<f64>| ratio.map(|r| r - 1.0);
            let published = change(cell.published.number())?;
            let simulated = change(cell.simulated.number())?;
            Some((cell, holds(published, simulated)))
        })
        .collect();
    let not: Vec<String> = judged
        .iter()
        .filter(|(_, holds)| !holds)
        .map(|(cell, _)| cell.name())
        .collect();
    let found = if not.is_empty() {
        format!("{} of {}", judged.len(), judged.len())
    } else {
        format!(
            "{} of {}, not {}",
            judged.len() - not.len(),
            judged.len(),
            not.join(", ")
        )
    };
    Criterion::new(expected, found, !judged.is_empty() && not.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{Part, reproduce};

    #[test]
    fn every_workload_of_the_data_is_there() {
        let data: Data = toml::from_str(PART_C).unwrap();
        let rows = data.row.iter().map(|r| &r.workload);
        let fitted = data.fitted.iter().map(|f| &f.workload);
        for name in rows.chain(fitted).chain([&data.idle_workload]) {
            assert!(!text_of(name).is_empty(), "{name}");
        }
        for row in &data.row {
            let both = row.before.is_some() == row.after.is_some();
            assert!(both && row.ratio.is_none_or(|_| row.before.is_none()));
            let published = row.published().is_some();
            assert_eq!(published, row.kind == Kind::Changes, "{}", row.benchmark);
        }
        let figures = fitted_figures(&data).unwrap();
        let named: usize = data.fitted.iter().map(|f| f.figures.len()).sum();
        assert_eq!(figures.len(), named);
    }

    #[test]
    fn part_c_comes_out_as_far_as_the_page_says() {
        let parts = [Part::find("C").unwrap()];
        let outcome = reproduce(&parts, &[1, 2, 3]).unwrap().remove(0);
        let [changed, neutral, idle, ..] = &outcome.reproduction.sections[..] else {
            panic!("{outcome:?}");
        };
        for cell in &changed.cells {
            let (Some(published), Some(simulated)) =
                (cell.published.number(), cell.simulated.number())
            else {
                continue;
            };
            // Without a mechanism in the model, and within noise: see docs/frequency.md.
            let known = cell.labels[0].starts_with("hackbench");
            let small = (published - 1.0).abs() < 0.05;
            if !known && !small {
                assert!((published - 1.0) * (simulated - 1.0) > 0.0, "{cell:?}");
            }
        }
        assert!(neutral.cells.iter().all(|c| c.agrees == Some(true)));
        assert!(idle.cells.iter().all(|c| c.agrees == Some(true)));
        // Fewer figures than cells that they had to meet.
        let fitted = changed.cells.iter().filter(|c| c.fitted).count();
        let figures = outcome.reproduction.fitted_figures.len();
        assert!(2 * figures <= fitted && fitted < changed.cells.len());
    }
}
