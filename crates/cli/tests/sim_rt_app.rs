//! `wakepath sim` on rt-app files, as a whole command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

use assert_cmd::Command;
use predicates::prelude::*;
use serde_json::Value;

fn sim(arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("wakepath")
        .unwrap()
        .arg("sim")
        .args(arguments)
        .assert()
}

fn stdout(arguments: &[&str]) -> String {
    let assert = sim(arguments).success().stderr("");
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn workload(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    root.join(name).to_str().unwrap().to_owned()
}

/// Operations per second of each combination.
fn operations(arguments: &[&str]) -> Vec<f64> {
    let json: Value =
        serde_json::from_str(&stdout(&[arguments, &["--format", "json"]].concat())).unwrap();
    let results = json["results"].as_array().unwrap();
    results
        .iter()
        .map(|r| r["operations_per_second"].as_f64().unwrap())
        .collect()
}

#[test]
fn threads_have_a_table_of_their_own() {
    let file = workload("ping-pong.json");
    let text = stdout(&[&file, "--machine", "laptop", "--runs", "1"]);
    for word in ["operations/s", "ping", "pong", "wake us", "(busy)"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("IOPS"), "{text}");
    let csv = stdout(&[
        &file,
        "--machine",
        "laptop",
        "--runs",
        "2",
        "--format",
        "csv",
    ]);
    // A header, and two threads in each of two runs.
    assert_eq!(csv.lines().count(), 5, "{csv}");
}

#[test]
fn more_pairs_do_more_and_a_shorter_polling_limit_does_not_help() {
    let file = workload("ping-pong.json");
    let base = ["--machine", "intel-tbench-80t", "--runs", "1"];
    let performance = ["--policy", "performance"];
    let run = |more: &[&str]| operations(&[&[file.as_str()], &base[..], more].concat());
    let (one, four) = (
        run(&performance)[0],
        run(&[&performance[..], &["--copies", "4"]].concat())[0],
    );
    assert!(four > 3.0 * one && four < 5.0 * one, "{one} {four}");
    let limits = run(&[
        "--policy",
        "menu@6.1 + performance + poll[rule=first]",
        "--policy",
        "menu@6.1 + performance + poll",
    ]);
    assert!(limits[0] <= limits[1], "{limits:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let file = workload("worker-pool.json");
    let run = |jobs: &str| {
        let sets = ["--policy", "menu", "--policy", "teo"];
        let more = [&sets[..], &["--format", "json", "--jobs", jobs]].concat();
        stdout(
            &[
                &[file.as_str(), "--machine", "laptop", "--runs", "3"],
                &more[..],
            ]
            .concat(),
        )
    };
    assert_eq!(run("1"), run("4"));
}

#[test]
fn what_cannot_run_says_why() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, message) in [
        (
            "key",
            r#"{"tasks": {"a": {"loop": 2, "rnu": 5}}, "global": {"duration": 1}}"#,
            "tasks.a.rnu: key `rnu` is not known; did you mean `run`?",
        ),
        (
            "stuck",
            r#"{"tasks": {"a": {"suspend": "x"}}, "global": {"duration": 1}}"#,
            "every thread waits for another one",
        ),
        (
            "nobody",
            r#"{"tasks": {"a": {"loop": -1, "resume": "x"}}, "global": {"duration": 1}}"#,
            "on which nobody suspends",
        ),
        ("empty", "", "empty.json:"),
        ("cut", r#"{"tasks": {"a": {"run": "#, "cut.json:1: "),
    ] {
        let path = folder.path().join(format!("{name}.json"));
        std::fs::write(&path, text).unwrap();
        sim(&[path.to_str().unwrap(), "--machine", "laptop", "--runs", "1"])
            .failure()
            .code(1)
            .stdout("")
            .stderr(predicate::str::contains(message))
            .stderr(predicate::function(|e: &str| e.lines().count() == 1));
    }
    sim(&[
        &workload("iowait-rk3399.fio"),
        "--machine",
        "rk3399",
        "--copies",
        "2",
    ])
    .failure()
    .stderr(predicate::str::contains("numjobs"));
}
