//! Virtual machines (docs/background/laboratory.md).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use super::repository;

/// The rig's exit code when something that it needs is not there.
pub(crate) const UNAVAILABLE: i32 = 3;

/// What a guest handed back.
#[derive(Debug)]
pub(crate) struct Guest(PathBuf);

/// Why there is no guest.
#[derive(Debug)]
pub(crate) enum NoGuest {
    /// It cannot run here.
    Unavailable(String),
    /// Something went wrong.
    Failed(String),
}

/// A guest that several tests look at, run by the first of them.
pub(crate) type Shared = OnceLock<Result<Guest, NoGuest>>;

/// The guest `name`, run with these arguments if it has not been; `None` where it cannot run.
pub(crate) fn guest<'a>(
    test: &str,
    shared: &'a Shared,
    name: &str,
    arguments: &[&str],
) -> Option<&'a Guest> {
    match shared.get_or_init(|| run(name, arguments)) {
        Ok(guest) => Some(guest),
        Err(NoGuest::Unavailable(reason)) => {
            super::skip(test, reason);
            None
        }
        Err(NoGuest::Failed(reason)) => panic!("{reason}"),
    }
}

fn run(name: &str, arguments: &[&str]) -> Result<Guest, NoGuest> {
    let root = repository();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rig-{name}"));
    let _ = fs::remove_dir_all(&out);
    let run = Command::new("python3")
        .current_dir(&root)
        .arg("rig/rig.py")
        // Usually a guest takes a minute; other tests may keep the machine busy. A test may give more.
        .args(["--timeout", "300"])
        .args(arguments)
        .arg("--out")
        .arg(&out)
        .output()
        .map_err(|error| NoGuest::Unavailable(format!("python3: {error}")))?;
    let said = String::from_utf8_lossy(&run.stderr).trim().to_owned();
    if run.status.code() == Some(UNAVAILABLE) {
        return Err(NoGuest::Unavailable(said));
    }
    if !run.status.success() {
        return Err(NoGuest::Failed(said));
    }
    print!("{}", String::from_utf8_lossy(&run.stdout));
    Ok(Guest(out))
}

impl Guest {
    /// A file of its /out.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// As an argument.
    pub(crate) fn arg(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        // Traces name tasks as they like.
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap()).into_owned()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&fs::read(self.path(name)).unwrap()).unwrap()
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.text(name).trim().parse().unwrap()
    }
}
