//! `wakepath tune --on live` and `--results`: refusals, the plan, a real measurement, and results of finalists.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use assert_cmd::assert::Assert;
use predicates::prelude::*;
use wakepath_results::ResultReader;
use wakepath_study::run::live::measures_package_power;
use wakepath_system::System;

use crate::common::{fails_with, json, lock_machine, skip, wakepath};

/// A job that reads a small file for a moment: fio runs it, and the simulator takes the file for the drive. Its warm-up is shorter
/// than its run, without which fio 3.33 prints no latency.
fn job(folder: &Path) -> String {
    let file = folder.join("reads.fio");
    let data = folder.join("data");
    let text = format!(
        "[reads]\nfilename={}\nsize=4m\nrw=randread\nbs=4k\ndirect=1\nrate_iops=500\ntime_based\nruntime=300ms\nramp_time=100ms\n",
        data.display()
    );
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn tune(job: &str, more: &[&str]) -> Assert {
    let arguments = [
        "tune",
        job,
        "--machine",
        "rk3399",
        "--seconds",
        "300ms",
        "--over",
        "cpu-latency",
        "--budget",
        "1000000",
        "--no-sensitivity",
    ];
    wakepath(&[&arguments[..], more].concat())
}

fn has_fio(test: &str) -> bool {
    let version = std::process::Command::new("fio").arg("--version").output();
    if version.is_ok_and(|output| output.status.success()) {
        return true;
    }
    skip(test, "fio is not installed");
    false
}

#[test]
fn power_that_nothing_measures_is_not_minimised_live() {
    let test = "power_that_nothing_measures_is_not_minimised_live";
    let folder = folder();
    let job = job(folder.path());
    fails_with(
        tune(&job, &["--on", "live", "--minimise", "drive_mw"]),
        &[
            "--on live",
            "drive_mw",
            "nothing on a machine measures that",
        ],
    );
    if measures_package_power(&System::live()) {
        skip(test, "this machine has energy counters");
        return;
    }
    let refused = [
        "no energy counters (RAPL)",
        "leave --on live out for a prediction",
    ];
    fails_with(tune(&job, &["--on", "live"]), &refused);
    let limited = [
        "--on",
        "live",
        "--minimise",
        "p99_us",
        "--keep",
        "mean_mw <= +3%",
    ];
    fails_with(tune(&job, &limited), &refused);
}

#[test]
fn options_of_a_measurement_need_one() {
    let folder = folder();
    let job = job(folder.path());
    fails_with(tune(&job, &["--dry-run"]), &["--dry-run is for --on live"]);
    fs::create_dir(folder.path().join("there")).unwrap();
    fs::write(folder.path().join("there/result.json"), "{}").unwrap();
    let there = folder.path().join("there");
    fails_with(
        tune(&job, &["--results", there.to_str().unwrap()]),
        &["results are there already; --force replaces them"],
    );
}

#[test]
fn a_dry_run_names_what_would_be_measured_and_measures_nothing() {
    if !has_fio("a_dry_run_names_what_would_be_measured_and_measures_nothing") {
        return;
    }
    let folder = folder();
    let job = job(folder.path());
    let plan = ["--on", "live", "--minimise", "p99_us", "--dry-run"];
    let planned = json(&tune(&job, &[&plan[..], &["--format", "json"]].concat()).success());
    let sets = planned["sets"].as_array().unwrap();
    assert!(!sets.is_empty() && sets.len() <= 3, "{planned}");
    assert_eq!(planned["loads"][0], "reads");
    let runs = planned["runs"].as_u64().unwrap();
    assert_eq!(runs, 5 * (sets.len() as u64 + 1));
    assert!(planned["seconds"].as_f64().unwrap() > 0.0);
    tune(&job, &plan)
        .success()
        .stdout(predicate::str::contains("Would measure on this machine"))
        .stdout(predicate::str::contains("  unchanged\n"));
    // fio makes the file of the job, and it did not run.
    assert!(!folder.path().join("data").exists());
}

/// Each CPU's limit for a resumed device, which holds what a limit on exit latencies writes.
fn limits() -> Vec<String> {
    let mut limits = Vec::new();
    for entry in fs::read_dir("/sys/devices/system/cpu").unwrap() {
        let file = entry.unwrap().path().join("power/pm_qos_resume_latency_us");
        limits.extend(fs::read_to_string(file));
    }
    limits
}

#[test]
fn the_answer_of_a_measurement_is_what_was_measured() {
    let test = "the_answer_of_a_measurement_is_what_was_measured";
    if !has_fio(test) {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        skip(test, "needs root to change settings");
        return;
    }
    let _machine = lock_machine();
    let folder = folder();
    let job = job(folder.path());
    let before = limits();
    let results = folder.path().join("measured");
    let measure = [
        "--on",
        "live",
        "--minimise",
        "p99_us",
        "--measured-sets",
        "1",
        "--repeats",
        "2",
        "--results",
        results.to_str().unwrap(),
    ];
    let answer = json(&tune(&job, &[&measure[..], &["--format", "json"]].concat()).success());
    assert_eq!(limits(), before);
    assert_eq!(answer["origin"], "measurement");
    assert_eq!(answer["machine"], "this machine, measured");
    assert_eq!(answer["repeats"], 2);
    assert_eq!(
        answer["next"].as_array().unwrap().len() + measured_best(&answer),
        1
    );
    // What was predicted stands apart, with its origin, and no simulated power is compared.
    assert_eq!(answer["prediction"]["answer"]["origin"], "simulation");
    let errors = answer["prediction"]["errors"].as_array().unwrap();
    assert!(errors.iter().any(|error| error["metric"] == "p99_us"));
    assert!(errors.iter().all(|error| error["metric"] != "mean_mw"));
    let loads = answer["in_force"]["loads"][0]["metrics"]
        .as_array()
        .unwrap();
    assert!(loads.iter().all(|metric| metric[0] != "mean_mw"));
    let runs = ResultReader::open(&results).unwrap().read_runs().unwrap();
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|run| run.seed.is_none()));
    // Runs of one repeat are neighbours, so that both policies meet the same drift.
    let mut order: Vec<(u32, u32)> = runs.iter().map(|run| (run.order, run.key.repeat)).collect();
    order.sort_unstable();
    let repeats: Vec<u32> = order.into_iter().map(|(_, repeat)| repeat).collect();
    assert_eq!(repeats, [0, 0, 1, 1]);
}

/// 1 if the measured answer changes something.
fn measured_best(answer: &serde_json::Value) -> usize {
    usize::from(
        answer["best"]["changes"]
            .as_u64()
            .is_some_and(|changes| changes > 0),
    )
}

#[test]
fn results_of_the_finalists_are_those_that_decided() {
    let folder = folder();
    check_results_of_finalists(folder.path(), &job(folder.path()));
}

#[test]
fn results_of_a_servers_finalists_are_those_that_decided() {
    let folder = folder();
    let server = folder.path().join("web.toml");
    let text = "kind = 'server'\nname = 'web'\nwarm_up_s = 0.02\n[arrivals]\npattern = 'poisson'\nrate = 500\n\
                [request]\nwork_us = 100\n";
    fs::write(&server, text).unwrap();
    check_results_of_finalists(folder.path(), server.to_str().unwrap());
}

fn check_results_of_finalists(folder: &Path, job: &str) {
    let results = folder.join("finalists");
    let arguments = [
        "--minimise",
        "p99_us",
        "--results",
        results.to_str().unwrap(),
        "--format",
        "json",
    ];
    let answer = json(&tune(job, &arguments).success());
    let runs = ResultReader::open(&results).unwrap().read_runs().unwrap();
    let best = answer["best"]["set"].as_str().unwrap();
    let p99_us: Vec<f64> = runs
        .iter()
        .filter(|run| run.key.policy == best)
        .map(|run| {
            run.metrics
                .iter()
                .find(|(name, _)| name == "p99_us")
                .unwrap()
                .1
        })
        .collect();
    assert_eq!(p99_us.len() as u64, answer["repeats"].as_u64().unwrap());
    let mean = p99_us.iter().sum::<f64>() / p99_us.len() as f64;
    let decided = answer["best"]["objective"].as_f64().unwrap();
    assert!((mean / decided - 1.0).abs() < 1e-9, "{mean} {decided}");
    wakepath(&["compare", results.to_str().unwrap()])
        .success()
        .stdout(predicate::str::contains("unchanged"));
}
