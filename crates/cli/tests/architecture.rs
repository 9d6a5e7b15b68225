//! ARCHITECTURE.md says which crate may import which; the manifests must say the same.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names in backticks.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The table "The crates" of the page.
fn allowed() -> Arrows {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = page.split("\n## The crates\n").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').collect())
        .collect();
    let names: BTreeSet<String> = rows.iter().flat_map(|row| quoted(row[0])).collect();
    let mut arrows = Arrows::new();
    for row in rows {
        let name = quoted(row[0]).pop_first().unwrap();
        let listed = quoted(row[2]);
        let may = if row[2].trim_start().starts_with("all but") {
            let others = names.difference(&listed).cloned();
            others.filter(|other| *other != name).collect()
        } else {
            listed
        };
        arrows.insert(name, may);
    }
    arrows
}

/// The workspace's own crates in a table of dependencies.
fn own(dependencies: Option<&toml::Value>) -> impl Iterator<Item = String> + '_ {
    let table = dependencies.and_then(toml::Value::as_table);
    table
        .into_iter()
        .flat_map(toml::Table::keys)
        .filter_map(|name| name.strip_prefix("wakepath-").map(str::to_owned))
}

/// What each manifest imports, but for its tests.
fn actual() -> Arrows {
    let mut arrows = Arrows::new();
    for folder in fs::read_dir(root().join("crates")).unwrap() {
        let folder = folder.unwrap().path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        let manifest: toml::Value = manifest.parse::<toml::Table>().unwrap().into();
        let mut imports: BTreeSet<String> = BTreeSet::new();
        for kind in ["dependencies", "build-dependencies"] {
            imports.extend(own(manifest.get(kind)));
            let targets = manifest.get("target").and_then(toml::Value::as_table);
            for target in targets.into_iter().flat_map(toml::Table::values) {
                imports.extend(own(target.get(kind)));
            }
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        arrows.insert(name, imports);
    }
    arrows
}

#[test]
fn crates_import_what_the_architecture_allows_and_nothing_else() {
    assert_eq!(actual(), allowed());
}
