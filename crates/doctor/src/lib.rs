//! Findings about a machine's power settings: fault, evidence, cost, and the command for a fix.
//!
//! [`examine_machine`] looks at a running or a captured machine. No cost is typed in. Each is the difference between two
//! simulations of this machine ([`model`]), with and without the fix. Or it is computed from the kernel's own
//! counters and the machine's figures. A [`EarlierCalibration`] replaces declared and assumed figures by measured ones.

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
use wakepath_system::capture::runs_under_hypervisor;

use case::Case;
use model::Model;

pub use calibration::EarlierCalibration;
pub use finding::{DoctorReport, Finding};

/// Examines a machine. `option` is what commands in messages need besides, such as ` --root DIR`. Figures of a `calibration` stand in place
/// of those that firmware declares, or that are assumed.
///
/// # Errors
/// The machine's files give no valid machine to simulate.
pub fn examine_machine(
    system: &System,
    option: &str,
    calibration: Option<&EarlierCalibration>,
) -> Result<DoctorReport, wakepath_hardware::machine::MachineError> {
    let (model, mut notes) = Model::read(system, calibration)?;
    notes.extend(wakepath_sim::notes_on_policies(&model.machine, &model.now).unwrap_or_default());
    let mut case = Case {
        system,
        model,
        notes,
        option,
        is_guest: runs_under_hypervisor(system.root()),
    };
    let mut findings = Vec::new();
    findings.extend(idle::find_permanent_limits_on_deep_states(&mut case));
    findings.extend(idle::find_refused_states(&case));
    findings.extend(idle::find_cost_of_deep_states(&mut case));
    findings.extend(idle::find_mispredictions(&mut case));
    findings.extend(idle::find_unreached_states(&case));
    findings.extend(newer::find_c1_demotion(&case));
    findings.extend(newer::find_wrong_declared_latency(&mut case));
    findings.extend(newer::find_cpus_kept_free_by_isolation(&case));
    findings.extend(path::find_wrong_polling_limit(&mut case));
    findings.extend(path::find_remote_completions(&mut case));
    findings.extend(frequency::find_missing_boost(&mut case));
    findings.extend(hybrid::find_faults_of_hybrid_cores(&mut case));
    findings.extend(drives::find_faults_of_all_drives(&mut case));
    for finding in &mut findings {
        if case.model.of_host {
            finding.replace_costs_by_unknown_in_guest();
        }
        if case.is_guest {
            finding.costs_mw = None;
        }
        finding.note = finding.is_note();
    }
    // The sort is stable: findings of equal weight stay in the order above.
    findings.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    Ok(DoctorReport {
        machine: case.model.machine.title.clone(),
        findings,
        notes: case.notes,
    })
}

#[cfg(test)]
mod tests;
