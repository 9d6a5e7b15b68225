//! Recordings as loads of `wakepath tune`, and `wakepath replay --drive`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use assert_cmd::assert::Assert;
use predicates::prelude::*;
use serde_json::Value;

use crate::common::{fails_with, json, repository, wakepath};

/// A table under which the drive never sleeps.
const AWAKE: &str = "apst[max_latency_us=0]";

/// The simulated run on a drive that never sleeps as a recording.
fn recording(folder: &Path) -> PathBuf {
    recording_under_table(folder, AWAKE)
}

/// The simulated run under a table as a recording.
fn recording_under_table(folder: &Path, table: &str) -> PathBuf {
    let path = folder.join("reads.parquet");
    simulate(table, &["--force", "--record", path.to_str().unwrap()]);
    path
}

/// Simulates a drive with 150 ms between two reads under a table, with further options.
fn simulate(table: &str, more: &[&str]) -> Assert {
    let job = repository().join("workloads/apst-7.fio");
    let arguments = [
        "sim",
        job.to_str().unwrap(),
        "--machine",
        "laptop",
        "--drive",
        "sn530",
        "--policy",
        table,
        "--seconds",
        "10s",
    ];
    wakepath(&[&arguments[..], more].concat()).success()
}

fn replay(path: &Path, more: &[&str]) -> Assert {
    let arguments = ["replay", path.to_str().unwrap(), "--drive", "sn530"];
    wakepath(&[&arguments[..], more].concat())
}

fn metric(table: &Value, name: &str) -> f64 {
    let metrics = table["metrics"].as_array().unwrap();
    let found = metrics.iter().find(|metric| metric[0] == name).unwrap();
    found[1].as_f64().unwrap()
}

#[test]
fn a_table_with_short_timeouts_saves_power_and_wakes_the_drive() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let tables = [
        "--apst",
        "apst[max_latency_us=0]",
        "--apst",
        "apst",
        "--apst",
        "apst[primary_timeout_ms=10]",
        "--format",
        "json",
    ];
    let found = json(&replay(&path, &tables).success());
    let tables = found["tables"].as_array().unwrap();
    let [off, kernel, short] = [0, 1, 2].map(|index| &tables[index]);
    assert_eq!(off["wake_ups"], 0);
    // The pauses are longer than both timeouts, so that the drive sleeps in each.
    assert_eq!(kernel["wake_ups"], short["wake_ups"]);
    let requests = found["requests"].as_u64().unwrap();
    assert!(short["wake_ups"].as_u64().unwrap() + 2 >= requests);
    let power = [off, kernel, short].map(|table| metric(table, "drive_mw"));
    assert!(power[0] > power[1] && power[1] > power[2], "{power:?}");
    assert!(metric(short, "drive_wake_p99_us") >= metric(short, "drive_wake_p50_us"));
    assert!(metric(short, "drive_wake_p50_us") > 0.0);
    replay(&path, &["--format", "csv"])
        .success()
        .stdout(predicate::str::starts_with("table,wake_ups,drive_mw,"))
        // Nobody waited for a drive that never sleeps: asleep for 0 % of the time.
        .stdout(predicate::str::contains(",0,,,,,0\n"));
    replay(&path, &[])
        .success()
        .stdout(predicate::str::is_match(r" 0\.0( +-){4} +0\.0").unwrap());
}

/// The simulator and the replay of what it recorded count the same drive: awake, or asleep under either table. Both tables have
/// the same wait in each pause, so that a recording under one has the load that the simulator makes under the other.
///
/// A completion is recorded once its CPU is awake, and a replay takes that for the drive's work: 0.5 ms of a read here, 4 % of the
/// power of a drive that mostly sleeps. There the CPUs hardly sleep.
#[test]
fn a_replay_of_a_simulated_recording_has_the_drives_power_and_waits() {
    let folder = tempfile::tempdir().unwrap();
    let asleep = ["apst", "apst[primary_timeout_ms=10]"];
    for (tables, awake_cpus) in [
        (&[AWAKE][..], ""),
        (&asleep[..], " + cpu-latency[limit=10us]"),
    ] {
        let sets: Vec<String> = (tables.iter())
            .map(|table| format!("{table}{awake_cpus}"))
            .collect();
        let simulated: Vec<Value> = (sets.iter())
            .map(|set| {
                let run = json(&simulate(set, &["--runs", "1", "--format", "json"]));
                run["results"][0]["runs"][0]["drive"].clone()
            })
            .collect();
        for recorded_under in &sets {
            let path = recording_under_table(folder.path(), recorded_under);
            for (table, expected) in tables.iter().zip(&simulated) {
                let options = ["--apst", table, "--format", "json"];
                let found = json(&replay(&path, &options).success());
                assert_eq!(found["recorded_wake_ups_are_out"], true);
                check_same_drive(&found["tables"][0], expected);
            }
        }
    }
}

/// Standard output without the folding of its lines.
fn unfolded_output(assert: &Assert) -> String {
    let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Checks a replayed drive by a simulated one: power within 2 %, two wake-ups, and the waits.
fn check_same_drive(replayed: &Value, simulated: &Value) {
    let about = format!("{replayed} {simulated}");
    let figure = |name: &str| {
        simulated[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{about}"))
    };
    let power = metric(replayed, "drive_mw") / figure("average_mw");
    assert!((power - 1.0).abs() < 0.02, "{power} {about}");
    let states = simulated["states"].as_array().unwrap();
    let idle: f64 = states
        .iter()
        .map(|one| one["seconds"].as_f64().unwrap())
        .sum();
    let seconds = idle + figure("active_seconds") + figure("transition_seconds");
    let wake_ups = metric(replayed, "drive_wake_ups_per_s") * seconds;
    assert!((wake_ups - figure("wake_ups")).abs() <= 2.0, "{about}");
    let asleep: f64 = (states
        .iter()
        .skip(1)
        .map(|one| one["seconds"].as_f64().unwrap()))
    .sum();
    let share = 100.0 * asleep / seconds;
    assert!(
        (metric(replayed, "drive_asleep") - share).abs() < 2.0,
        "{about}"
    );
    for (name, percentile) in [("drive_wake_p50_us", "p50"), ("drive_wake_max_us", "max")] {
        // The simulator keeps waits in three digits, and has none where the drive never slept.
        if let Some(expected) = simulated["wake_us"][percentile].as_f64() {
            let wait = metric(replayed, name);
            assert!((wait / expected - 1.0).abs() < 0.001, "{name} {about}");
        }
    }
}

#[test]
fn a_recording_that_says_nothing_of_its_drives_table_is_told() {
    let reads = repository().join("docs/examples/recorded-guest/reads.parquet");
    let untold = unfolded_output(&replay(&reads, &[]).success());
    assert!(
        untold.contains("does not say how its drive slept"),
        "{untold}"
    );
    let folder = tempfile::tempdir().unwrap();
    let told = unfolded_output(&replay(&recording(folder.path()), &[]).success());
    assert!(told.contains("drive to wake up is taken out."), "{told}");
}

/// Searches the tables of a drive for a recorded load of ten hours a day.
fn tune_tables(recording: &Path, more: &[&str]) -> Assert {
    let load = format!("{}=10h", recording.to_str().unwrap());
    let arguments = ["tune", "--drive", "sn530", &load, "--over", "apst"];
    wakepath(&[&arguments[..], more].concat())
}

#[test]
fn tune_finds_the_table_that_keeps_the_wake_up_short() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let tune = |more: &[&str]| tune_tables(&path, more);
    let answer = json(&tune(&["--format", "json"]).success());
    assert_eq!(answer["origin"], "recording");
    assert_eq!(answer["objective"], "drive_mw");
    assert_eq!(answer["is_exhaustive"], true);
    assert_eq!(answer["repeats"], 20);
    let best = &answer["best"];
    assert!(best["objective"].as_f64() < answer["in_force"]["objective"].as_f64());
    assert!(
        answer["steps"]["apply"]
            .as_str()
            .unwrap()
            .starts_with("apst[")
    );
    assert_eq!(best["loads"][1]["load"], "rest");
    // Nothing is shorter than no wake-up at all.
    let keep = ["--keep", "drive_wake_max_us < 1", "--format", "json"];
    let awake = json(&tune(&keep).success());
    // The older rule waits longer than the pauses, and no table never sleeps.
    let set = awake["best"]["set"].as_str().unwrap();
    assert!(
        ["apst[rule=legacy]", "apst[max_latency_us=0]"].contains(&set),
        "{set}"
    );
    assert_eq!(awake["best"]["conditions"][0]["value"], 0.0);
    tune(&[])
        .success()
        .stdout(predicate::str::contains(
            "blocks of time give the intervals",
        ))
        .stdout(predicate::str::contains("--budget").not());
    let again = json(&tune(&["--format", "json", "--jobs", "1"]).success());
    assert_eq!(again["best"], answer["best"]);
}

#[test]
fn a_budget_counts_what_is_replayed_of_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let tune = |more: &[&str]| tune_tables(&path, more);
    let every = json(&tune(&["--format", "json"]).success());
    let [sets, simulated] = ["space", "simulated"].map(|name| every[name].as_u64().unwrap());
    assert_eq!(every["tried"].as_u64(), Some(sets));
    let each = simulated / sets;
    assert_eq!(simulated, each * sets);
    // A page's command has the budget, also where every table was replayed: the default is a time, which is too short elsewhere.
    let whole_page = folder.path().join("whole.html");
    let whole_option = ["-o", whole_page.to_str().unwrap(), "--format", "json"];
    let whole = json(&tune(&whole_option).success());
    assert_eq!(whole["is_exhaustive"], true);
    let whole_budget = whole["budget"].as_u64().unwrap();
    let whole_html = std::fs::read_to_string(whole_page).unwrap();
    assert!(whole_html.contains(&format!("--budget {whole_budget} --seed 1")));
    // All but two of the tables.
    let budget = (each * (sets - 2)).to_string();
    let some = json(&tune(&["--budget", &budget, "--format", "json"]).success());
    assert_eq!(some["is_exhaustive"], false);
    assert!(some["tried"].as_u64().unwrap() < sets, "{some}");
    assert!(some["simulated"].as_u64().unwrap() <= each * (sets - 2));
    assert_eq!(some["best"]["set"], every["best"]["set"]);
    let page = folder.path().join("tune.html");
    let page_option = ["--budget", &budget, "-o", page.to_str().unwrap()];
    tune(&page_option).success().stdout(
        predicate::str::contains("The budget left out the others: ").and(predicate::str::contains(
            format!("`--budget {budget} --seed"),
        )),
    );
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains(&format!("--budget {budget}")));
    let again = ["--budget", &budget, "--format", "json", "--jobs", "1"];
    assert_eq!(json(&tune(&again).success()), some);
    fails_with(
        tune(&["--budget", "5"]),
        &[
            "a budget of 5 replayed requests is too small: an answer takes ",
            "; give at least ",
        ],
    );
}

#[test]
fn a_recording_with_hardly_a_wake_up_gives_no_answer() {
    let reads = repository().join("docs/examples/recorded-guest/reads.parquet");
    let reads = reads.to_str().unwrap();
    let load = format!("{reads}=10h");
    let keep = ["--over", "apst", "--keep", "drive_wake_p99_us < 5000"];
    fails_with(
        wakepath(&[&["tune", &load, "--drive", "sn530"], &keep[..]].concat()),
        &[
            "reads: the recording is too short for an answer: in 0.7 s tables wake the drive ",
            "record 80 s or more, with 20 pauses in which the drive can sleep",
        ],
    );
    let replayed = wakepath(&["replay", reads, "--drive", "sn530"]).success();
    let told = String::from_utf8_lossy(&replayed.get_output().stderr).into_owned();
    assert!(told.contains("too few for a percentile"), "{told}");
}

/// A simulated job on a machine with figures of power, as a recording with its idle periods.
fn recording_of_idle_periods(folder: &Path) -> PathBuf {
    let path = folder.join("waits.parquet");
    let job = repository().join("workloads/iowait-rk3399.fio");
    wakepath(&[
        "sim",
        job.to_str().unwrap(),
        "--machine",
        "rk3399",
        "--policy",
        "menu",
        "--seconds",
        "500ms",
        "--record",
        path.to_str().unwrap(),
    ])
    .success();
    path
}

fn metric_of_load(finalist: &Value, name: &str) -> f64 {
    let metrics = finalist["loads"][0]["metrics"].as_array().unwrap();
    let found = metrics.iter().find(|metric| metric[0] == name);
    found.unwrap_or_else(|| panic!("{name}: {finalist}"))[1]
        .as_f64()
        .unwrap()
}

#[test]
fn tune_finds_what_idle_cpus_should_be_told_for_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording_of_idle_periods(folder.path());
    let load = format!("{}=8h", path.to_str().unwrap());
    let over = "idle,cpu-latency,psd,apst,frequency";
    let tune = |more: &[&str]| {
        let arguments = ["tune", &load, "--machine", "rk3399", "--over", over];
        wakepath(&[&arguments[..], more].concat())
    };
    let keep = ["--keep", "added_us_per_wake < 20", "--format", "json"];
    let asked = tune(&keep).success();
    let told = String::from_utf8_lossy(&asked.get_output().stderr).into_owned();
    assert!(
        told.contains("left out: frequency: does not act on a recording"),
        "{told}"
    );
    assert!(
        told.contains("left out: apst: answers to a drive's I/O"),
        "{told}"
    );
    let answer = json(&asked);
    assert_eq!(answer["origin"], "recorded_idle");
    assert_eq!(answer["is_exhaustive"], true, "{told}");
    assert_eq!(answer["repeats"], 20);
    assert!(
        told.contains("(in force) stands for menu@6.12, since a recording"),
        "{told}"
    );
    let (best, in_force) = (&answer["best"], &answer["in_force"]);
    assert_eq!(in_force["conditions"][0]["is_kept"], false, "{answer}");
    assert_eq!(best["conditions"][0]["is_kept"], true, "{answer}");
    assert!(metric_of_load(best, "added_us_per_wake") < 20.0);
    // The same set by `wakepath replay` has the same power, as a mean over the same blocks.
    let set = best["set"].as_str().unwrap();
    let replay = [
        "replay",
        path.to_str().unwrap(),
        "--machine",
        "rk3399",
        "--ran",
        "menu@6.12",
    ];
    let given = ["--policy", set, "--blocks", "20", "--format", "json"];
    let replayed = json(&wakepath(&[&replay[..], &given].concat()).success());
    let rows = replayed["intervals"]["rows"].as_array().unwrap();
    let power = rows
        .iter()
        .find(|row| row["governor"].as_str().unwrap() != "recorded" && row["metric"] == "mean_mw");
    let expected = power.unwrap()["mean"].as_f64().unwrap();
    let found = metric_of_load(best, "mean_mw");
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    tune(&keep[..2])
        .success()
        .stdout(predicate::str::contains("sets on recorded idle periods"))
        .stdout(predicate::str::contains("--budget").not())
        .stdout(predicate::str::contains("A day in force").not());
    let again = json(&tune(&[&keep[..], &["--jobs", "1"]].concat()).success());
    assert_eq!(again["best"], answer["best"]);
    // A set of a recording of idle periods costs its events; a third of the sets still has one that keeps the condition.
    let [sets, events] = ["space", "simulated"].map(|name| answer[name].as_u64().unwrap());
    let budget = (events / 3).to_string();
    let some = json(&tune(&[&keep[..], &["--budget", &budget]].concat()).success());
    assert_eq!(some["is_exhaustive"], false);
    assert!(some["simulated"].as_u64().unwrap() <= events / 3, "{some}");
    assert!(some["tried"].as_u64().unwrap() < sets / 2, "{some}");
    assert_eq!(some["best"]["conditions"][0]["is_kept"], true, "{some}");
    tune(&[&keep[..2], &["--budget", &budget]].concat())
        .success()
        .stdout(predicate::str::contains(" events were replayed."));
}

#[test]
fn what_recorded_idle_periods_cannot_answer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording_of_idle_periods(folder.path());
    let load = path.to_str().unwrap();
    let over = ["--over", "idle"];
    let tune = |more: &[&str]| wakepath(&[&["tune", load], &over[..], more].concat());
    fails_with(
        tune(&[]),
        &["mean_mw has no value for waits", "added_us_per_io"],
    );
    fails_with(
        tune(&["--machine", "hybrid-i7-1260p"]),
        &[
            "is of another machine than hybrid-i7-1260p",
            "leave --machine out",
        ],
    );
    fails_with(
        tune(&["--machine", "rk3399", "--price", "0.3"]),
        &["--price and --battery-wh need the power of a whole day"],
    );
    fails_with(
        wakepath(&["tune", load, "--over", "frequency,read-ahead"]),
        &["nothing to choose from: frequency: does not act on a recording"],
    );
}

#[test]
fn what_a_recording_cannot_answer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = recording(folder.path());
    let load = path.to_str().unwrap();
    let job = repository().join("workloads/iowait-rk3399.fio");
    let job = job.to_str().unwrap();
    fails_with(wakepath(&["tune", load]), &["give --drive NAME"]);
    fails_with(
        wakepath(&["tune", load, job, "--drive", "sn530"]),
        &["simulated and recorded loads are not mixed"],
    );
    fails_with(
        wakepath(&["tune", load, "--drive", "sn530", "--over", "idle"]),
        &["--over idle: recorded I/O of a drive answers only to apst"],
    );
    fails_with(
        wakepath(&["tune", load, "--drive", "sn530", "--on", "live"]),
        &["a recording cannot be run"],
    );
    fails_with(
        wakepath(&["tune", load, "--drive", "sn530", "--minimise", "p99_us"]),
        &["p99_us has no value for reads", "drive_mw"],
    );
    fails_with(
        wakepath(&["tune", job, "--machine", "rk3399", "--device", "nvme0n1"]),
        &["--device names a drive of a recording"],
    );
    fails_with(
        replay(&path, &["--apst", "teo"]),
        &["answers only to `apst` and `drive-latency`"],
    );
    fails_with(
        replay(&path, &["--device", "sda"]),
        &["no requests of a drive `sda`"],
    );
}
