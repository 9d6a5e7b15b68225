//! Notes on a study's accepted input.

use wakepath_study::plan::Plan;

use crate::commands::{arguments, here};
use crate::messages::note;
use crate::policy_set;

/// Prints notes on accepted input of a study that readers should know of.
pub(super) fn hold_notes_on_study_input(plan: &Plan) {
    here::hold_notes_on_planned_machines(plan);
    policy_set::hold_compiler_warnings(plan.policies.iter().map(|p| &p.set));
    for workload in &plan.workloads {
        for warning in &workload.warnings {
            let text = format!("line {warning}");
            arguments::hold_workload_warning(Some(&workload.name), warning, text);
        }
    }
    arguments::note_percent_limits_like_shares(
        plan.questions.iter().flat_map(|question| &question.keep),
    );
    for note in plan.list_notes() {
        note!("{note}");
    }
    for model in plan.machines.iter().filter_map(|m| m.model.as_ref()) {
        // The plan has refused any policy set that does not fit the machine.
        let _ = policy_set::note_each_policy_assumption_once(
            model,
            plan.policies.iter().map(|p| &p.set),
        );
    }
}
