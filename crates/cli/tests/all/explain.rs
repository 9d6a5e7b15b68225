//! `wakepath explain` on recordings.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use tempfile::TempDir;
use wakepath_hardware::IdleState;
use wakepath_trace::recording::{
    Block, BlockDevice, CpuIdleStates, Event, EventKind, IdlePeriod, Metadata, Overwrite, Writer,
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
    let path = folder.join("load.parquet");
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
        ..Metadata::default()
    };
    let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
    let mut push = |time: u64, kind: EventKind| {
        let time = Nanoseconds(time);
        writer.push(&Event { time, cpu: 0, kind }).unwrap();
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
    writer.finish().unwrap();
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
    assert!(table.contains("C6 costs 96.0 us ["), "{table}");
    assert!(table.contains("more than C1"), "{table}");
    assert!(table.contains("= drive and C1 8"), "{table}");
    assert!(table.contains("ceiling=C1]"), "{table}");

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
