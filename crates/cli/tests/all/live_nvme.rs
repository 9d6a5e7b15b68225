//! Set and Get Features as they reach a drive: a fake one that is preloaded into wakepath and into nvme-cli.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common;
use crate::common::captured::copy_of_laptop;

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

    /// nvme-cli with a command for the drive's APST feature.
    fn nvme_cli(&self, command: &str, arguments: &[&str]) -> Vec<u8> {
        let device = self.file("dev/nvme0");
        let mut all = vec![command, device.to_str().unwrap(), "-f", "0x0c"];
        all.extend(arguments);
        let output = self.run("nvme", &all);
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// What nvme-cli reads from the drive.
    fn table_by_nvme_cli(&self) -> Vec<u8> {
        self.nvme_cli("get-feature", &["-l", "256", "-b"])
    }
}

/// The fake drive; `None`, which is said, where there can be none.
fn fake(test: &str) -> Option<Fake> {
    Fake::new()
        .map_err(|reason| common::skip(test, &reason))
        .ok()
}

/// What `nvme get-feature -H` says of a table: for each entry the idle time in ms and the state to go to.
fn entries_in_words(text: &str) -> Vec<(u64, u64)> {
    let numbers = |name: &str| -> Vec<u64> {
        text.lines()
            .filter(|line| line.contains(name))
            .filter_map(|line| line.split(": ").nth(1)?.split(' ').next()?.parse().ok())
            .collect()
    };
    numbers("(ITPT)")
        .into_iter()
        .zip(numbers("(ITPS)"))
        .collect()
}

#[test]
fn nvme_cli_reads_the_table_that_was_planned_byte_for_byte() {
    let Some(fake) = fake("nvme_cli_reads_the_table_that_was_planned_byte_for_byte") else {
        return;
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
    // In words: 32 entries of 8 bytes, bits 31:8 the idle time, 7:3 the state (NVMe Base Specification, APST).
    let words = String::from_utf8(fake.nvme_cli("get-feature", &["-H"])).unwrap();
    assert!(words.contains("(APSTE): Enabled"), "{words}");
    let entries: Vec<(u64, u64)> = planned
        .chunks(8)
        .map(|entry| u64::from_le_bytes(entry.try_into().unwrap()))
        .map(|entry| ((entry >> 8) & 0xff_ffff, (entry >> 3) & 0x1f))
        .collect();
    assert_eq!(entries_in_words(&words), entries);
    // APSTE of dword 11; the shim refuses the save bit and every other feature.
    assert_eq!(fs::read(&store).unwrap()[..4], [1, 0, 0, 0]);

    let restored = fake.wakepath(&["restore"]);
    assert!(restored.status.success(), "{restored:?}");
    assert_eq!(fs::read(&store).unwrap(), before);
    assert_eq!(fake.table_by_nvme_cli(), [0; 256]);
}

#[test]
fn a_table_that_nvme_cli_has_set_is_put_back() {
    let Some(fake) = fake("a_table_that_nvme_cli_has_set_is_put_back") else {
        return;
    };
    let mut table = [0; 256];
    // From state 0 to 4 after 1234 ms, as nobody would plan it.
    table[..8].copy_from_slice(&((1234_u64 << 8) | (4 << 3)).to_le_bytes());
    let file = fake.file("table");
    fs::write(&file, table).unwrap();
    let file = file.to_str().unwrap();
    fake.nvme_cli("set-feature", &["-v", "1", "-l", "256", "-d", file]);
    assert_eq!(fake.table_by_nvme_cli(), table);
    let before = fs::read(fake.file("dev/nvme0.feature-0c")).unwrap();

    let applied = fake.wakepath(&["apply", "apst"]);
    assert!(applied.status.success(), "{applied:?}");
    assert_ne!(fake.table_by_nvme_cli(), table);
    let restored = fake.wakepath(&["restore"]);
    assert!(restored.status.success(), "{restored:?}");
    assert_eq!(fake.table_by_nvme_cli(), table);
    assert_eq!(fs::read(fake.file("dev/nvme0.feature-0c")).unwrap(), before);
}

#[test]
fn a_drive_that_keeps_something_else_is_noticed() {
    let Some(fake) = fake("a_drive_that_keeps_something_else_is_noticed") else {
        return;
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
