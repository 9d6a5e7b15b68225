//! What tests of whole commands share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses a part of it, and may panic"
)]

pub(crate) mod bursts;
pub(crate) mod captured;
pub(crate) mod files;
pub(crate) mod laboratory;
pub(crate) mod leases;
pub(crate) mod processes;
pub(crate) mod recording;
pub(crate) mod rig;
pub(crate) mod systemd_guest;

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use assert_cmd::Command;
use assert_cmd::assert::Assert;
use serde_json::Value;
use wakepath_hardware::Machine;

/// The machine of a root, and the notes of its capture.
pub(crate) fn captured_machine(root: &Path) -> (Machine, String) {
    let assert = wakepath(&["machine", "capture", "--root", root.to_str().unwrap()]).success();
    let output = assert.get_output();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let notes = String::from_utf8(output.stderr.clone()).unwrap();
    (Machine::parse(&text, "captured").unwrap(), notes)
}

/// The repository's root.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Holds this machine for one test: tests that change settings, or compare them, go one after the other.
pub(crate) fn lock_machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `wakepath` with these arguments, and with room for whole sentences in a line.
pub(crate) fn wakepath(arguments: &[&str]) -> Assert {
    Command::cargo_bin("wakepath")
        .unwrap()
        .args(arguments)
        .env("COLUMNS", "1000")
        // No test takes the calibration of the machine that it runs on.
        .env("WAKEPATH_HERE", "")
        .assert()
}

/// Starts `wakepath` with these arguments; nobody reads what it prints.
pub(crate) fn start_silently(arguments: &[&str]) -> Child {
    std::process::Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Standard output as JSON.
pub(crate) fn json(assert: &Assert) -> Value {
    let output = assert.get_output();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.stdout.is_empty(), "no output: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Exit code 1, one message of one line with all of these in it, nothing on standard output.
pub(crate) fn fails_with(assert: Assert, parts: &[&str]) {
    fails_with_code(1, assert, parts);
}

/// The same with another exit code.
pub(crate) fn fails_with_code(code: i32, assert: Assert, parts: &[&str]) {
    let assert = assert.code(code).stdout("");
    let message = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

/// Says that a test cannot run here, which is a failure where everything has to run.
pub(crate) fn skip(test: &str, reason: &str) {
    let reason = reason.replace('\n', " ");
    eprintln!("skipped: {test}: {reason}");
    assert!(
        std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
        "{reason}"
    );
}
