//! A captured machine to change.
#![allow(clippy::unwrap_used, reason = "a test may panic in a helper, too")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use wakepath_live::{Plan, Root, Selection, System, policy};

/// A copy of the captured laptop.
pub(crate) fn laptop() -> (tempfile::TempDir, System) {
    let directory = tempfile::tempdir().unwrap();
    let captured =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/captured-laptop");
    copy(&captured, directory.path());
    let system = System::new(Root::at(directory.path()));
    (directory, system)
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Fails with the names of the files that differ.
pub(crate) fn assert_same(directory: &Path, before: &BTreeMap<String, Vec<u8>>) {
    let now = content(directory);
    let names = now.keys().chain(before.keys());
    let different: BTreeSet<&String> = names.filter(|n| now.get(*n) != before.get(*n)).collect();
    assert!(different.is_empty(), "not as before: {different:?}");
}

/// Every file of the machine, without our own directory.
pub(crate) fn content(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    collect(directory, directory, &mut all);
    all.retain(|path, _| !path.starts_with("var/"));
    all
}

fn collect(base: &Path, directory: &Path, all: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(base, &path, all);
        } else {
            let name = path.strip_prefix(base).unwrap().display().to_string();
            all.insert(name, fs::read(&path).unwrap());
        }
    }
}

/// What the policies change on a machine.
pub(crate) fn plan(system: &System, policies: &[&str]) -> Plan {
    let wanted = policy::resolve(system, policies, &Selection::default()).unwrap();
    Plan::new(system, wanted).unwrap()
}
