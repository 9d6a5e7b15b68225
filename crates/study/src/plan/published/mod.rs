//! The tables of an experiment, cell by cell, and what is expected of them.

mod decision;
mod expectation;
mod table;
mod value;

use std::collections::BTreeSet;

use toml::Spanned;
use wakepath_results::Condition;

use super::{Cell, Plan, members, position};
use crate::file::{Across, Aggregate, ExpectEntry, Names, Selection, Show, StudyError, StudyText};

pub use value::{Published, decimal};

/// A table of published values.
#[derive(Clone, Debug)]
pub struct Table {
    /// What expectations call it.
    pub name: String,
    /// Its heading, if it is shown.
    pub title: Option<String>,
    /// Its line in the file.
    pub line: usize,
    /// The headings of the labels.
    pub columns: Vec<String>,
    /// Which of them has a column for each of its labels.
    pub wide: Option<usize>,
    /// Its cells.
    pub cells: Vec<Wanted>,
    /// How their values are made.
    pub how: How,
}

/// How a value is made of runs.
#[derive(Clone, Debug)]
pub struct How {
    /// What of a run; the name of a decision if there is no run.
    pub metric: Quantity,
    /// What it is divided by.
    pub per: Option<Quantity>,
    /// What brings it to its unit, by division.
    pub divisor: f64,
    /// How several runs become one.
    pub runs: Aggregate,
    /// What is shown of a pair.
    pub show: Show,
    /// How several workloads become one.
    pub across: Option<Across>,
    /// Metrics that are shown of both cells of a pair.
    pub beside: Vec<Quantity>,
}

/// A metric, or what is made of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Of the dictionary, or the study's own.
    Metric(String),
    /// `rate`: operations per second, or requests where there are none.
    Rate,
    /// `time`: what one of these takes.
    Time,
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What it belongs to, one per column. The workload of an extreme is empty: the runs say which it is.
    pub labels: Vec<String>,
    /// Which runs it is made of; several where workloads become one.
    pub pairs: Vec<Pair>,
    /// What a policy decides, if that is what is shown.
    pub decided: Option<String>,
    /// What was published.
    pub published: Published,
    /// Whether a figure of a model was chosen with it in view.
    pub fitted: bool,
    names: CellNames,
}

/// A cell of the study, and the one that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The cell.
    pub at: Cell,
    /// The other one.
    pub base: Option<Cell>,
}

/// By which names a cell of a table can be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct CellNames {
    drive: String,
    workload: String,
    machine: String,
    /// The policy, or the pair of policies.
    policy: String,
    /// Of a pair: the policy.
    first: String,
}

/// Something that has to hold of tables.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// As the file has it.
    pub entry: ExpectEntry,
    /// Of which cells: table and cell.
    pub cells: Vec<[usize; 2]>,
    /// The cells that these are held against.
    pub against: Vec<[usize; 2]>,
    /// Only of cells that keep it.
    pub condition: Option<(Quantity, Condition)>,
    /// Only of cells that are compared with one that keeps it.
    pub base_condition: Option<(Quantity, Condition)>,
}

/// The tables and the expectations of a study.
pub(super) fn all(
    plan: &Plan,
    source: StudyText<'_>,
) -> Result<(Vec<Table>, Vec<Expectation>), StudyError> {
    let study = Study::new(plan, source);
    let workloads: Vec<&str> = plan.workloads.iter().map(|w| w.name.as_str()).collect();
    for entry in &plan.file.fitted {
        position(source, "workload", &entry.workload, &workloads)?;
    }
    let mut tables = Vec::new();
    for entry in &plan.file.published {
        tables.push(study.table(entry, &tables)?);
    }
    let expectations = plan.file.expect.iter();
    let expectations = expectations.map(|entry| study.expectation(entry, &tables));
    let expectations = expectations.collect::<Result<_, _>>()?;
    Ok((tables, expectations))
}

/// What tables are made of.
struct Study<'a> {
    plan: &'a Plan,
    source: StudyText<'a>,
    /// Whether tables go by drives.
    by_drive: bool,
    /// What is run: machine, workload, policy.
    runs: BTreeSet<[usize; 3]>,
    /// The names of all cells.
    drives: BTreeSet<&'a str>,
    workloads: BTreeSet<&'a str>,
    machines: BTreeSet<&'a str>,
    policies: BTreeSet<&'a str>,
}

impl<'a> Study<'a> {
    fn new(plan: &'a Plan, source: StudyText<'a>) -> Self {
        let cells = || plan.cells().iter();
        let machines = cells().map(|c| plan.machine_and_drive(c.machine));
        let (machines, drives) = machines.unzip();
        Self {
            plan,
            source,
            by_drive: plan.compares_drives(),
            runs: cells().map(place).collect(),
            drives,
            workloads: cells().map(|c| &*plan.workloads[c.workload].name).collect(),
            machines,
            policies: cells().map(|c| &*plan.policies[c.policy].name).collect(),
        }
    }

    /// Where a cell stands in tables.
    fn order(&self, cell: Cell) -> (usize, usize, usize) {
        if self.by_drive {
            (cell.machine, cell.workload, 0)
        } else {
            (0, cell.workload, cell.machine)
        }
    }

    /// The names of a cell, with what its policy, or the pair of policies, is called.
    fn names(&self, cell: Cell, policy: &str) -> CellNames {
        let (machine, drive) = self.plan.machine_and_drive(cell.machine);
        CellNames {
            drive: drive.to_owned(),
            workload: self.plan.workloads[cell.workload].name.clone(),
            machine: machine.to_owned(),
            policy: policy.to_owned(),
            first: self.plan.policies[cell.policy].name.clone(),
        }
    }

    /// Whether all names lead to cells of the study, or to one of these pairs of policies.
    fn check_names(&self, selection: &Selection, pairs: &[String]) -> Result<(), StudyError> {
        let pairs = pairs.iter().map(String::as_str);
        let policies: BTreeSet<&str> = self.policies.iter().copied().chain(pairs).collect();
        for (what, names, known) in [
            ("drive", &selection.drive, &self.drives),
            ("workload", &selection.workload, &self.workloads),
            ("machine", &selection.machine, &self.machines),
            ("policy", &selection.policy, &policies),
        ] {
            let Some(names) = names else { continue };
            let known: Vec<&str> = known.iter().copied().collect();
            for name in Names::all(names, self.source)? {
                members(self.source, what, &name, &known)?;
            }
        }
        Ok(())
    }
}

/// Machine, workload and policy of a cell.
fn place(cell: &Cell) -> [usize; 3] {
    [cell.machine, cell.workload, cell.policy]
}

impl CellNames {
    /// Whether a selection has the cell.
    fn are_in(&self, selection: &Selection) -> bool {
        let has = |names: &Option<Spanned<Names>>, name: &String| {
            names.as_ref().is_none_or(|n| n.get_ref().has(name))
        };
        has(&selection.drive, &self.drive)
            && has(&selection.workload, &self.workload)
            && has(&selection.machine, &self.machine)
            && (has(&selection.policy, &self.policy) || has(&selection.policy, &self.first))
    }
}
