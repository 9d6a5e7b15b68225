//! Decisions that policies make without a run: drives' sleep tables, polling limits.

use wakepath_hardware::{IdleState, IdleStates};
use wakepath_policies::{apst, poll};
use wakepath_units::{Nanoseconds, TickRate};

use super::study::PublishedStudy;
use super::tables::{CellNames, PublishedCell};
use crate::file::{PublishedEntry, StudyError};

impl PublishedStudy<'_> {
    /// Cells of a table with the sleep states that each drive uses under each rule: `PS3 745 ms, PS4 2200 ms`.
    pub(super) fn cells_of_apst_decisions(
        &self,
        entry: &PublishedEntry,
    ) -> Result<Vec<PublishedCell>, StudyError> {
        let mut tables: Vec<PublishedCell> = Vec::new();
        let mut cells = self.plan.cells_of_first_repeat().to_vec();
        cells.sort_by_key(|cell| (self.sort_key_in_tables(*cell), cell.policy));
        for cell in cells {
            let policy = &self.plan.policies[cell.policy];
            let mut names = self.name_cell(cell, &policy.name);
            names.workload.clear();
            if !names.are_selected_by(&entry.cells) || tables.iter().any(|t| t.names == names) {
                continue;
            }
            let power = self.plan.machines[cell.machine]
                .model
                .as_ref()
                .and_then(|model| model.drive.power.as_ref());
            let (Some(settings), Some(power)) = (policy.set.apst(), power) else {
                let message = format!(
                    "`{}` has no APST rule, or `{}` no power states",
                    policy.name, names.drive
                );
                return Err(self.source.error_at_value(&entry.name, message));
            };
            let declared = &power.declared;
            let plan = apst::plan_apst_table(declared.npss, true, &declared.states, &settings)
                .map_err(|e| self.source.error_at_value(&entry.name, e.to_string()))?;
            let targets: Vec<String> = plan
                .chosen_states_with_timeouts_ms()
                .map(|(state, ms)| format!("PS{state} {ms} ms"))
                .collect();
            let mut table = PublishedCell::new(Vec::new(), names);
            table.decided = Some(targets.join(", "));
            tables.push(table);
        }
        Ok(tables)
    }

    /// Cells of a table with the time that a CPU polls, given its idle states, by the current rule.
    pub(super) fn column_and_cells_of_polling_limits(
        &self,
        entry: &PublishedEntry,
    ) -> Result<(Vec<String>, Vec<PublishedCell>), StudyError> {
        let mut limits = Vec::new();
        for row in &entry.row {
            let Some(residencies) = &row.get_ref().residencies_us else {
                let message = "a polling limit needs `residencies_us`, such as [2, 20, 100]";
                return Err(self.source.error_at_value(row, message));
            };
            let sleeping = residencies.get_ref().iter();
            let all = std::iter::once(idle_state_with_residency(0, true))
                .chain(sleeping.map(|us| idle_state_with_residency(*us, false)));
            let states = IdleStates::new(all.collect())
                .map_err(|e| self.source.error_at_value(residencies, e.to_string()))?;
            let label: Vec<String> = residencies.get_ref().iter().map(u64::to_string).collect();
            let names = CellNames {
                policy: label.join("/"),
                ..CellNames::default()
            };
            let mut limit = PublishedCell::new(Vec::new(), names);
            limit.labels = vec![label.join("/")];
            limit.decided = Some(
                poll::polling_limit(&states, TickRate::HZ_250, None)
                    .as_micros()
                    .to_string(),
            );
            limits.push(limit);
        }
        Ok((vec!["target residencies in us".to_owned()], limits))
    }
}

/// An idle state whose exit latency and target residency are both `us`.
fn idle_state_with_residency(us: u64, polling: bool) -> IdleState {
    IdleState {
        name: format!("{us}"),
        exit_latency: Nanoseconds::from_micros(us),
        target_residency: Nanoseconds::from_micros(us),
        polling,
        disabled: false,
    }
}
