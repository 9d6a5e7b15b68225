//! Part C: HWP dynamic boost.
//!
//! Every benchmark is a workload that does what matters of it. What is compared is the ratio of a
//! rate, or of a time, with the boost to that without.

use serde::Deserialize;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_sim::{Comparison, Experiment, PolicyResult, median};
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
/// A simulated change below this is chance, as a share: other seeds turn it.
const SOME_CHANGE: f64 = 0.005;
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
    /// The machine of which that was said.
    per_watt_machine: String,
    /// The row whose published figure is performance per watt itself.
    per_watt_row: String,
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
    let under = |freq: &str| PolicySet::named([&*data.idle, freq]);
    let policies = vec![under(&data.without)?, under(&data.with)?];
    let warm_up = Nanoseconds::from_millis(data.warm_up_milliseconds);
    let mut experiments = Vec::with_capacity(data.row.len() + 2);
    let mut add = |machine: &str, name: &str, clients| -> Result<(), ReproduceError> {
        experiments.push(Experiment {
            machine: Machine::find(machine)?,
            workload: workload(name, clients, warm_up)?,
            policies: policies.clone(),
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
    /// How often, over the runs with it, it raised a CPU's minimum.
    raises: u64,
}

impl Change {
    fn of(comparison: &Comparison) -> Option<Self> {
        let [without, with] = &comparison.results[..] else {
            return None;
        };
        let power = |result: &PolicyResult| result.mean_mw.unwrap_or(f64::NAN);
        Some(Self {
            rate: rate(with) / rate(without),
            power: power(with) / power(without),
            cpu_power: cpu_power(with) / cpu_power(without),
            raises: raises(with),
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
fn rate(result: &PolicyResult) -> f64 {
    result.operations_per_second.unwrap_or(result.iops)
}

/// Mean power of all CPUs in mW; median over the runs.
fn cpu_power(result: &PolicyResult) -> f64 {
    let of_run = result.runs.iter().filter_map(|run| {
        let energy = run.energy.as_ref()?;
        Some(energy.cpus_mj.iter().sum::<f64>() / run.seconds)
    });
    median(of_run.collect())
}

fn raises(result: &PolicyResult) -> u64 {
    let clocks = result.runs.iter().flat_map(|run| &run.clocks);
    let boosts = clocks.filter_map(|clock| clock.hwp_boost.as_ref());
    boosts.map(|boost| boost.raises).sum()
}

fn reproduction(
    data: Data,
    machines: &[String],
    fitted_figures: Vec<FittedFigure>,
    comparisons: &[Comparison],
) -> Reproduction {
    let mut changes = comparisons.iter().filter_map(Change::of);
    let (mut boosted, mut never_boosted, mut neutral) = (Vec::new(), Vec::new(), Vec::new());
    let (mut per_watt, mut per_cpu_watt) = (Vec::new(), Vec::new());
    let mut raised = Vec::new();
    for (row, change) in data.row.iter().zip(changes.by_ref()) {
        let simulated = Value::Number(change.by(row.measure));
        let names = row.labels()[..2].to_vec();
        match (row.kind, row.published()) {
            (Kind::Changes, Some(published)) => {
                let cells = if change.raises > 0 {
                    &mut boosted
                } else {
                    &mut never_boosted
                };
                let published = Published::Number(published);
                cells.push(Cell::new(row.labels(), published, simulated, row.fitted));
            }
            _ => neutral.push(Cell::new(
                names.clone(),
                Published::between(1.0 - NEUTRAL, 1.0 + NEUTRAL),
                simulated,
                row.fitted,
            )),
        }
        let published = if row.benchmark == data.per_watt_row {
            Published::between(1.0 - NEUTRAL, 1.0 + NEUTRAL)
        } else {
            Published::Nothing
        };
        for (cells, power, published) in [
            (&mut per_watt, change.power, published),
            (&mut per_cpu_watt, change.cpu_power, Published::Nothing),
        ] {
            let ratio = Value::Number(change.rate / power);
            cells.push(Cell::new(names.clone(), published, ratio, false));
        }
        let raises = Value::Number(change.raises as f64);
        raised.push(Cell::new(names, Published::Nothing, raises, false));
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
    let suites = suites(machines, &data, &per_watt);
    let of_machine = |cell: &&Cell| cell.labels[1] == data.per_watt_machine;
    let criteria = vec![
        every(
            "where the boost sets in: the direction is right in every row",
            &boosted,
            right_direction,
        ),
        every(
            "where the boost sets in: every row within half of the published change or 5 points",
            &boosted,
            near_enough,
        ),
        every(
            "where it never sets in: the direction is right, too",
            &never_boosted,
            right_direction,
        ),
        Criterion::agree("neutral rows within 5 %", &neutral),
        Criterion::agree("idle power unchanged (within 1 %)", &idle),
        suite(&suites),
        Criterion::agree(
            "SPECpower's performance per watt unchanged (within 5 %)",
            &per_watt,
        ),
        lowest(
            data.performance_per_watt[0],
            per_watt.iter().filter(of_machine),
        ),
    ];
    let changed = boosted.into_iter().chain(never_boosted).collect();
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
            Section::new(
                "how often the boost raised a CPU's minimum, in all runs",
                &["benchmark", "machine"],
                raised,
            ),
            Section::new("idle power with over without", &["machine"], idle),
            Section::new(
                "performance per watt with over without, geometric mean over the benchmarks of a machine",
                &["machine"],
                suites,
            ),
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

/// Published and simulated changes have one sign, and the simulated one is no matter of chance.
fn right_direction(published: f64, simulated: f64) -> bool {
    simulated.abs() >= SOME_CHANGE && published.signum() * simulated.signum() > 0.0
}

/// The simulated change is within half of the published one, or five points.
fn near_enough(published: f64, simulated: f64) -> bool {
    (simulated - published).abs() <= (published.abs() / 2.0).max(FIVE_POINTS)
}

/// The geometric mean over the benchmarks of each machine.
fn suites(machines: &[String], data: &Data, per_watt: &[Cell]) -> Vec<Cell> {
    let [from, to] = data.performance_per_watt;
    let mean = |machine: &String| {
        let of_machine = per_watt.iter().filter(|c| c.labels[1] == *machine);
        let logs: Vec<f64> = of_machine
            .filter_map(|c| Some(c.simulated.number()?.ln()))
            .collect();
        (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
    };
    let cell = |machine: &String| {
        let published = if *machine == data.per_watt_machine {
            Published::between(from, to)
        } else {
            Published::Nothing
        };
        let mean = Value::Number(mean(machine));
        Cell::new(vec![machine.clone()], published, mean, false)
    };
    machines.iter().map(cell).collect()
}

/// The mean of which something was published is as published.
fn suite(cells: &[Cell]) -> Criterion {
    let judged = cells.iter().filter(|c| c.agrees.is_some());
    let values: Vec<String> = judged
        .clone()
        .filter_map(|c| Some(format!("{:.3} times ({})", c.simulated.number()?, c.name())))
        .collect();
    Criterion::new(
        "performance per watt down by up to 10 %, over all benchmarks of the server",
        values.join(", "),
        !values.is_empty() && judged.clone().all(|c| c.agrees == Some(true)),
    )
}

/// Whether no benchmark loses more than was published, which may have been meant as well.
fn lowest<'a>(bound: f64, cells: impl Iterator<Item = &'a Cell>) -> Criterion {
    let values = cells.filter_map(|c| Some((c, c.simulated.number()?)));
    let least = values.min_by(|a, b| a.1.total_cmp(&b.1));
    let found = least.map_or_else(String::new, |(cell, value)| {
        format!("{value:.3} times ({})", cell.name())
    });
    Criterion::new(
        "performance per watt down by up to 10 %, in each of them",
        found,
        least.is_some_and(|(_, value)| value >= bound),
    )
    .as_observation()
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
        let [changed, neutral, raised, idle, ..] = &outcome.reproduction.sections[..] else {
            panic!("{outcome:?}");
        };
        for cell in &changed.cells {
            let (Some(published), Some(simulated)) =
                (cell.published.number(), cell.simulated.number())
            else {
                continue;
            };
            // Without a mechanism in the model, and within noise: see docs/hwp-boost.md.
            let known = cell.labels[0].starts_with("hackbench");
            let mut counts = raised.cells.iter();
            let count = counts.find(|c| c.labels[..] == cell.labels[..2]).unwrap();
            assert_eq!(known, count.simulated.number() == Some(0.0), "{count:?}");
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
