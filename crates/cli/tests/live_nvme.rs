//! Set and Get Features as they reach a drive: a fake one that is preloaded into wakepath and into nvme-cli.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::captured::copy_of_laptop;

/// A machine whose drive answers commands out of files.
struct Fake {
    machine: tempfile::TempDir,
    shim: PathBuf,
}

impl Fake {
    /// `Err`: what this machine lacks.
    fn new() -> Result<Self, String> {
        let machine = copy_of_laptop();
        let device = machine.path().join("dev/nvme0");
        // The shim answers before the device is asked; the null device is one that is always there.
        let node = Command::new("mknod")
            .arg(&device)
            .args(["c", "1", "3"])
            .output();
        if !node.is_ok_and(|o| o.status.success()) || fs::File::open(&device).is_err() {
            return Err("no device node can be made here (run as root)".to_owned());
        }
        if Command::new("nvme").arg("--version").output().is_err() {
            return Err("no nvme; apt-get install nvme-cli".to_owned());
        }
        let shim = machine.path().join("shim.so");
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../hardware/tests/nvme_cli/shim.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([&shim, &source])
            .output()
            .map_err(|e| format!("no cc: {e}"))?;
        assert!(compiled.status.success(), "{compiled:?}");
        Ok(Self { machine, shim })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.machine.path().join(name)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        Command::new(program)
            .args(arguments)
            .env("LD_PRELOAD", &self.shim)
            .env("SHIM_IDENTIFY", self.file("dev/nvme0.id-ctrl"))
            .env("SHIM_STORE", self.file("dev/nvme0.feature-0c"))
            .output()
            .unwrap()
    }

    fn wakepath(&self, arguments: &[&str]) -> Output {
        let mut all = arguments.to_vec();
        all.extend(["--root", self.machine.path().to_str().unwrap()]);
        self.run(env!("CARGO_BIN_EXE_wakepath"), &all)
    }

    /// What nvme-cli reads from the drive.
    fn table_by_nvme_cli(&self) -> Vec<u8> {
        let device = self.file("dev/nvme0");
        let arguments = [
            "get-feature",
            device.to_str().unwrap(),
            "-f",
            "0x0c",
            "-l",
            "256",
            "-b",
        ];
        let output = self.run("nvme", &arguments);
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }
}

#[test]
fn nvme_cli_reads_the_table_that_was_planned_byte_for_byte() {
    let fake = match Fake::new() {
        Ok(fake) => fake,
        Err(reason) => {
            let test = "nvme_cli_reads_the_table_that_was_planned_byte_for_byte";
            eprintln!("skipped: {test}: {reason}");
            assert!(
                std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
                "{reason}"
            );
            return;
        }
    };
    let store = fake.file("dev/nvme0.feature-0c");
    let before = fs::read(&store).unwrap();
    assert_eq!(fake.table_by_nvme_cli(), [0; 256]);

    let planned = Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(["apst", "plan", "--format", "bin", "--id-ctrl"])
        .arg(fake.file("dev/nvme0.id-ctrl"))
        .output()
        .unwrap()
        .stdout;
    assert!(planned.len() == 256 && planned.iter().any(|b| *b != 0));
    let applied = fake.wakepath(&["apply", "apst"]);
    assert!(applied.status.success(), "{applied:?}");
    assert_eq!(fake.table_by_nvme_cli(), planned);
    // APSTE of dword 11; the shim refuses the save bit and every other feature.
    assert_eq!(fs::read(&store).unwrap()[..4], [1, 0, 0, 0]);

    let restored = fake.wakepath(&["restore"]);
    assert!(restored.status.success(), "{restored:?}");
    assert_eq!(fs::read(&store).unwrap(), before);
    assert_eq!(fake.table_by_nvme_cli(), [0; 256]);
}

#[test]
fn a_drive_that_keeps_something_else_is_noticed() {
    let fake = match Fake::new() {
        Ok(fake) => fake,
        Err(reason) => {
            eprintln!("skipped: a_drive_that_keeps_something_else_is_noticed: {reason}");
            assert!(
                std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
                "{reason}"
            );
            return;
        }
    };
    // A drive that takes the command, and does nothing.
    let store = fake.file("dev/nvme0.feature-0c");
    let before = fs::read(&store).unwrap();
    let mut deaf = Command::new(env!("CARGO_BIN_EXE_wakepath"));
    let output = deaf
        .args([
            "apply",
            "apst",
            "--root",
            fake.machine.path().to_str().unwrap(),
        ])
        .env("LD_PRELOAD", &fake.shim)
        .env("SHIM_IDENTIFY", fake.file("dev/nvme0.id-ctrl"))
        .env("SHIM_STORE", &store)
        .env("SHIM_DEAF", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(
        message.contains("dev/nvme0: wrote 'on:") && message.contains("reads back as 'off:"),
        "{message}"
    );
    assert_eq!(fs::read(&store).unwrap(), before);
    assert!(!fake.file("var/lib/wakepath/journal.json").exists());
}
