//! `wakepath explain` on recordings.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common;
use assert_cmd::Command;
use predicates::prelude::PredicateBooleanExt;
use tempfile::TempDir;
use wakepath_hardware::machine::{CalibratedOn, ClusterIdleState, Figure, Measurement};
use wakepath_hardware::{IdleState, Machine};
use wakepath_results::{AttributionRow, ResultReader, RunOrigin};
use wakepath_trace::recording::{
    Block, BlockDevice, CpuIdleStates, DataQuality, Durability, Event, EventKind, IdlePeriod,
    IdleResidency, Metadata, Overwrite, QueueStep, ReachedState, Recorded, RequestedState,
    TaskStep, Writer,
};
use wakepath_units::Nanoseconds;

fn state(name: &str) -> IdleState {
    IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds(0),
        target_residency: Nanoseconds(0),
        polling: name == "POLL",
        disabled: false,
    }
}

/// Requests of 80 to 81 us that meet C1 (4 us) and C6 (100 us) in a fixed mixture.
fn write_recording(folder: &Path, requests: u64) -> PathBuf {
    write_recording_by(folder, requests, Metadata::default())
}

/// The same recording with more of a description; every third request is thread 8's, the others are thread 7's.
fn write_recording_by(folder: &Path, requests: u64, more: Metadata) -> PathBuf {
    let path = folder.join("load.parquet");
    let submitters_known = !more.tasks.is_empty();
    let metadata = Metadata {
        idle_states: vec![CpuIdleStates {
            cpus: vec![0],
            states: ["POLL", "C1", "C6"].map(state).to_vec(),
        }],
        devices: vec![BlockDevice {
            device: 259 << 20,
            name: "nvme0n1\u{1b}[31m".to_owned(),
            model: None,
        }],
        ..more
    };
    let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
    let mut push = |time: u64, kind: EventKind| {
        let time = Nanoseconds(time);
        writer.add_event(&Event { time, cpu: 0, kind }).unwrap();
    };
    let mut issued = 1_000_000;
    for sector in 0..requests {
        let block = Block {
            device: 259 << 20,
            sector,
            bytes: 4096,
            write: false,
        };
        let (state, exit) = if sector * sector % 7 < 2 {
            (2, 100_000)
        } else {
            (1, 4_000)
        };
        let woken = issued + 80_000 + sector * 37 % 1000 + exit;
        let period = IdlePeriod {
            state,
            duration: Nanoseconds(woken - issued - 1_000),
            ..IdlePeriod::default()
        };
        if submitters_known {
            let step = QueueStep::Queued {
                block,
                task: Some(if sector % 3 == 0 { 8 } else { 7 }),
                background: false,
                durability: Durability::default(),
            };
            push(issued - 1_000, EventKind::Queueing(step));
        }
        push(issued, EventKind::BlockIssue(block));
        push(woken, EventKind::Idle(period));
        push(woken + 2_000, EventKind::BlockComplete(block));
        let wake = EventKind::Wake {
            target: 0,
            iowait: Some(true),
        };
        push(woken + 2_500, wake);
        issued = woken + 400_000;
    }
    writer.finish_and_count_events().unwrap();
    path
}

fn explain(arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("wakepath").unwrap();
    command.arg("explain").args(arguments).assert()
}

fn printed(arguments: &[&str]) -> String {
    let output = explain(arguments).success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn the_answer_comes_first_and_in_each_format() {
    let folder = TempDir::new().unwrap();
    let path = write_recording(folder.path(), 4_000);
    let path = path.to_str().unwrap();

    let table = printed(&[path]);
    assert!(table.starts_with("reads of nvme0n1"), "{table}");
    assert!(!table.contains('\u{1b}'), "{table}");
    assert!(table.contains("+ interrupt 2.0"), "{table}");
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("(43 % of requests met it, 96.0 us each)"),
        "{table}"
    );
    assert!(words.contains("p99 183.0: C6 in all."), "{table}");
    assert!(table.contains("C6 costs 96.0 us ["), "{table}");
    assert!(table.contains("more than C1"), "{table}");
    assert!(table.contains("= drive and C1 8"), "{table}");
    assert!(table.contains("cpu-latency[state=C1,cpus=all]"), "{table}");

    let json: serde_json::Value =
        serde_json::from_str(&printed(&[path, "--format", "json"])).unwrap();
    assert_eq!(json["coverage"]["requests"], 4_000);
    assert_eq!(json["kinds"][0]["woke"], 4_000);
    assert_eq!(json["kinds"][0]["parts"]["hand_over_ns"], 500.0);

    let csv = printed(&[path, "--format", "csv"]);
    assert!(csv.starts_with("device,direction,size,"), "{csv}");
    assert_eq!(
        printed(&[path]),
        table,
        "the same input gives the same bytes"
    );
}

/// Requests of CPU 0 that meet C1 or C6. CPU 1 sleeps during half of these, and then C6 takes 90 us more.
fn write_recording_with_package(folder: &Path) -> String {
    let path = folder.join("package.parquet");
    let metadata = Metadata {
        idle_states: vec![CpuIdleStates {
            cpus: vec![0, 1],
            states: ["POLL", "C1", "C6"].map(state).to_vec(),
        }],
        packages: vec![vec![0, 1]],
        ..Metadata::default()
    };
    let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
    let mut push = |time: u64, cpu: u32, kind: EventKind| {
        let time = Nanoseconds(time);
        writer.add_event(&Event { time, cpu, kind }).unwrap();
    };
    let idle = |state: u8, ns: u64| {
        EventKind::Idle(IdlePeriod {
            state,
            duration: Nanoseconds(ns),
            ..IdlePeriod::default()
        })
    };
    let mut issued = 1_000_000;
    for sector in 0..4_000_u64 {
        let block = Block {
            device: 259 << 20,
            sector,
            bytes: 4096,
            write: false,
        };
        let sleeps = sector % 2 == 0;
        let (state, exit) = match (sector * sector % 7 < 3, sleeps) {
            (true, true) => (2, 190_000),
            (true, false) => (2, 100_000),
            (false, _) => (1, 4_000),
        };
        let woken = issued + 80_000 + sector * 37 % 1000 + exit;
        if !sleeps {
            push(issued - 1_000, 1, idle(2, 50_000));
        }
        push(issued, 0, EventKind::BlockIssue(block));
        push(woken, 0, idle(state, woken - issued - 1_000));
        push(woken + 2_000, 0, EventKind::BlockComplete(block));
        if sleeps {
            push(woken + 20_000, 1, idle(2, woken + 20_000 - issued));
        }
        issued = woken + 400_000;
    }
    writer.finish_and_count_events().unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_exit_that_depends_on_other_cpus_has_two_costs() {
    let folder = TempDir::new().unwrap();
    let answer = printed(&[&write_recording_with_package(folder.path())]);
    let words = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "C6: not separated, it depends on other CPUs: their cluster or package sleeps with it (2857 requests met it).",
        "C6 costs 96.0 us [96.0, 96.0] more than C1 while other CPUs ran.",
        "C6 costs 186.0 us [186.0, 186.0] more than C1 while none ran.",
    ] {
        assert!(words.contains(said), "{said}: {answer}");
    }
    assert!(words.contains("varies with CPUs"), "{answer}");
}

#[test]
fn exits_that_requests_do_not_tell_are_offered_to_measure() {
    let folder = TempDir::new().unwrap();
    let path = write_recording(folder.path(), 50);
    let answer = printed(&[path.to_str().unwrap()]);
    // The name of this drive is nothing for a shell.
    let command = "`sudo wakepath measure wake --file /dev/DEVICE`";
    let words = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(command), "{answer}");
}

/// A machine with the recording's states, of which C1 and C6 were measured to take so many us, give or take 0.1.
fn measured_machine(exits_us: [f64; 2]) -> Machine {
    let mut machine = Machine::find("xeon-e3-1240v5").unwrap();
    for (name, us) in ["C1", "C6"].into_iter().zip(exits_us) {
        let mut states = machine.idle_state.iter_mut();
        let state = states.find(|state| state.name == name).unwrap();
        state.true_exit_us = measured_exit(us);
    }
    machine
}

fn measured_exit(us: f64) -> Figure {
    let measurement = Measurement {
        n: 400,
        low: Some(us - 0.1),
        high: Some(us + 0.1),
        date: "2026-11-20".to_owned(),
        kernel: "6.12.48".to_owned(),
        what: "mean".to_owned(),
    };
    Figure::measured_here(us, measurement)
}

fn write_machine(folder: &Path, machine: &Machine) -> String {
    let path = folder.join("machine.toml");
    std::fs::write(&path, machine.to_toml().unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn measured_exits_stand_beside_the_estimates_and_fix_the_zero_of_the_drive() {
    let folder = TempDir::new().unwrap();
    let path = write_recording(folder.path(), 4_000);
    let explain_with = |exits_us: [f64; 2]| {
        let machine = write_machine(folder.path(), &measured_machine(exits_us));
        printed(&[path.to_str().unwrap(), "--machine", &machine])
    };
    let answer = explain_with([4.0, 100.0]);
    let words = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("= drive 80.5 ["), "{answer}");
    assert!(
        words.contains("+ C1 4.0 [3.9, 4.1] as measured + C6 41."),
        "{answer}"
    );
    assert!(answer.contains("  measured  "), "{answer}");
    assert!(!answer.contains("differently"), "{answer}");
    let contradicted = explain_with([4.0, 150.0]);
    let words = contradicted
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let sentence = "The exit from C6 comes out differently, by more than the intervals: 96.0 us [";
    assert!(words.contains(sentence), "{contradicted}");
    assert!(
        words.contains("150.0 us [149.9, 150.1] as measured."),
        "{contradicted}"
    );
}

/// CPU 0, which all requests of the recording interrupt, is a performance core.
#[test]
fn measured_exits_of_a_hybrid_are_those_of_the_interrupted_cpus_cluster() {
    let folder = TempDir::new().unwrap();
    let path = write_recording(folder.path(), 4_000);
    let explain_with = |exits_us_by_cluster: [[f64; 2]; 2]| {
        let mut machine = Machine::find("hybrid-i7-1260p").unwrap();
        "C1".clone_into(&mut machine.idle_state[1].name);
        for (cluster, exits_us) in machine.cluster.iter_mut().zip(exits_us_by_cluster) {
            for (name, us) in ["C1", "C6"].into_iter().zip(exits_us) {
                let mut own = ClusterIdleState::without_overrides(name, "measure wake");
                own.true_exit_us = measured_exit(us);
                cluster.idle_state.push(own);
            }
        }
        let machine = write_machine(folder.path(), &machine);
        let answer = printed(&[path.to_str().unwrap(), "--machine", &machine]);
        answer.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (true_us, other_us) = ([4.0, 100.0], [8.0, 200.0]);
    let answer = explain_with([true_us, other_us]);
    assert!(
        answer.contains("+ C1 4.0 [3.9, 4.1] as measured + C6 41."),
        "{answer}"
    );
    assert!(!answer.contains("differently"), "{answer}");
    let answer = explain_with([other_us, true_us]);
    assert!(
        answer.contains("+ C1 8.0 [7.9, 8.1] as measured + C6 41."),
        "{answer}"
    );
    assert!(
        answer.contains("200.0 us [199.9, 200.1] as measured."),
        "{answer}"
    );
}

#[test]
fn measured_exits_of_this_machine_are_for_its_own_recordings_while_nothing_has_changed() {
    let running = wakepath_record::facts::read_metadata(&wakepath_system::System::live());
    if running.machine_id.is_none() {
        eprintln!("skipped: measured exits of this machine: no /etc/machine-id");
        return;
    }
    let explain_recording = |recorded: Metadata, kernel: &str| {
        let place = TempDir::new().unwrap();
        let path = write_recording_by(place.path(), 4_000, recorded);
        let mut machine = measured_machine([4.0, 100.0]);
        machine.calibrated_on = Some(CalibratedOn {
            date: "2026-11-20".to_owned(),
            kernel: kernel.to_owned(),
            cpus: running.cpus as usize,
            processor: running.processor.clone(),
            microcode: None,
            firmware: None,
            disk: None,
            drive: None,
        });
        let file = write_machine(place.path(), &machine);
        let mut command = Command::cargo_bin("wakepath").unwrap();
        command.arg("explain").arg(&path).env("WAKEPATH_HERE", file);
        let output = command.assert().success().get_output().clone();
        let [answer, messages] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        let words = answer.split_whitespace().collect::<Vec<_>>().join(" ");
        (words.contains("as measured"), messages)
    };
    let kernel = running.kernel.clone().unwrap();
    let own = Metadata {
        kernel: running.kernel.clone(),
        processor: running.processor.clone(),
        cpus: running.cpus,
        machine_id: running.machine_id.clone(),
        ..Metadata::default()
    };
    let (used, messages) = explain_recording(own.clone(), &kernel);
    assert!(used, "{messages}");
    let (used, messages) = explain_recording(own.clone(), "6.1.0-1");
    assert!(
        !used && messages.contains("kernel 6.1.0-1 when calibrated"),
        "{messages}"
    );
    let other = Metadata {
        machine_id: Some("0123456789abcdef".to_owned()),
        ..own
    };
    let (used, messages) = explain_recording(other, &kernel);
    assert!(!used && !messages.contains("measured exits"), "{messages}");
}

#[test]
fn a_page_has_the_answer_with_its_pictures() {
    let folder = TempDir::new().unwrap();
    let path = write_recording(folder.path(), 4_000);
    let page = folder.path().join("load.html");
    let arguments = [path.to_str().unwrap(), "--page", page.to_str().unwrap()];
    let answer = printed(&arguments);
    let html = std::fs::read_to_string(&page).unwrap();
    for text in [
        "Where do the microseconds of reads of nvme0n1",
        "C6 costs 96.0 us [",
        "What would help: ",
        "<svg",
        "wakepath explain ",
    ] {
        assert!(html.contains(text), "{text}");
    }
    assert!(!html.contains('\u{1b}'));
    explain(&arguments)
        .failure()
        .stderr(predicates::str::contains("--page").and(predicates::str::contains("--force")));
    assert_eq!(printed(&[&arguments[..], &["--force"]].concat()), answer);
    assert_eq!(
        std::fs::read_to_string(&page).unwrap(),
        html,
        "the same bytes"
    );
}

#[test]
fn results_go_to_a_directory_only() {
    let folder = TempDir::new().unwrap();
    let path = write_recording(folder.path(), 50);
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    for force in [&[][..], &["--force"]] {
        let arguments = [
            &[path.to_str().unwrap(), "-o", file.to_str().unwrap()],
            force,
        ]
        .concat();
        explain(&arguments)
            .failure()
            .stderr(predicates::str::contains("file: no directory"));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

/// Requests of 80 us, each with another one that comes 60 us later. Behind an exit from C1 (4 us) the CPU sleeps again until the
/// second interrupt; behind one from C6 (100 us) the second interrupt has come before.
fn write_pairs(folder: &Path, pairs: u64) -> PathBuf {
    let path = folder.join("pairs.parquet");
    let metadata = Metadata {
        idle_states: vec![CpuIdleStates {
            cpus: vec![0],
            states: ["POLL", "C1", "C6"].map(state).to_vec(),
        }],
        ..Metadata::default()
    };
    let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
    let mut push = |time: u64, kind: EventKind| {
        let time = Nanoseconds(time);
        writer.add_event(&Event { time, cpu: 0, kind }).unwrap();
    };
    let idle = |state: u8, from: u64, to: u64| {
        EventKind::Idle(IdlePeriod {
            state,
            duration: Nanoseconds(to - from),
            ..IdlePeriod::default()
        })
    };
    for pair in 0..pairs {
        let [first, second] = [2 * pair, 2 * pair + 1].map(|sector| Block {
            device: 259 << 20,
            sector,
            bytes: 4096,
            write: false,
        });
        let issued = 1_000_000 + pair * 600_000 + pair * 37 % 1000;
        let (again, raised) = (issued + 60_000, issued + 80_000);
        push(issued, EventKind::BlockIssue(first));
        push(again, EventKind::BlockIssue(second));
        if pair * pair % 7 < 2 {
            let woken = raised + 100_000;
            push(woken, idle(2, again + 1_000, woken));
            push(woken + 2_000, EventKind::BlockComplete(first));
            push(woken + 3_000, EventKind::BlockComplete(second));
        } else {
            let (woken, slept) = (raised + 4_000, raised + 7_000);
            push(woken, idle(1, again + 1_000, woken));
            push(woken + 2_000, EventKind::BlockComplete(first));
            let woken = again + 84_000;
            push(woken, idle(1, slept, woken));
            push(woken + 2_000, EventKind::BlockComplete(second));
        }
    }
    writer.finish_and_count_events().unwrap();
    path
}

#[test]
fn exits_that_another_request_began_are_a_part_of_their_own() {
    let folder = TempDir::new().unwrap();
    let path = write_pairs(folder.path(), 2_000);
    let path = path.to_str().unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&printed(&[path, "--format", "json"])).unwrap();
    let kind = &json["kinds"][0];
    // Three of seven pairs meet C6; the second request then waits for 36 us more than one that met C1.
    let behind = kind["behind"].as_f64().unwrap();
    let begun = &kind["begun_exits"];
    assert_eq!(begun["requests"], kind["behind"]);
    assert_eq!(begun["estimated"], kind["behind"]);
    let mean = begun["mean_ns"].as_f64().unwrap();
    assert!(
        (mean - 36_000.0 * behind / 4_000.0).abs() < 100.0,
        "{begun}"
    );
    let rest = kind["rest_ns"].as_f64().unwrap();
    assert!((rest - 84_000.0).abs() < 200.0, "{rest}");

    // Sentences are folded.
    let text = printed(&[path]).replace("\n  ", " ");
    assert!(
        text.contains("+ exits that something else began 7.7 +"),
        "{text}"
    );
    assert!(
        text.contains("7.7 us in the mean over all requests"),
        "{text}"
    );
}

#[test]
fn submitters_are_told_apart_by_process_and_by_cgroup() {
    let folder = TempDir::new().unwrap();
    let more = Metadata {
        tasks: [(7, "fio"), (8, "fio")]
            .map(|(task, name)| (task, name.to_owned()))
            .into(),
        cgroups: [
            (7, "/user.slice"),
            (8, "/system.slice/backup\u{1b}[2J.service"),
        ]
        .map(|(task, path)| (task, path.to_owned()))
        .into(),
        ..Metadata::default()
    };
    let path = write_recording_by(folder.path(), 3_000, more);
    let path = path.to_str().unwrap();

    let json = |arguments: &[&str]| -> serde_json::Value {
        let text = printed(&[&[path, "--format", "json"][..], arguments].concat());
        serde_json::from_str(&text).unwrap()
    };
    let plain = json(&[]);
    assert_eq!(plain["kinds"].as_array().unwrap().len(), 1);
    let rows = |name: &str| {
        let rows = plain[name].as_array().unwrap().iter();
        let rows = rows.map(|row| {
            (
                row["name"].as_str().unwrap(),
                row["requests"].as_u64().unwrap(),
            )
        });
        rows.collect::<Vec<_>>()
    };
    assert_eq!(rows("processes"), [("fio", 3_000)]);
    let backup = "/system.slice/backup\u{1b}[2J.service";
    assert_eq!(rows("cgroups"), [("/user.slice", 2_000), (backup, 1_000)]);

    let by_cgroup = json(&["--by", "cgroup"]);
    let kinds = by_cgroup["kinds"].as_array().unwrap();
    let named: Vec<_> = kinds
        .iter()
        .map(|kind| (&kind["submitter"], &kind["requests"]))
        .collect();
    assert_eq!(
        format!("{named:?}"),
        format!(
            "{:?}",
            [
                (&serde_json::json!("/user.slice"), &serde_json::json!(2_000)),
                (&serde_json::json!(backup), &serde_json::json!(1_000)),
            ]
        )
    );
    assert_eq!(json(&["--by", "process"])["kinds"][0]["submitter"], "fio");

    let csv = printed(&[path, "--by", "cgroup", "--format", "csv"]);
    assert!(
        csv.starts_with("device,direction,size,cgroup,requests,"),
        "{csv}"
    );
    let table = printed(&[path, "--by", "cgroup"]);
    assert!(table.contains("4 KiB, by /user.slice: mean"), "{table}");
    assert!(!table.contains('\u{1b}'), "{table}");
    explain(&[path, "--by", "user"]).failure().code(2);

    let results = folder.path().join("results");
    printed(&[path, "--by", "cgroup", "-o", results.to_str().unwrap()]);
    let reader = ResultReader::open(&results).unwrap();
    let names: Vec<_> = reader
        .document()
        .workloads
        .iter()
        .map(|w| w.name.as_str())
        .collect();
    assert!(
        names.iter().any(|name| name.ends_with("by /user.slice")),
        "{names:?}"
    );
}

#[test]
fn states_reached_are_set_beside_those_asked_for() {
    let folder = TempDir::new().unwrap();
    let requested = |name: &str, time_ns: u64| RequestedState {
        name: name.to_owned(),
        entries: 9,
        refused: 1,
        time_ns,
    };
    let recorded = Recorded {
        idle: DataQuality::Exact,
        ..Recorded::default()
    };
    let more = Metadata {
        recorded,
        idle_driver: Some("intel_idle".to_owned()),
        residency: Some(IdleResidency {
            cpu_time_ns: 1_000_000,
            requested: vec![requested("C1", 100_000), requested("C6", 600_000)],
            reached: vec![ReachedState {
                package: false,
                depth: 6,
                ticks: 207,
                all_ticks: 1_000,
            }],
        }),
        ..Metadata::default()
    };
    let path = write_recording_by(folder.path(), 200, more);
    let assert = explain(&[path.to_str().unwrap()]).success();
    let table = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let row = table
        .lines()
        .find(|line| line.starts_with("core C6"))
        .unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words, ["core", "C6", "60.0", "20.7"], "{table}");
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(!said.contains("residency counters"), "{said}");

    // Without them it is said.
    let other = TempDir::new().unwrap();
    let more = Metadata {
        recorded,
        ..Metadata::default()
    };
    let path = write_recording_by(other.path(), 200, more);
    let assert = explain(&[path.to_str().unwrap()]).success();
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains("no residency counters"), "{said}");
}

#[test]
fn dashes_without_a_command_are_refused_before_anything_is_watched() {
    let folder = TempDir::new().unwrap();
    let recording = folder.path().join("never.parquet");
    let recording = recording.to_str().unwrap();
    for arguments in [
        &["explain", "--"][..],
        &["explain", "--watch", "--"],
        &["record", "-o", recording, "--"],
    ] {
        let mut command = Command::cargo_bin("wakepath").unwrap();
        let refused = command.args(arguments).timeout(Duration::from_secs(10));
        let refused = refused.assert().code(1);
        let text = String::from_utf8(refused.get_output().stderr.clone()).unwrap();
        assert!(
            text.contains(
                "no command follows `--`; give one to run meanwhile, such as `-- fio job.fio`"
            ),
            "{arguments:?}: {text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    assert!(!Path::new(recording).exists());
}

#[test]
fn a_command_that_fails_without_requests_is_named_first() {
    let failed = explain(&["--", "sh", "-c", "exit 7"]).failure();
    let text = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    // Without rights to load programs, nothing runs.
    assert!(
        text.contains("ended with exit status: 7") || text.contains("root"),
        "{text}"
    );
}

/// A psync job on a machine with deep states, simulated, recorded and explained.
fn simulate(folder: &Path, arguments: &[&str]) -> Command {
    let job = "[reads]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\nbs=4k\nthinktime=300us\ntime_based\nruntime=10\n";
    std::fs::write(folder.join("job.fio"), job).unwrap();
    let mut command = Command::cargo_bin("wakepath").unwrap();
    command
        .current_dir(folder)
        .args([
            "sim",
            "job.fio",
            "--machine",
            "xeon-e3-1240v5",
            "--runs",
            "1",
        ])
        .args(["--warm-up", "0", "--format", "json"])
        .args(arguments);
    command
}

#[test]
fn a_simulated_recording_gives_back_the_simulators_attribution() {
    let folder = TempDir::new().unwrap();
    let record = ["--policy", "menu", "--record", "s.parquet"];
    let assert = simulate(folder.path(), &record).assert().success();
    let simulated = common::json(&assert);
    let run = &simulated["results"][0]["runs"][0];
    let truth = |part: &str| run["attribution"]["mean"][part].as_f64().unwrap() * 1e3;
    let path = folder.path().join("s.parquet");
    let text = printed(&[path.to_str().unwrap(), "--format", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let kind = &answer["kinds"][0];

    assert_eq!(kind["requests"], run["requests"]);
    assert_eq!(kind["wait"]["requests"], run["requests"]);
    // After the task runs again there is only the way back to user space, at the clock of the moment.
    let behind = run["latency_us"]["mean"].as_f64().unwrap() * 1e3
        - kind["wait"]["wait_ns"].as_f64().unwrap();
    let completion = truth("completion");
    assert!(
        completion - 1.0 <= behind && behind <= completion + truth("frequency_shortfall"),
        "{behind} ns behind"
    );
    let requests = kind["requests"].as_f64().unwrap();
    let states = kind["split"]["states"].as_array().unwrap();
    let charged: f64 = states
        .iter()
        .map(|state| {
            let mean = state["cost"]["mean_ns"].as_f64().unwrap_or(0.0);
            mean * state["charged"].as_f64().unwrap() / requests
        })
        .sum();
    let bounded = ["begun_exits", "late_exits"].map(|part| kind[part]["mean_ns"].as_f64().unwrap());
    let found = charged + bounded.iter().sum::<f64>();
    let exits = truth("idle_exit");
    // The exit of the reference, C1E, stays with the drive.
    assert!(
        (0.9..1.02).contains(&(found / exits)),
        "{charged} + {bounded:?} of {exits} ns"
    );
    let rest = kind["rest_ns"].as_f64().unwrap();
    let drive = truth("drive_service") + truth("drive_wake") + truth("queueing");
    assert!(
        (rest + found - drive - exits).abs() < 0.02 * (drive + exits),
        "{rest} + {found} against {drive} + {exits} ns"
    );

    // It has all that a replay needs, and names of tasks, which a replay writes down as TOML.
    let mut replay = Command::cargo_bin("wakepath").unwrap();
    replay.arg("replay").arg(&path).assert().success();

    // The run is the same whether it is recorded or not, and so is the recording.
    let without = simulate(folder.path(), &["--policy", "menu"])
        .assert()
        .success();
    assert_eq!(common::json(&without), simulated);
    let again = ["--policy", "menu", "--record", "again.parquet"];
    simulate(folder.path(), &again).assert().success();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(
        std::fs::read(folder.path().join("again.parquet")).unwrap(),
        bytes
    );
}

/// The first sentence on a simulated job with these options on a machine under policies.
fn sentence_on_simulation(machine: &str, policies: &str, options: &str) -> String {
    let folder = TempDir::new().unwrap();
    let job = format!(
        "[reads]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\nbs=4k\ntime_based\nruntime=1\n{options}\n"
    );
    std::fs::write(folder.path().join("job.fio"), job).unwrap();
    let mut command = Command::cargo_bin("wakepath").unwrap();
    command
        .current_dir(folder.path())
        .args(["sim", "job.fio", "--machine", machine, "--policy", policies])
        .args(["--runs", "1", "--warm-up", "0", "--record", "s.parquet"])
        .assert()
        .success();
    let path = folder.path().join("s.parquet");
    let answer = printed(&[path.to_str().unwrap()]);
    let words = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        !words.contains("not separated") && !words.contains("C1E: not known"),
        "{answer}"
    );
    words
}

#[test]
fn the_drive_is_named_with_the_only_state_that_requests_met() {
    let folder = TempDir::new().unwrap();
    let machine = write_quiet_machine(folder.path(), "");
    let quiet = machine.to_str().unwrap();
    let pauses = "thinktime=300us";
    for (machine, policies, options, name) in [
        ("rk3399", "menu", "ioengine=libaio\niodepth=32", "= drive "),
        (quiet, "menu + cpu-latency[limit=0us]", pauses, "= drive "),
        (
            quiet,
            "menu + idle-states[ceiling=C1E]",
            pauses,
            "= drive and C1E ",
        ),
    ] {
        let sentence = sentence_on_simulation(machine, policies, options);
        let (_, parts) = sentence.split_once(" us ").unwrap();
        let (_, figure) = parts
            .split_once(name)
            .unwrap_or_else(|| panic!("{name}: {sentence}"));
        let time = figure.split(' ').next().unwrap();
        assert!(time.parse::<f64>().is_ok_and(|us| us > 0.0), "{sentence}");
    }
}

/// The laboratory's machine without what may come between the events of a request: ticks, RCU, other tasks, CPUs that take
/// turns. `completion` are keys of its `io_path.completion`.
fn write_quiet_machine(folder: &Path, completion: &str) -> PathBuf {
    let file = common::repository().join("rig/laboratory/debian-6.12.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let (text, _) = text.split_once("[emulator]").unwrap();
    let text = text
        .replace(
            "\ntick_kcycles = { value = 3,",
            "\ntick_kcycles = { value = 0,",
        )
        .replace("\nspread = 0\n", "\nspread = 0.5\n")
        .replace(
            "\ncompletion = {",
            &format!("\ncompletion = {{ {completion}"),
        );
    let path = folder.join("quiet.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Simulates reads at random times on such a machine, and explains the recording: the simulator's mean parts in ns by name, and
/// the kind.
fn explain_quiet_machine(completion: &str) -> (BTreeMap<String, f64>, serde_json::Value) {
    let folder = TempDir::new().unwrap();
    let machine = write_quiet_machine(folder.path(), completion);
    let job = "[reads]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\nbs=4k\nrate_iops=1000\nrate_process=poisson\n\
        time_based\nruntime=20\n";
    std::fs::write(folder.path().join("job.fio"), job).unwrap();
    let mut command = Command::cargo_bin("wakepath").unwrap();
    let simulated = command
        .current_dir(folder.path())
        .args(["sim", "job.fio", "--machine"])
        .arg(machine)
        .args(["--policy", "menu + performance", "--runs", "1"])
        .args([
            "--warm-up",
            "0",
            "--format",
            "json",
            "--record",
            "s.parquet",
        ])
        .assert()
        .success();
    let simulated = common::json(&simulated);
    let run = &simulated["results"][0]["runs"][0];
    let attribution = run["attribution"]["mean"].as_object().unwrap();
    let parts = attribution
        .iter()
        .map(|(part, us)| (part.clone(), us.as_f64().unwrap() * 1e3));
    let recording = folder.path().join("s.parquet");
    let text = printed(&[recording.to_str().unwrap(), "--format", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let kind = answer["kinds"][0].clone();
    assert_eq!(kind["wait"]["requests"], run["requests"]);
    (parts.collect(), kind)
}

#[test]
fn observed_parts_of_a_simulated_recording_are_the_simulators_to_the_nanosecond() {
    for completion in ["", "cpu = 1, "] {
        let (truth, kind) = explain_quiet_machine(completion);
        let true_sum = |parts: &[&str]| -> f64 { parts.iter().map(|part| truth[*part]).sum() };
        let figure = |table: &str, part: &str| kind[table][part].as_f64().unwrap();
        let before_drive = figure("wait", "queued_ns");
        let handler = figure("parts", "interrupt_ns") + figure("parts", "remote_ns");
        let to_run = ["hand_over_ns", "through_ns", "run_queue_ns"]
            .map(|part| figure("wait", part))
            .iter()
            .sum::<f64>();
        // The IPI to the task's CPU is part of interrupt delivery there, and of the task's exit here.
        let ipi = truth["interrupt_delivery"] - handler;
        let hidden = figure("parts", "out_ns") + figure("wait", "task_exit_ns") - ipi;
        let drive = ["queueing", "drive_wake", "drive_service"];
        for (part, found, expected) in [
            ("submission", before_drive, truth["submission"]),
            (
                "drive and exits",
                hidden,
                true_sum(&drive) + truth["idle_exit"],
            ),
            ("waiting", to_run, truth["waiting_to_run"]),
            (
                "wait",
                figure("wait", "wait_ns"),
                truth.values().sum::<f64>() - truth["completion"],
            ),
        ] {
            // Means are of whole nanoseconds, but in floating point.
            assert!(
                (found - expected).abs() < 1e-3,
                "{part}: {found} of {expected}"
            );
        }
        let ipi_ns = if completion.is_empty() {
            0.0..1e-3
        } else {
            900.0..1_000.0
        };
        assert!(ipi_ns.contains(&ipi.abs()), "{ipi}");
    }
}

#[test]
fn intervals_of_a_simulated_recording_have_the_machines_exits() {
    let (_, kind) = explain_quiet_machine("");
    let split = &kind["split"];
    let exits_us = [0.0, 2.0, 10.0, 133.0, 300.0];
    let exit_ns = |state: &serde_json::Value| exits_us[state.as_u64().unwrap() as usize] * 1e3;
    let mut costs = 0;
    for state in split["states"].as_array().unwrap() {
        let Some(low) = state["cost"]["low_ns"].as_f64() else {
            continue;
        };
        let high = state["cost"]["high_ns"].as_f64().unwrap();
        let truth = exit_ns(&state["state"]) - exit_ns(&split["reference"]);
        assert!((low..high).contains(&truth), "{state} of {truth} ns");
        costs += 1;
    }
    assert_eq!(costs, 2, "C6 and C8: {split}");
}

#[test]
fn a_recording_of_a_simulation_is_whole_or_not_there() {
    let folder = TempDir::new().unwrap();
    let two = [
        "--policy",
        "menu",
        "--policy",
        "teo",
        "--record",
        "s.parquet",
    ];
    simulate(folder.path(), &two).assert().failure().code(2);
    std::fs::write(folder.path().join("s.parquet"), "precious").unwrap();
    let one = ["--policy", "menu", "--record", "s.parquet"];
    let refused = simulate(folder.path(), &one).assert();
    common::fails_with(refused, &["--record s.parquet", "--force"]);
    let nowhere = ["--policy", "menu", "--record", "no/such/folder.parquet"];
    let refused = simulate(folder.path(), &nowhere).assert();
    common::fails_with(refused, &["--record no/such/folder.parquet"]);
    let left = std::fs::read(folder.path().join("s.parquet")).unwrap();
    assert_eq!(left, b"precious");
    let names = std::fs::read_dir(folder.path()).unwrap();
    assert_eq!(names.count(), 2, "a job, and the file that was there");
}

#[test]
fn a_simulated_page_cache_is_no_drive() {
    let folder = TempDir::new().unwrap();
    let job = "[writes]\nfilename=/dev/nvme0n1\nsize=64m\nrw=write\nbs=4k\nfsync=16\nthinktime=300us\ntime_based\nruntime=2\n";
    std::fs::write(folder.path().join("cached.fio"), job).unwrap();
    let sim = "sim cached.fio --machine xeon-e3-1240v5 --drive sn530 --runs 1 --policy menu --record s.parquet";
    let mut command = Command::cargo_bin("wakepath").unwrap();
    command
        .current_dir(folder.path())
        .args(sim.split(' '))
        .assert()
        .success();
    let path = folder.path().join("s.parquet");
    let text = printed(&[path.to_str().unwrap(), "--format", "json"]);
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let kinds = answer["kinds"].as_array().unwrap();
    let mut seen: Vec<_> = kinds
        .iter()
        .map(|kind| (kind["write"] == true, kind["background"] == true))
        .collect();
    seen.sort_unstable();
    seen.dedup();
    // As in a kernel's recording, fsync submits the data itself and waits for them.
    assert_eq!(
        seen,
        [(false, false), (true, false)],
        "flushes, data of fsync"
    );
    for kind in kinds {
        assert!(
            kind["parts"]["latency_ns"].as_f64().unwrap() > 1e3,
            "{kind}"
        );
    }
}

#[test]
fn a_drive_that_is_not_there_is_named_with_those_that_are() {
    let folder = TempDir::new().unwrap();
    let path = write_recording(folder.path(), 100);
    let path = path.to_str().unwrap();
    let failed = explain(&[path, "--drive", "sdq"]);
    common::fails_with(failed, &["--drive sdq", "expected one of nvme0n1"]);
    explain(&[path, "--watch"]).failure().code(2);
    explain(&[path, "--", "true"]).failure().code(2);
}

#[test]
fn a_recording_without_requests_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = write_recording(folder.path(), 0);
    let assert = explain(&[path.to_str().unwrap()]).failure().code(1);
    let error = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(
        error.contains("no block request with issue and completion"),
        "{error}"
    );
}

#[test]
fn a_truncated_recording_is_one_error() {
    let folder = TempDir::new().unwrap();
    let path = write_recording(folder.path(), 500);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    explain(&[path.to_str().unwrap()]).failure().code(1);
}

/// Explains a recording of 4,000 reads into a result directory.
fn explain_into_results(folder: &Path) -> ResultReader {
    let path = write_recording(folder, 4_000);
    let results = folder.join("results");
    explain(&[path.to_str().unwrap(), "-o", results.to_str().unwrap()]).success();
    ResultReader::open(results).unwrap()
}

#[test]
fn parts_in_results_add_up_to_the_latency() {
    let folder = TempDir::new().unwrap();
    let results = explain_into_results(folder.path());
    assert_eq!(results.document().backend, RunOrigin::Traced);
    assert_eq!(results.document().repeats, 10);
    for run in results.read_runs().unwrap() {
        let sum = |at: &str| -> f64 {
            let parts = run.attribution.iter().filter(|part| part.at == at);
            parts.map(|part| part.ns).sum::<f64>() / 1e3
        };
        let metric = |name: &str| run.metrics.iter().find(|m| m.0 == name).unwrap().1;
        assert!(
            (sum("mean") - metric("mean_us")).abs() < 1e-6,
            "{}",
            run.key
        );
        let p99 = metric("p99_us");
        assert!((sum("p99") - p99).abs() < 0.03 * p99, "{}", run.key);
        let counted: u64 = run.latency.iter().map(|bucket| bucket.count).sum();
        assert!(counted > 0, "{}", run.key);
    }
}

#[test]
fn results_have_the_exit_of_the_state_that_requests_met() {
    let folder = TempDir::new().unwrap();
    let results = explain_into_results(folder.path());
    let names: Vec<&str> = results
        .document()
        .workloads
        .iter()
        .filter_map(|workload| Some(workload.subset.as_ref()?.requests.as_str()))
        .collect();
    assert_eq!(names, ["C1 met", "C6 met"]);
    for (subset, exit) in [("C1 met", 0.0), ("C6 met", 96_000.0)] {
        let attribution = results.read_attribution_rows().unwrap();
        let mut rows = attribution.iter().filter(|row| {
            row.workload.ends_with(subset) && row.at == "mean" && row.part == "idle exit"
        });
        let differs = |row: &&AttributionRow| (row.ns - exit).abs() > 500.0;
        assert_eq!(rows.find(differs), None);
    }
}

#[test]
fn results_of_a_recording_go_to_report_compare_and_perfetto() {
    let folder = TempDir::new().unwrap();
    explain_into_results(folder.path());
    for arguments in [
        &["report", "results", "-o", "page.html"][..],
        &["compare", "results", "--metric", "mean_us"],
        &["results", "timeline", "results", "-o", "t.pftrace"],
    ] {
        let mut command = Command::cargo_bin("wakepath").unwrap();
        let command = command.current_dir(folder.path()).args(arguments);
        command.assert().success();
    }
    let page = std::fs::read_to_string(folder.path().join("page.html")).unwrap();
    // Requests with a state are part of the whole kind, and no second workload for a mean over workloads.
    let mut command = Command::cargo_bin("wakepath").unwrap();
    let again = folder.path().join("again");
    std::fs::create_dir(&again).unwrap();
    common::files::copy_folder(&folder.path().join("results"), &again);
    let same = ["compare", "results", "again", "--metric", "mean_us"];
    let compared = command.current_dir(folder.path()).args(same).assert();
    let text = String::from_utf8_lossy(&compared.success().get_output().stdout).into_owned();
    assert!(
        text.contains("C6 met") && !text.contains("Gmean ("),
        "{text}"
    );
    assert!(
        !text.lines().any(|line| line.starts_with("Gmean")),
        "{text}"
    );
    assert!(page.contains("as recorded, C6 met"));
    assert!(page.contains("request slot 0") || page.contains("requests 1"));
}

#[test]
fn results_that_are_there_are_replaced_by_force_only() {
    let folder = TempDir::new().unwrap();
    let before = explain_into_results(folder.path()).read_runs().unwrap();
    let recording = folder.path().join("load.parquet");
    let results = folder.path().join("results");
    let paths = [&recording, &results].map(|path| path.to_str().unwrap());
    let refused = explain(&[paths[0], "-o", paths[1]]);
    common::fails_with(refused, &["results are there already", "--force"]);
    explain(&[paths[0], "-o", paths[1], "--force"]).success();
    assert_eq!(
        ResultReader::open(&results).unwrap().read_runs().unwrap(),
        before
    );
}

#[test]
fn a_replay_says_what_other_policies_would_save_and_cost() {
    let folder = TempDir::new().unwrap();
    let record = ["--policy", "menu", "--record", "s.parquet"];
    simulate(folder.path(), &record).assert().success();
    let path = folder.path().join("s.parquet");
    let machine = ["--machine", "xeon-e3-1240v5", "--format", "json"];
    let text = printed(&[&[path.to_str().unwrap()], &machine[..]].concat());
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let replayed = answer["replayed"].as_array().unwrap();
    let limited = replayed.iter().find(|policy| {
        let name = policy["policy"].as_str().unwrap();
        name.contains("cpu-latency")
    });
    let limited = limited.unwrap();
    // No exit deeper than the reference's is left, and CPUs that sleep less deeply draw more.
    let saved = limited["saved_ns"].as_f64().unwrap();
    assert!(saved > 20_000.0, "{limited}");
    assert!(limited["added_mw"].as_f64().unwrap() > 0.0, "{limited}");
    // By requests and by replay, the same change saves the same: declared exits are longer than the exits seen by requests.
    let help = answer["kinds"][0]["help"].as_array().unwrap();
    let shallow = help.iter().find(|help| help["remedy"] == "shallow-states");
    let most = shallow.unwrap()["high_ns"].as_f64().unwrap();
    assert!(saved < 1.02 * most, "{limited} against {most}");
}

#[test]
fn a_recording_of_another_machine_is_refused() {
    let recording = common::repository().join("docs/examples/recorded-guest/reads.parquet");
    let other = ["--machine", "xeon-e3-1240v5"];
    explain(&[&[recording.to_str().unwrap()], &other[..]].concat())
        .failure()
        .stderr(predicates::str::contains(
            "the recording is of another machine than xeon-e3-1240v5: 3 CPUs against 8. Explain it without --machine, or name \
             its own",
        ));
}

/// Flush bios by one task, each served by a flush 10 us later, with 40 us in the drive.
#[test]
fn flushes_have_their_bios_submitter_and_wait() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("load.parquet");
    let metadata = Metadata {
        recorded: Recorded {
            queueing: DataQuality::Exact,
            tasks: DataQuality::Exact,
            ..Recorded::default()
        },
        tasks: [(7, "fio\u{1b}[31m".to_owned())].into(),
        ..Metadata::default()
    };
    let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
    let mut push = |time: u64, kind: EventKind| {
        let time = Nanoseconds(time);
        writer.add_event(&Event { time, cpu: 0, kind }).unwrap();
    };
    let flush = Block {
        device: 254 << 20,
        sector: u64::MAX,
        bytes: 0,
        write: false,
    };
    let flush_bio = Block {
        sector: 0,
        write: true,
        ..flush
    };
    for number in 0..200 {
        let begin = (number + 1) * 1_000_000;
        let queued = QueueStep::Queued {
            block: flush_bio,
            task: Some(7),
            background: false,
            durability: Durability::default(),
        };
        push(begin, EventKind::Queueing(queued));
        push(
            begin + 1_000,
            EventKind::Queueing(QueueStep::Tagged(flush_bio)),
        );
        push(begin + 11_000, EventKind::BlockIssue(flush));
        push(begin + 51_000, EventKind::BlockComplete(flush));
        push(begin + 53_000, EventKind::BlockComplete(flush_bio));
        for (after, step) in [(54_000, TaskStep::Waking), (60_000, TaskStep::Running)] {
            push(begin + after, EventKind::Task { task: 7, step });
        }
    }
    writer.finish_and_count_events().unwrap();
    let explained = explain(&[path.to_str().unwrap()]).success();
    let output = explained.get_output();
    let answer = String::from_utf8_lossy(&output.stdout);
    let words = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = "flushes of 254:0, no data: fio\\u{1b}[31m waited 60.0 us (p99 60.0), 11.0 of them in the flush machinery; mean \
                 40.0 us from issue to completion.";
    assert!(words.starts_with(first), "{answer}");
    assert!(
        words.contains(" plugged, 0.0 in the scheduler, 10.0 in the flush machinery."),
        "{answer}"
    );
    assert!(words.contains(" scheduler flush "), "{answer}");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("left out"));
}
