//! Measurements that are killed, and full disks: nothing is left behind, and one error says what to do.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::Duration;

use crate::common::processes::wait;
use crate::common::{fails_with, lock_machine, skip, start_silently, wakepath};
use crate::measure::{limits, settings};

/// Bytes of a test file.
const BYTES: u64 = 16 << 20;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// A file with data on the drive.
fn write_data(folder: &Path) -> String {
    let path = folder.join("data");
    let mut word = 1_u64;
    let words = (0..BYTES / 8).flat_map(|_| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        word.to_le_bytes()
    });
    fs::write(&path, words.collect::<Vec<u8>>()).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    path.display().to_string()
}

/// Whether a process has a file open below a folder whose name ends so.
fn has_open(child: &Child, folder: &Path, ending: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{}/fd", child.id())) else {
        return false;
    };
    files.flatten().any(|file| {
        let target = fs::read_link(file.path()).unwrap_or_default();
        target.starts_with(folder) && target.to_string_lossy().ends_with(ending)
    })
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(9)
    );
}

/// Runs a command with no file larger than so many KiB.
fn run_with_small_files(kib: u64, arguments: &[&str]) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", &format!("ulimit -f {kib}; exec \"$0\" \"$@\"")]);
    shell.arg(env!("CARGO_BIN_EXE_wakepath")).args(arguments);
    shell.env("WAKEPATH_HERE", "").output().unwrap()
}

/// Messages of the system's errors, such as `(os error 27)`.
fn find_errors(said: &str) -> Vec<&str> {
    let lines = said.lines();
    lines.filter(|line| line.contains("(os error ")).collect()
}

#[test]
fn a_killed_measurement_of_a_drive_leaves_no_file() {
    let _machine = lock_machine();
    let folder = folder();
    let at = fs::canonicalize(folder.path()).unwrap();
    let new = at.join("new").display().to_string();
    let arguments = ["measure", "drive", "--write-to", &new, "--size", "16m"];
    let child = start_silently(&[&arguments[..], &["--time", "2m"]].concat());
    wait(&mut || has_open(&child, &at, "new (deleted)"));
    kill(child);
    assert_eq!(names_in(&at), [""; 0]);
    // Neither a file nor a lock is in the way of the next.
    let report = ["--time", "1s", "--dry-run"];
    wakepath(&[&arguments[..], &report].concat()).success();
    wakepath(&["restore"]).success();
}

#[test]
fn a_killed_measurement_of_the_path_lets_the_next_one_in() {
    let _machine = lock_machine();
    let folder = folder();
    let at = fs::canonicalize(folder.path()).unwrap();
    let data = write_data(&at);
    let child = start_silently(&["measure", "path", "--file", &data, "--time", "2m"]);
    wait(&mut || has_open(&child, &at, "data"));
    std::thread::sleep(Duration::from_millis(100));
    kill(child);
    assert_eq!(names_in(&at), ["data"]);
    wakepath(&["restore"]).success();
    wakepath(&["measure", "path", "--file", &data, "--time", "1s"]).success();
}

/// Starts a calibration of the drive, then of wake-ups, that would write its machine file into another folder.
fn start_calibration(at: &Path, results: &Path) -> Child {
    let machine = results.join("machine.toml").display().to_string();
    let folder = at.display().to_string();
    let drive = ["calibrate", "--folder", &folder, "--size", "16m"];
    let more = ["--budget", "10s", "--phases", "wake", "-o", &machine];
    start_silently(&[&drive[..], &more].concat())
}

/// A calibration that is killed while idle states are switched off: the next one puts these back, and removes the test files.
#[test]
fn the_calibration_after_a_killed_one_puts_back_and_clears_away() {
    let test = "the_calibration_after_a_killed_one_puts_back_and_clears_away";
    if !rustix::process::geteuid().is_root() {
        return skip(test, "needs root to change settings");
    }
    let _machine = lock_machine();
    let [folder, results] = [folder(), folder()];
    let at = fs::canonicalize(folder.path()).unwrap();
    let before = (settings(), limits());
    let mut killed = start_calibration(&at, results.path());
    wait(&mut || settings() != before.0 || killed.try_wait().unwrap().is_some());
    if killed.try_wait().unwrap().is_some() {
        return skip(test, "idle states cannot be switched off here");
    }
    kill(killed);
    assert_ne!(settings(), before.0);
    let left = names_in(&at);
    let [left] = &left[..] else {
        unreachable!("one folder: {left:?}");
    };
    assert!(at.join(left).join("fio.tmp").is_file(), "{left}");

    let mut next = start_calibration(&at, results.path());
    wait(&mut || {
        let names = names_in(&at);
        let is_new = |name: &String| name != left && at.join(name).join("fio.tmp").is_file();
        !names.contains(left) && names.iter().any(is_new)
    });
    // The drive comes first: no idle state is switched off again so early.
    assert_eq!(settings(), before.0);
    let pid = rustix::process::Pid::from_child(&next);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    next.wait().unwrap();
    assert_eq!((settings(), limits()), before);
    assert_eq!(names_in(&at), [""; 0]);
}

#[test]
fn a_file_that_may_not_grow_so_far_is_one_error() {
    let _machine = lock_machine();
    let folder = folder();
    let new = folder.path().join("new").display().to_string();
    let arguments = ["measure", "drive", "--write-to", &new, "--size", "16m"];
    let refused = run_with_small_files(8 << 10, &arguments);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let errors = find_errors(&said);
    assert_eq!(errors.len(), 1, "{said}");
    for part in ["new: filling it", "File too large", "ulimit -f", "--size"] {
        assert!(errors[0].contains(part), "{part}: {said}");
    }
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[test]
fn a_page_that_finds_no_room_costs_no_figures() {
    let _machine = lock_machine();
    let folder = folder();
    let data = write_data(folder.path());
    let page = folder.path().join("page.html").display().to_string();
    let arguments = ["measure", "path", "--file", &data, "--time", "1s", "--page"];
    let full = run_with_small_files(1, &[&arguments[..], &[&page]].concat());
    let said = String::from_utf8(full.stderr).unwrap();
    assert_eq!(full.status.code(), Some(1), "{said}");
    let errors = find_errors(&said);
    assert_eq!(errors.len(), 1, "{said}");
    assert!(errors[0].contains("page.html"), "{said}");
    let printed = String::from_utf8(full.stdout).unwrap();
    assert!(printed.contains("system call: "), "{printed}");
    assert_eq!(names_in(folder.path()), ["data"]);
}

#[test]
fn a_file_that_leaves_no_room_is_refused_before_anything_is_written() {
    let folder = folder();
    let at = folder.path().display().to_string();
    let new = folder.path().join("new").display().to_string();
    let drive = ["measure", "drive", "--write-to", &new, "--size", "900t"];
    fails_with(wakepath(&drive), &["are free", "smaller --size"]);
    let calibrate = ["calibrate", "--folder", &at, "--size", "900t", "--dry-run"];
    fails_with(wakepath(&calibrate), &["are free", "smaller --size"]);
    assert_eq!(names_in(folder.path()), [""; 0]);
}

#[test]
fn a_size_that_nobody_named_is_chosen_by_the_free_space_and_said() {
    let folder = folder();
    let new = folder.path().join("new").display().to_string();
    let plan = wakepath(&["measure", "drive", "--write-to", &new, "--dry-run"]);
    let output = plan.get_output();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("are free there") {
        return skip(
            "a_size_that_nobody_named_is_chosen_by_the_free_space_and_said",
            "the disk is full",
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let chosen = text
        .lines()
        .find(|line| line.contains("for the test file, by the"));
    let chosen = chosen.unwrap();
    let mib: u64 = chosen.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!((16..=2048).contains(&mib), "{chosen}");
    assert!(
        text.contains(&format!("writes {mib} MiB of random data")),
        "{text}"
    );
}
