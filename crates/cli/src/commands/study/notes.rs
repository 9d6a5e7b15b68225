//! Notes on a study's accepted input.

use wakepath_study::plan::Plan;

use crate::commands::arguments;
use crate::messages::{self, MessageKind, note};
use crate::policy_set;

/// Prints notes on accepted input of a study that readers should know of.
pub(super) fn note_accepted_input(plan: &Plan) {
    policy_set::show_compiler_warnings(plan.policies.iter().map(|p| &p.set));
    for workload in &plan.workloads {
        for warning in &workload.warnings {
            messages::hold_message(
                MessageKind::Remark,
                Some(&workload.name),
                format!("line {warning}"),
            );
        }
    }
    arguments::warn_of_shares_as_percentages(
        plan.questions.iter().flat_map(|question| &question.keep),
    );
    for note in plan.list_notes() {
        note!("{note}");
    }
    for model in plan.machines.iter().filter_map(|m| m.model.as_ref()) {
        // The plan has refused any policy set that does not fit the machine.
        let _ = policy_set::note_policy_assumptions(model, plan.policies.iter().map(|p| &p.set));
    }
}
