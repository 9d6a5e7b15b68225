//! `wakepath reproduce` as a whole command, and the page that it writes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn reproduce(arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("wakepath").unwrap();
    command.arg("reproduce").args(arguments).assert()
}

fn text(arguments: &[&str]) -> String {
    let assert = reproduce(arguments).success().stderr("");
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

#[test]
fn a_part_shows_its_source_and_what_was_fitted() {
    let table = text(&["B", "--runs", "1"]);
    for part in [
        "Message-ID 20240905092645",
        "drive.read_service_us = ",
        "teo@6.12  schedutil ",
        "Criteria:",
        "\nB: ",
    ] {
        assert!(table.contains(part), "'{part}' is not in:\n{table}");
    }
    let json: Value =
        serde_json::from_str(&text(&["b", "--runs", "1", "--format", "json"])).unwrap();
    let part = &json["parts"][0];
    assert_eq!((&part["part"], &part["runs"]), (&"B".into(), &1.into()));
    let cells = part["sections"][0]["cells"].as_array().unwrap();
    assert!(cells.iter().any(|c| c["fitted"] == false));
    assert!(part["criteria"].as_array().unwrap().len() > 1);
}

#[test]
fn in_brief_there_is_a_verdict_and_no_table() {
    let brief = text(&["B", "--runs", "1", "--brief"]);
    assert_eq!(brief.lines().count(), 2, "{brief}");
    assert!(brief.starts_with("B: ") && brief.contains(" criteria met; "));
}

#[test]
fn the_result_is_the_same_for_any_number_of_jobs() {
    let run = |jobs| text(&["B", "--runs", "2", "--format", "json", "--jobs", jobs]);
    assert!(run("1") == run("3"));
}

#[test]
fn csv_has_a_line_per_cell() {
    let csv = text(&["B", "--runs", "1", "--format", "csv"]);
    let rows = csv.lines().skip(1).filter(|l| l.starts_with("B,")).count();
    assert!(csv.starts_with("part,metric,of,published,simulated,error %,"));
    assert_eq!(rows, csv.lines().count() - 1);
}

#[test]
fn an_unknown_part_is_a_usage_error_that_lists_the_parts() {
    let assert = reproduce(&["Z"]).code(2).stdout("");
    let message = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    let parts: Vec<&str> = wakepath_study::reproduce::PARTS
        .iter()
        .map(|p| p.name)
        .collect();
    assert!(message.contains(&parts.join(", ")), "{message}");
}

/// What stands between a line of the page and the next heading of its level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let from = page
        .find(heading)
        .unwrap_or_else(|| panic!("no '{heading}'"));
    let rest = &page[from..];
    rest[1..].find("\n## ").map_or(rest, |end| &rest[..=end])
}

#[test]
fn the_page_in_docs_is_what_the_command_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/validation.md");
    let page = fs::read_to_string(path).unwrap();
    let part = text(&["B", "--runs", "5", "--format", "markdown"]);
    assert_eq!(
        section(&page, "## B: ").trim(),
        part.trim(),
        "`make validation` brings docs/validation.md up to date"
    );
    for part in wakepath_study::reproduce::PARTS {
        let heading = format!("\n## {}: ", part.name);
        assert_eq!(page.matches(&heading).count(), 1, "no part {}", part.name);
    }
    // What is not from a part comes from the template.
    let template = include_str!("../data/validation.md");
    for fixed in template.split("\n{{").flat_map(|s| s.split("}}\n")) {
        if !["summary", "parts"].contains(&fixed) {
            assert!(page.contains(fixed.trim()), "not in the page: {fixed}");
        }
    }
}
