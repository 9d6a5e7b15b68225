//! `wakepath canary` as a whole command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;
use std::fs;

use assert_cmd::assert::Assert;

use crate::common::{fails_with, json, repository, wakepath};

/// Twelve machines, of which four draw 6 % more from the fifth day on.
fn canary(verb: &str, arguments: &[&str]) -> Assert {
    let input = repository().join("docs/examples/roll-out.csv");
    let input = input.to_str().unwrap();
    wakepath(&[&["canary", verb, input], arguments].concat())
}

const SINCE: [&str; 4] = ["--metric", "mean_mw", "--since", "2026-11-20T00:00:00Z"];

#[test]
fn harm_is_taken_back_with_its_exit_code() {
    let changed = ["--changed", "web-0[1-4]", "--days", "4"];
    let assert = canary("judge", &[&SINCE[..], &changed, &["--exit-code"]].concat()).code(3);
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    assert!(
        text.starts_with("Take back: mean_mw changed by +6."),
        "{text}"
    );
    let judged = json(
        &canary(
            "judge",
            &[&SINCE[..], &changed, &["--format", "json"]].concat(),
        )
        .success(),
    );
    assert_eq!(judged["verdict"], "take-back");
    assert_eq!(judged["analyses"].as_array().unwrap().len(), 7);
}

#[test]
fn unchanged_machines_are_no_harm() {
    let changed = [
        "--changed",
        "web-1*",
        "--leave-out",
        "web-0[1-4]",
        "--exit-code",
    ];
    // Three machines were not changed at all, and three are few.
    let assert = canary("judge", &[&SINCE[..], &changed].concat());
    assert_ne!(assert.get_output().status.code(), Some(3));
    let csv = canary(
        "judge",
        &[&SINCE[..], &changed[..4], &["--format", "csv"]].concat(),
    )
    .success();
    let text = String::from_utf8(csv.get_output().stdout.clone()).unwrap();
    assert!(
        text.starts_with("hours,changed,left_alone,change_percent,"),
        "{text}"
    );
}

#[test]
fn a_plan_names_machines_and_days() {
    let request = [
        "--metric",
        "mean_mw",
        "--harm",
        "5%",
        "--leave-out",
        "web-0[1-4]",
    ];
    let size = ["--machines", "40", "--trials", "500", "--format", "json"];
    let plan = json(&canary("plan", &[&request[..], &size].concat()).success());
    let rows = plan["roll_outs"].as_array().unwrap();
    assert!(
        rows.iter().any(|row| row["found"].as_f64() >= Some(0.8)),
        "{plan}"
    );
}

#[test]
fn wrong_calls_are_told_what_to_do() {
    let judge = |arguments: &[&str]| canary("judge", &[&SINCE[..], arguments].concat());
    fails_with(
        judge(&["--changed", "db*"]),
        &[
            "--changed db*: no further machine has such a name; machines: web-01, web-02, web-03, web-04, web-05, ...",
        ],
    );
    fails_with(
        judge(&["--changed", "*"]),
        &["--changed matches all machines; some must be left alone, to compare with"],
    );
    fails_with(
        judge(&["--changed", "web-01"]),
        &["1 machines changed; at least 2 are needed, since machines differ"],
    );
    fails_with(
        canary(
            "judge",
            &[
                "--metric",
                "mean_mw",
                "--changed",
                "web-0*",
                "--since",
                "2026-11-16T12:00:00Z",
            ],
        ),
        &[
            "12 hours before the change; 24 are needed, so that each hour of the day has its counterpart",
        ],
    );
    fails_with(
        canary("plan", &["--harm", "5%"]),
        &[
            "expected a header with time, machine, and p99_us, or low_us, high_us and count, or file; found: time, machine, mean_mw",
        ],
    );
}

#[test]
fn harm_below_0_is_told_what_to_be() {
    for (verb, option) in [("plan", "--harm"), ("judge", "--tolerate")] {
        for value in ["-5%", "-5", "0%"] {
            let run = canary(verb, &[option, value]).code(2);
            let told = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
            assert!(
                told.contains(&format!(
                    "invalid value '{value}' for '{option} <PERCENT>': expected a number above 0, in per cent, such as 5%"
                )),
                "{told}"
            );
        }
    }
}

#[test]
fn a_list_names_results_of_explain() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("a.parquet");
    let recording = recording.to_str().unwrap();
    let job = repository().join("docs/examples/tutorial.fio");
    let machine = ["--machine", "laptop", "--policy", "menu", "--seconds", "2s"];
    let record = ["sim", job.to_str().unwrap(), "--record", recording];
    wakepath(&[&record[..], &machine].concat()).success();
    let results = folder.path().join("results");
    wakepath(&["explain", recording, "-o", results.to_str().unwrap()]).success();
    let mut list = "time,machine,file\n".to_owned();
    for machine in ["a", "b", "c", "d"] {
        for day in 1..=5 {
            writeln!(list, "2026-11-0{day}T10:00:00Z,{machine},results").unwrap();
        }
    }
    let input = folder.path().join("list.csv");
    fs::write(&input, list).unwrap();
    let judge = [
        "canary",
        "judge",
        input.to_str().unwrap(),
        "--changed",
        "[ab]",
    ];
    let since = [
        "--since",
        "2026-11-04T00:00:00Z",
        "--days",
        "1",
        "--format",
        "json",
    ];
    let judged = json(&wakepath(&[&judge[..], &since].concat()).success());
    assert_eq!(judged["metric"], "p99_us");
    assert_eq!(judged["verdict"], "go-on");
    assert_eq!(
        judged["machines"][0]["before"],
        judged["machines"][3]["after"]
    );
}
