//! Findings about a machine's power settings: fault, evidence, cost, and the command for a fix.
//!
//! [`examine`] looks at a running or a captured machine. No cost is typed in. Each is the difference between two
//! simulations of this machine ([`model`]), with and without the fix. Or it is computed from the kernel's own
//! counters and the machine's figures.

mod counters;
mod drives;
mod frequency;
mod hybrid;
mod idle;
pub mod model;
mod newer;
mod path;

use std::error::Error;

use serde::Serialize;
use wakepath_policies::PolicySet;
use wakepath_study::file::StudyError;
use wakepath_system::System;
use wakepath_system::capture::is_virtual;

use model::{Difference, Model};

/// What is wrong, or worth to know.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Short name that stays the same, such as `apst-off`.
    pub name: &'static str,
    /// The finding, in a sentence.
    pub title: String,
    /// Evidence: values read from the machine.
    pub evidence: Vec<String>,
    /// Cost per I/O in microseconds; negative if the fix slows I/Os. `None` without a simulation.
    pub costs_us_per_io: Option<f64>,
    /// Power cost in milliwatts; negative if the fix draws more.
    pub costs_mw: Option<f64>,
    /// How the costs were computed.
    pub computed: Option<String>,
    /// The command for a fix, or other advice.
    pub fix: Option<String>,
    /// Policy set applied by the command; simulated costs belong to this set.
    pub set: Option<PolicySet>,
    /// Weight from 0: the larger share of latency or power cost.
    pub weight: f64,
    /// Worth to know only: it costs nothing, or nothing can be done about it.
    pub note: bool,
}

/// All findings, the worst first.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    /// The processor and kernel.
    pub machine: String,
    /// The findings.
    pub findings: Vec<Finding>,
    /// What could not be looked at, and why.
    pub notes: Vec<String>,
}

impl Finding {
    fn new(name: &'static str, title: impl Into<String>) -> Self {
        Self {
            name,
            title: title.into(),
            evidence: Vec::new(),
            costs_us_per_io: None,
            costs_mw: None,
            computed: None,
            fix: None,
            set: None,
            weight: 0.0,
            note: false,
        }
    }

    /// Nothing is to be done about it.
    fn noted(mut self) -> Self {
        self.note = true;
        self
    }

    /// Whether it is known to cost nothing, or has no fix.
    fn is_note(&self) -> bool {
        let known = self.costs_us_per_io.is_some() || self.costs_mw.is_some();
        self.note || self.fix.is_none() || (known && self.weight <= 0.0)
    }

    /// Removes simulated costs on a virtual machine, whose host decides the underlying figures.
    fn without_costs(&mut self) {
        if self.costs_us_per_io.is_none() && self.costs_mw.is_none() {
            return;
        }
        // What no set changes is a note.
        self.note |= self.set.is_none();
        (self.costs_us_per_io, self.costs_mw, self.weight) = (None, None, 0.0);
        self.computed = Some(
            "not known in a virtual machine until measured: a halt goes to the host".to_owned(),
        );
    }

    fn evidence(mut self, line: impl Into<String>) -> Self {
        self.evidence.push(line.into());
        self
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// Fixed by applying a set.
    fn applies(mut self, case: &Case<'_>, set: PolicySet) -> Self {
        self.fix = Some(case.apply(&set));
        self.set = Some(set);
        self
    }

    /// Fixed by applying the set that was simulated.
    fn priced(self, case: &Case<'_>, priced: Priced) -> Self {
        self.costs(&priced.difference).applies(case, priced.set)
    }

    /// The costs are the difference between two simulations.
    fn costs(mut self, difference: &Difference) -> Self {
        self.costs_us_per_io = Some(difference.us_per_io);
        self.costs_mw = difference.mw;
        self.computed = Some(difference.how.clone());
        self.weight = difference.weight;
        self
    }
}

/// Inputs of the examination.
struct Case<'a> {
    system: &'a System,
    model: Model,
    notes: Vec<String>,
    /// ` --root DIR`, or nothing, to complete commands.
    option: &'a str,
    /// The machine is virtual.
    is_guest: bool,
}

/// A set, with the machine's extra cost without the set.
struct Priced {
    set: PolicySet,
    difference: Difference,
}

impl Case<'_> {
    /// The command that applies a set.
    fn apply(&self, set: &PolicySet) -> String {
        let text = set.to_string();
        let quote = if text.contains(['[', ' ']) { "'" } else { "" };
        format!("wakepath apply {quote}{text}{quote}{}", self.option)
    }

    /// Gain from applying a set under a load. `what` describes the change in words.
    fn price(&mut self, name: &str, set: PolicySet, load: &str, what: &str) -> Option<Priced> {
        let (machine, policies) = self.model.applied(&set);
        let simulated = self.model.against(&machine, &policies, load, what);
        let difference = self.or_note(name, simulated)?;
        Some(Priced { set, difference })
    }

    /// Notes an error in place of costs.
    fn or_note<T>(&mut self, what: &str, result: Result<T, StudyError>) -> Option<T> {
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

/// Looks at a machine. `option` is what commands need besides, such as ` --root DIR`.
///
/// # Errors
/// The machine's files give no valid machine to simulate.
pub fn examine(
    system: &System,
    option: &str,
) -> Result<DoctorReport, wakepath_hardware::machine::MachineError> {
    let (model, mut notes) = Model::read(system)?;
    notes.extend(wakepath_sim::policy_notes(&model.machine, &model.now).unwrap_or_default());
    let mut case = Case {
        system,
        model,
        notes,
        option,
        is_guest: is_virtual(system.root()),
    };
    let mut findings = Vec::new();
    findings.extend(idle::limits(&mut case));
    findings.extend(idle::refused(&case));
    findings.extend(idle::depth(&mut case));
    findings.extend(idle::mispredictions(&mut case));
    findings.extend(idle::unreached(&case));
    findings.extend(newer::c1_demotion(&case));
    findings.extend(newer::declared_latency(&mut case));
    findings.extend(newer::kept_free(&case));
    findings.extend(path::polling(&mut case));
    findings.extend(path::completions(&mut case));
    findings.extend(frequency::boost(&mut case));
    findings.extend(hybrid::all(&mut case));
    findings.extend(drives::all(&mut case));
    for finding in &mut findings {
        if case.model.of_host {
            finding.without_costs();
        }
        if case.is_guest {
            finding.costs_mw = None;
        }
        finding.note = finding.is_note();
    }
    // Stable: of equal weight, the order above.
    findings.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    Ok(DoctorReport {
        machine: case.model.machine.title.clone(),
        findings,
        notes: case.notes,
    })
}

#[cfg(test)]
mod tests;
