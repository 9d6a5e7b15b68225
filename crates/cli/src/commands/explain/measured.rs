//! Exit latencies that `measure` or `calibrate` found, for the machine that is explained.

use std::collections::BTreeMap;

use wakepath_explain::ExitEstimate;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{CalibratedOn, MachineError, Origin, find_calibration_file};
use wakepath_record::facts::read_metadata;
use wakepath_study::run::replay::evidence_for_other_machine;
use wakepath_system::System;
use wakepath_trace::recording::Metadata;

use crate::commands::here::warn_of_stale_figures_in_use;
use crate::messages::note;

/// Measured exits by index of the idle state: of the named machine, or else of the machine `here` if that is the recorded one.
/// Stale figures are told, and are left out.
pub(super) fn find_measured_exits(
    name: Option<&str>,
    metadata: &Metadata,
) -> anyhow::Result<BTreeMap<u8, ExitEstimate>> {
    let machine = match name {
        Some(name) => {
            let machine = Machine::find(name)?;
            if let Some(what) = evidence_for_other_machine(metadata, &machine) {
                note!(
                    "measured exits of {name} are left out: the recording is of another machine: {what}"
                );
                return Ok(BTreeMap::new());
            }
            machine
        }
        None => match load_calibrated_machine(metadata) {
            Ok(Some(machine)) => machine,
            Ok(None) => return Ok(BTreeMap::new()),
            Err(error) => {
                note!("measured exits are not known: {error}");
                return Ok(BTreeMap::new());
            }
        },
    };
    // Where kinds of CPUs differ in their states, an index means several states.
    let [group] = &metadata.idle_states[..] else {
        return Ok(BTreeMap::new());
    };
    let exits = (0..=u8::MAX)
        .zip(&group.states)
        .filter_map(|(index, state)| {
            Some((
                index,
                state.name.as_str(),
                measured_exit(&machine, &state.name)?,
            ))
        });
    let exits: Vec<(u8, &str, ExitEstimate)> = exits.collect();
    let stale = warn_of_stale_figures_in_use(name, &machine, |key| {
        exits.iter().any(|(_, state, _)| exit_key(state) == key)
    });
    let fresh = exits
        .into_iter()
        .filter(|(_, state, _)| !stale.contains(&exit_key(state)));
    Ok(fresh.map(|(index, _, exit)| (index, exit)).collect())
}

/// Key of a state's exit in [`Machine::figures`].
fn exit_key(state: &str) -> String {
    format!("idle_state.{state}.true_exit_us")
}

/// The machine `here`, if the recording is one of this machine as it was calibrated.
fn load_calibrated_machine(metadata: &Metadata) -> Result<Option<Machine>, MachineError> {
    let file = match find_calibration_file() {
        Ok(file) => file,
        Err(MachineError::NotCalibrated { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let machine = Machine::load(&file)?;
    let running = read_metadata(&System::live());
    let is_recorded = metadata.machine_id.is_some()
        && metadata.machine_id == running.machine_id
        && machine
            .calibrated_on
            .as_ref()
            .is_some_and(|then| is_calibrated_state(then, metadata));
    Ok(is_recorded.then_some(machine))
}

/// Whether a recording was taken in the state that a calibration was made in, as far as recordings tell.
fn is_calibrated_state(then: &CalibratedOn, metadata: &Metadata) -> bool {
    Some(&then.kernel) == metadata.kernel.as_ref()
        && then.processor == metadata.processor
        && then.cpus == metadata.cpus as usize
}

/// A state's exit, if it was measured and is the same on all CPUs.
fn measured_exit(machine: &Machine, name: &str) -> Option<ExitEstimate> {
    let differs = machine.cluster.iter().any(|cluster| {
        let mut own = cluster.idle_state.iter();
        own.any(|state| state.name == name && state.true_exit_us.is_given())
    });
    let state = machine.idle_state.iter().find(|state| state.name == name)?;
    let Origin::Measured(measurement) = &state.true_exit_us.origin else {
        return None;
    };
    (!differs).then(|| ExitEstimate {
        mean_ns: state.true_exit_us.value * 1e3,
        low_ns: measurement.low * 1e3,
        high_ns: measurement.high * 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_kernel_processor_or_number_of_cpus_is_another_state() {
        let then = CalibratedOn {
            date: "2026-11-20".to_owned(),
            kernel: "6.12.48".to_owned(),
            cpus: 4,
            processor: Some("A processor".to_owned()),
            microcode: None,
            firmware: None,
            disk: None,
            drive: None,
        };
        let same = Metadata {
            kernel: Some("6.12.48".to_owned()),
            processor: Some("A processor".to_owned()),
            cpus: 4,
            ..Metadata::default()
        };
        assert!(is_calibrated_state(&then, &same));
        let changes: [fn(&mut Metadata); 4] = [
            |recorded| recorded.kernel = Some("6.18.1".to_owned()),
            |recorded| recorded.kernel = None,
            |recorded| recorded.processor = None,
            |recorded| recorded.cpus = 2,
        ];
        for change in changes {
            let mut other = same.clone();
            change(&mut other);
            assert!(!is_calibrated_state(&then, &other), "{other:?}");
        }
    }
}
