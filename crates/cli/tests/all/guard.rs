//! `wakepath apply --keep`: a set is held while block requests keep its conditions, and put back however that ends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::leases::{burst, data};
use crate::common::{fails_with, skip, wakepath};

const WAKEPATH: &str = env!("CARGO_BIN_EXE_wakepath");
const SET: &str = "cpu-latency[limit=20us,cpus=all]";
/// A trial of `--persist`, which ends with a file for every boot if the guard allows it.
const TRIAL: &[&str] = &["--persist", "--yes"];
const SETTINGS_FILE: &str = "etc/wakepath/settings.toml";

/// An `apply --keep` that runs on a copy of the laptop, and watches this machine's drives.
struct Guarded {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
    said: Vec<String>,
    /// The folder of a daemon's configuration.
    folder: Option<tempfile::TempDir>,
}

impl Guarded {
    fn start(machine: &Path, condition: &str, way: &[&str]) -> Self {
        let mut child = Command::new(WAKEPATH)
            .args(["apply", SET, "--keep", condition, "--root"])
            .arg(machine)
            .args(way)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self {
            child,
            lines,
            said: Vec::new(),
            folder: None,
        }
    }

    /// Waits until it says something with this in it; false: it has ended before.
    fn says(&mut self, part: &str) -> bool {
        for line in self.lines.by_ref().map_while(Result::ok) {
            self.said.push(line);
            if self.said.last().unwrap().contains(part) {
                return true;
            }
        }
        false
    }

    fn end_by(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads and writes while something else is done.
fn with_load<T>(data: &Path, work: impl FnOnce() -> T) -> T {
    /// Ends the load even if the work fails.
    struct EndsLoad<'a>(&'a AtomicBool);

    impl Drop for EndsLoad<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                burst(data);
                sleep(Duration::from_millis(50));
            }
        });
        let _end = EndsLoad(&over);
        work()
    })
}

#[test]
fn a_condition_that_nobody_can_watch_is_refused_before_anything_is_written() {
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    let refused = wakepath(&["apply", SET, "--root", root, "--keep", "mean_us(sdzz) < 3"]);
    fails_with(
        refused,
        &["--keep 'mean_us(sdzz) < 3': no drive is called sdzz; expected one of "],
    );
    for (condition, part) in [
        (
            "mean_mw < 9",
            "a guard sees the latency of block requests, not mean_mw",
        ),
        ("p99_us > 9", "expected `p99_us < LIMIT`"),
        ("p99_us < 5%", "a change of what is in force has a sign"),
        ("p99_us < 150us", "limits have no unit"),
    ] {
        let refused = wakepath(&["apply", SET, "--root", root, "--keep", condition]);
        let message = String::from_utf8(refused.failure().get_output().stderr.clone()).unwrap();
        assert!(message.contains(part), "{message}");
    }
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn a_relative_limit_of_a_set_in_force_is_refused() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let keep_persistent = ["--persist", "--yes", "--for", "1s"];
    wakepath(&["apply", SET, "--root", root]).success();
    let before = content(machine.path());
    for way in [&[][..], &["--dry-run"], &keep_persistent] {
        let keep = ["apply", SET, "--root", root, "--keep", "p99_us <= +5%"];
        let refused = wakepath(&[&keep[..], way].concat());
        fails_with(
            refused,
            &[
                "--keep 'p99_us <= +5%': the set changes nothing now, so there is no latency without",
            ],
        );
    }
    // A limit in us compares with nothing.
    wakepath(&[
        "apply",
        SET,
        "--root",
        root,
        "--keep",
        "p99_us < 9",
        "--dry-run",
    ])
    .success();
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn a_dry_run_says_what_it_would_watch() {
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    let keep = ["--keep", "p99_us < 150", "--keep", "mean_us <= +5%"];
    let shown = [&["apply", SET, "--root", root, "--dry-run"][..], &keep].concat();
    let shown = wakepath(&shown).success();
    let told = String::from_utf8(shown.get_output().stderr.clone()).unwrap();
    for part in [
        "would watch p99_us < 150 over the requests of ",
        "3 broken windows in a row put the set back",
        "mean_us <= +5%",
        "against 3 windows before the set is applied",
        "fio's latency includes the system call",
    ] {
        assert!(told.contains(part), "'{part}': {told}");
    }
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn the_set_is_undone_by_a_signal_and_after_a_kill() {
    let test = "the_set_is_undone_by_a_signal_and_after_a_kill";
    for (signal, way, in_force) in [
        (Signal::INT, &[][..], "in force and watched"),
        (Signal::KILL, &[], "in force and watched"),
        (Signal::INT, TRIAL, "in force for 600s on trial"),
        (Signal::KILL, TRIAL, "in force for 600s on trial"),
    ] {
        let machine = copy_of_laptop();
        let before = content(machine.path());
        let mut guarded = Guarded::start(machine.path(), "p99_us < 60000000", way);
        if !guarded.says(in_force) {
            return skip(test, &guarded.said.join("; "));
        }
        assert_eq!(different(&content(machine.path()), &before).len(), 2);
        let status = guarded.end_by(signal);
        if signal == Signal::KILL {
            let root = machine.path().to_str().unwrap();
            wakepath(&["restore", "--held", "--root", root]).success();
        } else {
            assert_eq!(status.code(), Some(130), "{:?}", guarded.said);
            let put_back = if way.is_empty() {
                "put 2 setting(s) back"
            } else {
                "nothing is kept"
            };
            assert!(guarded.says(put_back), "{:?}", guarded.said);
        }
        let left = different(&content(machine.path()), &before);
        assert!(left.is_empty(), "{signal:?} {way:?}: {left:?}");
    }
}

/// Quiet time is no kept condition.
#[test]
fn a_trial_without_requests_keeps_nothing() {
    let test = "a_trial_without_requests_keeps_nothing";
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let way = [TRIAL, &["--for", "50ms"]].concat();
    let mut guarded = Guarded::start(machine.path(), "p99_us < 60000000", &way);
    if !guarded.says("in force for 50ms on trial") {
        return skip(test, &guarded.said.join("; "));
    }
    for part in [
        "too few requests came to judge p99_us < 60000000: a window has 10 s",
        "put everything back; nothing is kept",
        "no condition was seen to be kept",
    ] {
        assert!(guarded.says(part), "'{part}': {:?}", guarded.said);
    }
    assert_eq!(guarded.child.wait().unwrap().code(), Some(1));
    let left = different(&content(machine.path()), &before);
    assert!(left.is_empty(), "{left:?}");
}

/// A window of ten seconds keeps the condition, so that the set stays for every boot.
#[test]
#[ignore = "nightly: takes more than ten seconds"]
fn a_trial_that_keeps_its_condition_stays() {
    let test = "a_trial_that_keeps_its_condition_stays";
    let machine = copy_of_laptop();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let data = data(folder.path());
    let way = [TRIAL, &["--for", "20s"]].concat();
    let mut guarded = Guarded::start(machine.path(), "p99_us < 60000000", &way);
    if !guarded.says("in force for 20s on trial") {
        return skip(test, &guarded.said.join("; "));
    }
    let said = with_load(&data, || guarded.says("applied, and again at every boot"));
    assert!(said, "{:?}", guarded.said);
    assert!(guarded.says("the guard ends here"), "{:?}", guarded.said);
    assert!(guarded.child.wait().unwrap().success());
    let file = fs::read_to_string(machine.path().join(SETTINGS_FILE)).unwrap();
    assert!(file.contains(SET), "{file}");
}

/// Programs are loaded, settings are written, requests are followed: whatever a kill meets.
#[test]
#[ignore = "nightly: takes a minute"]
fn a_kill_at_any_moment_leaves_nothing_behind() {
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    let mut met_changes = 0;
    for moment in 0..30 {
        let way = if moment % 2 == 0 { TRIAL } else { &[] };
        let mut guarded = Guarded::start(machine.path(), "p99_us < 60000000", way);
        sleep(Duration::from_millis(moment * 80));
        guarded.end_by(Signal::KILL);
        met_changes += different(&content(machine.path()), &before).len();
        wakepath(&["restore", "--held", "--root", root]).success();
        let left = different(&content(machine.path()), &before);
        assert!(left.is_empty(), "after {moment} steps of 80 ms: {left:?}");
    }
    if met_changes == 0 {
        skip(
            "a_kill_at_any_moment_leaves_nothing_behind",
            "no kill met a set in force",
        );
    }
}

/// Three windows of ten seconds break the condition, and three more follow.
#[test]
#[ignore = "nightly: takes more than a minute"]
fn a_broken_condition_puts_the_set_back_and_names_the_cause() {
    let test = "a_broken_condition_puts_the_set_back_and_names_the_cause";
    for (way, in_force) in [
        (&[][..], "in force and watched"),
        (TRIAL, "in force for 600s on trial"),
    ] {
        let machine = copy_of_laptop();
        let before = content(machine.path());
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let data = data(folder.path());
        let mut guarded = Guarded::start(machine.path(), "p50_us < 0.01", way);
        if !guarded.says(in_force) {
            return skip(test, &guarded.said.join("; "));
        }
        with_load(&data, || {
            assert!(guarded.says("put 2 setting(s) back"), "{:?}", guarded.said);
            assert!(different(&content(machine.path()), &before).is_empty());
            assert!(guarded.says("without the set it is"), "{:?}", guarded.said);
        });
        assert!(guarded.says("did not keep its condition and was put back"));
        assert_eq!(guarded.child.wait().unwrap().code(), Some(1));
        let told = guarded.said.join("\n");
        for part in [
            "limits are in us",
            "broken, window 1 of 3",
            "p50_us < 0.01 is broken in 3 windows in a row",
        ] {
            assert!(told.contains(part), "'{part}': {told}");
        }
        assert_eq!(told.contains("nothing is kept"), way == TRIAL, "{told}");
        assert!(!fs::exists(machine.path().join("var/lib/wakepath/journal.json")).unwrap());
    }
}

/// A daemon whose guard has put its set back, since no request keeps its condition; `None`: this machine cannot be watched.
fn daemon_with_set_put_back(test: &str, machine: &Path, applied: bool) -> Option<Guarded> {
    let text = format!(
        "policy = ['psd[ceiling=20us]']\n[boost]\nmode = 'off'\n[guard]\nkeep = ['p50_us < 0.01']\napplied = {applied}\n"
    );
    let mut daemon = start_daemon(machine, &text);
    if !daemon.says("leases on 2 CPU(s), ceiling 20 us, guard") {
        skip(test, &daemon.said.join("; "));
        return None;
    }
    let data = data(daemon.folder.as_ref().unwrap().path());
    let said = with_load(&data, || daemon.says("the guard has put the set back"));
    assert!(said, "{:?}", daemon.said);
    Some(daemon)
}

/// A daemon with a configuration in a folder of its own, which a reload reads again.
fn start_daemon(machine: &Path, text: &str) -> Guarded {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let config = folder.path().join("daemon.toml");
    fs::write(&config, text).unwrap();
    let mut child = Command::new(WAKEPATH)
        .args(["daemon", "--root", machine.to_str().unwrap(), "--config"])
        .arg(&config)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    Guarded {
        child,
        lines,
        said: Vec::new(),
        folder: Some(folder),
    }
}

/// The daemon, whose guard takes back what `apply` has set for good, too.
#[test]
#[ignore = "nightly: takes more than half a minute"]
fn the_daemon_puts_its_set_and_what_was_applied_back() {
    let test = "the_daemon_puts_its_set_and_what_was_applied_back";
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    wakepath(&["apply", "teo", "--persist", "--yes", "--root", root]).success();
    let Some(mut daemon) = daemon_with_set_put_back(test, machine.path(), true) else {
        return;
    };
    // No event of this boot puts the persistent settings in force again.
    for event in ["resume", "interval"] {
        wakepath(&["apply", "--after-event", event, "--root", root]).success();
    }
    let left = different(&content(machine.path()), &before);
    let left: Vec<&String> = left.iter().collect();
    assert_eq!(left, [SETTINGS_FILE]);
    // A reload puts the set in force again.
    kill_process(Pid::from_child(&daemon.child), Signal::HUP).unwrap();
    assert!(daemon.says("reloaded"), "{:?}", daemon.said);
    assert!(daemon.end_by(Signal::TERM).success());
    wakepath(&["restore", "--root", root]).success();
    let left = different(&content(machine.path()), &before);
    assert!(left.is_empty(), "{left:?}");
}

/// An event borrows the lock of a daemon whose guard has put the set back: the set stays back.
#[test]
#[ignore = "nightly: takes more than half a minute"]
fn an_event_after_the_guard_leaves_the_set_back() {
    let test = "an_event_after_the_guard_leaves_the_set_back";
    let machine = copy_of_laptop();
    let change_supply = laptop_with_set_for_battery(machine.path());
    let Some(mut daemon) = daemon_with_set_put_back(test, machine.path(), false) else {
        return;
    };
    assert_eq!(change_supply("0"), "ladder");
    assert!(daemon.says("everything is put back for a moment"));
    assert!(daemon.end_by(Signal::TERM).success());
    // To the end of what it said.
    assert!(!daemon.says("leases on"), "{:?}", daemon.said);
}

/// A relative limit compares with latency without the daemon's set, which is therefore put in force last.
#[test]
#[ignore = "nightly: takes a minute"]
fn the_daemon_measures_before_it_puts_its_set_in_force() {
    const CONFIG: &str = "policy = ['psd[ceiling=20us]']\n[boost]\nmode = 'off'\n[guard]\nkeep = ['p50_us <= +100000%']\n";
    let test = "the_daemon_measures_before_it_puts_its_set_in_force";
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let change_supply = laptop_with_set_for_battery(machine.path());
    let before = content(machine.path());
    let has_leases = || {
        let journal = machine.path().join("var/lib/wakepath/journal.json");
        fs::read_to_string(journal).unwrap().contains("cpu-latency")
    };
    let mut daemon = start_daemon(machine.path(), CONFIG);
    if !daemon.says("measuring latency before the set is put in force") {
        return skip(test, &daemon.said.join("; "));
    }
    // An event borrows the lock meanwhile, and the measurement goes on.
    assert_eq!(change_supply("0"), "ladder");
    assert!(!has_leases());
    let data = data(daemon.folder.as_ref().unwrap().path());
    let in_force = "leases on 2 CPU(s), ceiling 20 us, guard";
    let said = with_load(&data, || daemon.says(in_force));
    assert!(said && has_leases(), "{:?}", daemon.said);
    let measured = "before the set is applied";
    let count = |said: &[String]| said.iter().filter(|line| line.contains(measured)).count();
    assert_eq!(count(&daemon.said), 1, "{:?}", daemon.said);
    // The figure from before outlasts the moment in which an event writes its settings.
    assert_eq!(change_supply("1"), "teo");
    assert!(daemon.says(in_force), "{:?}", daemon.said);
    let kept = with_load(&data, || daemon.says("p50_us <= +100000%: "));
    assert!(kept && daemon.said.last().unwrap().contains("kept"));
    assert_eq!(count(&daemon.said), 1, "{:?}", daemon.said);
    assert!(daemon.end_by(Signal::TERM).success());
    let left = different(&content(machine.path()), &before);
    assert!(left.is_empty(), "{left:?}");
    wakepath(&["restore", "--root", root]).success();
}

/// Gives a machine a battery and a persistent set for each supply. The returned function changes the supply, as an event does, and
/// returns the idle governor of then.
fn laptop_with_set_for_battery(machine: &Path) -> impl Fn(&str) -> String {
    let folder = machine.join("sys/class/power_supply/BAT0");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("type"), "Battery\n").unwrap();
    let root = machine.to_str().unwrap().to_owned();
    wakepath(&["apply", "teo", "--persist", "--yes", "--root", &root]).success();
    let ladder = ["apply", "ladder", "--persist", "--yes", "--on", "battery"];
    wakepath(&[&ladder[..], &["--root", &root]].concat()).success();
    let machine = machine.to_owned();
    move |online| {
        let plug = machine.join("sys/class/power_supply/AC/online");
        fs::write(plug, format!("{online}\n")).unwrap();
        wakepath(&["apply", "--supply-changed", "--root", &root]).success();
        let governor = machine.join("sys/devices/system/cpu/cpuidle/current_governor");
        fs::read_to_string(governor).unwrap().trim().to_owned()
    }
}
