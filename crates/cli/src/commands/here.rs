//! `here`, the calibrated machine file of this computer: which machine a command takes, and which figures are stale.

use std::collections::BTreeMap;

use anyhow::Context;
use wakepath_calibrate::{StaleFigure, find_stale_figures, take_policies_in_force_now};
use wakepath_doctor::EarlierCalibration;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{HERE, MachineError, find_calibration_file};
use wakepath_results::RunOrigin;
use wakepath_study::plan::Plan;
use wakepath_system::System;
use wakepath_units::KernelVersion;

use crate::messages::{self, MessageKind, note, warning};

/// Finds a machine by name, or without a name the calibrated machine, if any; with a line that says which was taken.
pub(super) fn find_machine_and_notice_if_calibrated(
    name: Option<&str>,
) -> anyhow::Result<(Machine, Option<String>)> {
    if let Some(name) = name {
        return Ok((Machine::find(name)?, None));
    }
    let file = match find_calibration_file() {
        Ok(file) => file,
        Err(MachineError::NotCalibrated { .. }) => anyhow::bail!(
            "no machine is named, and this one is not calibrated; name one of `wakepath machine list` or a machine file by \
             --machine, or run `sudo wakepath calibrate --folder DIR`"
        ),
        Err(error) => return Err(error.into()),
    };
    let machine = Machine::load(&file)?;
    let line = format!("machine: {HERE}, {} ({})", machine.title, file.display());
    Ok((machine, Some(line)))
}

/// Finds a machine for a simulation as [`find_changed_machine_and_notice`] does, and notes how far predictions on it were off.
pub(super) fn find_machine_to_simulate_and_notice(
    name: Option<&str>,
    kernel: Option<KernelVersion>,
    drive: Option<&str>,
) -> anyhow::Result<(Machine, Option<String>)> {
    let (machine, chosen) = find_changed_machine_and_notice(name, kernel, drive)?;
    note_prediction_error(None, &machine);
    Ok((machine, chosen))
}

/// Says of the machines of a plan what [`find_machine_to_simulate_and_notice`] says of a machine: stale figures of the
/// calibrated one, and how far predictions on each were off.
pub(super) fn hold_notes_on_planned_machines(plan: &Plan) {
    let are_several = plan.machines.len() > 1;
    for planned in &plan.machines {
        let Some(model) = &planned.model else {
            continue;
        };
        if planned.is_here {
            hold_warning_per_change(&find_stale_figures(model, &System::live()));
        }
        if plan.target == RunOrigin::Sim {
            note_prediction_error(are_several.then_some(&*planned.name), model);
        }
    }
}

fn note_prediction_error(about: Option<&str>, machine: &Machine) {
    if let Some(text) = machine.describe_prediction_error() {
        messages::hold_message_until_result(MessageKind::Note, about, text);
    }
}

/// Finds a machine, by name or calibrated, with the given kernel and drive in place of its own; with a line that says
/// which was taken. The calibrated machine has the governors that are in force now; warns of its stale figures.
pub(super) fn find_changed_machine_and_notice(
    name: Option<&str>,
    kernel: Option<KernelVersion>,
    drive: Option<&str>,
) -> anyhow::Result<(Machine, Option<String>)> {
    let (mut machine, chosen) = find_machine_and_notice_if_calibrated(name)?;
    if means_calibrated_machine(name)
        && let Some(difference) = take_policies_in_force_now(&mut machine, &System::live())
    {
        note!("{difference}");
    }
    if let Some(kernel) = kernel {
        machine.kernel = Some(kernel);
        machine.kernel_from = Some("--kernel".to_owned());
    }
    if let Some(name) = drive {
        let found = machine.find_own_or_known_drive(name).context("--drive")?;
        machine.replace_drive_keeping_count(found);
    }
    hold_warning_per_change(&stale_figures_if_calibrated(name, &machine));
    Ok((machine, chosen))
}

/// The calibration for `doctor`: of a machine file, or else the machine `here`, if the examined machine is this one. Figures
/// that are stale on the examined machine are told, and are not used.
pub(super) fn find_calibration(
    name: Option<&str>,
    system: &System,
) -> anyhow::Result<Option<EarlierCalibration>> {
    let found = find_calibration_and_stale_figures(name, system)?;
    Ok(found.map(|(calibration, stale)| {
        hold_warning_per_change(&stale);
        calibration
    }))
}

/// As [`find_calibration`], for commands that tell stale figures of the machine by themselves.
pub(super) fn find_calibration_without_warning(
    name: Option<&str>,
    system: &System,
) -> anyhow::Result<Option<EarlierCalibration>> {
    let found = find_calibration_and_stale_figures(name, system)?;
    Ok(found.map(|(calibration, _)| calibration))
}

fn find_calibration_and_stale_figures(
    name: Option<&str>,
    system: &System,
) -> anyhow::Result<Option<(EarlierCalibration, Vec<StaleFigure>)>> {
    let is_live = system.root().is_live();
    let file = match name {
        Some(name) if name != HERE => name.to_owned(),
        None if !is_live => return Ok(None),
        _ => match find_calibration_file() {
            Ok(path) => path.display().to_string(),
            Err(MachineError::NotCalibrated { .. }) if name.is_none() => return Ok(None),
            Err(error) => return Err(error.into()),
        },
    };
    let machine = Machine::find(&file)?;
    // A modelled machine has fitted figures, too, and they belong to no machine that is examined.
    anyhow::ensure!(
        machine.calibrated_on.is_some(),
        "{file}: nothing in it was measured by `wakepath calibrate`; give the file that calibrate wrote on this machine, or leave \
         --machine out"
    );
    let stale = find_stale_figures(&machine, system);
    let calibration = EarlierCalibration {
        machine,
        file,
        stale: stale.iter().map(|figure| figure.key.clone()).collect(),
    };
    Ok(Some((calibration, stale)))
}

/// Whether a name (`here`, or none) stands for the calibrated machine.
pub(super) fn means_calibrated_machine(name: Option<&str>) -> bool {
    name.is_none_or(|name| name == HERE)
}

/// Figures that were measured in another state of this machine. Machines with other names may be anywhere, and have
/// none.
pub(super) fn stale_figures_if_calibrated(
    name: Option<&str>,
    machine: &Machine,
) -> Vec<StaleFigure> {
    if !means_calibrated_machine(name) {
        return Vec::new();
    }
    find_stale_figures(machine, &System::live())
}

/// Keys of those stale figures that a command would use; warns of them, and of no others.
pub(super) fn warn_of_stale_figures_in_use(
    name: Option<&str>,
    machine: &Machine,
    is_used: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut figures = stale_figures_if_calibrated(name, machine);
    figures.retain(|figure| is_used(&figure.key));
    hold_warning_per_change(&figures);
    figures.into_iter().map(|figure| figure.key).collect()
}

/// Warns of stale figures, once for each change of the machine.
fn hold_warning_per_change(figures: &[StaleFigure]) {
    let mut keys: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for figure in figures {
        let changes = figure.changes.join(", ");
        keys.entry(changes).or_default().push(&figure.key);
    }
    for (changes, keys) in keys {
        warning!(
            "stale figures ({changes}): {}; `wakepath calibrate` measures them again",
            keys.join(", ")
        );
    }
}
