//! The tutorial, gone through by copying its lines, in a folder that has only what a clone has.
//!
//! Blocks marked `console` print the same everywhere, and are compared by byte. Blocks marked `console here` look at the machine that they run on,
//! and are compared by shape. Both leave every setting as it was.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::{pages_are_updated, root, shell_in, update_or_compare, with_real_outputs};
use crate::common::captured::{content, different};
use crate::common::{lock_machine, skip};
use crate::live::settings;

/// The tutorial's page.
pub(super) fn page() -> PathBuf {
    root().join("docs/tutorial.md")
}

/// A folder with what the tutorial's commands read of a clone, and with the folder that step 1 makes.
fn clone_of_repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = root().canonicalize().unwrap();
    for part in ["docs", "workloads"] {
        symlink(root.join(part), folder.path().join(part)).unwrap();
    }
    fs::create_dir_all(folder.path().join("target/tutorial")).unwrap();
    folder
}

#[test]
fn the_tutorial_prints_what_it_says_and_leaves_its_copy_as_it_was() {
    let clone = clone_of_repository();
    let text = fs::read_to_string(page()).unwrap();
    let real = with_real_outputs(&text, clone.path(), "```console", "");
    let copy = content(&clone.path().join("target/tutorial/laptop"));
    let original = content(&root().join("docs/examples/captured-laptop"));
    assert!(!copy.is_empty());
    let changed = different(&copy, &original);
    assert!(changed.is_empty(), "the last step leaves {changed:?}");
    update_or_compare(vec![(page(), real)]);
}

/// The first block of build commands has to stay what the other steps rely on.
#[test]
fn the_tutorial_builds_the_program_that_its_steps_call() {
    let text = fs::read_to_string(page()).unwrap();
    let block = text.split("```sh\n").nth(1).unwrap();
    let lines: Vec<&str> = block.split("```").next().unwrap().lines().collect();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("[profile.demo]"));
    assert_eq!(
        lines,
        [
            "cargo build --profile demo --locked -p wakepath-cli",
            "export PATH=\"$PWD/target/demo:$PATH\"",
            "mkdir -p target/tutorial",
        ]
    );
}

/// What stays the same of a line on another machine: its words without numbers; tables keep their number of columns only.
#[derive(Debug, PartialEq)]
enum Shape {
    /// A sentence or a heading: all words are the program's.
    Words(String),
    /// A line with figures: how many columns it has.
    Columns(usize),
}

impl Shape {
    fn parse(line: &str) -> Self {
        let columns = line.split("  ").filter(|c| !c.trim().is_empty()).count();
        if line.contains(|c: char| c.is_ascii_digit()) {
            Self::Columns(columns)
        } else {
            Self::Words(line.split_whitespace().collect::<Vec<_>>().join(" "))
        }
    }
}

/// The outputs of a page's blocks `console here`, each with its command.
fn outputs_of_this_machine(page: &str) -> Vec<(String, Vec<String>)> {
    let mut outputs: Vec<(String, Vec<String>)> = Vec::new();
    let blocks = page.split("```console here\n").skip(1);
    for block in blocks.map(|rest| rest.split("```").next().unwrap_or_default()) {
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => outputs.push((command.to_owned(), Vec::new())),
                None => outputs.last_mut().unwrap().1.push(line.to_owned()),
            }
        }
    }
    outputs
}

/// Headings that a reader is told to look for, on every machine.
const HEADINGS: [(&str, &str); 4] = [
    ("explain", "interrupt"),
    ("apply", "setting"),
    ("status", "limit us"),
    ("restore", "setting"),
];

/// Puts a `sudo` before the real one: the tests are root, or skip themselves. Programs are found where Debian's `sudo` looks for them.
fn folder_with_sudo(clone: &Path) -> PathBuf {
    let programs = clone.join("programs");
    fs::create_dir_all(&programs).unwrap();
    let sudo = programs.join("sudo");
    fs::write(&sudo, "#!/bin/sh\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin exec \"$@\"\n").unwrap();
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).unwrap();
    programs
}

#[test]
fn what_the_tutorial_says_of_this_machine_has_the_shape_of_what_it_prints() {
    const NAME: &str = "what_the_tutorial_says_of_this_machine_has_the_shape_of_what_it_prints";
    let _machine = lock_machine();
    let clone = clone_of_repository();
    let programs = folder_with_sudo(clone.path());
    let run = |command: &str| {
        let line = format!("PATH={}:$PATH; {command}", programs.display());
        shell_in(clone.path(), &line)
    };
    let trial =
        run("sudo env \"PATH=$PATH\" wakepath apply 'cpu-latency[limit=20us,cpus=all]' --for 1ms");
    if !trial.status.success() {
        let reason = String::from_utf8_lossy(&trial.stderr).into_owned();
        return skip(NAME, &format!("no settings to change here: {reason}"));
    }
    let text = fs::read_to_string(page()).unwrap();
    if pages_are_updated() {
        let line = format!("PATH={}:$PATH; ", programs.display());
        let real = with_real_outputs(&text, clone.path(), "```console here", &line);
        fs::write(page(), real).unwrap();
        return;
    }
    let before = settings();
    let said = outputs_of_this_machine(&text);
    assert_eq!(said.len(), 7, "{said:?}");
    for (command, lines) in &said {
        let output = run(command);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if command.contains("wakepath explain") && !output.status.success() {
            return skip(NAME, &format!("{command}: {errors}"));
        }
        assert!(
            output.status.code().is_some_and(|code| code != 1),
            "{command}: {errors}"
        );
        let printed = String::from_utf8(output.stdout).unwrap();
        let shapes: Vec<Shape> = printed.lines().map(Shape::parse).collect();
        for (word, heading) in HEADINGS {
            let is_meant = command.contains(&format!("wakepath {word}"));
            assert!(
                !is_meant || printed.contains(heading),
                "{command}: {printed}"
            );
        }
        // A line of figures has its like in every output that has figures at all.
        let figures = |shape: &Shape| matches!(shape, Shape::Columns(columns) if *columns > 2);
        let said_figures = lines
            .iter()
            .map(|line| Shape::parse(line))
            .any(|shape| figures(&shape));
        assert_eq!(
            said_figures,
            shapes.iter().any(figures),
            "{command}: {printed}"
        );
    }
    let left = different(&settings(), &before);
    assert!(left.is_empty(), "the last step leaves {left:?}");
}
