//! The machine under examination, and what a change would gain.

use std::error::Error;

use wakepath_policies::PolicySet;
use wakepath_study::file::StudyError;
use wakepath_system::System;

use crate::finding::Finding;
use crate::model::{Difference, Model, QUIET, READS};

/// What the examination of a machine needs.
pub(crate) struct Case<'a> {
    pub(crate) system: &'a System,
    pub(crate) model: Model,
    pub(crate) notes: Vec<String>,
    /// ` --root DIR` to complete commands in messages, or nothing.
    pub(crate) option: &'a str,
    /// Whether the machine is virtual.
    pub(crate) is_guest: bool,
}

/// A policy set, with what the machine costs more without the set.
pub(crate) struct Priced {
    pub(crate) set: PolicySet,
    pub(crate) difference: Difference,
}

impl Case<'_> {
    /// The command line that applies a policy set.
    pub(crate) fn command_line_to_apply(&self, set: &PolicySet) -> String {
        let text = set.to_string();
        let quote = if text.contains(['[', ' ']) { "'" } else { "" };
        format!("wakepath apply {quote}{text}{quote}{}", self.option)
    }

    /// Simulates what applying a policy set gains under a load. `change` is the change in words.
    pub(crate) fn price_policy_set(
        &mut self,
        name: &str,
        set: PolicySet,
        load: &str,
        change: &str,
    ) -> Option<Priced> {
        let (machine, policies) = self.model.machine_and_policies_after_applying(&set);
        let simulated = self
            .model
            .simulate_cost_compared_to(&machine, &policies, load, change);
        let difference = self.result_or_note_without_cost(name, simulated)?;
        Some(Priced { set, difference })
    }

    /// Simulates what applying a policy set gains: the latency of reads, and the power of a machine that mostly rests.
    pub(crate) fn price_policy_set_at_work_and_rest(
        &mut self,
        name: &str,
        set: PolicySet,
        change: &str,
    ) -> Option<Priced> {
        let work = self.price_policy_set(name, set.clone(), READS, change)?;
        let rest = self.price_policy_set(name, set, QUIET, change)?;
        let difference = Difference {
            mw: rest.difference.mw,
            how: format!("{}; power: {QUIET}", work.difference.how),
            ..work.difference
        };
        Some(Priced { difference, ..work })
    }

    /// Turns an error of a simulation into a note, in place of costs.
    pub(crate) fn result_or_note_without_cost<T>(
        &mut self,
        subject: &str,
        result: Result<T, StudyError>,
    ) -> Option<T> {
        result
            .map_err(|e| {
                let reason = e
                    .source()
                    .map_or_else(|| e.to_string(), ToString::to_string);
                let note = format!("{subject}: the cost cannot be simulated: {reason}");
                self.notes.push(note);
            })
            .ok()
    }
}

impl Finding {
    /// The finding with a fix: applying a policy set.
    pub(crate) fn fixed_by_set(mut self, case: &Case<'_>, set: PolicySet) -> Self {
        self.fix = Some(case.command_line_to_apply(&set));
        self.set = Some(set);
        self
    }

    /// The finding with its costs, and with a fix: applying the policy set that was simulated.
    pub(crate) fn fixed_by_priced_set(self, case: &Case<'_>, priced: Priced) -> Self {
        self.with_costs(&priced.difference)
            .fixed_by_set(case, priced.set)
    }
}
