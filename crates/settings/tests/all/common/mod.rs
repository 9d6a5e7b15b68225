//! A captured machine to change.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses a part of it, and may panic"
)]

#[path = "../../../../cli/tests/all/common/captured.rs"]
mod captured;
#[path = "../../../../cli/tests/all/common/files.rs"]
mod files;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

pub(crate) use captured::content;
use wakepath_settings::{SettingsPlan, Targets, policy};
use wakepath_system::{Root, System};

/// A copy of the captured laptop.
pub(crate) fn laptop() -> (tempfile::TempDir, System) {
    let directory = captured::copy_of_laptop();
    let system = System::new(Root::at_directory(directory.path()));
    (directory, system)
}

/// Fails with the names of the files that differ.
pub(crate) fn assert_same(directory: &Path, before: &BTreeMap<String, Vec<u8>>) {
    let different = captured::different(&content(directory), before);
    assert!(different.is_empty(), "not as before: {different:?}");
}

/// What the policies change on a machine.
pub(crate) fn plan(system: &System, policies: &[&str]) -> SettingsPlan {
    let set = policies.join(" + ").parse().unwrap();
    let wanted = policy::resolve_to_settings(system, &set, &Targets::default()).unwrap();
    SettingsPlan::from_wanted(system, wanted).unwrap()
}

/// Writes a file of a machine, with the folders above it.
pub(crate) fn write(machine: &Path, file: &str, text: &str) {
    let path = machine.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A file of a machine without the blanks around it.
pub(crate) fn read(machine: &Path, file: &str) -> String {
    let text = fs::read_to_string(machine.join(file)).unwrap();
    text.trim().to_owned()
}
