//! Settings of `apply --persist` on a captured machine while `wakepath daemon` runs there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::leases::data;
use crate::common::{lock_machine, wakepath};
use crate::daemon::{Daemon, armed, folder, possible};

const EPP: &str = "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference";
const ONLINE: &str = "sys/class/power_supply/AC/online";
const FILE: &str = "etc/wakepath/settings.toml";
const JOURNAL: &str = "var/lib/wakepath/journal.json";
const SEEN: &str = "var/lib/wakepath/seen-writes.json";

/// A laptop with persistent settings for mains and battery, as after its boot.
struct BootedLaptop {
    machine: tempfile::TempDir,
    before: BTreeMap<String, Vec<u8>>,
}

impl BootedLaptop {
    fn boot() -> Self {
        Self::boot_with_own_values(&[])
    }

    /// As [`Self::boot`], of a laptop whose files have these values before.
    fn boot_with_own_values(files: &[(&str, &str)]) -> Self {
        let machine = copy_of_laptop();
        let laptop = Self {
            before: BTreeMap::new(),
            machine,
        };
        laptop.put("sys/class/power_supply/BAT0/type", "Battery\n");
        laptop.put(ONLINE, "1\n");
        for (file, value) in files {
            laptop.put(file, value);
        }
        let before = content(laptop.root());
        laptop.put(
            FILE,
            "mains = 'epp[value=power] + cpu-latency[limit=50us,cpus=all]'\nbattery = 'epp[value=performance]'\n",
        );
        laptop.run(&["apply", "--at-boot"]);
        assert_eq!(laptop.read(EPP), "power");
        Self { before, ..laptop }
    }

    fn root(&self) -> &Path {
        self.machine.path()
    }

    fn put(&self, file: &str, text: &str) {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, file: &str) -> String {
        let text = fs::read_to_string(self.root().join(file)).unwrap();
        text.trim().to_owned()
    }

    /// Runs wakepath there. Returns what it said.
    fn run(&self, arguments: &[&str]) -> String {
        let there = ["--root", self.root().to_str().unwrap()];
        let run = wakepath(&[arguments, &there].concat()).success();
        String::from_utf8(run.get_output().stderr.clone()).unwrap()
    }

    fn start_daemon(&self) -> Daemon {
        let mut daemon = Daemon::start(&["--root", self.root().to_str().unwrap()], &[]);
        daemon.until("leases on");
        daemon
    }

    /// Restores everything, and compares it with the machine before its boot.
    fn assert_restore_undoes_all(&self) {
        self.run(&["restore"]);
        self.put(ONLINE, "1\n");
        let left = different(&content(self.root()), &self.before);
        assert!(left.is_empty(), "{left:?}");
    }
}

/// What the daemon says when an event borrows its lock.
const LENT: &str = "everything is put back for a moment";

#[test]
fn persistent_settings_are_kept_while_the_daemon_runs() {
    let _machine = lock_machine();
    if !possible("persistent_settings_are_kept_while_the_daemon_runs") {
        return;
    }
    let laptop = BootedLaptop::boot();
    let own = String::from_utf8_lossy(&laptop.before[EPP])
        .trim()
        .to_owned();
    let mut daemon = laptop.start_daemon();
    let folder = folder();
    let data = data(folder.path());
    // Sleep has reset the preference.
    laptop.put(EPP, &own);
    let told = laptop.run(&["apply", "--after-event", "resume"]);
    assert!(
        told.contains("wrote again what was reset: epp:policy0"),
        "{told}"
    );
    assert_eq!(laptop.read(EPP), "power");
    daemon.until(LENT);
    daemon.until("leases on");
    assert!(armed(laptop.root(), &data, "2"), "no leases after an event");

    laptop.put(ONLINE, "0\n");
    let told = laptop.run(&["apply", "--supply-changed"]);
    assert!(told.contains("on battery: wrote"), "{told}");
    assert_eq!(laptop.read(EPP), "performance");
    daemon.until(LENT);
    daemon.until("leases on");

    laptop.put(EPP, "balance_power\n");
    let told = laptop.run(&["apply", "--after-event", "interval"]);
    assert!(
        told.contains("somebody else has set it, so it stays"),
        "{told}"
    );
    daemon.until(LENT);
    daemon.until("leases on");
    // Leases are no drift, and a daemon that has nothing to do with an event is left alone.
    assert!(armed(laptop.root(), &data, "2"), "no leases after drift");
    for event in ["interval", "resume", "cpu0"] {
        assert_eq!(
            laptop.run(&["apply", "--after-event", event]),
            "",
            "{event}"
        );
    }
    let last = daemon.stop();
    assert!(!last.contains(LENT), "{last}");
    assert!(
        !laptop
            .root()
            .join("var/lib/wakepath/daemon.socket")
            .exists()
    );
    laptop.assert_restore_undoes_all();
}

#[test]
fn status_names_a_writer_of_a_setting_that_had_its_value_before() {
    let _machine = lock_machine();
    if !possible("status_names_a_writer_of_a_setting_that_had_its_value_before") {
        return;
    }
    let laptop = BootedLaptop::boot_with_own_values(&[(EPP, "power\n")]);
    assert!(!laptop.read(JOURNAL).contains("epp:policy0"));
    let mut daemon = laptop.start_daemon();
    // Settings are watched from a moment after the start on.
    sleep(Duration::from_secs(1));
    let script = format!("echo performance 1<>{EPP}; sleep 1");
    let mut shell = Command::new("sh")
        .args(["-c", &script])
        .current_dir(laptop.root())
        .spawn()
        .unwrap();
    let writer = format!("sh (process {}) has written", shell.id());
    shell.wait().unwrap();
    daemon.until(&writer);
    let status = wakepath(&["status", "--root", laptop.root().to_str().unwrap()]).success();
    let told = String::from_utf8(status.get_output().stdout.clone()).unwrap();
    let drift =
        format!("drifted: epp:policy0 is performance, not power; {writer} it, as the daemon saw\n");
    assert!(told.contains(&drift), "{told}");
    daemon.stop();
}

#[test]
fn status_names_a_writer_that_the_daemon_has_seen() {
    let _machine = lock_machine();
    if !possible("status_names_a_writer_that_the_daemon_has_seen") {
        return;
    }
    let laptop = BootedLaptop::boot();
    let mut daemon = laptop.start_daemon();
    let epp = laptop.root().join(EPP);
    let run_shell = |script: String| {
        let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let process = shell.id();
        shell.wait().unwrap();
        process
    };
    // The shell is there until the daemon has looked up its name. `<>` does not empty the file, so there is one write.
    let write = |value: &str| run_shell(format!("echo {value} 1<>{}; sleep 1", epp.display()));
    // The shell has ended before the daemon looks up its name. The daemon then gets time to read the value.
    let write_and_end = |daemon: &Daemon, value: &str| {
        let process =
            daemon.while_stopped(|| run_shell(format!("echo {value} >{}", epp.display())));
        sleep(Duration::from_secs(1));
        process
    };
    // Settings are watched from a moment after the start on.
    sleep(Duration::from_secs(1));
    let process = write("performance");
    let line = format!("sh (process {process}) has written epp:policy0");
    daemon.until(&line);
    let status = || {
        let run = wakepath(&["status", "--root", laptop.root().to_str().unwrap()]).success();
        String::from_utf8(run.get_output().stdout.clone()).unwrap()
    };
    let seen = format!(
        "drifted: epp:policy0 is performance, not power; sh (process {process}) has written it, as the daemon saw\n"
    );
    let told = status();
    assert!(told.contains(&seen), "{told}");

    // Nothing is said of a repetition, or of a short process that wrote wakepath's own value and may have been wakepath.
    write("performance");
    write_and_end(&daemon, "power");
    let kept = laptop.read(SEEN);
    assert!(kept.contains(&format!("\"process\":{process},")), "{kept}");
    let ended = write_and_end(&daemon, "default");
    let told = daemon.until("has written");
    let line = format!("process {ended} (ended) has written epp:policy0, which is 'default' now");
    assert!(told.contains(&line), "{told}");
    let seen = format!("is default, not power; process {ended} (ended) has written it,");
    let told = status();
    assert!(told.contains(&seen), "{told}");
    // A short process may have been `wakepath restore` where the journal has the setting no more.
    let journal = laptop.read(JOURNAL);
    laptop.put(JOURNAL, &journal.replace("epp:policy0", "epp:policy9"));
    write_and_end(&daemon, "balance_power");
    laptop.put(JOURNAL, &journal);
    let kept = laptop.read(SEEN);
    assert!(kept.contains(&format!("\"process\":{ended},")), "{kept}");

    // What the daemon saw proves nothing about another value, which came after the daemon's end.
    daemon.stop();
    laptop.put(EPP, "balance_power\n");
    let told = status();
    let unknown = "epp:policy0 is balance_power, not power; by whom is unknown\n";
    assert!(told.contains(unknown), "{told}");
    laptop.assert_restore_undoes_all();
}

#[test]
fn a_kill_of_daemon_or_event_leaves_all_to_be_undone() {
    let _machine = lock_machine();
    if !possible("a_kill_of_daemon_or_event_leaves_all_to_be_undone") {
        return;
    }
    let laptop = BootedLaptop::boot();
    let event = || {
        Command::new(env!("CARGO_BIN_EXE_wakepath"))
            .args(["apply", "--supply-changed", "--root"])
            .arg(laptop.root())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut daemon = laptop.start_daemon();
    let mut online = true;
    let mut turn_plug = || {
        online = !online;
        laptop.put(ONLINE, if online { "1\n" } else { "0\n" });
    };
    for round in 0..8 {
        turn_plug();
        let mut killed = event();
        sleep(Duration::from_millis(5 + 15 * round));
        let _ = killed.kill();
        killed.wait().unwrap();
        // The next event makes up for it, and the daemon goes on.
        laptop.run(&["apply", "--supply-changed"]);
    }
    for round in 0..6 {
        turn_plug();
        let mut survivor = event();
        sleep(Duration::from_millis(5 + 20 * round));
        daemon.kill();
        assert!(survivor.wait().unwrap().success(), "round {round}");
        daemon = laptop.start_daemon();
    }
    daemon.kill();
    laptop.assert_restore_undoes_all();
}
