//! Exit latencies that `measure` or `calibrate` found, for the machine that is explained.

use wakepath_explain::{CpuExits, ExitEstimate};
use wakepath_hardware::machine::{
    CalibratedOn, Cluster, MachineError, Origin, find_calibration_file,
};
use wakepath_hardware::{IdleState, Machine};
use wakepath_record::facts::read_metadata;
use wakepath_system::System;
use wakepath_trace::recording::Metadata;

use crate::commands::foreign_recording::check_recording_is_of_machine;
use crate::commands::here::warn_of_stale_figures_in_use;
use crate::messages::note;

/// Measured exits by cluster: of the named machine, or else of the machine `here` if that is the recorded one. Stale figures are told,
/// and are left out.
pub(super) fn find_measured_exits(
    name: Option<&str>,
    metadata: &Metadata,
) -> anyhow::Result<Vec<CpuExits>> {
    let machine = match name {
        Some(name) => Machine::find(name)?,
        None => match load_calibrated_machine(metadata) {
            Ok(Some(machine)) => machine,
            Ok(None) => return Ok(Vec::new()),
            Err(error) => {
                note!("measured exits are not known: {error}");
                return Ok(Vec::new());
            }
        },
    };
    if let Some(name) = name {
        let advice = "Explain it without --machine, or name its own";
        check_recording_is_of_machine(name, metadata, &machine, advice)?;
    }
    let kinds = find_measured_exits_by_cluster(&machine, metadata);
    let stale = warn_of_stale_figures_in_use(name, &machine, |key| {
        let mut exits = kinds.iter().flat_map(|(_, exits)| exits);
        exits.any(|exit| exit.key == key)
    });
    let kinds = kinds.into_iter().map(|(cpus, mut exits)| {
        exits.retain(|exit| !stale.contains(&exit.key));
        CpuExits {
            cpus,
            by_state: exits.iter().map(|exit| (exit.state, exit.time)).collect(),
        }
    });
    Ok(kinds.collect())
}

/// An exit that was measured.
struct MeasuredExit {
    /// Index of the idle state.
    state: u8,
    time: ExitEstimate,
    /// Key of the figure in [`Machine::figures`].
    key: String,
}

/// CPUs with the same recorded idle states in the same cluster, and the exits measured there.
fn find_measured_exits_by_cluster(
    machine: &Machine,
    metadata: &Metadata,
) -> Vec<(Vec<u32>, Vec<MeasuredExit>)> {
    let is_one_table = metadata.idle_states.len() == 1;
    let mut kinds = Vec::new();
    let mut first_cpu = 0;
    for cluster in &machine.cluster {
        let end = first_cpu + cluster.cpus as u32;
        for group in &metadata.idle_states {
            let mut cpus: Vec<u32> = (first_cpu..end).collect();
            cpus.retain(|cpu| is_one_table || group.cpus.contains(cpu));
            let states = (0..=u8::MAX).zip(&group.states);
            let exits =
                states.filter_map(|(index, state)| measured_exit(machine, cluster, index, state));
            kinds.push((cpus, exits.collect()));
        }
        first_cpu = end;
    }
    kinds
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

/// The exit from a recorded state on a cluster's CPUs, if it was measured with an interval and is the same after all pauses.
fn measured_exit(
    machine: &Machine,
    cluster: &Cluster,
    index: u8,
    recorded: &IdleState,
) -> Option<MeasuredExit> {
    let name = &recorded.name;
    let states = machine.idle_states_on_cluster(cluster);
    let state = states.iter().find(|state| state.name == *name)?;
    let Origin::Measured(measurement) = &state.true_exit_us.origin else {
        return None;
    };
    let depends_on_pause = state.deeper_after_us.is_given();
    let (low, high) = measurement.interval()?;
    let mut own = cluster.idle_state.iter();
    let is_own = own.any(|state| state.name == *name && state.true_exit_us.is_given());
    let place = if is_own {
        format!("cluster.{}.", cluster.name)
    } else {
        String::new()
    };
    (!depends_on_pause).then(|| MeasuredExit {
        state: index,
        time: ExitEstimate {
            mean_ns: state.true_exit_us.value * 1e3,
            low_ns: low * 1e3,
            high_ns: high * 1e3,
        },
        key: format!("{place}idle_state.{name}.true_exit_us"),
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
