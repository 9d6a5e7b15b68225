//! Which folder of this crate may use which, whose events may call which, and that no files import each other in a circle.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Folders from the bottom to the top, with what their setup, state and totals may use.
const FOLDERS: [(&str, &[&str]); 13] = [
    ("error", &[]),
    ("core", &["error"]),
    ("block", &["core"]),
    ("drive", &["block", "core", "error"]),
    ("page_cache", &["block", "core"]),
    ("rcu", &["core"]),
    ("scheduler", &["core"]),
    ("emulator", &["core"]),
    ("cpu", &["core", "error", "rcu", "scheduler"]),
    ("frequency", &["core", "cpu", "error"]),
    ("power", &["core", "cpu", "frequency"]),
    (
        "task",
        &[
            "block",
            "core",
            "error",
            "frequency",
            "page_cache",
            "scheduler",
        ],
    ),
    ("observe", &["block", "core"]),
];

/// Folders whose events reach other mechanisms, from the bottom to the top, with those whose events they call. Such events are methods
/// of the engine.
const EVENTS: [(&str, &[&str]); 10] = [
    ("observe", &[]),
    ("power", &[]),
    ("frequency", &["observe", "power"]),
    ("cpu", &["frequency", "observe", "power"]),
    ("emulator", &["cpu"]),
    ("scheduler", &["cpu", "frequency", "observe"]),
    ("block", &["cpu", "observe", "scheduler"]),
    ("page_cache", &["block", "cpu", "scheduler"]),
    (
        "task",
        &["block", "cpu", "frequency", "page_cache", "scheduler"],
    ),
    (
        "engine",
        &[
            "block",
            "cpu",
            "emulator",
            "frequency",
            "observe",
            "page_cache",
            "power",
            "scheduler",
            "task",
        ],
    ),
];

/// The floors above all of [`FOLDERS`]: the machine compiled, the engine, what it leaves behind, the run.
const FLOORS: [&str; 4] = ["setup", "engine", "result", "run"];

/// Files of `src` by module, and the modules or items that it names by `crate::`, `super::` or `self::`.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// Lines without comments, up to the tests.
fn code(text: &str) -> String {
    let body = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines = body.lines().filter(|line| !line.trim().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The path at the start of `text`, up to the first item.
fn path_at(text: &str) -> Vec<&str> {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let path = &text[..end.unwrap_or(text.len())];
    let is_module = |part: &&str| part.starts_with(|c: char| c.is_lowercase() || c == '_');
    path.split("::").take_while(is_module).collect()
}

/// What `code` of the module `own` names, as paths from the crate's root.
fn named(own: &str, code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let mut module: Vec<&str> = match root {
                "crate::" => Vec::new(),
                _ => own.split("::").collect(),
            };
            if root == "super::" {
                module.pop();
            }
            module.extend(path_at(&code[at + root.len()..]));
            found.insert(module.join("::"));
        }
    }
    found
}

fn read_imports(folder: &Path, module: &str, found: &mut Imports) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let inside = match module {
            "" => name.to_owned(),
            _ => format!("{module}::{name}"),
        };
        if path.is_dir() {
            read_imports(&path, &inside, found);
            continue;
        }
        if name == "tests" {
            continue;
        }
        let own = if name == "mod" {
            module.to_owned()
        } else {
            inside
        };
        let code = code(&fs::read_to_string(&path).unwrap());
        let named = named(&own, &code);
        found.insert(own, named);
    }
}

fn imports_of_this_crate() -> Imports {
    let mut found = BTreeMap::new();
    read_imports(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        "",
        &mut found,
    );
    found.remove("lib");
    assert!(found.len() > 50, "only {} files found", found.len());
    found
}

fn folder(module: &str) -> &str {
    module.split("::").next().unwrap()
}

/// Whether a file has events of a mechanism: it imports the engine or the whole setup, and is on none of the floors itself.
fn has_events(module: &str, named: &BTreeSet<String>) -> bool {
    let is_above = |path: &String| ["engine", "setup"].contains(&folder(path));
    !FLOORS.contains(&folder(module)) && named.iter().any(is_above)
}

#[test]
fn folders_use_only_what_is_listed() {
    let mut uses: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let files = imports_of_this_crate();
    for (file, named) in &files {
        if FLOORS.contains(&folder(file)) || has_events(file, named) {
            continue;
        }
        let folders = named.iter().map(|path| folder(path));
        let others = folders.filter(|other| !other.is_empty() && *other != folder(file));
        uses.entry(folder(file)).or_default().extend(others);
    }
    let listed: BTreeMap<&str, BTreeSet<&str>> = FOLDERS
        .iter()
        .map(|(folder, uses)| (*folder, uses.iter().copied().collect()))
        .collect();
    assert_eq!(uses, listed, "left: what files use; right: the list above");
}

fn assert_used_before(list: &[(&str, &[&str])]) {
    for (at, (folder, uses)) in list.iter().enumerate() {
        let below = &list[..at];
        for used in *uses {
            assert!(
                below.iter().any(|(name, _)| name == used),
                "{folder} uses {used}, which is not below it"
            );
        }
    }
}

#[test]
fn listed_folders_use_only_those_before_them() {
    assert_used_before(&FOLDERS);
}

/// Adds the names of the engine's methods in a text, each with the methods of `self` that it calls.
fn read_methods(folder: &str, code: &str, found: &mut BTreeMap<String, (String, Vec<String>)>) {
    let identifier = |text: &str| -> String {
        let letters = text.chars();
        letters
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    for block in code.split("\nimpl").skip(1) {
        let (head, body) = block.split_once(" {\n").unwrap();
        if !head.contains(" Engine<") {
            continue;
        }
        let body = body.split("\n}").next().unwrap();
        for method in body.split(" fn ").skip(1) {
            let calls = method.match_indices("self.").map(|(at, _)| {
                let name = identifier(&method[at + "self.".len()..]);
                let after = &method[at + "self.".len() + name.len()..];
                after.starts_with('(').then_some(name)
            });
            let entry = (folder.to_owned(), calls.flatten().collect());
            let earlier = found.insert(identifier(method), entry);
            assert!(earlier.is_none(), "two methods {}", identifier(method));
        }
    }
}

fn read_all_methods(at: &Path, inside: &str, found: &mut BTreeMap<String, (String, Vec<String>)>) {
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let name = path.file_name().unwrap().to_str().unwrap();
            read_all_methods(&path, if inside.is_empty() { name } else { inside }, found);
        } else {
            let text = fs::read_to_string(&path).unwrap();
            read_methods(inside, &code(&text), found);
        }
    }
}

#[test]
fn events_call_only_what_is_listed() {
    let mut methods = BTreeMap::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    read_all_methods(&source, "", &mut methods);
    assert!(methods.len() > 100, "only {} methods found", methods.len());
    let mut calls: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (folder, called) in methods.values() {
        let folders = called.iter().filter_map(|name| methods.get(name));
        let others = folders.map(|(other, _)| other.as_str());
        let others = others.filter(|other| other != folder);
        calls.entry(folder).or_default().extend(others);
    }
    let listed: BTreeMap<&str, BTreeSet<&str>> = EVENTS
        .iter()
        .map(|(folder, calls)| (*folder, calls.iter().copied().collect()))
        .collect();
    assert_eq!(
        calls, listed,
        "left: what events call; right: the list above"
    );
}

#[test]
fn listed_events_call_only_those_before_them() {
    assert_used_before(&EVENTS);
}

#[test]
fn floors_use_only_floors_below() {
    let level = |module: &str| FLOORS.iter().position(|floor| *floor == folder(module));
    for (file, named) in &imports_of_this_crate() {
        for used in named {
            if let (Some(own), Some(other)) = (level(file), level(used)) {
                assert!(other <= own, "{file} uses {used}");
            }
        }
    }
}

#[test]
fn files_import_each_other_in_no_circle() {
    let files = imports_of_this_crate();
    // What a path names: the file itself, or the one that has the item.
    let file_of = |path: &str| {
        let mut path = path.to_owned();
        while !files.contains_key(&path) {
            let (parent, _) = path.rsplit_once("::")?;
            path = parent.to_owned();
        }
        Some(path)
    };
    let mut arrows: BTreeMap<&String, BTreeSet<String>> = BTreeMap::new();
    for (file, named) in &files {
        let used = named.iter().filter_map(|path| file_of(path));
        arrows.insert(file, used.filter(|used| used != file).collect());
    }
    // Takes away files that import nothing that is left; what stays is in circles or imports them.
    let mut left: BTreeSet<&String> = files.keys().collect();
    loop {
        let free: Vec<&String> = left
            .iter()
            .filter(|file| !arrows[*file].iter().any(|used| left.contains(used)))
            .copied()
            .collect();
        if free.is_empty() {
            break;
        }
        left.retain(|file| !free.contains(file));
    }
    assert!(left.is_empty(), "circles among {left:?}");
}

/// Fields that the whole crate may touch. The number may only fall: a field belongs to the folder of its mechanism.
const OPEN_FIELDS: usize = 51;

fn count_open_fields(folder: &Path) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count += count_open_fields(&path);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let fields = text.lines().filter_map(|line| {
            let field = line.strip_prefix("    pub(crate) ")?;
            field.split_once(':')
        });
        count += fields.filter(|(name, _)| !name.contains(' ')).count();
    }
    count
}

#[test]
fn no_more_fields_are_open_to_the_whole_crate() {
    let open = count_open_fields(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert_eq!(
        open, OPEN_FIELDS,
        "fields that are pub(crate): more need a better place, fewer a lower number here"
    );
}
