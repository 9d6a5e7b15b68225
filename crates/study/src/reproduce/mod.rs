//! Published experiments, simulated.
//!
//! The published numbers are data in `data/`; whatever stands beside them comes out of the
//! simulator. [`reproduce`] runs any of the [`PARTS`], all of their runs spread over the threads
//! of the current rayon pool, and the result is the same for any number of threads.
//!
//! # Adding a part
//!
//! 1. `data/published-x.toml` has what was published: title, source, machine, values, and which of
//!    them a model was fitted to.
//! 2. `part_x.rs` has one function, `plan() -> Result<Plan, ReproduceError>`. It reads the data and
//!    lists the [`Experiment`]s to be simulated: a machine, a workload and the sets of
//!    policies that are compared. It runs nothing. The plan's second half is a closure that
//!    gets one [`Comparison`] per experiment, in the order of the list, and makes the
//!    [`Reproduction`] of them: sections of [`Cell`]s, and [`Criterion`]s computed from the cells.
//! 3. A line in [`PARTS`]. Progress, `--jobs`, Ctrl-C, every output format, the summary and
//!    `docs/validation.md` (`make validation` writes it anew) need nothing more.
//!
//! ```text
//! pub(super) fn plan() -> Result<Plan, ReproduceError> {
//!     let data: Data = toml::from_str(PUBLISHED)?;
//!     let machine = Machine::find(&data.machine)?;
//!     let experiments = vec![Experiment { machine: machine.clone(), workload, policies }];
//!     Ok(Plan::new(experiments, move |comparisons| {
//!         let cells = cells(&data, &comparisons);
//!         Ok(Reproduction {
//!             criteria: vec![Criterion::within("every cell within 10 %", 0.1, &cells)],
//!             fitted_figures: FittedFigure::of(None, machine.figures()),
//!             sections: vec![Section::new(&data.metric, &["idle"], cells)],
//!             title: data.title,
//!             source: data.source,
//!             machine: machine.title,
//!         })
//!     }))
//! }
//! ```

mod cell;
mod criterion;
mod part_a;
mod part_b;
mod part_c;
mod part_d;
mod part_e;

pub use cell::{Cell, Published, Value};
pub use criterion::{Criterion, percent};

use serde::Serialize;
use wakepath_hardware::machine::{Figure, MachineError};
use wakepath_policies::apst::NoTable;
use wakepath_policies::spec::SpecError;
use wakepath_sim::{Comparison, Experiment, SimError, Waiting, compare_all, median};
use wakepath_workloads::fio::FioError;
use wakepath_workloads::rtapp::RtAppError;

/// The published experiments that can be simulated, by name.
pub const PARTS: &[Part] = &[
    Part {
        name: "A",
        about: "polling limits, and tbench with a limit of 2 us and of 20 us",
        plan: part_a::plan,
    },
    Part {
        name: "B",
        about: "iowait heuristics of menu and schedutil against teo, on RK3399",
        plan: part_b::plan,
    },
    Part {
        name: "C",
        about: "HWP dynamic boost on a client and on a server Skylake",
        plan: part_c::plan,
    },
    Part {
        name: "D",
        about: "APST by the legacy and the current rule on five drives",
        plan: part_d::plan,
    },
    Part {
        name: "E",
        about: "power-sleep demotion prevention with six drives in RAID0",
        plan: part_e::plan,
    },
];

/// A published experiment that can be simulated.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its letter.
    pub name: &'static str,
    /// What it is about, in a line.
    pub about: &'static str,
    plan: fn() -> Result<Plan, ReproduceError>,
}

impl Part {
    /// The part of this name, in upper or lower case.
    pub fn find(name: &str) -> Option<Self> {
        let named = |part: &&Self| part.name.eq_ignore_ascii_case(name);
        PARTS.iter().find(named).copied()
    }
}

/// Makes a reproduction of the results of the experiments.
type Finish = Box<dyn FnOnce(Vec<Comparison>) -> Result<Reproduction, ReproduceError> + Send>;

/// What has to be simulated for a part, and what becomes of the results.
struct Plan {
    experiments: Vec<Experiment>,
    finish: Finish,
}

impl Plan {
    /// `finish` gets one comparison per experiment, in order, each with all of its policy sets.
    fn new(
        experiments: Vec<Experiment>,
        finish: impl FnOnce(Vec<Comparison>) -> Result<Reproduction, ReproduceError> + Send + 'static,
    ) -> Self {
        Self {
            experiments,
            finish: Box::new(finish),
        }
    }
}

/// Parts that are about to be simulated.
pub struct Plans(Vec<(Part, Plan)>);

impl Plans {
    /// Reads the data of these parts and lists what there is to simulate.
    ///
    /// # Errors
    /// Only if the built-in data were broken.
    pub fn of(parts: &[Part]) -> Result<Self, ReproduceError> {
        let plans: Result<_, ReproduceError> =
            parts.iter().map(|p| Ok((*p, (p.plan)()?))).collect();
        Ok(Self(plans?))
    }

    /// Number of simulations per seed.
    pub fn runs(&self) -> usize {
        let experiments = self.0.iter().flat_map(|(_, plan)| &plan.experiments);
        experiments.map(|e| e.policies.len()).sum()
    }

    /// Simulates them with every seed. When `waiting` calls it off, the result has the parts all of
    /// whose cells had at least one run by then.
    ///
    /// # Errors
    /// Only if the built-in data were broken.
    pub fn simulate(
        self,
        waiting: &Waiting<'_>,
        seeds: &[u64],
    ) -> Result<Vec<Outcome>, ReproduceError> {
        let (experiments, finish): (Vec<_>, Vec<_>) = self
            .0
            .into_iter()
            .map(|(part, plan)| {
                let wanted: Vec<usize> = policy_sets(&plan.experiments).collect();
                (plan.experiments, (part, wanted, plan.finish))
            })
            .unzip();
        let experiments: Vec<Experiment> = experiments.into_iter().flatten().collect();
        let mut all = compare_all(waiting, &experiments, seeds)?.into_iter();
        let mut outcomes = Vec::new();
        for (part, wanted, finish) in finish {
            let comparisons: Vec<Comparison> = all.by_ref().take(wanted.len()).collect();
            if comparisons.iter().map(|c| c.results.len()).eq(wanted) {
                let results = comparisons.iter().flat_map(|c| &c.results);
                let runs = results.map(|r| r.runs.len()).min();
                let reproduction = finish(comparisons)?;
                outcomes.push(Outcome {
                    part: part.name,
                    runs: runs.unwrap_or(seeds.len()),
                    summary: Summary::of(&reproduction),
                    reproduction,
                });
            }
        }
        Ok(outcomes)
    }
}

/// How many policy sets each experiment has.
fn policy_sets(experiments: &[Experiment]) -> impl Iterator<Item = usize> {
    experiments.iter().map(|e| e.policies.len())
}

/// Simulates these parts with every seed.
///
/// # Errors
/// Only if the built-in data were broken.
pub fn reproduce(parts: &[Part], seeds: &[u64]) -> Result<Vec<Outcome>, ReproduceError> {
    let waiting = Waiting {
        finished: &|_| (),
        cancelled: &false.into(),
    };
    Plans::of(parts)?.simulate(&waiting, seeds)
}

/// Why an experiment could not be reproduced.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
#[expect(missing_docs, reason = "each variant is the error it wraps")]
pub enum ReproduceError {
    Published(#[from] toml::de::Error),
    Machine(#[from] MachineError),
    Workload(#[from] FioError),
    RtApp(#[from] RtAppError),
    Policy(#[from] SpecError),
    Simulation(#[from] SimError),
    Table(#[from] NoTable),
    IdleStates(#[from] wakepath_hardware::idle::IdleStatesError),
}

/// A part that was simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Its letter.
    pub part: &'static str,
    /// Runs per cell; fewer than asked for when the user had no more time.
    pub runs: usize,
    /// In short.
    pub summary: Summary,
    /// What came out.
    #[serde(flatten)]
    pub reproduction: Reproduction,
}

/// A part in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
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

impl Summary {
    fn of(reproduction: &Reproduction) -> Self {
        let cells = || reproduction.sections.iter().flat_map(|s| &s.cells);
        let compared = || cells().filter(|c| c.relative_error.is_some() || c.agrees.is_some());
        let criteria = || reproduction.criteria.iter().filter(|c| !c.observation);
        let errors: Vec<f64> = cells()
            .filter(|c| !c.fitted)
            .filter_map(|c| Some(c.relative_error?.abs()))
            .collect();
        Self {
            compared: compared().count(),
            fitted: compared().filter(|c| c.fitted).count(),
            worst_error: errors.iter().copied().reduce(f64::max),
            median_error: (!errors.is_empty()).then(|| median(errors)),
            criteria: criteria().count(),
            met: criteria().filter(|c| c.met).count(),
        }
    }
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
    /// The results, by what was measured.
    pub sections: Vec<Section>,
    /// What is expected of the cells, and whether it holds.
    pub criteria: Vec<Criterion>,
    /// Figures of the models that were fitted, and with what in view.
    pub fitted_figures: Vec<FittedFigure>,
}

/// Results of one kind.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// What the values are, with unit.
    pub metric: String,
    /// What the labels of a row are.
    pub columns: Vec<&'static str>,
    /// One row per value.
    pub cells: Vec<Cell>,
}

impl Section {
    fn new(metric: &str, columns: &[&'static str], cells: Vec<Cell>) -> Self {
        Self {
            metric: metric.to_owned(),
            columns: columns.to_vec(),
            cells,
        }
    }
}

/// A fitted figure of a model.
#[derive(Clone, Debug, Serialize)]
pub struct FittedFigure {
    /// The model, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Key in the model's file.
    pub key: String,
    /// Its value.
    pub value: f64,
    /// What it was fitted to.
    pub fitted: String,
}

impl FittedFigure {
    /// The fitted ones of a model's figures.
    fn of(model: Option<&str>, figures: Vec<(String, &Figure)>) -> Vec<Self> {
        figures
            .into_iter()
            .filter_map(|(key, figure)| {
                Some(Self {
                    model: model.map(str::to_owned),
                    key,
                    value: figure.value,
                    fitted: figure.fitted_to()?.to_owned(),
                })
            })
            .collect()
    }
}
