//! `wakepath sim --drive` and `wakepath reproduce apst` as whole commands.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use predicates::prelude::*;
use serde_json::Value;

use crate::common::{fails_with, json, repository, wakepath};

const BOTH: [&str; 4] = ["--policy", "apst[rule=legacy]", "--policy", "apst"];

fn workflow(number: usize) -> String {
    let root = repository();
    let path = root.join(format!("workloads/apst-{number}.fio"));
    path.to_str().unwrap().to_owned()
}

fn sim(number: usize, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let job = workflow(number);
    let mut all = vec!["sim", &job, "--machine", "laptop", "--runs", "1"];
    all.extend(arguments);
    wakepath(&all)
}

fn results(number: usize, arguments: &[&str]) -> Vec<Value> {
    let assert = sim(number, &[arguments, &["--format", "json"]].concat()).success();
    json(&assert)["results"].as_array().unwrap().clone()
}

#[test]
fn each_workflow_runs_and_its_drive_time_adds_up() {
    for number in 1..=7 {
        for result in results(number, &[&["--drive", "sn530"], &BOTH[..]].concat()) {
            let run = &result["runs"][0];
            let drive = &run["drive"];
            let states = drive["states"].as_array().unwrap();
            let idle: f64 = states.iter().map(|s| s["seconds"].as_f64().unwrap()).sum();
            let all = idle
                + drive["active_seconds"].as_f64().unwrap()
                + drive["transition_seconds"].as_f64().unwrap();
            assert!((all - run["seconds"].as_f64().unwrap()).abs() < 1e-6);
            let joule = drive["energy_pj"].as_f64().unwrap() / 1e12;
            let watt = drive["average_mw"].as_f64().unwrap() / 1e3;
            assert!((joule / all - watt).abs() < 1e-6);
        }
    }
}

#[test]
fn policy_sets_print_in_full() {
    let sets = [
        "menu@6.1 + apst[rule=legacy]",
        "apst[max_latency_us=0]",
        "teo",
    ];
    let mut arguments = vec!["--drive", "760p"];
    arguments.extend(sets.iter().flat_map(|set| ["--policy", set]));
    let results = results(2, &arguments);
    let names: Vec<&str> = results
        .iter()
        .filter_map(|r| r["policy"].as_str())
        .collect();
    assert_eq!(
        names,
        [
            "menu@6.1 + schedutil + apst[rule=legacy]",
            "menu@6.12 + schedutil + apst[max_latency_us=0]",
            "teo@6.12 + schedutil + apst",
        ]
    );
}

#[test]
fn apst_switched_off_keeps_the_drive_awake() {
    let off = &results(
        7,
        &["--drive", "sn530", "--policy", "apst[max_latency_us=0]"],
    )[0];
    assert_eq!(off["runs"][0]["drive"]["wake_ups"], 0);
    // The kernel's default rule otherwise.
    let default = &results(7, &["--drive", "sn530"])[0];
    assert_eq!(default["policy"], "menu@6.12 + schedutil + apst");
    assert!(default["runs"][0]["drive"]["wake_ups"].as_u64().unwrap() > 100);
    assert!(default["drive_mw"].as_f64() < off["drive_mw"].as_f64());
}

#[test]
fn without_a_drive_nothing_is_said_of_one() {
    let plain = &results(7, &[])[0];
    assert!(plain.get("drive_mw").is_none());
    assert_eq!(plain["policy"], "menu@6.12 + schedutil");
    assert!(plain["runs"][0].get("drive").is_none());
    sim(7, &[]).stdout(predicate::str::contains("Drive: median").not());
}

#[test]
fn table_and_csv_show_the_drive() {
    let both = [&["--drive", "sn530"], &BOTH[..]].concat();
    sim(4, &both)
        .success()
        .stdout(predicate::str::contains("; WD PC SN530 256GB: median"))
        .stdout(predicate::str::is_match(r"apst +\d+ +\d+ +11000 .*PS0 .*PS3 ").unwrap());
    let assert = sim(4, &[&both[..], &["--format", "csv"]].concat()).success();
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let header = text.lines().next().unwrap();
    assert!(header.starts_with("policy,seed,iops,"), "{header}");
    assert!(header.ends_with(",drive_mw,drive_wake_ups,drive_mean_wake_us"));
    assert_eq!(text.lines().count(), 3);
}

#[test]
fn any_drive_of_the_library_and_any_model_file_will_do() {
    let plain = results(7, &["--drive", "KBG40ZNS512G NVMe KIOXIA 512GB"]);
    assert!(plain[0]["drive_mw"].as_f64().unwrap() > 0.0);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("slow.toml");
    let model = "schema = 1\nname = \"slow\"\nlibrary = \"WDC PC SN530 SDBPNPZ-256G-1006\"\n\
                 source = \"test\"\n[[state]]\nps = 3\ntrue_exit_us = { value = 77000, assumed = \"test\" }\n";
    fs::write(&path, model).unwrap();
    let slow = results(7, &["--drive", path.to_str().unwrap()]);
    let wake = slow[0]["runs"][0]["drive"]["mean_wake_us"]
        .as_f64()
        .unwrap();
    assert!((wake - 77_000.0).abs() < 1.0, "{wake}");
    fs::write(&path, model.replace("ps = 3", "ps = 9")).unwrap();
    fails_with(
        sim(7, &["--drive", path.to_str().unwrap()]),
        &["slow.toml", "state.ps", "9 is above 4"],
    );
    fs::write(&path, model.replace("77000", "-1")).unwrap();
    fails_with(
        sim(7, &["--drive", path.to_str().unwrap()]),
        &["slow.toml", "PS3.true_exit_us"],
    );
}

#[test]
fn mistakes_are_one_message() {
    fails_with(sim(7, &["--drive", "PC SN530"]), &["--drive"]);
    fails_with(sim(7, &["--drive", "no such drive"]), &["--drive"]);
    sim(7, &["--drive", "sn530", "--policy", "apst[rule=old]"])
        .code(2)
        .stderr(predicate::str::contains("legacy"));
    fails_with(sim(7, &["--drive", "no/such.toml"]), &["no/such.toml"]);
    fails_with(sim(7, &["--policy", "apst"]), &["--drive"]);
}

#[test]
fn reproduced_apst_holds_in_every_cell() {
    let assert = wakepath(&["reproduce", "apst", "--runs", "1", "--format", "json"]).success();
    let json: Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let cells: Vec<&Value> = json["experiments"][0]["sections"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|s| s["cells"].as_array().unwrap())
        .collect();
    assert_eq!(cells.len(), 10 + 35 + 2 + 5 + 10);
    for cell in &cells {
        assert_ne!(cell["agrees"], false, "{cell}");
        let error = cell["relative_error"].as_f64().unwrap_or_default();
        assert!(error.abs() <= 0.2, "{cell}");
    }
    wakepath(&["reproduce", "apst", "--runs", "1"])
        .success()
        .stdout(predicate::str::contains(
            "760p: drive.PS4.true_exit_us = 53000",
        ))
        .stdout(predicate::str::contains("not as published").not());
}
