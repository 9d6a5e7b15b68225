//! Captured machines to change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::files::{contents, copy_folder};

/// The captured laptop of the documentation.
pub(crate) fn laptop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/captured-laptop")
}

/// A copy of it, to be changed.
pub(crate) fn copy_of_laptop() -> tempfile::TempDir {
    copy_of(&laptop())
}

/// A copy of the captured server, which has four CPUs, another frequency driver, and a drive without APST.
pub(crate) fn copy_of_server() -> tempfile::TempDir {
    copy_of(&laptop().with_file_name("captured-server"))
}

/// A machine of `tests/trees`, whose files have a line for each line of theirs: path, colon, text.
pub(crate) fn planted(name: &str) -> tempfile::TempDir {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/trees");
    let text = fs::read_to_string(trees.join(name).with_extension("txt")).unwrap();
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for line in text.lines() {
        let (path, line) = line.split_once(':').unwrap();
        let content = files.entry(path).or_default();
        content.push_str(line);
        content.push('\n');
    }
    let directory = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    directory
}

fn copy_of(machine: &Path) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy_folder(machine, directory.path());
    directory
}

/// Every file of a machine, without wakepath's own directory, where files come and go.
pub(crate) fn content(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = contents(directory);
    all.retain(|path, _| !path.starts_with("var/"));
    all
}

/// The names of the files that differ.
pub(crate) fn different<V: PartialEq>(
    one: &BTreeMap<String, V>,
    other: &BTreeMap<String, V>,
) -> BTreeSet<String> {
    let names = one.keys().chain(other.keys());
    names
        .filter(|name| one.get(*name) != other.get(*name))
        .cloned()
        .collect()
}
