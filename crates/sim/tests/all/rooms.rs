//! No files of this crate import each other in a circle.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Each file of `src` by its module's path, with the paths that its `use crate::` lines name.
fn imports(folder: &Path, module: &str, found: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let inside = |name: &str| match module {
            "" => name.to_owned(),
            _ => format!("{module}::{name}"),
        };
        if path.is_dir() {
            imports(&path, &inside(name), found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
        let uses = code.lines().filter_map(|line| {
            let path = line.trim().strip_prefix("use crate::")?;
            let item = |part: &&str| !part.starts_with(|c: char| c == '{' || c.is_uppercase());
            let parts: Vec<&str> = path
                .trim_end_matches(';')
                .split("::")
                .take_while(item)
                .collect();
            Some(parts.join("::"))
        });
        let own = if name == "mod" {
            module.to_owned()
        } else {
            inside(name)
        };
        found.entry(own).or_default().extend(uses);
    }
}

fn of_this_crate() -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    imports(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        "",
        &mut found,
    );
    found.remove("lib");
    found
}

#[test]
fn files_import_each_other_in_no_circle() {
    let files = of_this_crate();
    // What a path names: the file itself, or the one that has the item.
    let file_of = |path: &str| {
        let mut path = path.to_owned();
        while !files.contains_key(&path) {
            let (parent, _) = path.rsplit_once("::")?;
            path = parent.to_owned();
        }
        Some(path)
    };
    let arrows: BTreeMap<&String, BTreeSet<String>> = files
        .iter()
        .map(|(file, used)| {
            (
                file,
                used.iter()
                    .filter_map(|u| file_of(u))
                    .filter(|u| u != file)
                    .collect(),
            )
        })
        .collect();
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
