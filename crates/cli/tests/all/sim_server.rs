//! `wakepath sim` and studies on request servers, as a whole command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;

fn wakepath(folder: &Path, arguments: &[&str]) -> (String, String) {
    let output = Command::cargo_bin("wakepath")
        .unwrap()
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

fn workload(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    root.join(name).to_str().unwrap().to_owned()
}

#[test]
fn a_server_has_the_tables_of_requests_and_says_what_is_assumed() {
    let folder = tempfile::tempdir().unwrap();
    let file = workload("web-server.toml");
    let arguments = [
        "sim",
        &file,
        "--machine",
        "laptop",
        "--runs",
        "1",
        "--seconds",
        "1",
    ];
    let (tables, notes) = wakepath(folder.path(), &arguments);
    for word in ["requests/s", "worker", "work", "(busy)"] {
        assert!(tables.contains(word), "{word}: {tables}");
    }
    assert!(!tables.contains("IOPS"), "{tables}");
    assert!(
        notes.contains("assumed of server `web-like`: arrivals.rate"),
        "{notes}"
    );
    assert!(!notes.contains("cannot keep up"), "{notes}");
    let csv = [&arguments[..], &["--format", "csv"]].concat();
    assert_eq!(wakepath(folder.path(), &csv).0.lines().count(), 2);
}

#[test]
fn a_server_that_cannot_keep_up_is_named_with_the_rate_that_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let file = workload("redis-server.toml");
    let more = [
        "--machine",
        "laptop",
        "--runs",
        "1",
        "--seconds",
        "0.2",
        "--warm-up",
        "0",
    ];
    let run = |set: &str| {
        wakepath(
            folder.path(),
            &[&["sim", &file, "--set", set], &more[..]].concat(),
        )
    };
    let (_, notes) = run("rate=1e6");
    let warning = "server `redis-like` cannot keep up with 1000000 requests per second";
    assert!(notes.contains(warning), "{notes}");
    assert!(!notes.contains("still drifts"), "{notes}");
    // Not one reply in 0.2 s: each request has 1 s of work.
    let endless = folder.path().join("endless.toml");
    let text = "kind = 'server'\nname = 's'\n[arrivals]\npattern = 'fixed'\nrate = 100\n[request]\nwork_us = 1e6\n";
    fs::write(&endless, text).unwrap();
    let endless = endless.display().to_string();
    for (rate, wanted) in [
        (
            "rate=100",
            "server 's' cannot keep up: none of the 20 requests that arrived in 0.2 s got its reply, so that it can do less than 5.000 per second",
        ),
        (
            "rate=0.01",
            "no request arrived at server 's' in 0.2 s of simulated time: raise its rate",
        ),
    ] {
        let arguments = [&["sim", &endless, "--set", rate], &more[..]].concat();
        let (tables, refusal) = wakepath(folder.path(), &arguments);
        assert!(
            tables.is_empty() && refusal.contains(wanted),
            "{rate}: {refusal}"
        );
    }
    let (tables, refusal) = run("rate=-1");
    assert!(
        tables.is_empty() && refusal.contains("rate=-1 is set"),
        "{refusal}"
    );
    for (option, value) in [("--rt-app", "1.0"), ("--copies", "2")] {
        let (tables, refusal) = wakepath(
            folder.path(),
            &["sim", &file, "--machine", "laptop", option, value],
        );
        assert!(
            tables.is_empty() && refusal.contains("for rt-app files"),
            "{refusal}"
        );
    }
}

#[test]
fn a_study_of_servers_can_be_run_again_from_its_results() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("times.csv"), "at\n0\n0.1\n0.2\n0.21\n0.3\n0.5\n").unwrap();
    let server = "kind = 'server'\nname = 'recorded'\n[arrivals]\npattern = 'recorded'\ntimes = 'times.csv'\n[request]\nwork_us = 50\n";
    fs::write(at.join("recorded.toml"), server).unwrap();
    let study = "name = 'servers'\nmachine = 'laptop'\nrepeats = 2\npolicy = ['menu', 'teo']\n\
        [[workload]]\nname = 'recorded'\nserver = 'recorded.toml'\n\
        [[workload]]\nname = 'web'\nserver = 'web-server.toml'\nseconds = 1\nwarm_up_s = 0.1\n";
    fs::write(at.join("study.toml"), study).unwrap();
    let (_, errors) = wakepath(at, &["study", "run", "study.toml", "-o", "first"]);
    assert!(at.join("first/result.json").exists(), "{errors}");
    fs::remove_file(at.join("times.csv")).unwrap();
    let (_, errors) = wakepath(at, &["study", "run", "first/study.toml", "-o", "second"]);
    assert!(at.join("second/result.json").exists(), "{errors}");
    for results in ["first", "second"] {
        let (table, errors) = wakepath(at, &["compare", results, "--metric", "p99_us"]);
        assert!(
            table.contains("recorded") && table.contains("web"),
            "{table}{errors}"
        );
    }
    let [first, second] =
        ["first", "second"].map(|name| fs::read(at.join(name).join("runs.parquet")).ok());
    assert_eq!(first, second);
    let (_, refusal) = wakepath(at, &["study", "check", "study.toml", "--on", "live"]);
    assert!(refusal.contains("servers are simulated"), "{refusal}");
}
