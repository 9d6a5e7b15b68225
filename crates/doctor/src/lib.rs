//! Findings about a machine's power settings: fault, evidence, cost, and the command for a fix.
//!
//! [`examine`] looks at a running or a captured machine. No cost is typed in. Each is the difference between two
//! simulations of this machine ([`model`]), with and without the fix. Or it is computed from the kernel's own
//! counters and the machine's figures. A [`Calibration`] replaces declared and assumed figures by measured ones.

mod calibration;
mod case;
mod counters;
mod drives;
mod finding;
mod frequency;
mod hybrid;
mod idle;
pub mod model;
mod newer;
mod path;

use wakepath_system::System;
use wakepath_system::capture::is_virtual;

use case::Case;
use model::Model;

pub use calibration::Calibration;
pub use finding::{DoctorReport, Finding};

/// Looks at a machine. `option` is what commands need besides, such as ` --root DIR`. Figures of a `calibration` stand in place
/// of those that firmware declares, or that are assumed.
///
/// # Errors
/// The machine's files give no valid machine to simulate.
pub fn examine(
    system: &System,
    option: &str,
    calibration: Option<&Calibration>,
) -> Result<DoctorReport, wakepath_hardware::machine::MachineError> {
    let (model, mut notes) = Model::read(system, calibration)?;
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
