//! `scripts/profiled-build.sh`, with a program small enough to be built in a test.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::repository;

/// Makes a package of one program, and builds it with this training.
fn build(name: &str, training: &str) -> Output {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("src")).unwrap();
    let package = format!("name = \"{name}\"\nversion = \"0.0.0\"\n");
    let manifest = format!("[package]\n{package}edition = \"2024\"\n[workspace]\n");
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    let lock = format!("version = 4\n[[package]]\n{package}");
    fs::write(folder.join("Cargo.lock"), lock).unwrap();
    fs::write(
        folder.join("src/main.rs"),
        "fn main() { println!(\"{}\", std::env::args().map(|a| a.len()).max().unwrap_or(0)); }\n",
    )
    .unwrap();
    Command::new(repository().join("scripts/profiled-build.sh"))
        .arg(folder.join("Cargo.toml"))
        .args([name, "sh", "-c", training])
        .output()
        .unwrap()
}

fn profiled(file: &str) -> PathBuf {
    repository().join("target/profiled").join(file)
}

#[test]
fn a_program_is_trained_and_built_again() {
    let name = "wakepath-test-trained";
    let _ = fs::remove_file(profiled(name));
    let _ = fs::remove_file(profiled(&format!("{name}.profdata")));
    let built = build(name, "\"$PROGRAM\" trained");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    let output = Command::new(profiled(name)).arg("x".repeat(1000)).output();
    assert_eq!(output.unwrap().stdout, b"1000\n");
    // Where the toolchain lacks the tool, the build is an ordinary one and says so.
    let with_profile = profiled(&format!("{name}.profdata")).exists();
    assert_ne!(with_profile, said.contains("without a profile"), "{said}");
}

#[test]
fn a_training_that_fails_builds_nothing() {
    let name = "wakepath-test-untrained";
    let _ = fs::remove_file(profiled(name));
    let built = build(name, "echo 'the dog ate it' >&2; exit 3");
    let said = String::from_utf8_lossy(&built.stderr);
    if said.contains("without a profile") {
        assert!(built.status.success(), "{said}");
        return;
    }
    assert_eq!(built.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("the training of {name} failed")),
        "{said}"
    );
    let log = fs::read_to_string(profiled(&format!("{name}.log"))).unwrap();
    assert!(log.contains("the dog ate it"), "{log}");
    assert!(!profiled(name).exists());
}
