//! Runs the real nvme-cli on data of ours, through the shim beside this file.
#![allow(
    clippy::unwrap_used,
    reason = "a failed test may panic in a helper too"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// nvme-cli with the shim preloaded.
pub(crate) struct NvmeCli {
    directory: PathBuf,
}

impl NvmeCli {
    /// Compiles the shim. `None`, with the reason on standard error, if the machine lacks nvme-cli
    /// or a C compiler.
    pub(crate) fn prepare(test: &str) -> Option<Self> {
        for (tool, package) in [("nvme", "nvme-cli"), ("cc", "gcc")] {
            let found = Command::new(tool)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            if found.is_err() {
                eprintln!(
                    "SKIPPED {test}: no `{tool}`; install it with: apt-get install {package}"
                );
                return None;
            }
        }
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        std::fs::create_dir_all(&directory).unwrap();
        // Other crates' tests use this module too.
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let source = crates.join("hardware/tests/nvme_cli/shim.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(directory.join("shim.so"))
            .arg(source)
            .status()
            .unwrap();
        assert!(compiled.success(), "cc could not compile the shim");
        Some(Self { directory })
    }

    /// What `nvme` prints with these arguments when the device answers a command with `data`:
    /// Identify for `SHIM_IDENTIFY`, Get Features for `SHIM_FEATURE`. Any character device will
    /// do in the arguments.
    pub(crate) fn output(&self, command: &str, data: &[u8], arguments: &[&str]) -> Vec<u8> {
        let answer = self.directory.join("answer.bin");
        std::fs::write(&answer, data).unwrap();
        let output = Command::new("nvme")
            .args(arguments)
            .env("LD_PRELOAD", self.directory.join("shim.so"))
            .env(command, answer)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "nvme {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }
}
