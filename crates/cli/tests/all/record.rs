//! `wakepath record` on the machine that the tests run on.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::common;
use crate::common::recording::read;
use serde_json::Value;
use tempfile::TempDir;
use wakepath_record::UNSEEN_SWITCHES;
use wakepath_trace::recording::{Before, DataQuality, EventKind, Interrupt, QueueStep, TaskStep};

const WAKEPATH: &str = env!("CARGO_BIN_EXE_wakepath");

/// A folder for one test, on a real file system: those in memory know no direct I/O.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn record(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(WAKEPATH);
    command
        .current_dir(folder.path())
        .arg("record")
        .args(arguments);
    command
}

/// Whether this machine lets wakepath record; where it does not, the test is skipped and says why.
fn possible(test: &str) -> bool {
    let folder = folder();
    let tried = record(&folder, &["--duration", "1ms"]).output().unwrap();
    if !tried.status.success() {
        common::skip(test, String::from_utf8_lossy(&tried.stderr).trim());
    }
    tried.status.success()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Time that all CPUs were idle so far, in 1/100 s.
fn idle_time() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let first = stat.lines().next().unwrap();
    first.split_whitespace().nth(4).unwrap().parse().unwrap()
}

#[test]
fn what_fio_does_is_recorded() {
    if !possible("what_fio_does_is_recorded") {
        return;
    }
    let folder = folder();
    let job = "[job]\nfilename=data\nsize=8m\nrw=randread\ndirect=1\nioengine=psync\nthinktime=2ms\nnumber_ios=400\n";
    fs::write(folder.path().join("job.fio"), job).unwrap();
    let idle_before = idle_time();
    let arguments = [
        "-o",
        "r.parquet",
        "--format",
        "json",
        "--",
        "fio",
        "--output=fio.json",
        "--output-format=json",
        "job.fio",
    ];
    let output = record(&folder, &arguments).output().unwrap();
    let idle = idle_time() - idle_before;
    assert!(output.status.success(), "{}", stderr(&output));
    // What is missing is said, once.
    assert!(stderr(&output).lines().count() <= 3, "{}", stderr(&output));

    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (metadata, events) = read(&folder.path().join("r.parquet"));
    assert!(metadata.complete);
    assert_eq!(summary["events"], events.len());
    assert_eq!(summary["lost"], metadata.lost_events);
    assert_eq!(
        metadata.cpus as usize,
        std::thread::available_parallelism().unwrap().get()
    );
    assert!(metadata.hz.is_some());
    assert_eq!(metadata.recorded.idle, DataQuality::Exact);
    assert_eq!(metadata.recorded.block, DataQuality::Exact);

    let fio: Value =
        serde_json::from_slice(&fs::read(folder.path().join("fio.json")).unwrap()).unwrap();
    let of_fio = fio["jobs"][0]["read"]["total_ios"].as_u64().unwrap();
    let reads = |issued: bool| {
        let counts = |kind: &EventKind| match kind {
            EventKind::BlockIssue(block) => issued && !block.write,
            EventKind::BlockComplete(block) => !issued && !block.write,
            _ => false,
        };
        events.iter().filter(|event| counts(&event.kind)).count() as u64
    };
    assert_eq!(of_fio, 400);
    let count = |test: fn(&EventKind) -> bool| events.iter().filter(|e| test(&e.kind)).count();
    let queued = count(|kind| matches!(kind, EventKind::Queueing(QueueStep::Queued { .. })));
    let running = count(|kind| {
        let step = TaskStep::Running;
        matches!(kind, EventKind::Task { step: found, .. } if *found == step)
    });
    if metadata.recorded.queueing == DataQuality::Exact {
        assert!(queued >= 400, "{queued} bios");
        assert!(metadata.tasks.values().any(|name| name == "fio"));
    }
    if metadata.recorded.tasks == DataQuality::Exact {
        assert!(running >= 200, "{running} times a task ran again");
    }
    let devices = count(|kind| matches!(kind, EventKind::Interrupt(Interrupt::Device { .. })));
    assert!(metadata.recorded.interrupts == DataQuality::Missing || devices > 0);
    // Where no eBPF runs in the time of some thread, the recording names it and may lack events.
    let names_a_gap = metadata.warnings.iter().any(|w| w.name == UNSEEN_SWITCHES);
    let expected = if names_a_gap { of_fio / 2 } else { of_fio };
    assert!(
        reads(true) >= expected && reads(false) >= expected,
        "{} issued and {} completed of {expected}",
        reads(true),
        reads(false)
    );
    let iowait = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::Wake {
                iowait: Some(true),
                ..
            }
        )
    };
    assert!(events.iter().any(|event| iowait(&event.kind)));
    assert!(
        events
            .iter()
            .any(|event| matches!(event.kind, EventKind::Timer(_)))
    );
    // Another test may keep all CPUs busy.
    let periods = summary["idle_periods"].as_u64().unwrap();
    assert!(
        periods > 0 || idle < 20,
        "no idle period in {idle} hundredths of a second"
    );
    // Many begin where a task made way: fio, when it waits for its read.
    let after_task = events.iter().filter(
        |event| matches!(event.kind, EventKind::Idle(period) if period.before == Before::Task),
    );
    // A handful of periods on a busy machine says nothing.
    assert!(
        periods < 20 || after_task.count() as u64 * 4 >= periods,
        "of {periods}"
    );
    let cost = summary["ebpf_ns_per_event"].as_f64().unwrap();
    println!("{cost:.0} ns of eBPF per event, {periods} idle periods");
    assert!(cost > 0.0);
}

#[test]
fn a_recording_begins_and_ends_with_its_command() {
    if !possible("a_recording_begins_and_ends_with_its_command") {
        return;
    }
    let folder = folder();
    let arguments = ["-o", "r.parquet", "--duration", "300ms"];
    let output = record(&folder, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let (metadata, events) = read(&folder.path().join("r.parquet"));
    let [begins, ends] = metadata.span_ns.unwrap();
    assert!(ends - begins >= 250_000_000, "{} ns", ends - begins);
    assert!(events.iter().all(|event| event.time.0 <= ends));
}

/// A recording that is under way: part of it is in the file already.
fn under_way(folder: &TempDir) -> Child {
    let child = record(folder, &["-o", "r.parquet", "--duration", "2m"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let tail = folder.path().join("r.parquet.tail");
    while !tail.exists() {
        std::thread::sleep(Duration::from_millis(50));
    }
    child
}

#[test]
fn a_killed_recording_can_be_read() {
    if !possible("a_killed_recording_can_be_read") {
        return;
    }
    let folder = folder();
    let mut child = under_way(&folder);
    child.kill().unwrap();
    child.wait().unwrap();
    let (metadata, events) = read(&folder.path().join("r.parquet"));
    assert!(!metadata.complete);
    assert!(metadata.cpus > 0 && !events.is_empty());
}

#[test]
fn ctrl_c_ends_a_recording() {
    if !possible("ctrl_c_ends_a_recording") {
        return;
    }
    let folder = folder();
    let mut child = under_way(&folder);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
    let (metadata, events) = read(&folder.path().join("r.parquet"));
    assert!(metadata.complete && !events.is_empty());
    assert!(!folder.path().join("r.parquet.tail").exists());
}

#[test]
fn nothing_is_overwritten_or_left_behind_by_mistake() {
    if !possible("nothing_is_overwritten_or_left_behind_by_mistake") {
        return;
    }
    let folder = folder();
    fs::write(folder.path().join("r.parquet"), "mine").unwrap();
    let refused = record(&folder, &["-o", "r.parquet", "--duration", "1ms"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("r.parquet: the file exists")
            && stderr(&refused).contains("--force")
    );
    assert_eq!(
        fs::read_to_string(folder.path().join("r.parquet")).unwrap(),
        "mine"
    );

    let missing = record(&folder, &["-o", "s.parquet", "--", "no-such-program"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("cannot run no-such-program"));
    assert!(!folder.path().join("s.parquet").exists());
    // Nor is one lost that would have been replaced.
    let mut missing = record(
        &folder,
        &["-o", "r.parquet", "--force", "--", "no-such-program"],
    );
    assert!(!missing.output().unwrap().status.success());
    assert_eq!(
        fs::read_to_string(folder.path().join("r.parquet")).unwrap(),
        "mine"
    );
}

#[test]
fn what_finds_no_room_is_counted_and_said() {
    if !possible("what_finds_no_room_is_counted_and_said") {
        return;
    }
    let folder = folder();
    // A page is full after a hundred events, and is emptied ten times a second.
    let command = "dd if=/dev/zero of=data bs=4k count=2000 oflag=sync 2>dd.txt";
    let arguments = ["-o", "r.parquet", "--buffer", "4", "--format", "json"];
    let output = record(&folder, &arguments)
        .args(["--", "sh", "-c", command])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lost = summary["lost"].as_u64().unwrap();
    let (metadata, events) = read(&folder.path().join("r.parquet"));
    let noted = events.iter().map(|event| match event.kind {
        EventKind::Lost { count } => count,
        _ => 0,
    });
    assert!(lost > 100, "{summary}");
    assert_eq!((metadata.lost_events, noted.sum::<u64>()), (lost, lost));
    let said = format!("{lost} events found no room in the buffers");
    assert!(stderr(&output).contains(&said), "{}", stderr(&output));

    let refused = record(&folder, &["-o", "s.parquet", "--buffer", "3"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("4..=1048576"));
}

#[test]
fn who_may_not_record_is_told_so() {
    let test = "who_may_not_record_is_told_so";
    if !rustix::process::geteuid().is_root() || !possible(test) {
        common::skip(test, "it needs root to become somebody else");
        return;
    }
    // Where somebody else can run it and write.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("wakepath");
    fs::copy(WAKEPATH, &program).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let output = Command::new(&program)
        .current_dir(folder.path())
        .args(["record", "--duration", "1ms"])
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("recording needs root"),
        "{}",
        stderr(&output)
    );
    assert!(!folder.path().join("wakepath.parquet").exists());
}

#[test]
fn what_the_command_has_started_ends_with_it() {
    if !possible("what_the_command_has_started_ends_with_it") {
        return;
    }
    let folder = folder();
    let command = ["--duration", "1s", "--", "sh", "-c", "sleep 64.25; true"];
    let output = record(&folder, &command)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let running = Command::new("pgrep").args(["-f", "sleep 64[.]25"]).status();
    assert!(!running.unwrap().success());
}
