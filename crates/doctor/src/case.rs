//! The machine under examination, and what a change would gain.

use std::error::Error;

use wakepath_policies::PolicySet;
use wakepath_study::file::StudyError;
use wakepath_system::System;

use crate::finding::Finding;
use crate::model::{Difference, Model};

/// Inputs of the examination.
pub(crate) struct Case<'a> {
    pub(crate) system: &'a System,
    pub(crate) model: Model,
    pub(crate) notes: Vec<String>,
    /// ` --root DIR`, or nothing, to complete commands.
    pub(crate) option: &'a str,
    /// The machine is virtual.
    pub(crate) is_guest: bool,
}

/// A set, with the machine's extra cost without the set.
pub(crate) struct Priced {
    pub(crate) set: PolicySet,
    pub(crate) difference: Difference,
}

impl Case<'_> {
    /// The command that applies a set.
    pub(crate) fn apply(&self, set: &PolicySet) -> String {
        let text = set.to_string();
        let quote = if text.contains(['[', ' ']) { "'" } else { "" };
        format!("wakepath apply {quote}{text}{quote}{}", self.option)
    }

    /// Gain from applying a set under a load. `what` describes the change in words.
    pub(crate) fn price(
        &mut self,
        name: &str,
        set: PolicySet,
        load: &str,
        what: &str,
    ) -> Option<Priced> {
        let (machine, policies) = self.model.applied(&set);
        let simulated = self.model.against(&machine, &policies, load, what);
        let difference = self.or_note(name, simulated)?;
        Some(Priced { set, difference })
    }

    /// Notes an error in place of costs.
    pub(crate) fn or_note<T>(&mut self, what: &str, result: Result<T, StudyError>) -> Option<T> {
        result
            .map_err(|e| {
                let reason = e
                    .source()
                    .map_or_else(|| e.to_string(), ToString::to_string);
                let note = format!("{what}: the cost cannot be simulated: {reason}");
                self.notes.push(note);
            })
            .ok()
    }
}

impl Finding {
    /// Fixed by applying a set.
    pub(crate) fn applies(mut self, case: &Case<'_>, set: PolicySet) -> Self {
        self.fix = Some(case.apply(&set));
        self.set = Some(set);
        self
    }

    /// Fixed by applying the set that was simulated.
    pub(crate) fn priced(self, case: &Case<'_>, priced: Priced) -> Self {
        self.costs(&priced.difference).applies(case, priced.set)
    }
}
