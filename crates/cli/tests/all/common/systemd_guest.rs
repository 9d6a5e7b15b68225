//! A Debian guest with systemd, a disk and the package (rig/systemd_guest.py).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::repository;

/// Longest time for a command in the guest, whose CPUs are emulated.
const COMMAND_SECONDS: u64 = 300;
/// Longest time until an event has been dealt with.
const EVENT: Duration = Duration::from_secs(120);

/// A running guest; its disk and all else go with it.
pub(crate) struct SystemdGuest {
    rig: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    #[expect(dead_code, reason = "one test at a time: each guest keeps a core busy")]
    turn: Option<MutexGuard<'static, ()>>,
}

fn wait_for_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the rig starts a guest that has these files in /rig.
fn rig_command(files: &[&Path]) -> Command {
    let mut rig = Command::new("python3");
    rig.current_dir(repository())
        .arg("rig/systemd_guest.py")
        .args(files.iter().flat_map(|file| [Path::new("--add"), file]));
    rig
}

impl SystemdGuest {
    /// Boots a guest that has these files in /rig. `Err`: why there is none.
    pub(crate) fn boot(files: &[&Path]) -> Result<Self, String> {
        Self::start(&mut rig_command(files), &[], Some(wait_for_turn()))
    }

    /// As [`Self::boot`], with a SATA disk.
    pub(crate) fn boot_with_sata_disk(files: &[&Path]) -> Result<Self, String> {
        Self::start(&mut rig_command(files), &["sata"], Some(wait_for_turn()))
    }

    /// Boots two guests with a network card each, whose SSH is at these ports of 127.0.0.1.
    pub(crate) fn boot_two_with_ssh(files: &[&Path], ports: [u16; 2]) -> Result<[Self; 2], String> {
        let [first, second] = ports.map(|port| ["--ssh".to_owned(), port.to_string()]);
        let turn = wait_for_turn();
        Ok([
            Self::start(rig_command(files).args(first), &[], Some(turn))?,
            Self::start(rig_command(files).args(second), &[], None)?,
        ])
    }

    /// Boots a guest after requests of one word, which give it more hardware.
    fn start(
        rig: &mut Command,
        requests: &[&str],
        turn: Option<MutexGuard<'static, ()>>,
    ) -> Result<Self, String> {
        let mut rig = rig
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| format!("python3: {error}"))?;
        let mut guest = Self {
            requests: rig.stdin.take(),
            answers: BufReader::new(rig.stdout.take().unwrap()),
            rig,
            turn,
        };
        let is_equipped = requests
            .iter()
            .all(|word| guest.ask(&json!([word])).is_some());
        if is_equipped && guest.ask(&json!(["boot", ""])).is_some() {
            return Ok(guest);
        }
        // The rig has said on standard error what is missing.
        let code = guest.rig.wait().unwrap().code();
        assert_eq!(code, Some(super::rig::UNAVAILABLE), "the rig failed");
        Err("the rig lacks something".to_owned())
    }

    /// Sends a request; `None` if the rig has ended.
    fn ask(&mut self, request: &Value) -> Option<Value> {
        let requests = self.requests.as_mut().unwrap();
        writeln!(requests, "{request}").ok()?;
        let mut line = String::new();
        self.answers.read_line(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    /// An orderly end of the boot, and the next one, with more parameters of the kernel.
    pub(crate) fn reboot(&mut self, parameters: &str) {
        self.ask(&json!(["reboot", parameters])).unwrap();
    }

    /// The power is cut, and the guest boots.
    pub(crate) fn cut_power(&mut self) {
        self.ask(&json!(["cut", ""])).unwrap();
    }

    /// From the next boot on the processor has this name.
    pub(crate) fn exchange_processor(&mut self, name: &str) {
        self.ask(&json!(["processor", name])).unwrap();
    }

    /// A virtio disk is put into a slot of the running guest.
    pub(crate) fn plug_virtio_disk(&mut self) {
        self.ask(&json!(["plug"])).unwrap();
    }

    /// The guest's kernel gives the disk of the slot back.
    pub(crate) fn unplug_virtio_disk(&mut self) {
        self.ask(&json!(["unplug"])).unwrap();
    }

    /// The exit code of a shell command, and what it printed.
    pub(crate) fn run(&mut self, command: &str) -> (i64, String) {
        let answer = self.ask(&json!(["run", command, COMMAND_SECONDS])).unwrap();
        let printed = answer["printed"].as_str().unwrap().to_owned();
        (answer["status"].as_i64().unwrap(), printed)
    }

    /// What a shell command that has to succeed printed.
    pub(crate) fn must(&mut self, command: &str) -> String {
        let (status, printed) = self.run(command);
        assert_eq!(status, 0, "{command}: {printed}");
        printed
    }

    /// What a unit has said in this boot.
    pub(crate) fn said(&mut self, unit: &str) -> String {
        self.must(&format!(
            "journalctl --boot --no-pager --output cat --unit '{unit}'"
        ))
    }

    /// Waits until a command succeeds.
    pub(crate) fn wait_for(&mut self, command: &str) {
        let began = Instant::now();
        loop {
            let (status, printed) = self.run(command);
            if status == 0 {
                return;
            }
            if began.elapsed() > EVENT {
                let journal = self.must("journalctl --boot --no-pager --lines 30");
                panic!("{command}: {printed}\n{journal}");
            }
            std::thread::sleep(Duration::from_millis(300));
        }
    }
}

impl Drop for SystemdGuest {
    fn drop(&mut self) {
        // The end of its standard input ends the rig, and the guest with it.
        self.requests = None;
        let _ = self.rig.wait();
    }
}
