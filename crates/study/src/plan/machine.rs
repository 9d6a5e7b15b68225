//! On what it is run: the machines that a study names, each with each of its drives.

use std::path::Path;

use toml::Spanned;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::MachineError;
use wakepath_results::directory::{MACHINE, MACHINES};
use wakepath_results::document::CpuKind;

use super::copy_name;
use crate::file::{Names, Source, StudyError, StudyFile, check_name};

/// Most machines of a study, counted with each drive.
const MAX_MACHINES: usize = 1000;

/// A machine of a study.
#[derive(Clone, Debug)]
pub struct PlannedMachine {
    /// Its name in the results.
    pub name: String,
    /// What is simulated; none of a machine that is measured.
    pub model: Option<Machine>,
    /// The path of its copy in the result directory.
    pub file: String,
}

impl PlannedMachine {
    /// This machine, which is measured.
    pub(super) fn measured() -> Self {
        Self {
            name: host(),
            model: None,
            file: MACHINE.to_owned(),
        }
    }

    /// A model as `result.json` has it.
    pub fn in_short(&self, model: &Machine) -> wakepath_results::Machine {
        wakepath_results::Machine {
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
        }
    }
}

/// What the network calls this machine.
pub fn host() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// The machines of a simulation: each that the file names with each of its drives.
pub(super) fn simulated(
    file: &StudyFile,
    source: Source<'_>,
    folder: &Path,
) -> Result<Vec<PlannedMachine>, StudyError> {
    let Some(machines) = &file.machine else {
        let message = "a simulation needs `machine = \"...\"`: `wakepath machine list` has them";
        return Err(source.error(&file.name, message));
    };
    let drives = match &file.drive {
        None => vec![None],
        Some(drives) => Names::all(drives, source)?.into_iter().map(Some).collect(),
    };
    let of_list = Names::all(machines, source)?;
    let count = of_list.len().saturating_mul(drives.len());
    if count > MAX_MACHINES {
        let message =
            format!("{count} machines with their drives, and there may be {MAX_MACHINES}");
        return Err(source.error(machines, message));
    }
    let mut planned: Vec<PlannedMachine> = Vec::with_capacity(count);
    for machine in of_list {
        let found = Machine::find(&named(machine.get_ref(), folder));
        let found = found.map_err(|e| wrong(source, &machine, &e))?;
        for drive in &drives {
            let mut model = found.clone();
            if let Some(drive) = drive {
                let found = model.find_drive(&named(drive.get_ref(), folder));
                model.replace_drive(found.map_err(|e| wrong(source, drive, &e))?);
            }
            let name = match drive {
                _ if count == 1 => model.name.clone(),
                Some(drive) if drives.len() > 1 => {
                    format!("{}/{}", short(&machine, folder), short(drive, folder))
                }
                _ => short(&machine, folder),
            };
            check_name(source, &Spanned::new(machine.span(), name.clone()))?;
            if planned.iter().any(|p| p.name == name) {
                let message = format!("a second machine is called `{name}`");
                return Err(source.error(&machine, message));
            }
            let copy = if count == 1 {
                MACHINE.to_owned()
            } else {
                copy_name(MACHINES, &name, "toml")
            };
            planned.push(PlannedMachine {
                name,
                model: Some(model),
                file: copy,
            });
        }
    }
    Ok(planned)
}

/// The machine whose figures a replay takes; without one, what is known is in the recordings.
pub(super) fn replayed(
    file: &StudyFile,
    source: Source<'_>,
    folder: &Path,
) -> Result<PlannedMachine, StudyError> {
    let Some(names) = &file.machine else {
        return Ok(PlannedMachine {
            name: "recorded".to_owned(),
            model: None,
            file: MACHINE.to_owned(),
        });
    };
    let mut all = simulated(file, source, folder)?;
    match all.pop() {
        Some(only) if all.is_empty() => Ok(only),
        _ => Err(source.error(names, "a replay has one `machine` with one `drive`")),
    }
}

fn wrong(source: Source<'_>, at: &Spanned<String>, error: &MachineError) -> StudyError {
    source.error(at, error.to_string())
}

/// A name, or a path that counts from the study's folder.
fn named(name: &str, folder: &Path) -> String {
    let path = folder.join(name);
    if path.is_file() {
        path.display().to_string()
    } else {
        name.to_owned()
    }
}

/// A name among several: a file's is that of the file, as [`copy_name`] makes it.
fn short(name: &Spanned<String>, folder: &Path) -> String {
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
