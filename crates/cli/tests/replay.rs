//! Importing and replaying, as whole commands.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{fails_with, json, wakepath};

fn epyc(mhz: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!(
        "../trace/tests/data/epyc7502-idle-wake-{mhz}MHz.perf-script.txt"
    ))
}

/// The measured wake-up latencies from C2, in us: 5th and 95th percentile at these frequencies, from
/// `zen2_c2_wake_latency_raw_stats.csv` (TU Dresden, arXiv 2108.00808), local and remote.
const MEASURED: [(u32, f64, f64); 2] = [(1500, 21.86, 24.39), (2500, 17.35, 23.63)];

#[test]
fn the_epyc_traces_wake_up_as_slowly_as_measured() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("epyc.parquet");
    let out = out.to_str().unwrap();
    for (mhz, low, high) in MEASURED {
        let file = epyc(mhz);
        let imported = wakepath(&[
            "import",
            file.to_str().unwrap(),
            "-o",
            out,
            "--force",
            "--format",
            "json",
        ])
        .success();
        let lines = fs::read_to_string(&file).unwrap().lines().count() as u64;
        assert_eq!(json(&imported)["files"][0]["events"], lines);
        let replayed = wakepath(&[
            "replay",
            out,
            "--machine",
            "epyc-7502",
            "--idle",
            "deepest,oracle",
            "--ran",
            "menu@6.1",
            "--format",
            "json",
        ])
        .success();
        let report = json(&replayed);
        assert_eq!(report["periods"], lines / 2);
        let c2 = &report["policies"][1]["states"][2];
        let each = c2["added_latency_ns"].as_f64().unwrap() / c2["slower"].as_f64().unwrap() / 1e3;
        // Against the oracle, which may have been in C1: that takes about 1 us itself.
        assert!((low - 1.6..=high).contains(&each), "{mhz} MHz: {each} us");
        // Nothing is known of the timers, and that is said.
        assert!(report["approximate"].as_object().unwrap().len() >= 2);
        let agreement = &report["agreement"][1];
        let same = agreement["same_state"].as_u64().unwrap();
        assert!(
            same * 100 >= agreement["periods"].as_u64().unwrap() * 95,
            "{agreement}"
        );
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.parquet");
    let bad = folder.path().join("bad.txt");
    fs::write(&out, "precious").unwrap();
    fs::write(&bad, "no trace\n").unwrap();
    let (out_name, bad_name) = (out.to_str().unwrap(), bad.to_str().unwrap());
    fails_with(
        wakepath(&["import", epyc(2500).to_str().unwrap(), "-o", out_name]),
        &["a.parquet exists already", "--force"],
    );
    fails_with(
        wakepath(&["import", bad_name, "-o", out_name, "--force"]),
        &["bad.txt: no trace event in 1 lines"],
    );
    assert_eq!(fs::read_to_string(&out).unwrap(), "precious");
    fails_with(
        wakepath(&["replay", out_name]),
        &["no finished Parquet file"],
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn the_call_log_runs_through_policy_idle() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (out, calls, states) = (path("e.parquet"), path("calls.csv"), path("states.csv"));
    wakepath(&["import", epyc(2500).to_str().unwrap(), "-o", &out]).success();
    wakepath(&[
        "replay",
        &out,
        "--machine",
        "epyc-7502",
        "--cpu",
        "9",
        "--calls",
        &calls,
    ])
    .success();
    let table = wakepath(&["machine", "show", "epyc-7502", "--format", "states"]).success();
    fs::write(&states, &table.get_output().stdout).unwrap();
    let run = wakepath(&[
        "policy",
        "idle",
        "--governor",
        "menu@6.1",
        "--states",
        &states,
        &calls,
    ])
    .success();
    let decisions = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    assert_eq!(decisions.lines().count(), 818);
    // The states are not in the recording.
    fails_with(wakepath(&["replay", &out]), &["--machine", "--states"]);
    fails_with(
        wakepath(&["replay", &out, "--machine", "epyc-7502", "--calls", &calls]),
        &["calls.csv", "--force"],
    );
}
