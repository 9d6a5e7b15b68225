//! Findings, and the report that lists them.

use serde::Serialize;
use wakepath_policies::PolicySet;

use crate::model::Difference;

/// Something that is wrong with a machine's power settings, or worth to know.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Short name that stays the same, such as `apst-off`.
    pub name: &'static str,
    /// The finding in a sentence.
    pub title: String,
    /// Values read from the machine that show the finding.
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
    /// Weight of the finding, from 0: the larger share of latency or power cost.
    pub weight: f64,
    /// Whether the finding is only worth to know: it costs nothing, or nothing can be done about it.
    pub note: bool,
}

/// All findings, the worst first.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    /// The machine's processor and kernel.
    pub machine: String,
    /// The findings.
    pub findings: Vec<Finding>,
    /// What could not be examined, and why.
    pub notes: Vec<String>,
}

impl Finding {
    pub(crate) fn new(name: &'static str, title: impl Into<String>) -> Self {
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

    /// The finding as a note, about which nothing is to be done.
    pub(crate) fn marked_as_note(mut self) -> Self {
        self.note = true;
        self
    }

    /// Whether the finding is a note: it is known to cost nothing, or has no fix.
    pub(crate) fn is_note(&self) -> bool {
        let known = self.costs_us_per_io.is_some() || self.costs_mw.is_some();
        self.note || self.fix.is_none() || (known && self.weight <= 0.0)
    }

    /// Removes simulated costs on a virtual machine, whose host decides the underlying figures.
    pub(crate) fn replace_costs_by_unknown_in_guest(&mut self) {
        if self.costs_us_per_io.is_none() && self.costs_mw.is_none() {
            return;
        }
        // A finding that no policy set changes becomes a note.
        self.note |= self.set.is_none();
        (self.costs_us_per_io, self.costs_mw, self.weight) = (None, None, 0.0);
        self.computed = Some(
            "not known in a virtual machine until measured: a halt goes to the host".to_owned(),
        );
    }

    pub(crate) fn with_evidence(mut self, line: impl Into<String>) -> Self {
        self.evidence.push(line.into());
        self
    }

    pub(crate) fn with_fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }

    /// The finding with the difference between two simulations as its costs.
    pub(crate) fn with_costs(mut self, difference: &Difference) -> Self {
        self.costs_us_per_io = Some(difference.us_per_io);
        self.costs_mw = difference.mw;
        self.computed = Some(difference.how.clone());
        self.weight = difference.weight;
        self
    }
}
