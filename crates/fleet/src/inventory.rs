//! A fleet's folder: captures, recordings, calibrations, doctor's and explain's results.
//!
//! A capture is a folder with `proc/cpuinfo` and `sys/devices/system/cpu`, named by the path below the fleet's folder.
//! Other files belong to the capture around or beside: `rack1/web-01/load.parquet` and `rack1/web-01.parquet` belong to
//! `rack1/web-01`. No link is followed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use wakepath_results::directory::DOCUMENT;
use wakepath_system::capture::NOTES;

use crate::FleetError;

/// Most files and folders outside captures.
const MOST_ENTRIES: usize = 500_000;

/// Deepest folder below the fleet's folder.
const DEEPEST: usize = 8;

/// A folder or file of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundMaterial {
    /// Name: the capture's path below the fleet's folder.
    pub machine: String,
    /// Where the material is.
    pub path: PathBuf,
}

/// Contents of a fleet's folder.
#[derive(Clone, Debug, Default)]
pub struct FleetInventory {
    /// Captures, by name.
    pub captures: Vec<FoundMaterial>,
    /// Recordings (`*.parquet`).
    pub recordings: Vec<FoundMaterial>,
    /// Machine files (`*.toml`), some with a calibration.
    pub machine_files: Vec<FoundMaterial>,
    /// JSON files, such as doctor's.
    pub reports: Vec<FoundMaterial>,
    /// Result directories, such as explain's.
    pub results: Vec<FoundMaterial>,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// Files and folders on the way.
#[derive(Default)]
struct Walk {
    entries: usize,
    links: usize,
    too_deep: usize,
    unreadable: Vec<String>,
    /// Folders with a part of a capture.
    incomplete: Vec<IncompleteCapture>,
    inventory: FleetInventory,
    captures: BTreeSet<String>,
}

/// A folder with one of the two parts that make a capture.
struct IncompleteCapture {
    name: String,
    missing: &'static str,
}

impl FleetInventory {
    /// Looks through a fleet's folder.
    ///
    /// # Errors
    /// The folder cannot be read, has no capture, is one itself, or is too large.
    pub fn find(folder: &Path) -> Result<Self, FleetError> {
        if is_capture(folder) {
            return Err(FleetError::SingleCapture {
                path: folder.to_owned(),
            });
        }
        let mut walk = Walk::default();
        walk.visit_folder(folder, "", 0)
            .map_err(|source| FleetError::Read {
                path: folder.to_owned(),
                source,
            })?;
        if walk.entries > MOST_ENTRIES {
            return Err(FleetError::TooLarge {
                path: folder.to_owned(),
                most: MOST_ENTRIES,
            });
        }
        if walk.captures.is_empty() {
            return Err(FleetError::NoCaptures {
                path: folder.to_owned(),
            });
        }
        Ok(walk.finish())
    }
}

/// The file that a captured machine has.
const CPU_INFO: &str = "proc/cpuinfo";

/// The folder that a captured machine has.
const CPU_FOLDER: &str = "sys/devices/system/cpu";

/// Whether a folder is a captured machine.
pub fn is_capture(folder: &Path) -> bool {
    folder.join(CPU_INFO).is_file() && folder.join(CPU_FOLDER).is_dir()
}

/// The part that a folder lacks of a capture; `None` for a capture, and for a folder with neither part.
fn find_missing_part(folder: &Path) -> Option<&'static str> {
    match (
        folder.join(CPU_INFO).is_file(),
        folder.join(CPU_FOLDER).is_dir(),
    ) {
        (true, false) => Some(CPU_FOLDER),
        (false, true) => Some(CPU_INFO),
        _ => None,
    }
}

impl Walk {
    /// Visits a folder whose path below the fleet's folder is `name`; empty for the fleet's folder itself.
    fn visit_folder(&mut self, path: &Path, name: &str, depth: usize) -> std::io::Result<()> {
        if depth > DEEPEST {
            self.too_deep += 1;
            return Ok(());
        }
        if depth > 0 && path.join(DOCUMENT).is_file() {
            self.inventory.results.push(material(name, path));
            return Ok(());
        }
        let captured = is_capture(path);
        if captured {
            self.captures.insert(name.to_owned());
            self.inventory.captures.push(material(name, path));
        }
        let missing = find_missing_part(path).filter(|_| depth > 0);
        self.incomplete
            .extend(missing.map(|missing| IncompleteCapture {
                name: name.to_owned(),
                missing,
            }));
        let has_machine = captured || missing.is_some();
        let mut entries: Vec<fs::DirEntry> = fs::read_dir(path)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            self.entries += 1;
            if self.entries > MOST_ENTRIES {
                return Ok(());
            }
            self.visit_entry(&entry, name, has_machine, depth);
        }
        Ok(())
    }

    fn visit_entry(&mut self, entry: &fs::DirEntry, folder: &str, has_machine: bool, depth: usize) {
        let Ok(kind) = entry.file_type() else {
            return;
        };
        let own_name = entry.file_name().to_string_lossy().into_owned();
        let name = if folder.is_empty() {
            own_name.clone()
        } else {
            format!("{folder}/{own_name}")
        };
        if kind.is_symlink() {
            self.links += 1;
        } else if kind.is_dir() {
            let belongs_to_capture =
                has_machine && ["boot", "dev", "proc", "sys", "var"].contains(&&*own_name);
            if !belongs_to_capture && self.visit_folder(&entry.path(), &name, depth + 1).is_err() {
                self.unreadable.push(name);
            }
        } else if kind.is_file() {
            let list = match own_name.rsplit_once('.').map(|(_, extension)| extension) {
                Some("parquet") => &mut self.inventory.recordings,
                Some("toml") => &mut self.inventory.machine_files,
                Some("json") => &mut self.inventory.reports,
                _ => return,
            };
            list.push(material(&name, &entry.path()));
        }
    }

    /// Gives each material to a capture, and counts material without capture.
    fn finish(mut self) -> FleetInventory {
        let captures = self.captures;
        let mut without_capture = 0;
        for list in [
            &mut self.inventory.recordings,
            &mut self.inventory.machine_files,
            &mut self.inventory.reports,
            &mut self.inventory.results,
        ] {
            list.retain_mut(|found| {
                let owner = find_owner(&found.machine, &captures);
                without_capture += usize::from(owner.is_none());
                match owner {
                    Some(owner) => found.machine = owner,
                    None => return false,
                }
                true
            });
        }
        let counts = [
            (
                without_capture,
                "file belongs to no capture and was not used: it lies in a capture's folder, or is named after it",
                "files belong to no capture and were not used: they lie in a capture's folder, or are named after it",
            ),
            (
                self.links,
                "link was not followed",
                "links were not followed",
            ),
            (
                self.too_deep,
                "folder lies too deep and was not looked at",
                "folders lie too deep and were not looked at",
            ),
        ];
        let mut notes: Vec<String> = counts
            .iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, several)| {
                format!("{count} {}", if *count == 1 { one } else { several })
            })
            .collect();
        notes.extend(
            self.unreadable
                .iter()
                .map(|name| format!("{name}: cannot be read")),
        );
        notes.extend(self.incomplete.iter().map(|found| {
            let IncompleteCapture { name, missing } = found;
            format!("{name}: left out: no capture, for it has no {missing}")
        }));
        self.inventory.notes = notes;
        self.inventory
    }
}

fn material(machine: &str, path: &Path) -> FoundMaterial {
    FoundMaterial {
        machine: machine.to_owned(),
        path: path.to_owned(),
    }
}

/// The capture that a file belongs to, by the file's path below the fleet's folder.
fn find_owner(name: &str, captures: &BTreeSet<String>) -> Option<String> {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let stem = file.split('.').next().unwrap_or(file);
    let named_after = if folder.is_empty() {
        stem.to_owned()
    } else {
        format!("{folder}/{stem}")
    };
    if captures.contains(&named_after) {
        return Some(named_after);
    }
    let mut above = folder;
    while !above.is_empty() {
        if captures.contains(above) {
            return Some(above.to_owned());
        }
        above = above.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    None
}

/// Whether a machine file was written by the capture itself.
pub(crate) fn is_own_machine_file(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == NOTES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_the_capture_that_they_lie_in_or_are_named_after() {
        let captures: BTreeSet<String> = ["rack1/web-01", "db"].map(str::to_owned).into();
        for (file, owner) in [
            ("rack1/web-01.parquet", Some("rack1/web-01")),
            ("rack1/web-01.doctor.json", Some("rack1/web-01")),
            ("rack1/web-01/load.parquet", Some("rack1/web-01")),
            ("db/results/explain", Some("db")),
            ("db.toml", Some("db")),
            ("rack1/web-02.parquet", None),
            ("other.toml", None),
        ] {
            assert_eq!(find_owner(file, &captures).as_deref(), owner, "{file}");
        }
    }
}
