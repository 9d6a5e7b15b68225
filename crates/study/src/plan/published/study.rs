//! Input for tables: a plan's cells and their names.

use std::collections::BTreeSet;

use super::tables::{CellNames, Expectation, Table};
use crate::file::{Names, Selection, StudyError, StudyText};
use crate::plan::cell::Cell;
use crate::plan::names::{find_position, select_members};
use crate::plan::planned::Plan;

/// A study's tables and expectations.
pub(in crate::plan) fn all(
    plan: &Plan,
    source: StudyText<'_>,
) -> Result<(Vec<Table>, Vec<Expectation>), StudyError> {
    let study = Study::begin_reading(plan, source);
    let workloads: Vec<&str> = plan.workloads.iter().map(|w| w.name.as_str()).collect();
    for entry in &plan.file.fitted {
        find_position(source, "workload", &entry.workload, &workloads)?;
    }
    let mut tables = Vec::new();
    for entry in &plan.file.published {
        tables.push(study.table(entry, &tables)?);
    }
    let expectations = plan
        .file
        .expect
        .iter()
        .map(|entry| study.expectation(entry, &tables))
        .collect::<Result<_, _>>()?;
    Ok((tables, expectations))
}

/// Input for tables.
pub(super) struct Study<'a> {
    pub(super) plan: &'a Plan,
    pub(super) source: StudyText<'a>,
    /// Whether tables go by drives.
    pub(super) by_drive: bool,
    /// Machine, workload and policy for each run.
    pub(super) runs: BTreeSet<[usize; 3]>,
    /// Names used in cells.
    pub(super) drives: BTreeSet<&'a str>,
    pub(super) workloads: BTreeSet<&'a str>,
    pub(super) machines: BTreeSet<&'a str>,
    pub(super) policies: BTreeSet<&'a str>,
}

impl<'a> Study<'a> {
    fn begin_reading(plan: &'a Plan, source: StudyText<'a>) -> Self {
        let cells = plan.cells().iter();
        let machines = cells.clone().map(|c| plan.machine_and_drive(c.machine));
        let (machines, drives) = machines.unzip();
        Self {
            plan,
            source,
            by_drive: plan.compares_drives(),
            runs: cells.clone().map(cell_place).collect(),
            drives,
            workloads: cells
                .clone()
                .map(|c| &*plan.workloads[c.workload].name)
                .collect(),
            machines,
            policies: cells.map(|c| &*plan.policies[c.policy].name).collect(),
        }
    }

    /// Where a cell stands in tables.
    pub(super) fn order(&self, cell: Cell) -> (usize, usize, usize) {
        if self.by_drive {
            (cell.machine, cell.workload, 0)
        } else {
            (0, cell.workload, cell.machine)
        }
    }

    /// A cell's names, with `policy` for its policy or policy pair.
    pub(super) fn names(&self, cell: Cell, policy: &str) -> CellNames {
        let (machine, drive) = self.plan.machine_and_drive(cell.machine);
        CellNames {
            drive: drive.to_owned(),
            workload: self.plan.workloads[cell.workload].name.clone(),
            machine: machine.to_owned(),
            policy: policy.to_owned(),
            first: self.plan.policies[cell.policy].name.clone(),
        }
    }

    /// Checks that all names lead to cells, or to a policy pair.
    pub(super) fn check_names(
        &self,
        selection: &Selection,
        pairs: &[String],
    ) -> Result<(), StudyError> {
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
                select_members(self.source, what, &name, &known)?;
            }
        }
        Ok(())
    }
}

/// A cell's machine, workload and policy.
pub(super) fn cell_place(cell: &Cell) -> [usize; 3] {
    [cell.machine, cell.workload, cell.policy]
}
