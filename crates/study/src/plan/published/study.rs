//! What tables need from a plan: the cells and their names.

use std::collections::BTreeSet;

use super::tables::{CellNames, Expectation, Table};
use crate::file::{Names, Selection, StudyError, StudyText};
use crate::plan::cell::Cell;
use crate::plan::names::{find_name, select_name_or_group_members};
use crate::plan::planned::Plan;

/// Plans a study's published tables, and the expectations about them.
pub(in crate::plan) fn plan_tables_and_expectations(
    plan: &Plan,
    source: StudyText<'_>,
) -> Result<(Vec<Table>, Vec<Expectation>), StudyError> {
    let study = PublishedStudy::with_names_of_first_repeat(plan, source);
    let workloads: Vec<&str> = plan.workloads.iter().map(|w| w.name.as_str()).collect();
    for entry in &plan.file.fitted {
        find_name(source, "workload", &entry.workload, &workloads)?;
    }
    let mut tables = Vec::new();
    for entry in &plan.file.published {
        tables.push(study.plan_table(entry, &tables)?);
    }
    let expectations = plan
        .file
        .expect
        .iter()
        .map(|entry| study.plan_expectation(entry, &tables))
        .collect::<Result<_, _>>()?;
    Ok((tables, expectations))
}

/// Input for tables.
pub(super) struct PublishedStudy<'a> {
    pub(super) plan: &'a Plan,
    pub(super) source: StudyText<'a>,
    /// Whether tables have the drives' names, because the study compares drives.
    pub(super) by_drive: bool,
    /// Indices of machine, workload and policy for each run.
    pub(super) runs: BTreeSet<[usize; 3]>,
    /// Names that choose cells.
    pub(super) drives: BTreeSet<&'a str>,
    pub(super) workloads: BTreeSet<&'a str>,
    pub(super) machines: BTreeSet<&'a str>,
    pub(super) policies: BTreeSet<&'a str>,
}

impl<'a> PublishedStudy<'a> {
    fn with_names_of_first_repeat(plan: &'a Plan, source: StudyText<'a>) -> Self {
        let cells = plan.cells_of_first_repeat().iter();
        let machines = cells
            .clone()
            .map(|c| plan.machine_and_drive_names(c.machine));
        let (machines, drives) = machines.unzip();
        Self {
            plan,
            source,
            by_drive: plan.compares_drives(),
            runs: cells.clone().map(indices_of_cell).collect(),
            drives,
            workloads: cells
                .clone()
                .map(|c| &*plan.workloads[c.workload].name)
                .collect(),
            machines,
            policies: cells.map(|c| &*plan.policies[c.policy].name).collect(),
        }
    }

    /// Sort key of a cell in tables.
    pub(super) fn sort_key_in_tables(&self, cell: Cell) -> (usize, usize, usize) {
        if self.by_drive {
            (cell.machine, cell.workload, 0)
        } else {
            (0, cell.workload, cell.machine)
        }
    }

    /// The names of a cell, with `policy` for its policy or policy pair.
    pub(super) fn name_cell(&self, cell: Cell, policy: &str) -> CellNames {
        let (machine, drive) = self.plan.machine_and_drive_names(cell.machine);
        CellNames {
            drive: drive.to_owned(),
            workload: self.plan.workloads[cell.workload].name.clone(),
            machine: machine.to_owned(),
            policy: policy.to_owned(),
            first: self.plan.policies[cell.policy].name.clone(),
        }
    }

    /// Checks that every name in a selection is some cell's, or a policy pair's.
    pub(super) fn check_cell_names(
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
            for name in Names::spanned_names(names, self.source)? {
                select_name_or_group_members(self.source, what, &name, &known)?;
            }
        }
        Ok(())
    }
}

/// Indices of a cell's machine, workload and policy.
pub(super) fn indices_of_cell(cell: &Cell) -> [usize; 3] {
    [cell.machine, cell.workload, cell.policy]
}
