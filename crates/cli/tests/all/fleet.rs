//! `wakepath fleet` as a whole command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use assert_cmd::assert::Assert;

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
    fails_with(survey(&["--only", "x*"]), &["no capture can be used"]);
}
