//! ARCHITECTURE.md says which crate may import which; the manifests must say the same.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use imports::CrateSource;

mod imports;

/// What a crate imports.
#[derive(Debug, Default, PartialEq)]
struct Imports {
    itself: BTreeSet<String>,
    /// What only its tests import.
    tests: BTreeSet<String>,
}

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

/// The table "The crates" of the page, in its order.
fn allowed() -> Vec<(String, Imports)> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let table = page.split("\n## The crates\n").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').collect())
        .collect();
    let names: BTreeSet<String> = rows.iter().flat_map(|row| quoted(row[0])).collect();
    let imports = |row: Vec<&str>| {
        let name = quoted(row[0]).pop_first().unwrap();
        let listed = quoted(row[2]);
        let itself = if row[2].trim_start().starts_with("all but") {
            let others = names.difference(&listed).cloned();
            others.filter(|other| *other != name).collect()
        } else {
            listed
        };
        let tests = quoted(row[3]);
        (name, Imports { itself, tests })
    };
    rows.into_iter().map(imports).collect()
}

/// The workspace's own crates in a table of dependencies.
fn own(dependencies: Option<&toml::Value>) -> impl Iterator<Item = String> + '_ {
    let table = dependencies.and_then(toml::Value::as_table);
    table
        .into_iter()
        .flat_map(toml::Table::keys)
        .filter_map(|name| name.strip_prefix("wakepath-").map(str::to_owned))
}

/// The workspace's own crates in dependencies of a kind, of all targets.
fn of_kind(manifest: &toml::Value, kind: &str) -> BTreeSet<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flat_map(toml::Table::values);
    own(manifest.get(kind))
        .chain(targets.flat_map(|target| own(target.get(kind))))
        .collect()
}

/// What each manifest imports.
fn actual() -> BTreeMap<String, Imports> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let folders = folders.map(|folder| folder.unwrap().path());
    let named = folders.filter_map(|folder| {
        let name = folder.file_name()?.to_string_lossy().into_owned();
        Some((name, imports(&folder)?))
    });
    named.collect()
}

/// What the manifest of a folder imports; `None` if there is none.
fn imports(folder: &Path) -> Option<Imports> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let manifest: toml::Value = manifest.parse::<toml::Table>().unwrap().into();
    let mut itself = of_kind(&manifest, "dependencies");
    itself.extend(of_kind(&manifest, "build-dependencies"));
    let mut tests = of_kind(&manifest, "dev-dependencies");
    tests.retain(|name| !itself.contains(name));
    Some(Imports { itself, tests })
}

#[test]
fn crates_import_what_the_architecture_allows_and_nothing_else() {
    assert_eq!(actual(), allowed().into_iter().collect());
}

/// `python` is outside `crates`, but of the same workspace.
#[test]
fn the_python_package_binds_what_its_row_says() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let row = page.lines().find(|line| line.starts_with("| `python` |"));
    let mut named = quoted(row.unwrap());
    named.remove("python");
    let actual = imports(&root().join("python")).unwrap();
    assert_eq!(actual.itself, named);
    assert_eq!(actual.tests, BTreeSet::new());
}

/// The wheel is built where neither clang nor libbpf is.
#[test]
fn the_python_package_needs_no_ebpf() {
    let crates = actual();
    let mut reached = BTreeSet::new();
    let mut next: Vec<String> = imports(&root().join("python"))
        .unwrap()
        .itself
        .into_iter()
        .collect();
    while let Some(name) = next.pop() {
        if reached.insert(name.clone()) {
            next.extend(crates[&name].itself.iter().cloned());
        }
    }
    assert!(reached.contains("study"));
    assert!(!reached.contains("ebpf"), "{reached:?}");
}

/// The picture of the layers: names by line, uppermost first.
fn layers() -> Vec<BTreeSet<String>> {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let picture = page.split("```\n").nth(1).unwrap();
    let line = |line: &str| {
        let names = line.split("   ").map(str::trim);
        let names = names.filter(|name| !name.is_empty() && !name.contains(' '));
        names.map(str::to_owned).collect()
    };
    picture.lines().map(line).collect()
}

/// The names in the drawing, by height.
fn drawn_layers() -> Vec<BTreeSet<String>> {
    let drawing = fs::read_to_string(root().join("docs/images/layers.svg")).unwrap();
    let mut layers: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for text in drawing.split("<text class=\"name\"").skip(1) {
        let (_, height) = text.split_once("y=\"").unwrap();
        let (height, _) = height.split_once('"').unwrap();
        let (_, name) = text.split_once('>').unwrap();
        let (name, _) = name.split_once('<').unwrap();
        let layer = layers.entry(height.parse().unwrap()).or_default();
        layer.insert(name.to_owned());
    }
    layers.into_values().collect()
}

#[test]
fn the_drawing_has_the_layers_of_the_page() {
    let mut expected = layers();
    // The Python package stands outside of `crates`.
    expected[0].insert("python".to_owned());
    assert_eq!(drawn_layers(), expected);
}

#[test]
fn a_crate_imports_from_lines_below_its_own() {
    let layers = layers();
    let layer = |name: &str| layers.iter().position(|line| line.contains(name));
    for (name, imports) in actual() {
        let own = layer(&name);
        assert!(own.is_some(), "{name} is not in the picture");
        for import in imports.itself {
            assert!(
                layer(&import) > own,
                "{name} imports {import}, which is not below it"
            );
        }
    }
}

#[test]
fn a_crate_imports_from_rows_above_its_own() {
    let rows = allowed();
    for (row, (name, imports)) in rows.iter().enumerate() {
        for import in &imports.itself {
            let above = rows[..row].iter().any(|(other, _)| other == import);
            assert!(above, "{name} imports {import}, whose row is not above");
        }
    }
}

/// The sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    let files_below = |path: PathBuf| {
        if path.is_dir() {
            sources(&path)
        } else {
            vec![path]
        }
    };
    entries.flat_map(files_below).collect()
}

/// How many files of a crate are in circles. A number may only fall: a new circle needs a module below both files.
const FILES_IN_CIRCLES: &[(&str, usize)] = &[];

/// The most lines that a file may have without its tests.
const LINES: usize = 700;

/// Files with more than [`LINES`], with the most lines that they may have.
const LONG_FILES: &[(&str, usize)] = &[];

/// The sources of every crate, by name.
fn crate_sources() -> BTreeMap<String, CrateSource> {
    let crates = actual().into_keys();
    let folders = crates.map(|name| (name.clone(), root().join("crates").join(name)));
    folders
        .chain([("python".to_owned(), root().join("python"))])
        .map(|(name, folder)| (name, CrateSource::read(&folder.join("src"))))
        .collect()
}

#[test]
fn files_import_each_other_in_no_circle() {
    let mut files = BTreeMap::new();
    for (name, source) in crate_sources() {
        for circle in source.circles() {
            println!("{name}: circle of {circle:?}");
            *files.entry(name.clone()).or_default() += circle.len();
        }
    }
    let listed = FILES_IN_CIRCLES
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count));
    assert_eq!(
        files,
        listed.collect::<BTreeMap<_, _>>(),
        "left: files in circles now; right: FILES_IN_CIRCLES, whose numbers may only fall"
    );
}

#[test]
fn no_file_is_longer_than_a_reader_can_keep_in_mind() {
    let mut long = BTreeMap::new();
    for (name, source) in crate_sources() {
        for (module, lines) in source.files_longer_than(LINES) {
            println!("{name}::{module}: {lines} lines");
            long.insert(format!("{name}::{module}"), lines);
        }
    }
    let listed = LONG_FILES.iter().copied().collect::<BTreeMap<_, _>>();
    for (file, lines) in &long {
        let limit = listed.get(file.as_str()).unwrap_or(&LINES);
        assert!(lines <= limit, "{file} has {lines} lines, not {limit}");
    }
    for file in listed.keys() {
        assert!(
            long.contains_key(*file),
            "{file} is listed in LONG_FILES and has at most {LINES} lines"
        );
    }
}

#[test]
fn no_two_public_types_have_one_name() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in actual().into_keys() {
        for path in sources(&root().join("crates").join(name).join("src")) {
            for line in fs::read_to_string(&path).unwrap_or_default().lines() {
                let words: Vec<&str> = line.split_whitespace().take(3).collect();
                // A macro names its types where it is used.
                if let ["pub", "struct" | "enum" | "trait" | "type", name] = words[..]
                    && !name.starts_with('$')
                {
                    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
                    let name = name[..end.unwrap_or(name.len())].to_owned();
                    places
                        .entry(name)
                        .or_default()
                        .push(path.display().to_string());
                }
            }
        }
    }
    assert!(
        places.len() > 500,
        "types were looked for in the wrong place"
    );
    places.retain(|_, places| places.len() > 1);
    assert_eq!(places, BTreeMap::new());
}
