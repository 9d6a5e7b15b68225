//! Completions and man pages.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use predicates::prelude::*;
use predicates::str::contains;

use crate::common::wakepath;

#[test]
fn every_shell_gets_a_script_that_knows_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        wakepath(&["completions", shell])
            .success()
            .stdout(contains("reproduce").and(contains("cpu-latency")));
    }
}

#[test]
fn every_command_gets_a_man_page() {
    let temp = tempfile::tempdir().unwrap();
    let directory = temp.path().join("man/man1");
    wakepath(&["man", directory.to_str().unwrap()]).success();
    for page in [
        "wakepath.1",
        "wakepath-sim.1",
        "wakepath-policy-idle.1",
        "wakepath-apst-plan.1",
    ] {
        let text = fs::read_to_string(directory.join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
    wakepath(&["man", "/dev/null/pages"])
        .code(1)
        .stderr(contains("cannot write"));
}
