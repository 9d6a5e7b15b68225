//! `wakepath fleet` as a whole command.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::process::Command;

use assert_cmd::assert::Assert;
use wakepath_results::directory::DOCUMENT;
use wakepath_trace::recording::{
    Block, BlockDevice, Event, EventKind, Metadata, Overwrite, Writer,
};
use wakepath_units::Nanoseconds;

use crate::common::{fails_with, json, repository, wakepath};

/// A survey of the two captured machines in the examples.
fn survey(arguments: &[&str]) -> Assert {
    let folder = repository().join("docs/examples");
    wakepath(&[&["fleet", folder.to_str().unwrap()], arguments].concat())
}

#[test]
fn a_page_a_list_and_settings_files_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("decisions");
    let job = repository().join("docs/examples/tutorial.fio");
    let load = format!("{}=8h", job.to_str().unwrap());
    let search = ["--load", &load, "--seconds", "50ms", "--minimise", "p99_us"];
    let space = [
        "--over",
        "cpu-latency",
        "--budget",
        "250000",
        "--fewest",
        "1",
    ];
    let target = ["--examine", "0", "-o", output.to_str().unwrap()];
    survey(&[&search[..], &space, &target].concat()).success();
    let page = fs::read_to_string(output.join("fleet.html")).unwrap();
    assert!(page.contains("A fleet of 2 machines") && !page.contains("<script"));
    let list = fs::read_to_string(output.join("machines.csv")).unwrap();
    assert!(list.starts_with("machine,class,settings_file,"), "{list}");
    assert!(
        list.contains("captured-laptop,class-1,class-1.settings.toml,"),
        "{list}"
    );
    let settings = fs::read_to_string(output.join("class-1.settings.toml")).unwrap();
    assert!(
        settings.contains("policy = \"cpu-latency[limit="),
        "{settings}"
    );
    // Whoever gets the file sees what the set is for, that it is a prediction, and how to get the file again.
    for part in [
        "# Predicted by simulation: the least p99_us for tutorial 8 h a day, with no condition;",
        "# class-1: p99_us ",
        "# The same again: wakepath fleet ",
        "--budget 250000 --seed 1\n",
    ] {
        assert!(settings.contains(part), "{part}: {settings}");
    }
    assert!(page.contains("--budget 250000 --seed 1"), "{page}");
    fails_with(
        survey(&["-o", output.to_str().unwrap()]),
        &["a survey is there already; --force replaces it"],
    );
}

#[test]
fn labels_divide_classes_and_patterns_choose_machines() {
    let labels = [
        "--label",
        "*-laptop=mobile",
        "--only",
        "captured-l*",
        "--examine",
        "1",
    ];
    let report = json(&survey(&[&labels[..], &["--format", "json"]].concat()).success());
    let classes = report["classes"].as_array().unwrap();
    assert_eq!(classes.len(), 1);
    assert_eq!(classes[0]["labels"][0], "mobile");
    assert_eq!(classes[0]["findings"][0]["name"], "apst-off");
    fails_with(
        survey(&["--only", "x*"]),
        &["no name among those of 2 captures matches"],
    );
}

#[test]
fn a_label_for_no_machine_and_a_budget_in_minutes_are_said() {
    let output = survey(&["--label", "rack9/*=web", "--examine", "0"]).success();
    let told = String::from_utf8_lossy(&output.get_output().stderr);
    assert!(
        told.contains("--label rack9/*=web: no machine has such a name"),
        "{told}"
    );
    let job = repository().join("docs/examples/tutorial.fio");
    let load = ["--load", job.to_str().unwrap(), "--budget", "10m"];
    survey(&load).code(2).stderr(predicates::str::contains(
        "expected a number of simulated requests",
    ));
}

/// Copies a captured machine of the examples.
fn copy_capture(name: &str, target: &Path) {
    let capture = repository().join("docs/examples").join(name);
    let copied = Command::new("cp")
        .arg("-r")
        .arg(capture)
        .arg(target)
        .status();
    assert!(copied.unwrap().success());
}

/// Records a simulated job, as a recording of a real machine would be.
fn record_simulated_job(target: &Path) {
    let job = repository().join("docs/examples/tutorial.fio");
    let arguments = [
        "--machine",
        "laptop",
        "--policy",
        "menu",
        "--seconds",
        "300ms",
    ];
    let record = [
        "sim",
        job.to_str().unwrap(),
        "--record",
        target.to_str().unwrap(),
    ];
    wakepath(&[&record[..], &arguments].concat()).success();
}

#[test]
fn recordings_and_reports_belong_to_their_captures() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        copy_capture("captured-laptop", &folder.path().join(name));
    }
    // Without this the second capture would be a copy.
    fs::write(folder.path().join("b/proc/uptime"), "12345.00 1.00\n").unwrap();
    record_simulated_job(&folder.path().join("a.parquet"));
    fs::write(folder.path().join("b.parquet"), "no recording").unwrap();
    let own = r#"{"findings":[{"name":"own","title":"a fault of b","note":false}]}"#;
    fs::write(folder.path().join("b.doctor.json"), own).unwrap();
    let path = folder.path().to_str().unwrap();
    let survey = wakepath(&["fleet", path, "--examine", "1", "--format", "json"]).success();
    let report = json(&survey);
    let [class] = &report["classes"].as_array().unwrap()[..] else {
        panic!("{report}");
    };
    assert_eq!(class["machines"][1]["deviations"][0]["what"], "doctor: own");
    let replay = &report["replays"][0];
    assert_eq!(replay["machines"], serde_json::json!(["a"]));
    let governors = replay["governors"].as_array().unwrap();
    let names: Vec<&str> = governors
        .iter()
        .map(|choices| choices["governor"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["recorded", "menu@6.12", "teo@6.12"]);
    assert!(
        governors
            .iter()
            .all(|choices| choices["periods"].as_u64() > Some(50))
    );
    let notes = replay["notes"].to_string();
    assert!(
        notes.contains("b: its recording was not replayed: "),
        "{notes}"
    );
    let table = wakepath(&["fleet", path, "--examine", "0"]).success();
    let text = String::from_utf8(table.get_output().stdout.clone()).unwrap();
    assert!(
        text.contains("Recordings under other idle governors:"),
        "{text}"
    );
}

/// A recording of reads that take so many us each, and its explanation as results.
fn explain_made_up_reads(recording: &Path, results: &Path, us: u64) {
    let drive = BlockDevice {
        device: 259 << 20,
        name: "nvme0n1".to_owned(),
        model: None,
    };
    let metadata = Metadata {
        devices: vec![drive],
        ..Metadata::default()
    };
    let mut writer = Writer::create(recording, Overwrite::No, metadata).unwrap();
    for sector in 1..=400 {
        let block = Block {
            device: 259 << 20,
            sector,
            bytes: 4096,
            write: false,
        };
        let issued = sector * 1_000_000;
        for (ns, kind) in [
            (issued, EventKind::BlockIssue(block)),
            (issued + us * 1_000, EventKind::BlockComplete(block)),
        ] {
            let time = Nanoseconds(ns);
            writer.add_event(&Event { time, cpu: 0, kind }).unwrap();
        }
    }
    writer.finish_and_count_events().unwrap();
    let [recording, results] = [recording, results].map(|path| path.to_str().unwrap());
    wakepath(&["explain", recording, "-o", results]).success();
}

#[test]
fn means_of_explained_reads_are_figures_and_a_far_one_stands_out() {
    let folder = tempfile::tempdir().unwrap();
    let recordings = tempfile::tempdir().unwrap();
    let means_us = [90, 91, 92, 300, 93, 94];
    for (us, uptime) in means_us.into_iter().zip(1_000..) {
        let capture = folder.path().join(format!("m{us}"));
        copy_capture("captured-laptop", &capture);
        // Without this the captures would be copies.
        fs::write(capture.join("proc/uptime"), format!("{uptime}.00 1.00\n")).unwrap();
        let recording = recordings.path().join(format!("m{us}.parquet"));
        explain_made_up_reads(&recording, &capture.join("explained"), us);
    }
    let damaged = folder.path().join("m90.again");
    fs::create_dir(&damaged).unwrap();
    fs::write(damaged.join(DOCUMENT), "no results").unwrap();
    let path = folder.path().to_str().unwrap();
    let survey = wakepath(&["fleet", path, "--examine", "0", "--format", "json"]).success();
    let report = json(&survey);
    let [class] = &report["classes"].as_array().unwrap()[..] else {
        panic!("{report}");
    };
    let machines = class["machines"].as_array().unwrap();
    assert_eq!(machines.len(), means_us.len());
    for machine in machines {
        let deviations = machine["deviations"].as_array().unwrap().iter();
        let by_explain: Vec<_> = deviations
            .filter(|deviation| deviation["what"].as_str().unwrap().ends_with("by explain"))
            .collect();
        if machine["name"] == "m300" {
            let expected = serde_json::json!({
                "what": "mean us of reads of nvme0n1, 4 KiB, by explain",
                "value": "300.0",
                "usual": "92.5 (median)",
            });
            assert_eq!(by_explain, [&expected]);
        } else {
            assert!(by_explain.is_empty(), "{machine}");
        }
    }
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("m90: ") && notes.contains("m90.again was not used: "),
        "{notes}"
    );
}

/// Without `--budget`, loads whose finalists need more than the default get what they need.
#[test]
fn a_budget_that_nobody_gives_is_enough_for_the_loads() {
    let job = repository().join("docs/examples/tutorial.fio");
    let load = format!("{}=8h", job.to_str().unwrap());
    let search = ["--load", &load, "--seconds", "1s", "--over", "apst"];
    let space = ["--fewest", "1", "--examine", "0", "--format", "json"];
    let only = ["--only", "captured-laptop"];
    let ended = survey(&[&search[..], &space, &only].concat()).success();
    let report = json(&ended);
    let taken = report["decisions"]["question"]["budget"].as_u64().unwrap();
    assert!(taken > 400_000, "{taken}");
    let told = String::from_utf8_lossy(&ended.get_output().stderr).into_owned();
    assert!(
        told.contains(&format!("--budget {taken} is taken for each class")),
        "{told}"
    );
    let given = ["--budget", "400000"];
    let refused = survey(&[&search[..], &space, &only, &given].concat()).code(1);
    let notes = json(&refused)["decisions"]["notes"].to_string();
    assert!(notes.contains(&format!("give at least {taken}")), "{notes}");
}

#[test]
fn a_fleet_without_any_decision_ends_with_an_exit_code_that_scripts_see() {
    let job = repository().join("docs/examples/tutorial.fio");
    let load = format!("{}=8h", job.to_str().unwrap());
    let search = ["--load", &load, "--seconds", "50ms", "--budget", "10"];
    let space = ["--over", "cpu-latency", "--fewest", "1", "--examine", "0"];
    let ended = survey(&[&search[..], &space].concat()).code(1);
    let output = ended.get_output();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("No class has a decision."), "{printed}");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("a budget of 10 simulated requests is too small"),
        "{told}"
    );
}
