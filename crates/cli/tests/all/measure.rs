//! `wakepath measure` as a whole command: plans, refusals, and that nothing is left behind.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use wakepath_system::System;

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::rig::{Shared, guest};
use crate::common::{fails_with, json, lock_machine, skip, wakepath};

/// A folder on the drive of the repository.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn a_dry_run_says_what_would_be_written_and_does_nothing() {
    let folder = folder();
    let new = folder.path().join("new");
    let arguments = ["measure", "drive", "--write-to", new.to_str().unwrap()];
    let size = ["--size", "64m", "--dry-run", "--format", "json"];
    let plan = json(&wakepath(&[&arguments[..], &size].concat()).success());
    assert_eq!(plan["bytes_to_fill"], 64 << 20);
    assert!(plan["most_bytes_written"].as_u64().unwrap() >= 14 * (64 << 20));
    assert!(plan["seconds"].as_f64().unwrap() > 10.0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    let plan = wakepath(&["measure", "wake", "--root", root, "--dry-run"]).success();
    let text = String::from_utf8(plan.get_output().stdout.clone()).unwrap();
    assert!(text.contains("POLL, C1E, C6, C8, C10"), "{text}");
    assert!(different(&content(machine.path()), &before).is_empty());
    assert!(!machine.path().join("var/lib/wakepath").exists());
}

#[test]
fn bad_input_is_refused_in_one_line() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(at("small"), "x").unwrap();
    let drive = |arguments: &[&str]| wakepath(&[&["measure", "drive"], arguments].concat());
    fails_with(drive(&["--file", &at("none")]), &["none", "No such file"]);
    fails_with(
        drive(&["--file", &at("small")]),
        &["small", "1 bytes", "16 MiB"],
    );
    fails_with(drive(&["--file", &at("")]), &["regular file"]);
    fails_with(drive(&["--file", "/dev/null"]), &["block device"]);
    fails_with(
        drive(&["--write-to", &at("small")]),
        &["small", "is there already"],
    );
    fails_with(drive(&["--write-to", &at("x/y")]), &["No such file"]);
    let huge = drive(&["--write-to", &at("huge"), "--size", "1048576t"]);
    fails_with(huge, &["are free", "--size"]);
    assert!(!Path::new(&at("huge")).exists());
    let taken = drive(&[
        "--write-to",
        &at("new"),
        "--size",
        "16m",
        "-o",
        &at("small"),
    ]);
    fails_with(taken, &["small", "--force replaces it"]);
    let lost = drive(&["--write-to", &at("new"), "--size", "16m", "-o", &at("x/y")]);
    fails_with(lost, &["x: nothing can be written there"]);
    for wrong in [
        &["--size", "12"][..],
        &["--time", "0"],
        &["--file", "a", "--write-to", "b"],
    ] {
        drive(&[&["--write-to", "new"], wrong].concat()).code(2);
    }
    drive(&[]).code(2);

    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let captured = wakepath(&["measure", "wake", "--root", root]);
    fails_with(captured, &["captured machine", "--dry-run"]);
}

#[test]
fn a_calibration_says_before_what_it_will_do() {
    let folder = folder();
    let at = folder.path().to_str().unwrap();
    let arguments = ["calibrate", "--folder", at, "--size", "32m", "--dry-run"];
    let plan = json(&wakepath(&[&arguments[..], &["--format", "json"]].concat()).success());
    assert_eq!(plan["bytes_to_fill"], 64 << 20);
    let seconds = plan["seconds"].as_f64().unwrap();
    assert!((540.0..=660.0).contains(&seconds), "{seconds}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);

    let nowhere = folder.path().join("none").display().to_string();
    let refused = wakepath(&["calibrate", "--folder", &nowhere, "--dry-run"]);
    fails_with(refused, &["none", "No such file"]);
    let colon = folder.path().join("a:b").display().to_string();
    fs::create_dir(&colon).unwrap();
    let refused = wakepath(&["calibrate", "--folder", &colon, "--dry-run"]);
    fails_with(refused, &["a:b", "colons"]);
    let taken = folder.path().join("machine.toml").display().to_string();
    fs::write(&taken, "precious").unwrap();
    let refused = wakepath(&["calibrate", "--folder", at, "-o", &taken]);
    fails_with(refused, &["machine.toml", "--force replaces it"]);
    assert_eq!(fs::read_to_string(&taken).unwrap(), "precious");
}

#[test]
fn a_simulation_says_how_far_predictions_were_off() {
    let folder = folder();
    let machine = folder.path().join("machine.toml").display().to_string();
    let mut model = wakepath_hardware::Machine::find("rk3399").unwrap();
    model.prediction = Some(wakepath_hardware::machine::PredictionError {
        jobs: 4,
        mean_percent: 6.0,
        p99_percent: 15.0,
        iops_percent: 6.0,
        date: "2026-11-27".to_owned(),
        kernel: "6.12.48".to_owned(),
    });
    fs::write(&machine, model.to_toml().unwrap()).unwrap();
    let job = folder.path().join("job.fio").display().to_string();
    fs::write(&job, "[j]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\n").unwrap();
    let run = |more: &[&str]| {
        let arguments = ["sim", &job, "--machine", &machine, "--seconds", "0.1"];
        let assert = wakepath(&[&arguments[..], more].concat()).success();
        String::from_utf8(assert.get_output().stderr.clone()).unwrap()
    };
    let own = run(&[]);
    let says = "predictions on this machine: mean within 6 %, p99 15 %, IOPS 6 % (4 jobs, 2026-11-27, Linux 6.12.48)";
    assert!(own.contains(says), "{own}");
    assert!(!run(&["--drive", "sn530"]).contains("predictions on this machine"));
}

/// Values that a measurement of wake-ups changes.
fn settings() -> Vec<Option<String>> {
    let system = System::live();
    let root = system.root();
    let cpus = "sys/devices/system/cpu";
    let mut all = vec![root.optional(&format!("{cpus}/cpuidle/current_governor"))];
    for cpu in system.cpus() {
        for state in system.idle_states(cpu) {
            let path = format!("{cpus}/cpu{cpu}/cpuidle/state{}/disable", state.index);
            all.push(root.optional(&path));
        }
    }
    all
}

/// Starts a measurement of wake-ups and waits until it has changed a setting; `None` if this machine allows none.
fn start_wake(before: &[Option<String>]) -> Option<Child> {
    let child = Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(["measure", "wake", "--time", "1m"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = child.unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        if settings() != before {
            return Some(child);
        }
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn a_killed_or_interrupted_measurement_is_put_back() {
    let _machine = lock_machine();
    let before = settings();
    let Some(mut killed) = start_wake(&before) else {
        return skip(
            "a_killed_or_interrupted_measurement_is_put_back",
            "idle states cannot be switched off here",
        );
    };
    // A second one is refused while the first runs.
    let second = wakepath(&["measure", "wake", "--time", "1s"]).code(1);
    let message = String::from_utf8(second.get_output().stderr.clone()).unwrap();
    assert!(message.contains("another wakepath"), "{message}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    wakepath(&["restore"]).success();
    assert_eq!(settings(), before);

    let mut interrupted = start_wake(&before).unwrap();
    let pid = rustix::process::Pid::from_child(&interrupted);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(interrupted.wait().unwrap().code(), Some(130));
    assert_eq!(settings(), before);
}

static GUEST: Shared = Shared::new();

#[test]
#[ignore = "nightly: a guest of Linux 6.12"]
fn all_states_of_a_guest_engage_and_its_drive_is_measured() {
    let program = env!("CARGO_BIN_EXE_wakepath");
    let arguments = [
        "x86",
        "--kernel",
        "6.12",
        "--program",
        program,
        "rig/guest/measure.sh",
    ];
    let test = "all_states_of_a_guest_engage_and_its_drive_is_measured";
    let Some(guest) = guest(test, &GUEST, "measure", &arguments) else {
        return;
    };
    assert_eq!(guest.text("before.txt"), guest.text("after.txt"));
    let wakes = guest.json("wake.json")["wakes"].clone();
    let tasks = wakes.as_array().unwrap().iter();
    let tasks: Vec<_> = tasks.filter(|wake| wake["source"] == "task").collect();
    assert_eq!(tasks.len(), 5, "{wakes}");
    for wake in &tasks {
        assert!(wake["latency"]["n"].as_u64().unwrap() >= 20, "{wake}");
    }
    // C6 and C8, whose driver spins for 133 and 300 us of an idle machine. An emulated CPU has no exact time.
    for wake in &tasks[3..] {
        assert!(wake["exit"]["low"].as_f64().unwrap() > 0.0, "{wake}");
    }
    let zeros = guest.text("zeros.txt");
    assert!(zeros.contains("blocks are zeros"), "{zeros}");
    let drive = guest.json("drive.json");
    assert_eq!(drive["device"]["disk"], "nvme0n1");
    assert!(drive["service"].as_array().unwrap().len() >= 10, "{drive}");
}
