//! `wakepath explain` in the laboratory (docs/background/laboratory.md), where exits and service times are known.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use wakepath_trace::recording::{Overwrite, Reader, RecordingError, Writer};

use crate::common::{json, repository, skip, wakepath};

/// Exits of `rig/laboratory/debian-6.12.toml` in ns, by state.
const EXITS: [(&str, f64); 5] = [
    ("POLL", 0.0),
    ("C1", 2_000.0),
    ("C1E", 10_000.0),
    ("C6", 133_000.0),
    ("C8", 300_000.0),
];
/// CPU that plays the drive, behind those of the machine.
const DRIVE_CPU: u32 = 2;
/// Exit code of a laboratory that lacks a program or a package.
const UNAVAILABLE: i32 = 3;

fn true_exit(state: &str) -> f64 {
    EXITS.iter().find(|(name, _)| *name == state).unwrap().1
}

/// Jobs whose pauses vary, so that equal gaps meet several states.
const JOBS: [(&str, &str); 4] = [
    (
        "poisson-300",
        "rate_iops=300\nrate_process=poisson\nruntime=12s",
    ),
    (
        "poisson-1000",
        "rate_iops=1000\nrate_process=poisson\nruntime=6s",
    ),
    (
        "poisson-2500",
        "rate_iops=2500\nrate_process=poisson\nruntime=4s",
    ),
    (
        "two-poisson-500",
        "rate_iops=500\nrate_process=poisson\nnumjobs=2\nruntime=6s",
    ),
];

/// A study of these jobs under several policies, on a machine with a spread of service times.
fn write_study(folder: &Path, completion: &str) -> PathBuf {
    let machine = fs::read_to_string(repository().join("rig/laboratory/debian-6.12.toml")).unwrap();
    let machine = machine
        .replace("\nspread = 0\n", "\nspread = 0.5\n")
        .replace("completion = {", &format!("completion = {{ {completion}"));
    fs::write(folder.join("debian-6.12.toml"), machine).unwrap();
    let mut study = "name = 'explain'\nmachine = 'debian-6.12.toml'\nrepeats = 1\nwarm_up_s = 0\n\
        policy = ['menu', 'ladder', 'menu + psd[timeout=3ms,ceiling=20us,rule=module]']\n"
        .to_owned();
    for (name, lines) in JOBS {
        write!(
            study,
            "[[workload]]\nname = '{name}'\nfio_job = '''\n[job]\nfilename=/dev/drive0\nsize=1g\ndirect=1\nioengine=psync\n\
             rw=randread\nbs=4k\ntime_based\n{lines}\n'''\n"
        )
        .unwrap();
    }
    let path = folder.join("study.toml");
    fs::write(&path, study).unwrap();
    path
}

/// Runs the study with recordings; `None` where the laboratory lacks something.
fn run(test: &str, name: &str, completion: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("explain-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let study = write_study(&folder, completion);
    let out = folder.join("out");
    let done = std::process::Command::new("python3")
        .current_dir(repository())
        .arg("rig/lab.py")
        .arg(study)
        .arg("-o")
        .arg(&out)
        .args(["--program", env!("CARGO_BIN_EXE_wakepath")])
        .args(["--record", "--device-interrupts", "--timeout", "1500"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.code() == Some(UNAVAILABLE) {
        skip(test, said.trim());
        return None;
    }
    assert!(done.status.success(), "{said}");
    Some(out)
}

/// A recording without what the CPU that plays the drive did.
fn leave_out_drive(recording: &Path) -> PathBuf {
    let path = recording.with_extension("seen.parquet");
    let mut reader = Reader::open(recording).unwrap();
    let mut writer = Writer::create(&path, Overwrite::Yes, reader.metadata().clone()).unwrap();
    reader
        .for_each_event(|event| -> Result<(), RecordingError> {
            if event.cpu == DRIVE_CPU {
                return Ok(());
            }
            writer.add_event(&event)
        })
        .unwrap();
    writer.finish_and_count_events().unwrap();
    path
}

/// A count of the drive's own, such as `service_ns`.
fn drive_count(counts: &str, name: &str) -> f64 {
    let mut words = counts.split_whitespace().skip_while(|word| *word != name);
    words.nth(1).unwrap().parse().unwrap()
}

/// How a cell's answer compares with the truth.
struct Judged {
    costs: usize,
    wrong: Vec<String>,
}

fn judge(name: &str, kind: &Value, counts: &str) -> Judged {
    let mut judged = Judged {
        costs: 0,
        wrong: Vec::new(),
    };
    let names = &kind["state_names"];
    let state_name = |index: &Value| names[index.to_string()].as_str().unwrap().to_owned();
    let split = &kind["split"];
    if split["reference"].is_null() {
        println!("{name}: no cost");
        return judged;
    }
    let reference = true_exit(&state_name(&split["reference"]));
    let requests = kind["requests"].as_f64().unwrap();
    let (mut charged, mut truth) = (0.0, 0.0);
    for state in split["states"].as_array().unwrap() {
        let Some(found) = state["cost"]["mean_ns"].as_f64() else {
            continue;
        };
        let called = state_name(&state["state"]);
        let real = true_exit(&called) - reference;
        let share = state["met"].as_f64().unwrap() / requests;
        charged += found * share;
        truth += real * share;
        judged.costs += 1;
        let interval = [&state["cost"]["low_ns"], &state["cost"]["high_ns"]];
        let text = format!("{name}: {called} {found:.0} {interval:?} of {real:.0} ns");
        println!("{text}");
        if (found - real).abs() > (0.05 * real).max(1_000.0) {
            judged.wrong.push(text);
        }
    }
    let mean = kind["parts"]["latency_ns"].as_f64().unwrap();
    if (charged - truth).abs() > 0.05 * mean {
        judged.wrong.push(format!(
            "{name}: exits {charged:.0} of {truth:.0} in {mean:.0} ns"
        ));
    }
    // The drive's own time, from the moment that the driver gave it a request.
    let reads = drive_count(counts, "reads");
    let times =
        ["service_ns", "queued_ns", "late_ns"].map(|time| drive_count(counts, time) / reads);
    let drive = times.iter().sum::<f64>();
    let rest = kind["rest_ns"].as_f64().unwrap() - reference;
    println!("{name}: drive {rest:.0} of {drive:.0} ns");
    if judged.costs > 0 && (rest - drive).abs() > 0.02 * drive + 1_000.0 {
        judged
            .wrong
            .push(format!("{name}: drive {rest:.0} of {drive:.0} ns"));
    }
    judged
}

/// Explains every recording; at least `fewest` cells have a cost, and all that are said are right.
fn check_cells(out: &Path, fewest: usize) {
    let (mut cells, mut wrong) = (0, Vec::new());
    let mut recordings: Vec<PathBuf> = fs::read_dir(out.join("recordings"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.to_string_lossy().contains(".seen."))
        .collect();
    recordings.sort();
    for recording in recordings {
        let number = recording.file_stem().unwrap().to_str().unwrap().to_owned();
        let seen = leave_out_drive(&recording);
        let answer =
            json(&wakepath(&["explain", seen.to_str().unwrap(), "--format", "json"]).success());
        let counts = fs::read_to_string(out.join(format!("guest-1/runs/{number}.drive"))).unwrap();
        let judged = judge(&number, &answer["kinds"][0], &counts);
        cells += usize::from(judged.costs > 0);
        wrong.extend(judged.wrong);
    }
    println!("{cells} cells with a cost");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(cells >= fewest, "{cells} cells");
}

#[test]
#[ignore = "nightly: a laboratory guest with recordings"]
fn exits_are_found_where_each_cpu_is_interrupted() {
    let test = "exits_are_found_where_each_cpu_is_interrupted";
    if let Some(out) = run(test, "own", "") {
        check_cells(&out, 6);
    }
}

#[test]
#[ignore = "nightly: a laboratory guest with recordings"]
fn exits_are_found_where_one_cpu_takes_all_interrupts() {
    let test = "exits_are_found_where_one_cpu_takes_all_interrupts";
    if let Some(out) = run(test, "shared", "queues = 1, cpu = 1, ") {
        check_cells(&out, 4);
    }
}
