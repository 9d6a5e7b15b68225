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
    let assert = reproduce(arguments).success();
    let output = assert.get_output();
    // A slow machine also gets lines of progress.
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(
        said.lines().all(|line| line.contains(" runs after ")),
        "{said}"
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn an_experiment_shows_its_source_and_what_was_fitted() {
    let table = text(&["psd", "--runs", "1"]);
    for part in [
        "Colin Ian King",
        "drive.read_stream_mb_per_s = ",
        "random reads  later kernel, PSD ",
        "Criteria:",
        "NOT OBSERVED",
        "\npsd: ",
    ] {
        assert!(table.contains(part), "'{part}' is not in:\n{table}");
    }
    let json: Value =
        serde_json::from_str(&text(&["psd", "--runs", "1", "--format", "json"])).unwrap();
    let psd = &json["experiments"][0];
    assert_eq!(
        (&psd["experiment"], &psd["runs"]),
        (&"psd".into(), &1.into())
    );
    let cells = psd["sections"][0]["cells"].as_array().unwrap();
    assert!(cells.iter().any(|c| c["fitted"] == false));
    assert!(psd["criteria"].as_array().unwrap().len() > 1);
}

#[test]
fn in_brief_there_is_a_verdict_and_no_table() {
    let brief = text(&["psd", "--runs", "1", "--brief"]);
    assert_eq!(brief.lines().count(), 2, "{brief}");
    assert!(brief.starts_with("psd: ") && brief.contains(" criteria met; "));
}

/// An experiment of a user: `expected` is what it expects of the IOPS.
const MINE: &str = r#"
name = "mine"
source = "my desk"
machine = "rk3399"
repeats = 2
policy = ["menu", "teo"]

[[workload]]
name = "reads"
fio_job = """
[a]
rw=randread
bs=4k
ioengine=psync
direct=1
filename=/dev/nvme0n1
runtime=1
time_based
"""

[[published]]
name = "iops"
title = "IOPS"
metric = "iops"
row = [
    { policy = "menu", value = [4000, 4500, 5000] },
    { policy = "teo", between = [1000, 9000], fitted = true },
]

[[published]]
name = "gain"
title = "gain of teo"
metric = "iops"
show = "percent"
compare = [{ policy = "teo", over = "menu" }]

[[expect]]
text = "teo is about as good"
of = "gain"
between = [-90, 900]

[[expect]]
text = "what I have measured"
of = "iops"
within_percent = 1000
"#;

fn mine(experiment: &str) -> (tempfile::TempDir, String) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("mine.toml");
    fs::write(&path, experiment).unwrap();
    let path = path.display().to_string();
    (temp, path)
}

#[test]
fn a_file_is_reproduced_like_a_built_in_experiment() {
    let (_temp, file) = mine(MINE);
    let run = |jobs| text(&[&file, "--jobs", jobs, "--format", "json", "--exit-code"]);
    let json = run("1");
    assert!(json == run("3"), "the number of jobs matters");
    let json: Value = serde_json::from_str(&json).unwrap();
    let mine = &json["experiments"][0];
    // As often as the file says.
    assert_eq!(
        (&mine["runs"], &mine["source"]),
        (&2.into(), &"my desk".into())
    );
    assert_eq!(mine["summary"]["met"], 2);
    assert_eq!(mine["summary"]["compared"], 2);
    let cells = mine["sections"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[0]["published"]["runs"][1], 4500.0);
    let [menu, teo] = [0, 1].map(|index| cells[index]["simulated"].as_f64().unwrap());
    assert!((cells[0]["relative_error"].as_f64().unwrap() - (menu / 4500.0 - 1.0)).abs() < 1e-12);
    assert_eq!(
        (&cells[1]["agrees"], &cells[1]["fitted"]),
        (&true.into(), &true.into())
    );
    let gain = mine["sections"][1]["cells"][0]["simulated"]
        .as_f64()
        .unwrap();
    assert!((gain - (teo / menu - 1.0) * 100.0).abs() < 1e-9);
    // It is a study, too.
    let mut command = Command::cargo_bin("wakepath").unwrap();
    let check = command.args(["study", "check", &file]).assert().success();
    assert!(String::from_utf8_lossy(&check.get_output().stdout).contains("reads"));
}

#[test]
fn an_expectation_that_is_not_met_is_told_by_the_exit_code() {
    let (_temp, file) = mine(&MINE.replace("within_percent = 1000", "within_percent = 0.001"));
    let assert = reproduce(&[&file, "--exit-code"]).code(3).stderr("");
    let table = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
    assert!(
        table.contains("NOT MET") && table.contains("1 of 2 criteria met"),
        "{table}"
    );
    reproduce(&[&file, "--brief"]).success();
}

#[test]
fn mistakes_are_one_message_with_file_and_line() {
    for (from, to, line, says) in [
        (
            "metric = \"iops\"",
            "metric = \"iop\"",
            24,
            "no metric is called `iop`; did you mean `iops`",
        ),
        (
            "policy = \"menu\", value",
            "policy = \"mnu\", value",
            26,
            "no policy is called `mnu`",
        ),
        (
            "policy = \"menu\", value",
            "workload = \"writes\", value",
            26,
            "no workload is called `writes`",
        ),
        ("[4000, 4500, 5000]", "nan", 26, "expected a number"),
        (
            "between = [1000, 9000]",
            "between = [9000, 1000]",
            27,
            "the lower one first",
        ),
        (
            "[1000, 9000]",
            "[1000, 9000], value = 3",
            27,
            "either a `value` or bounds",
        ),
        (
            "between = [-90, 900]",
            "",
            38,
            "an expectation has one of `within_percent`",
        ),
        (
            "between = [-90, 900]",
            "between = [-90, inf]",
            40,
            "two numbers",
        ),
        (
            "within_percent = 1000",
            "within_percent = -1",
            45,
            "0 or more",
        ),
        (
            "within_percent = 1000",
            "same_direction = 1",
            45,
            "compared with no others",
        ),
        (
            "of = \"gain\"",
            "of = \"gian\"",
            39,
            "no [[published]] is called `gian`; did you mean `gain`",
        ),
        ("show = \"percent\"", "", 31, "`compare`"),
        (
            "metric = \"iops\"",
            "metric = \"iops\"\ncolumns = [\"mean_mhz\"]",
            25,
            "of both policies of a pair",
        ),
        (
            "metric = \"iops\"",
            "metric = \"iops\"\nwide = true",
            25,
            "a wide table has simulated values only",
        ),
        ("source = \"my desk\"", "", 22, "no `source`"),
        (
            "title = \"IOPS\"",
            "tilte = \"IOPS\"",
            23,
            "unknown key `tilte`",
        ),
    ] {
        let (_temp, file) = mine(&MINE.replacen(from, to, 1));
        let assert = reproduce(&[&file]).code(1).stdout("");
        let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(
            message.contains(&format!("mine.toml:{line}: ")),
            "{to}: {message}"
        );
        assert!(message.contains(says), "{to}: {message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    let (start, _) = MINE.split_once("[[expect]]").unwrap();
    for (experiment, says) in [
        (start, "mine.toml:22: no [[expect]]"),
        (
            start.split_once("[[published]]").unwrap().0,
            "mine.toml:2: nothing to reproduce",
        ),
    ] {
        let (_temp, file) = mine(experiment);
        let assert = reproduce(&[&file]).code(1).stdout("");
        let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn what_the_runs_do_not_give_is_an_error() {
    let (_temp, file) = mine(&MINE.replacen("metric = \"iops\"", "metric = \"drive_mw\"", 1));
    let assert = reproduce(&[&file]).code(1).stdout("");
    let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    for part in [
        "mine.toml:22: ",
        "no `drive_mw` among the results",
        "`reads` under `menu`",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

/// A second workload, and a table of simulated values with a column for each.
const WIDE: &str = r#"
[[workload]]
name = "idle"
rt_app = "idle.json"
seconds = 1

[[published]]
name = "power"
title = "power"
metric = "mean_mw"
wide = true

[[expect]]
text = "some"
of = "power"
above = 0
"#;

#[test]
fn a_wide_table_has_a_column_per_workload() {
    let (start, _) = MINE.split_once("[[published]]").unwrap();
    let (_temp, file) = mine(&format!("{start}{WIDE}"));
    let table = text(&[&file]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    let lines: Vec<Vec<String>> = table.lines().map(words).collect();
    let header = ["policy", "reads", "idle"].map(str::to_owned);
    assert!(lines.contains(&header.to_vec()), "{table}");
    for policy in ["menu", "teo"] {
        let row = lines
            .iter()
            .find(|line| line.first().is_some_and(|word| word == policy));
        let values = row.map(|row| row[1..].iter().map(|word| word.parse::<f64>()));
        assert_eq!(
            values.map(|values| values.flatten().count()),
            Some(2),
            "{table}"
        );
    }

    let (_, table) = WIDE.split_once("[[published]]").unwrap();
    let (_temp, file) = mine(&format!("{start}[[published]]{table}"));
    let assert = reproduce(&[&file]).code(1).stdout("");
    let message = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(
        message.contains("mine.toml:25: ") && message.contains("a single workload"),
        "{message}"
    );
}

#[test]
fn csv_has_a_line_per_cell() {
    let csv = text(&["psd", "--runs", "1", "--format", "csv"]);
    let rows = csv
        .lines()
        .skip(1)
        .filter(|l| l.starts_with("psd,"))
        .count();
    assert!(csv.starts_with("experiment,metric,of,published,simulated,error %,"));
    assert_eq!(rows, csv.lines().count() - 1);
}

#[test]
fn an_unknown_experiment_is_an_error_that_knows_the_nearest() {
    let assert = reproduce(&["polling-tench"]).code(1).stdout("");
    let message = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(
        message.contains("did you mean `polling-tbench`"),
        "{message}"
    );
}

/// What stands between a line of the page and the next heading of its level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let from = page
        .find(heading)
        .unwrap_or_else(|| panic!("no '{heading}'"));
    let rest = &page[from..];
    rest[1..].find("\n## ").map_or(rest, |end| &rest[..=end])
}

/// An experiment as the page has it: without the tables of its cells.
fn without_cells(experiment: &str) -> String {
    let mut is_kept = true;
    let mut kept = String::new();
    for line in experiment.split_inclusive('\n') {
        if line.starts_with('#') {
            is_kept = !line.starts_with("### ") || line.trim_end().ends_with(": fitted figures");
        }
        if is_kept {
            kept.push_str(line);
        }
    }
    kept
}

#[test]
fn the_page_in_docs_is_what_the_command_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/background/validation.md");
    let page = fs::read_to_string(&path).unwrap();
    let part = text(&["psd", "--format", "markdown"]);
    assert_eq!(
        section(&page, "## psd: ").trim(),
        without_cells(&part).trim(),
        "`make validation` brings docs/background/validation.md up to date"
    );
    let cells = fs::read_to_string(path.with_file_name("data/validation.csv")).unwrap();
    let kept: Vec<&str> = cells.lines().filter(|l| l.starts_with("psd,")).collect();
    let printed = text(&["psd", "--format", "csv"]);
    let printed: Vec<&str> = printed.lines().skip(1).collect();
    assert_eq!(
        kept, printed,
        "`make validation` brings docs/background/data/validation.csv up to date"
    );
    for name in wakepath_study::builtin::EXPERIMENTS {
        let heading = format!("\n## {name}: ");
        assert_eq!(page.matches(&heading).count(), 1, "no experiment {name}");
    }
    // What is not from an experiment comes from the template.
    let template = include_str!("../../data/validation.md");
    for fixed in template.split("\n{{").flat_map(|s| s.split("}}\n")) {
        if !["summary", "experiments"].contains(&fixed) {
            assert!(page.contains(fixed.trim()), "not in the page: {fixed}");
        }
    }
}
