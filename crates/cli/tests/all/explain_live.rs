//! `wakepath explain` on the machine that the tests run on.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::common;

const WAKEPATH: &str = env!("CARGO_BIN_EXE_wakepath");

/// fio reads a file of 8 MiB past the page cache, 300 times.
const PAUSING_READS: &str = "[job]\nfilename=data\nsize=8m\nrw=randread\ndirect=1\nioengine=psync\nthinktime=1ms\nnumber_ios=300\n";

/// A folder on a real file system: those in memory know no direct I/O.
fn disk_folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn explain(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(WAKEPATH);
    command.current_dir(folder).arg("explain").args(arguments);
    command
}

/// Runs a job of fio while `explain` watches.
fn explain_fio(folder: &Path, job: &str, arguments: &[&str]) -> Option<Output> {
    std::fs::write(folder.join("job.fio"), job).unwrap();
    // Output of fio goes to standard error: JSON and CSV stand alone.
    let load = ["--", "fio", "job.fio"];
    let output = explain(folder, arguments).args(load).output().unwrap();
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        common::skip("explain on this machine", reason.trim());
        return None;
    }
    Some(output)
}

#[test]
fn this_machine_is_explained_and_parts_add_up() {
    let folder = disk_folder();
    let Some(output) = explain_fio(folder.path(), PAUSING_READS, &["--format", "json"]) else {
        return;
    };
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds = answer["kinds"].as_array().unwrap();
    assert!(!kinds.is_empty());
    for kind in kinds {
        let part = |name: &str| kind["parts"][name].as_f64().unwrap();
        let latency =
            part("out_ns") + part("interrupt_ns") + part("remote_exit_ns") + part("remote_ns");
        assert!((latency - part("latency_ns")).abs() < 1.0, "{kind}");
        let Some(wait) = kind["wait"].as_object() else {
            continue;
        };
        let names = [
            "queued_ns",
            "latency_ns",
            "hand_over_ns",
            "through_ns",
            "task_exit_ns",
            "run_queue_ns",
        ];
        let sum: f64 = names.iter().map(|name| wait[*name].as_f64().unwrap()).sum();
        assert!(
            (sum - wait["wait_ns"].as_f64().unwrap()).abs() < 1.0,
            "{kind}"
        );
    }
    assert!(answer["probes"]["run_ns"].as_f64().unwrap() > 0.0);
    let processes = answer["processes"].as_array().unwrap();
    let fio = processes.iter().find(|process| process["name"] == "fio");
    let fio = fio.unwrap_or_else(|| panic!("no fio in {processes:?}"));
    assert!(fio["requests"].as_u64().unwrap() >= 250, "{fio}");
}

/// An answer for each line.
fn parse_lines(text: &[u8]) -> Vec<Value> {
    let text = str::from_utf8(text).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn covered(answer: &Value, what: &str) -> u64 {
    answer["coverage"][what].as_u64().unwrap()
}

/// Number of requests over all kinds.
fn count_explained(answer: &Value) -> u64 {
    let kinds = answer["kinds"].as_array().unwrap().iter();
    kinds.map(|kind| kind["requests"].as_u64().unwrap()).sum()
}

/// Number of requests with only an issue or only a completion.
fn count_unpaired(answer: &Value) -> u64 {
    covered(answer, "without_issue") + covered(answer, "without_completion")
}

/// Requests are in flight whenever an interval ends, and none of them is lost.
#[test]
fn requests_in_flight_at_the_end_of_an_interval_come_with_a_later_one() {
    let folder = disk_folder();
    let job = "[job]\nfilename=data\nsize=64m\nrw=randread\ndirect=1\nioengine=libaio\niodepth=32\nbs=512k\ntime_based\nruntime=3\n";
    let arguments = ["--watch", "--interval", "200ms", "--format", "json"];
    let Some(output) = explain_fio(folder.path(), job, &arguments) else {
        return;
    };
    let answers = parse_lines(&output.stdout);
    let [first, middle @ .., last] = answers.as_slice() else {
        panic!("{} lines", answers.len());
    };
    assert!(middle.len() >= 8, "{} lines", answers.len());
    if answers.iter().any(|answer| covered(answer, "gaps") > 0) {
        common::skip("requests in flight", "events were lost");
        return;
    }
    // A request from before the begin may complete late.
    let unpaired: u64 = middle.iter().map(count_unpaired).sum();
    assert!(unpaired < middle.len() as u64, "{unpaired}");
    for answer in middle.iter().chain([first, last]) {
        assert_eq!(covered(answer, "requests"), count_explained(answer));
    }
    let requests: u64 = answers.iter().map(count_explained).sum();
    assert!(requests >= 100, "{requests}");
    // What is left at the end is said, over all intervals.
    let unpaired: u64 = answers.iter().map(count_unpaired).sum();
    let said = String::from_utf8(output.stderr).unwrap();
    let warning = format!("{unpaired} requests have only an issue or only a completion");
    assert_eq!(said.contains(&warning), unpaired > 0, "{said}");
}

#[test]
fn intervals_as_csv_have_one_header() {
    let folder = disk_folder();
    let arguments = ["--watch", "--interval", "200ms", "--duration", "1s"];
    let mut command = explain(folder.path(), &arguments);
    let output = command.args(["--format", "csv"]).output().unwrap();
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        common::skip("explain on this machine", reason.trim());
        return;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("interval,device,"));
    assert!(lines.all(|line| line.starts_with(|first: char| first.is_ascii_digit())));
}
