//! Planning a study's machines: each named machine with each named drive.

use std::path::Path;

use toml::Spanned;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{HERE, MachineError};
use wakepath_results::directory::{MACHINE, MACHINES};
use wakepath_results::document::CpuKind;
use wakepath_trace::recording::Metadata;
use wakepath_units::KernelVersion;

use super::names::path_of_copy_in_results;
use super::workload::{PlannedWorkload, Task};
use crate::file::{Names, StudyError, StudyFile, StudyText, check_name_length_and_characters};

/// Most machines in a study, counting each with every drive.
const MAX_MACHINES: usize = 1000;

/// File stem that all captured machines share.
const CAPTURED: &str = "machine";

/// Most characters in a machine's name that is taken from its processor.
const MAX_RECORDED_NAME: usize = 60;

/// A machine that a study runs on.
#[derive(Clone, Debug)]
pub struct PlannedMachine {
    /// Name of the machine in the results.
    pub name: String,
    /// Model to simulate, or to replay with; `None` for measured machines, and for machines known only from recordings.
    pub model: Option<Machine>,
    /// Path of the machine's copy in the result directory.
    pub file: String,
    /// Whether the model is the calibrated machine `here`, whose figures may be stale.
    pub is_here: bool,
}

impl PlannedMachine {
    /// The machine for a measurement: this computer, without a model.
    pub(super) fn for_this_computer() -> Self {
        Self {
            name: host_name(),
            model: None,
            file: MACHINE.to_owned(),
            is_here: false,
        }
    }

    /// Describes a machine's model for `result.json`.
    pub fn describe_model(&self, model: &Machine) -> wakepath_results::MachineInfo {
        wakepath_results::MachineInfo {
            name: self.name.clone(),
            source: self.file.clone(),
            title: model.title.clone(),
            cpu_kinds: model
                .cluster
                .iter()
                .map(|c| CpuKind {
                    name: c.name.clone(),
                    cpus: c.cpus as u32,
                })
                .collect(),
            idle_states: model.idle_state.iter().map(|s| s.name.clone()).collect(),
            drive: model.drive.name.clone(),
            host: None,
            power_scope: model
                .power_scope()
                .map_or_else(String::new, |scope| scope.file_keyword().to_owned()),
        }
    }
}

/// The network name of this computer.
pub fn host_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// Plans the machines for a simulation: each named machine with each named drive.
pub(super) fn plan_simulated_machines(
    file: &StudyFile,
    source: StudyText<'_>,
    folder: &Path,
) -> Result<Vec<PlannedMachine>, StudyError> {
    let Some(machines) = &file.machine else {
        let message = "a simulation needs `machine = \"...\"`: `wakepath machine list` has them";
        return Err(source.error_at_value(&file.name, message));
    };
    let drives = match &file.drive {
        None => vec![None],
        Some(drives) => Names::spanned_names(drives, source)?
            .into_iter()
            .map(Some)
            .collect(),
    };
    let of_list = Names::spanned_names(machines, source)?;
    let count = of_list.len().saturating_mul(drives.len());
    if count > MAX_MACHINES {
        let message =
            format!("{count} machines with their drives, and there may be {MAX_MACHINES}");
        return Err(source.error_at_value(machines, message));
    }
    let found = find_named_machines(of_list, file, source, folder)?;
    let names = make_distinguishing_short_names(&found, folder);
    let mut planned: Vec<PlannedMachine> = Vec::with_capacity(count);
    for ((machine, found), short_name) in found.into_iter().zip(names) {
        for drive in &drives {
            let mut model = found.clone();
            if let Some(drive) = drive {
                let other =
                    model.find_own_or_known_drive(&resolve_name_or_path(drive.get_ref(), folder));
                model.replace_drive_keeping_count(
                    other.map_err(|e| machine_error(source, drive, &e))?,
                );
            }
            let name = match drive {
                _ if count == 1 => model.name.clone(),
                Some(drive) if drives.len() > 1 => {
                    format!("{short_name}/{}", file_stem_as_name(drive, folder))
                }
                _ => short_name.clone(),
            };
            check_name_length_and_characters(source, &Spanned::new(machine.span(), name.clone()))?;
            if planned.iter().any(|p| p.name == name) {
                let message = format!("a second machine is called `{name}`");
                return Err(source.error_at_value(&machine, message));
            }
            planned.push(PlannedMachine {
                file: machine_copy_path(&name, count > 1),
                name,
                model: Some(model),
                is_here: resolve_name_or_path(machine.get_ref(), folder) == HERE,
            });
        }
    }
    Ok(planned)
}

/// Finds the named machines, and gives them the study's kernel if there is one.
fn find_named_machines(
    names: Vec<Spanned<String>>,
    file: &StudyFile,
    source: StudyText<'_>,
    folder: &Path,
) -> Result<Vec<(Spanned<String>, Machine)>, StudyError> {
    let kernel = match &file.kernel {
        None => None,
        Some(name) => {
            let version: Result<KernelVersion, _> = name.get_ref().parse();
            Some(version.map_err(|e| source.error_at_value(name, e.to_string()))?)
        }
    };
    let machines = names.into_iter().map(|name| {
        let mut machine = Machine::find(&resolve_name_or_path(name.get_ref(), folder))
            .map_err(|e| machine_error(source, &name, &e))?;
        if kernel.is_some() {
            machine.kernel = kernel;
            machine.kernel_from = Some("the study".to_owned());
        }
        Ok((name, machine))
    });
    machines.collect()
}

/// Path for a machine's copy in the result directory; `several`: in the folder of machines.
fn machine_copy_path(name: &str, several: bool) -> String {
    if several {
        path_of_copy_in_results(MACHINES, name, "toml")
    } else {
        MACHINE.to_owned()
    }
}

/// Plans the machines for a replay: the named machines, or else the machines that the recordings describe. Sets each
/// workload's machine to its recording's.
pub(super) fn plan_replayed_machines(
    file: &StudyFile,
    source: StudyText<'_>,
    folder: &Path,
    workloads: &mut [PlannedWorkload],
) -> Result<Vec<PlannedMachine>, StudyError> {
    if let Some(drive) = &file.drive {
        let message = "a replay has no `drive`: what the drives did is as recorded";
        return Err(source.error_at_value(drive, message));
    }
    if let Some(kernel) = &file.kernel {
        let message = "a replay has no `kernel`: bare names are of the kernel that was recorded. Name others, such as \
                       `menu@7.3`, or use `wakepath replay --kernel`";
        return Err(source.error_at_value(kernel, message));
    }
    if file.machine.is_some() {
        return plan_simulated_machines(file, source, folder);
    }
    if let Some(machines) = file.workload.iter().find_map(|w| w.machines.as_ref()) {
        let message = "`machines` goes with `machine` of the study; without it, a recording is of the machine that it was \
                       made on";
        return Err(source.error_at_value(machines, message));
    }
    let mut recorded: Vec<(&Metadata, String)> = Vec::new();
    for workload in &mut *workloads {
        let Task::Recording(recording) = &workload.task else {
            continue;
        };
        let metadata = &recording.metadata;
        let known = recorded
            .iter()
            .find(|(other, _): &&(&Metadata, String)| {
                metadata.machine_conflict_with(other).is_none()
            })
            .map(|(_, name)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name = name_recorded_machine(metadata, &recorded);
            recorded.push((metadata, name.clone()));
            name
        });
        workload.machines = vec![name];
    }
    let several = recorded.len() > 1;
    let planned: Vec<PlannedMachine> = recorded
        .into_iter()
        .map(|(_, name)| PlannedMachine {
            file: machine_copy_path(&name, several),
            name,
            model: None,
            is_here: false,
        })
        .collect();
    if !several {
        for workload in workloads {
            workload.machines.clear();
        }
    }
    Ok(planned)
}

/// A name for a machine known only from recordings: its processor, with a number if the name is taken.
fn name_recorded_machine(metadata: &Metadata, others: &[(&Metadata, String)]) -> String {
    let processor = metadata
        .processor
        .as_deref()
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let name: String = processor
        .unwrap_or("a recorded machine")
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_RECORDED_NAME)
        .collect();
    let numbered = (2..).map(|number| format!("{name} ({number})"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names
        .find(|name: &String| !others.iter().any(|(_, other)| other == name))
        .unwrap_or(name)
}

fn machine_error(source: StudyText<'_>, at: &Spanned<String>, error: &MachineError) -> StudyError {
    source.error_at_value(at, error.to_string())
}

/// A built-in machine's name as it is, or a file's path that counts from the study's folder.
fn resolve_name_or_path(name: &str, folder: &Path) -> String {
    let path = folder.join(name);
    if path.is_file() {
        path.display().to_string()
    } else {
        name.to_owned()
    }
}

/// Short names for several machines. Captured machines share a file name, so their own names count, or their
/// directories if equal.
fn make_distinguishing_short_names(
    machines: &[(Spanned<String>, Machine)],
    folder: &Path,
) -> Vec<String> {
    let files: Vec<String> = machines
        .iter()
        .map(|(machine, _)| file_stem_as_name(machine, folder))
        .collect();
    let own: Vec<&String> = machines.iter().map(|(_, model)| &model.name).collect();
    let names = machines.iter().map(|(machine, model)| {
        let file_name = file_stem_as_name(machine, folder);
        let is_file = folder.join(machine.get_ref()).is_file();
        let directory = Path::new(machine.get_ref())
            .parent()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy().into_owned());
        match directory {
            _ if !is_file
                || (file_name != CAPTURED && !is_listed_more_than_once(&files, &file_name)) =>
            {
                file_name
            }
            Some(directory) if is_listed_more_than_once(&own, &&model.name) => directory,
            _ => model.name.clone(),
        }
    });
    names.collect()
}

fn is_listed_more_than_once<T: PartialEq>(names: &[T], name: &T) -> bool {
    names.iter().filter(|other| *other == name).count() > 1
}

/// A short name for a machine file: the file's stem, as in [`path_of_copy_in_results`].
fn file_stem_as_name(name: &Spanned<String>, folder: &Path) -> String {
    let name = name.get_ref();
    let stem = Path::new(name)
        .file_stem()
        .filter(|_| folder.join(name).is_file());
    stem.map_or_else(
        || name.clone(),
        |stem| {
            stem.to_string_lossy()
                .replace("%2F", "/")
                .replace("%25", "%")
        },
    )
}
