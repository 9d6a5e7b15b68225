//! `wakepath machine capture` as a whole command.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::Origin;

use crate::common::captured::{content, copy_of_laptop, copy_of_server, laptop};
use crate::common::{captured_machine, fails_with, json, wakepath};

/// Captures a machine into a directory below `directory`.
fn capture(directory: &Path, more: &[&str]) -> (String, serde_json::Value) {
    let target = directory.join("machine").to_str().unwrap().to_owned();
    let mut arguments = vec!["machine", "capture", "--format", "json", "-o", &target];
    arguments.extend(more);
    let report = json(&wakepath(&arguments).success());
    (target, report)
}

#[test]
fn this_machine_is_captured_shown_and_simulated() {
    let directory = tempfile::tempdir().unwrap();
    let (target, report) = capture(directory.path(), &[]);
    assert!(report["files"].as_u64().unwrap() > 20);
    let file = format!("{target}/machine.toml");
    let shown = json(&wakepath(&["machine", "show", &file, "--format", "json"]).success());
    assert_eq!(shown["name"], "machine");
    let job =
        "[j]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nruntime=20ms\ntime_based\n";
    let path = directory.path().join("job.fio");
    fs::write(&path, job).unwrap();
    let path = path.to_str().unwrap();
    wakepath(&["sim", path, "--machine", &file, "--runs", "1"]).success();
    // Nothing that names this device or its owner.
    let words = fs::read_to_string(Path::new(&target).join("proc/cmdline")).unwrap();
    assert!(!words.contains("root="), "{words}");

    let again = wakepath(&["machine", "capture", "-o", &target]);
    fails_with(again, &["not empty", "--force"]);
    wakepath(&["machine", "capture", "-o", &target, "--force"]).success();
}

#[test]
fn a_captured_machine_is_captured_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let laptop = laptop();
    let (target, report) = capture(directory.path(), &["--root", laptop.to_str().unwrap()]);
    assert_eq!(report["not_read"].as_array().unwrap().len(), 0);
    let (there, here) = (content(Path::new(&target)), content(&laptop));
    for (path, bytes) in &there {
        match path.as_str() {
            "machine.toml" | "about.txt" => {}
            // What tells this drive from others is left out, and of the command line what may name a disk.
            "dev/nvme0.id-ctrl" => {
                for same in [0..4, 24..112, 128..768, 1024..3072] {
                    assert_eq!(bytes[same.clone()], here[path][same]);
                }
            }
            "proc/cmdline" => assert_eq!(bytes, b"\n"),
            path => assert_eq!(Some(bytes), here.get(path), "{path}"),
        }
    }
    let missing: Vec<_> = here
        .keys()
        .filter(|path| !there.contains_key(*path))
        .collect();
    assert_eq!(missing, ["README.md"]);
    let text = String::from_utf8(there["machine.toml"].clone()).unwrap();
    for line in [
        "name = \"C10\"",
        "exit_latency_us = 230",
        "base_mhz = 2100",
        "threads_per_core = 2",
        "queues = 2",
        "hz = { value = 250, source",
    ] {
        assert!(text.contains(line), "no {line} in\n{text}");
    }
    let root = laptop.to_str().unwrap();
    let stdout = wakepath(&["machine", "capture", "--root", root, "--name", "machine"]).success();
    assert_eq!(stdout.get_output().stdout, text.as_bytes());
    // Without a name and a directory to write, it is called as the one that is read.
    let stdout = wakepath(&["machine", "capture", "--root", root]).success();
    let text = String::from_utf8(stdout.get_output().stdout.clone()).unwrap();
    assert!(text.contains("\nname = \"captured-laptop\"\n"), "{text}");
}

/// A job that lets a drive go to sleep between its reads.
fn slow_reads(folder: &Path) -> String {
    let path = folder.join("job.fio");
    let text = "[job]\nrw=randread\ndirect=1\nthinktime=1s\nsize=16m\ntime_based\nruntime=3s\n";
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn the_machine_file_has_the_drive_with_its_power_states() {
    let directory = tempfile::tempdir().unwrap();
    let (target, _) = capture(directory.path(), &["--root", laptop().to_str().unwrap()]);
    let file = format!("{target}/machine.toml");
    let text = fs::read_to_string(&file).unwrap();
    let power = text.split("[drive.declared]").nth(1).unwrap();
    println!("{power}");
    assert_eq!(power.matches("[[drive.declared.states]]").count(), 5);
    assert!(power.contains("[drive.in_force]"));

    let job = slow_reads(directory.path());
    let sim = |file: &str| {
        wakepath(&[
            "sim",
            &job,
            "--machine",
            file,
            "--runs",
            "1",
            "--policy",
            "apst",
        ])
    };
    sim(&file).success();
    let (without, declared) = text.split_once("[drive.declared]").unwrap();
    fs::write(&file, without).unwrap();
    fails_with(sim(&file), &["power states"]);

    let states_missing = declared.replacen("npss = 4", "npss = 5", 1);
    fs::write(&file, format!("{without}[drive.declared]{states_missing}")).unwrap();
    fails_with(
        sim(&file),
        &["npss = 5 asks for 6 power states, there are 5"],
    );
}

/// Simulates reads by CPUs of a machine that poll, records them in `reads.parquet`, and returns the drive's mean time in us.
fn record_simulated_reads(folder: &Path, machine: &str, size: &str) -> f64 {
    let job = format!(
        "[reads]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\nbs={size}\nthinktime=50us\ntime_based\nruntime=1\n"
    );
    fs::write(folder.join("job.fio"), job).unwrap();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let simulated = json(
        &wakepath(&[
            "sim",
            &path("job.fio"),
            "--machine",
            machine,
            "--policy",
            "menu + cpu-latency[limit=0us]",
            "--runs",
            "1",
            "--warm-up",
            "0",
            "--record",
            &path("reads.parquet"),
            "--force",
            "--format",
            "json",
        ])
        .success(),
    );
    let run = &simulated["results"][0]["runs"][0];
    run["attribution"]["mean"]["drive_service"]
        .as_f64()
        .unwrap()
}

#[test]
fn a_recording_gives_the_drive_its_service_time() {
    let folder = tempfile::tempdir().unwrap();
    let root = laptop();
    let own = folder.path().join("own.toml").display().to_string();
    let described = wakepath(&["machine", "capture", "--root", root.to_str().unwrap()]).success();
    fs::write(&own, &described.get_output().stdout).unwrap();
    let truth = record_simulated_reads(folder.path(), &own, "4k");
    let recording = folder.path().join("reads.parquet");
    let arguments = [
        "--root",
        root.to_str().unwrap(),
        "--recording",
        recording.to_str().unwrap(),
    ];
    let (target, report) = capture(folder.path(), &arguments);
    let machine = Machine::load(Path::new(&target)).unwrap();
    let figure = &machine.drive.read_service_us;
    let Origin::Measured(measurement) = &figure.origin else {
        panic!("{figure:?}");
    };
    let (low, high) = measurement.interval().unwrap();
    assert!(measurement.n > 1000 && (low..=high).contains(&figure.value));
    assert!(
        (figure.value / truth - 1.0).abs() < 0.02,
        "{} for {truth} us",
        figure.value
    );
    assert!(
        report["notes"]
            .to_string()
            .contains("nvme0n1: read_service_us is")
    );
    // Nothing else is taken, and above all nothing from the counters since boot.
    assert!(!matches!(
        machine.drive.write_service_us.origin,
        Origin::Measured(_)
    ));

    record_simulated_reads(folder.path(), &own, "64k");
    let arguments = [&["machine", "capture"], &arguments[..]].concat();
    fails_with(
        wakepath(&arguments),
        &["--recording", "no 4 KiB request without others in flight"],
    );
    // Another machine has a drive of the same name.
    record_simulated_reads(folder.path(), "xeon-e3-1240v5", "4k");
    fails_with(
        wakepath(&arguments),
        &[
            "--recording",
            "reads.parquet: the recording is of another machine than captured-laptop: 8 CPUs against 2",
            "Give one that was made on it",
        ],
    );
}

#[test]
fn counters_since_boot_give_the_drive_coarse_times() {
    let copy = copy_of_laptop();
    // Requests of 32 KiB, two at a time, say nothing about one of 4 KiB.
    let (machine, notes) = captured_machine(copy.path());
    let assumed = machine.drive.read_service_us;
    assert!(!matches!(assumed.origin, Origin::Measured(_)));
    assert!(
        notes.contains("nvme0n1: a read took 493.733 us in the mean since boot"),
        "{notes}"
    );
    fs::write(
        copy.path().join("sys/block/nvme0n1/stat"),
        "20000 0 160000 1300 0 0 0 0 0 1300 1300 0 0 0 0 0 0\n",
    )
    .unwrap();
    let (machine, notes) = captured_machine(copy.path());
    assert!((machine.drive.read_service_us.value - 65.0).abs() < 1e-9);
    // Counters are a sum and a number, and tell no interval.
    let Origin::Measured(counted) = &machine.drive.read_service_us.origin else {
        panic!("{:?}", machine.drive.read_service_us);
    };
    assert_eq!((counted.n, counted.interval()), (20_000, None));
    assert!(
        notes.contains("nvme0n1: read_service_us is 65 us"),
        "{notes}"
    );
}

#[test]
fn the_machine_file_has_the_latency_limits_in_force() {
    let directory = copy_of_laptop();
    let root = directory.path();
    let limit = |cpu: usize, value: &str| {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
        fs::write(root.join(path), value).unwrap();
    };
    let capture = || {
        let requests = captured_machine(root).0.latency_requests;
        requests
            .into_iter()
            .map(|r| (r.us, r.cpus))
            .collect::<Vec<_>>()
    };
    assert_eq!(capture(), []);
    // In these files 0 is no limit, and n/a no latency at all.
    limit(0, "n/a");
    limit(1, "20");
    fs::write(root.join("dev/cpu_dma_latency"), 50_i32.to_ne_bytes()).unwrap();
    assert_eq!(capture(), [(50, vec![]), (0, vec![0]), (20, vec![1])]);
}

#[test]
fn the_machine_file_has_every_drive() {
    // The server's drive has no APST; the laptop's becomes its second one.
    let root = copy_of_server();
    let second = |path: &str| root.path().join(path);
    fs::create_dir(second("sys/class/nvme/nvme1")).unwrap();
    for (from, to) in [
        ("dev/nvme0.id-ctrl", "dev/nvme1.id-ctrl"),
        ("dev/nvme0.feature-0c", "dev/nvme1.feature-0c"),
        ("sys/class/nvme/nvme0/model", "sys/class/nvme/nvme1/model"),
    ] {
        fs::copy(laptop().join(from), second(to)).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let (target, _) = capture(directory.path(), &["--root", root.path().to_str().unwrap()]);
    let file = format!("{target}/machine.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("[other_drive.in_force]"), "{text}");
    wakepath(&["machine", "show", &file])
        .success()
        .stdout(predicates::str::contains("another drive: nvme1 "));

    let job = slow_reads(directory.path());
    let mean_drive_power = |drive: &str| {
        let run = [
            "sim",
            &job,
            "--machine",
            &file,
            "--runs",
            "1",
            "--format",
            "json",
            "--drive",
            drive,
        ];
        let result = json(&wakepath(&run).success());
        result["results"][0]["runs"][0]["drive"]["average_mw"]
            .as_f64()
            .unwrap()
    };
    // Only the laptop's sleeps.
    assert!(mean_drive_power("nvme1") < mean_drive_power("nvme0") / 2.0);
    let unknown = wakepath(&["sim", "x.fio", "--machine", &file, "--drive", "nvme2"]);
    fails_with(unknown, &["--drive", "nvme2"]);
}

#[test]
fn a_machine_without_anything_still_makes_a_machine() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty");
    fs::create_dir_all(empty.join("sys")).unwrap();
    let (target, report) = capture(directory.path(), &["--root", empty.to_str().unwrap()]);
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("no cpuidle driver") && notes.contains("2 GHz"),
        "{notes}"
    );
    wakepath(&["machine", "show", &format!("{target}/machine.toml")]).success();
}

#[test]
fn without_root_it_says_what_it_could_not_read() {
    let unprivileged = |arguments: &[&str]| {
        Command::new("setpriv")
            .args(["--reuid=65534", "--clear-groups"])
            .args(arguments)
            .output()
    };
    // The program itself may lie where only root may look.
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("wakepath");
    fs::copy(env!("CARGO_BIN_EXE_wakepath"), &program).unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = program.to_str().unwrap();
    let target = directory.path().join("machine");
    let target = target.to_str().unwrap();
    let capture = [
        program, "machine", "capture", "--format", "json", "-o", target,
    ];
    match unprivileged(&[program, "--version"]) {
        Ok(tried) if tried.status.success() => {}
        tried => {
            let reason = format!("cannot become another user with setpriv: {tried:?}");
            eprintln!("skipped: without_root_it_says_what_it_could_not_read: {reason}");
            assert!(
                std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
                "{reason}"
            );
            return;
        }
    }
    let output = unprivileged(&capture).unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let not_read = report["not_read"].as_array().unwrap();
    if Path::new("/dev/cpu_dma_latency").exists() {
        let is_latency_limit = |m: &&serde_json::Value| m["path"] == "dev/cpu_dma_latency";
        let missing = not_read.iter().find(is_latency_limit).unwrap();
        assert_eq!(missing["why"], "needs root");
    }
    let apply = unprivileged(&[program, "apply", "cpu-latency[limit=50us,cpus=all]"]).unwrap();
    assert_eq!(apply.status.code(), Some(1));
    let message = String::from_utf8(apply.stderr).unwrap();
    assert!(message.contains("/var/lib/wakepath"), "{message}");
}

#[test]
fn a_capture_tells_no_drive_from_others_and_replaces_another_machines() {
    let directory = tempfile::tempdir().unwrap();
    let laptop = copy_of_laptop();
    let identify = laptop.path().join("dev/nvme0.id-ctrl");
    let mut bytes = fs::read(&identify).unwrap();
    let serial = b"S649NX0RB12345";
    let name = b"nqn.1994-11.com.vendor:nvme:S649NX0RB12345";
    for (at, text) in [
        (4, &serial[..]),
        (112, &serial[..]),
        (768, &name[..]),
        (3100, &serial[..]),
    ] {
        bytes[at..at + text.len()].copy_from_slice(text);
    }
    fs::write(&identify, bytes).unwrap();
    let root = laptop.path().to_str().unwrap();
    let (target, _) = capture(directory.path(), &["--root", root]);
    let captured = content(Path::new(&target));
    let holds = |bytes: &[u8]| bytes.windows(serial.len()).any(|w| w == serial);
    assert!(captured.contains_key("dev/nvme0.id-ctrl"));
    assert!(captured.values().all(|bytes| !holds(bytes)));
    // Nothing of the laptop is left when another machine takes its place, but what is not of a capture is.
    fs::write(Path::new(&target).join("mine.txt"), "mine").unwrap();
    let server = copy_of_server();
    let server = server.path().to_str().unwrap();
    let replace = [
        "machine", "capture", "-o", &target, "--root", server, "--force",
    ];
    wakepath(&replace).success();
    let replaced = content(Path::new(&target));
    let (fresh, _) = capture(&directory.path().join("fresh"), &["--root", server]);
    let mut fresh = content(Path::new(&fresh));
    fresh.insert("mine.txt".to_owned(), b"mine".to_vec());
    assert_eq!(
        replaced.keys().collect::<Vec<_>>(),
        fresh.keys().collect::<Vec<_>>()
    );
}
