//! Notes on a study's accepted input.

use wakepath_study::plan::Plan;

use crate::commands::arguments;
use crate::messages::{self, MessageKind, note};
use crate::policy_set;

/// Adds notes on accepted input that readers should know.
pub(super) fn tell_notes(plan: &Plan) {
    policy_set::tell_warnings(plan.policies.iter().map(|p| &p.set));
    for workload in &plan.workloads {
        for warning in &workload.warnings {
            messages::add_message(
                MessageKind::Remark,
                Some(&workload.name),
                format!("line {warning}"),
            );
        }
    }
    arguments::tell_shares(plan.questions.iter().flat_map(|question| &question.keep));
    for note in plan.notes() {
        note!("{note}");
    }
    for model in plan.machines.iter().filter_map(|m| m.model.as_ref()) {
        // A set that does not fit the machine is refused by the plan.
        let _ = policy_set::tell_notes(model, plan.policies.iter().map(|p| &p.set));
    }
}
