//! Studies in the laboratory (docs/background/laboratory.md).

use std::path::Path;
use std::process::{Command, Output};

use super::rig::UNAVAILABLE;
use super::{repository, skip};

/// The command that runs a study in the laboratory, with further options.
pub(crate) fn laboratory_command(study: &str, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command
        .current_dir(repository())
        .args(["rig/lab.py", study, "-o"])
        .arg(out)
        .args(["--program", env!("CARGO_BIN_EXE_wakepath")])
        .args(more);
    command
}

/// What a script of the rig said on standard error; `None`: it lacks something, and the test is skipped.
pub(crate) fn said_unless_skipped(test: &str, done: &Output) -> Option<String> {
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.code() == Some(UNAVAILABLE) {
        skip(test, said.trim());
        return None;
    }
    Some(said)
}
