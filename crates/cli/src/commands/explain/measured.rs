//! Exit latencies that `measure` or `calibrate` found, for the machine that is explained.

use std::collections::BTreeMap;

use wakepath_explain::ExitEstimate;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{CalibratedOn, MachineError, Origin, find_calibration_file};
use wakepath_record::facts::read_metadata;
use wakepath_system::System;
use wakepath_trace::recording::Metadata;

use crate::commands::foreign_recording::check_recording_is_of_machine;
use crate::commands::here::warn_of_stale_figures_in_use;
use crate::messages::note;

/// Measured exits by index of the idle state: of the named machine, or else of the machine `here` if that is the recorded one.
/// Stale figures are told, and are left out.
pub(super) fn find_measured_exits(
    name: Option<&str>,
    metadata: &Metadata,
) -> anyhow::Result<BTreeMap<u8, ExitEstimate>> {
    let machine = match name {
        Some(name) => Machine::find(name)?,
        None => match load_calibrated_machine(metadata) {
            Ok(Some(machine)) => machine,
            Ok(None) => return Ok(BTreeMap::new()),
            Err(error) => {
                note!("measured exits are not known: {error}");
                return Ok(BTreeMap::new());
            }
        },
    };
    if let Some(name) = name {
        let advice = "Explain it without --machine, or name its own";
        check_recording_is_of_machine(name, metadata, &machine, advice)?;
    }
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
    let running = read_metadata(&System::live());
    if metadata.machine_id.is_none() || metadata.machine_id != running.machine_id {
        return Ok(None);
    }
    let machine = Machine::load(&file)?;
    let then = machine.calibrated_on.as_ref();
    if let Some(change) = then.and_then(|then| change_since_calibration(then, metadata)) {
        note!(
            "measured exits of this machine are left out: {change}; `sudo wakepath calibrate` measures them again"
        );
        return Ok(None);
    }
    Ok(then.is_some().then_some(machine))
}

/// What differs between a recording of a machine and the machine's calibration, as far as recordings tell.
fn change_since_calibration(then: &CalibratedOn, metadata: &Metadata) -> Option<String> {
    let kernel = metadata.kernel.as_deref().unwrap_or("unknown");
    let processor = |name: &Option<String>| name.clone().unwrap_or_else(|| "unknown".to_owned());
    let facts = [
        ("kernel", then.kernel.clone(), kernel.to_owned()),
        (
            "processor",
            processor(&then.processor),
            processor(&metadata.processor),
        ),
        ("CPUs", then.cpus.to_string(), metadata.cpus.to_string()),
    ];
    let mut changes = facts.iter().filter(|(_, before, now)| before != now);
    changes
        .next()
        .map(|(what, before, now)| format!("{what} {before} when calibrated, {now} when recorded"))
}

/// A state's exit, if it was measured with an interval and is the same on all CPUs and after all pauses.
fn measured_exit(machine: &Machine, name: &str) -> Option<ExitEstimate> {
    let differs = machine.cluster.iter().any(|cluster| {
        let mut own = cluster.idle_state.iter();
        own.any(|state| state.name == name && state.true_exit_us.is_given())
    });
    let state = machine.idle_state.iter().find(|state| state.name == name)?;
    let Origin::Measured(measurement) = &state.true_exit_us.origin else {
        return None;
    };
    let depends_on_pause = state.deeper_after_us.is_given();
    let (low, high) = measurement.interval()?;
    (!differs && !depends_on_pause).then_some(ExitEstimate {
        mean_ns: state.true_exit_us.value * 1e3,
        low_ns: low * 1e3,
        high_ns: high * 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What changes in a recording.
    type Change = fn(&mut Metadata);

    #[test]
    fn another_kernel_processor_or_number_of_cpus_is_a_change() {
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
        assert_eq!(change_since_calibration(&then, &same), None);
        let changes: [(Change, &str); 4] = [
            (
                |recorded| recorded.kernel = Some("6.18.1".to_owned()),
                "kernel 6.12.48 when calibrated, 6.18.1 when recorded",
            ),
            (
                |recorded| recorded.kernel = None,
                "kernel 6.12.48 when calibrated, unknown when recorded",
            ),
            (
                |recorded| recorded.processor = None,
                "processor A processor when calibrated, unknown when recorded",
            ),
            (
                |recorded| recorded.cpus = 2,
                "CPUs 4 when calibrated, 2 when recorded",
            ),
        ];
        for (change, expected) in changes {
            let mut other = same.clone();
            change(&mut other);
            assert_eq!(
                change_since_calibration(&then, &other).as_deref(),
                Some(expected)
            );
        }
    }
}
