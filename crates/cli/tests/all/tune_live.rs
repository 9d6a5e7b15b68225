//! `wakepath tune --on live` and `--results`: refusals, the plan, a real measurement, and results of finalists.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use assert_cmd::assert::Assert;
use predicates::prelude::*;
use wakepath_results::ResultReader;

use crate::common::captured::{content, copy_of_laptop, different};
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
    // A machine without energy counters, whatever this one has.
    let machine = copy_of_laptop();
    fs::remove_dir_all(machine.path().join("sys/class/powercap")).unwrap();
    let root = machine.path().to_str().unwrap();
    let refused = [
        "no energy counters (RAPL)",
        "leave --on live out for a prediction",
    ];
    fails_with(tune(&job, &["--on", "live", "--root", root]), &refused);
    let limited = [
        "--on",
        "live",
        "--root",
        root,
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

/// No simulation answers to ASPM: each policy that is not in force goes with the best predicted set.
#[test]
fn what_cannot_be_simulated_is_measured() {
    if !has_fio("what_cannot_be_simulated_is_measured") {
        return;
    }
    let folder = folder();
    let job = job(folder.path());
    let machine = copy_of_laptop();
    let file = machine
        .path()
        .join("sys/module/pcie_aspm/parameters/policy");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "[default] performance powersave powersupersave\n").unwrap();
    let root = machine.path().to_str().unwrap();
    let tune = |more: &[&str]| {
        let asked = ["tune", &job, "--machine", "rk3399", "--seconds", "300ms"];
        let over = [
            "--over",
            "aspm",
            "--minimise",
            "p99_us",
            "--budget",
            "1000000",
        ];
        wakepath(&[&asked[..], &over, more].concat())
    };
    let live = [
        "--on",
        "live",
        "--root",
        root,
        "--dry-run",
        "--format",
        "json",
    ];
    let planned = json(&tune(&live).success());
    let sets = planned["sets"].as_array().unwrap();
    let wanted = ["performance", "powersave", "powersupersave"];
    let texts: Vec<String> = wanted
        .iter()
        .map(|policy| format!("aspm[policy={policy}]"))
        .collect();
    assert_eq!(*sets, texts, "{planned}");
    fails_with(
        tune(&["--no-sensitivity"]),
        &["nothing to choose from: aspm: cannot be simulated; `tune --on live` measures it"],
    );
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
        "4",
        "--results",
        results.to_str().unwrap(),
    ];
    let answer = json(&tune(&job, &[&measure[..], &["--format", "json"]].concat()).success());
    assert_eq!(limits(), before);
    assert_eq!(answer["origin"], "measurement");
    assert_eq!(answer["machine"], "this machine, measured");
    assert_eq!(answer["repeats"], 4);
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
    assert_eq!(runs.len(), 8);
    assert!(runs.iter().all(|run| run.seed.is_none()));
    // Runs of one repeat are neighbours, so that both policies meet the same drift.
    let mut order: Vec<(u32, u32)> = runs.iter().map(|run| (run.order, run.key.repeat)).collect();
    order.sort_unstable();
    let repeats: Vec<u32> = order.into_iter().map(|(_, repeat)| repeat).collect();
    assert_eq!(repeats, [0, 0, 1, 1, 2, 2, 3, 3]);
}

/// Power of the metered machine in mW under `teo`, and under any other idle governor.
const UNDER_TEO: f64 = 1000.0;
const UNDER_OTHERS: f64 = 3000.0;

/// A captured laptop whose package counts energy, at a power that depends on the idle governor.
struct MeteredLaptop {
    folder: tempfile::TempDir,
    ends: Arc<AtomicBool>,
    meter: Option<JoinHandle<()>>,
}

impl MeteredLaptop {
    fn new() -> Self {
        let folder = copy_of_laptop();
        let ends = Arc::new(AtomicBool::new(false));
        let (root, told) = (folder.path().to_owned(), Arc::clone(&ends));
        let meter = spawn(move || count_energy(&root, &told));
        Self {
            folder,
            ends,
            meter: Some(meter),
        }
    }

    fn counter(root: &Path) -> PathBuf {
        root.join("sys/class/powercap/intel-rapl:0/energy_uj")
    }

    /// Every file but the counter.
    fn settings(&self) -> std::collections::BTreeMap<String, Vec<u8>> {
        let mut all = content(self.folder.path());
        all.retain(|path, _| !path.contains("energy_uj"));
        all
    }
}

impl Drop for MeteredLaptop {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.meter.take().map(JoinHandle::join);
    }
}

fn count_energy(root: &Path, ends: &AtomicBool) {
    let governor = root.join("sys/devices/system/cpu/cpuidle/current_governor");
    let counter = MeteredLaptop::counter(root);
    let part = root.join("energy_uj.part");
    let (mut energy_uj, mut last) = (1e6, Instant::now());
    while !ends.load(Ordering::Relaxed) {
        sleep(Duration::from_millis(2));
        let is_teo = fs::read_to_string(&governor).is_ok_and(|name| name.starts_with("teo"));
        let power_mw = if is_teo { UNDER_TEO } else { UNDER_OTHERS };
        energy_uj += power_mw * 1e3 * last.elapsed().as_secs_f64();
        last = Instant::now();
        // A counter is never seen half written.
        fs::write(&part, format!("{energy_uj:.0}\n")).unwrap();
        fs::rename(&part, &counter).unwrap();
    }
}

/// Measures on a captured laptop: the loads run here.
fn tune_on_laptop(root: &Path, job: &str, more: &[&str]) -> Assert {
    let arguments = [
        "tune",
        job,
        "--machine",
        "laptop",
        "--seconds",
        "300ms",
        "--budget",
        "1000000",
        "--no-sensitivity",
        "--on",
        "live",
        "--repeats",
        "4",
        "--format",
        "json",
        "--root",
        root.to_str().unwrap(),
    ];
    wakepath(&[&arguments[..], more].concat())
}

#[test]
fn measured_watts_decide_and_simulated_ones_stand_nowhere() {
    if !has_fio("measured_watts_decide_and_simulated_ones_stand_nowhere") {
        return;
    }
    let machine = MeteredLaptop::new();
    let before = machine.settings();
    let folder = folder();
    let job = job(folder.path());
    let minimise = ["--minimise", "mean_mw", "--over", "idle"];
    let answer = json(&tune_on_laptop(machine.folder.path(), &job, &minimise).success());
    assert_eq!(answer["origin"], "measurement");
    assert_eq!(answer["objective"], "package_mw");
    let best = &answer["best"];
    assert!(best["set"].as_str().unwrap().starts_with("teo"), "{answer}");
    assert!(best["gain"]["percent"].as_f64().unwrap() > 60.0, "{best}");
    for (figures, power_mw) in [(best, UNDER_TEO), (&answer["in_force"], UNDER_OTHERS)] {
        let measured = figures["objective"].as_f64().unwrap();
        assert!((measured / power_mw - 1.0).abs() < 0.1, "{figures}");
        let metrics = figures["loads"][0]["metrics"].as_array().unwrap();
        let names: Vec<&str> = metrics.iter().filter_map(|one| one[0].as_str()).collect();
        assert!(names.contains(&"package_mw"), "{names:?}");
        assert!(!names.contains(&"mean_mw"), "{names:?}");
    }
    let errors = answer["prediction"]["errors"].as_array().unwrap();
    assert!(
        errors
            .iter()
            .all(|error| !error["metric"].as_str().unwrap().ends_with("_mw")),
        "{errors:?}"
    );
    let left = different(&machine.settings(), &before);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_daemon_gives_the_leases_of_a_measured_set() {
    let test = "the_daemon_gives_the_leases_of_a_measured_set";
    if !has_fio(test) {
        return;
    }
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let folder = folder();
    let job = job(folder.path());
    let minimise = [
        "--minimise",
        "p99_us",
        "--over",
        "psd",
        "--measured-sets",
        "1",
    ];
    let measured = tune_on_laptop(machine.path(), &job, &minimise);
    let output = measured.get_output();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    // Leases take eBPF programs, which not every machine lets tests load.
    if messages.contains("daemon has ended: nothing to do") {
        return skip(test, &messages);
    }
    let answer = json(&measured.success());
    assert_eq!(answer["origin"], "measurement");
    let sets: Vec<&serde_json::Value> = [&answer["best"]]
        .into_iter()
        .chain(answer["next"].as_array().unwrap())
        .collect();
    let leases = sets
        .iter()
        .find(|set| set["set"].as_str().unwrap().starts_with("psd["));
    let metrics = leases.unwrap()["loads"][0]["metrics"].as_array().unwrap();
    assert!(metrics.iter().any(|metric| metric[0] == "p99_us"));
    let left = different(&content(machine.path()), &before);
    assert!(left.is_empty(), "{left:?}");
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
        "mean_us",
        "--results",
        results.to_str().unwrap(),
        "--format",
        "json",
    ];
    let answer = json(&tune(job, &arguments).success());
    let runs = ResultReader::open(&results).unwrap().read_runs().unwrap();
    let best = answer["best"]["set"].as_str().unwrap();
    let means_us: Vec<f64> = runs
        .iter()
        .filter(|run| run.key.policy == best)
        .map(|run| {
            run.metrics
                .iter()
                .find(|(name, _)| name == "mean_us")
                .unwrap()
                .1
        })
        .collect();
    assert_eq!(means_us.len() as u64, answer["repeats"].as_u64().unwrap());
    let mean = means_us.iter().sum::<f64>() / means_us.len() as f64;
    let decided = answer["best"]["objective"].as_f64().unwrap();
    assert!((mean / decided - 1.0).abs() < 1e-9, "{mean} {decided}");
    wakepath(&["compare", results.to_str().unwrap()])
        .success()
        .stdout(predicate::str::contains("unchanged"));
}
