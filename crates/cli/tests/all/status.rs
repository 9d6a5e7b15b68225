//! `wakepath status` as a whole command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::common::captured::laptop;
use crate::common::{fails_with, json, wakepath};
use serde_json::Value;

#[test]
fn a_captured_machine_shows_what_happened_since_its_start() {
    let laptop = laptop();
    let root = laptop.to_str().unwrap();
    let status =
        json(&wakepath(&["status", "--format", "json", "--ask-drives", "--root", root]).success());
    assert_eq!(status["governor"], "menu (intel_idle)");
    let c10 = &status["cpus"][0]["states"][4];
    assert_eq!(c10["name"], "C10");
    // 2381 s in 152,300 stays, in the 2500.31 s that the machine had been up.
    let share = c10["share"].as_f64().unwrap();
    assert!((share - 2381.0 / 2500.31).abs() < 1e-9, "{share}");
    let entries = c10["entries_per_s"].as_f64().unwrap();
    assert!((entries - 152_300.0 / 2500.31).abs() < 1e-9, "{entries}");
    let drive = &status["drives"][0];
    assert_eq!(drive["apst"], false);
    let read_us = drive["read_us"].as_f64().unwrap();
    assert!((read_us - 90_210e3 / 182_710.0).abs() < 1e-9, "{read_us}");
    let csv = wakepath(&["status", "--format", "csv", "--root", root]).success();
    assert_eq!(
        csv.get_output().stdout.split(|b| *b == b'\n').count(),
        1 + 2 * 5 + 1
    );
}

#[test]
fn dumps_of_sysfs_become_a_table() {
    let laptop = laptop();
    let root = laptop.to_str().unwrap();
    let alone = wakepath(&["counters", root, "--format", "json"]).success();
    let document = json(&alone);
    assert_eq!(
        (&document["cpus"], &document["seconds"]),
        (&2.into(), &2500.31.into())
    );
    assert_eq!(document["by_cpu"][0][1][4]["usage"], 152_300);
    // Every counter 10 higher, 5 s later.
    let later = tempfile::tempdir().unwrap();
    for cpu in 0..2 {
        for state in 0..5 {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}");
            let (from, to) = (laptop.join(&folder), later.path().join(&folder));
            fs::create_dir_all(&to).unwrap();
            fs::copy(from.join("name"), to.join("name")).unwrap();
            for counter in ["usage", "time", "above", "below", "rejected"] {
                let text = fs::read_to_string(from.join(counter)).unwrap_or_default();
                if let Ok(count) = text.trim().parse::<u64>() {
                    fs::write(to.join(counter), format!("{}\n", count + 10)).unwrap();
                }
            }
        }
    }
    let later = later.path().to_str().unwrap();
    let between = |more: &[&str]| wakepath(&[&["counters", root, later], more].concat());
    let csv = between(&["--format", "csv", "--seconds", "5s", "--per-cpu"]).success();
    let csv = String::from_utf8(csv.get_output().stdout.clone()).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 5);
    assert!(
        csv.contains("\n1,C10,0.000,0.00,10,2.0,10,100.00,10,100.00,"),
        "{csv}"
    );
    let text = between(&[]).success();
    let text = String::from_utf8(text.get_output().stdout.clone()).unwrap();
    assert!(
        text.starts_with("2 CPUs over an unknown time (--seconds"),
        "{text}"
    );
    fails_with(
        wakepath(&["counters", later, root]),
        &["go back", "earlier dump first"],
    );
    fails_with(
        wakepath(&["counters", "/does/not/exist"]),
        &["/does/not/exist"],
    );
}

#[test]
fn watching_gives_a_record_for_each_interval() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args([
            "status",
            "--watch",
            "--interval",
            "20ms",
            "--format",
            "json",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let record: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert!(record["seconds"].as_f64().unwrap() >= 0.02);
        for cpu in record["cpus"].as_array().unwrap() {
            for state in cpu["states"].as_array().unwrap() {
                let share = state["share"].as_f64().unwrap();
                assert!((0.0..=1.0).contains(&share), "{state}");
            }
        }
    }
    // A reader that has gone is the end of it.
    drop(lines);
    assert!(child.wait().unwrap().success());
}
