//! `wakepath workload list` and `wakepath workload show`: built-in workloads without their files.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn workload(arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("wakepath").unwrap();
    command.arg("workload").args(arguments).assert()
}

fn printed_text(arguments: &[&str]) -> String {
    let assert = workload(arguments).success();
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn error_text(arguments: &[&str]) -> String {
    let assert = workload(arguments).failure().code(1);
    String::from_utf8(assert.get_output().stderr.clone()).unwrap()
}

fn file_in_repository(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name);
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_list_has_each_file_of_the_folder_and_recipes_say_what_was_counted() {
    let json: Value = serde_json::from_str(&printed_text(&["list", "--format", "json"])).unwrap();
    let names: Vec<&str> = (json.as_array().unwrap().iter())
        .map(|workload| workload["name"].as_str().unwrap())
        .collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    for entry in fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name.as_str()), "{name}");
    }
    let recipes = printed_text(&["list", "--recipes", "--format", "csv"]);
    assert!(
        recipes.contains("nginx-static.toml,server,nginx/1.22.1,nginx with files on the drive\n")
    );
    assert!(recipes.contains("dbench-assumed.toml,server,,dbench (assumed)\n"));
    assert!(!recipes.contains("apst-1.fio"));
}

#[test]
fn a_recipe_says_where_each_figure_is_from_and_how_near_its_calls_are() {
    let arguments = ["show", "mariadb-commit", "--format", "json"];
    let json: Value = serde_json::from_str(&printed_text(&arguments)).unwrap();
    let figures = json["figures"].as_array().unwrap();
    let log = figures.iter().find(|f| f["key"] == "log.bytes").unwrap();
    assert_eq!(
        (&log["value"], &log["origin"]),
        (&452.0.into(), &"measured".into())
    );
    // One client and eight, each counted and simulated.
    assert_eq!(json["calls"].as_array().unwrap().len(), 4);
    let text = printed_text(&["show", "dbench-assumed"]);
    for part in [
        "fitted",
        "No real program",
        "What to look at:",
        "wakepath sim my-dbench-assumed.toml",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_file_of_a_workload_is_written_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let shown = path.display().to_string();
    let said = printed_text(&["show", "postgres-commit", "-o", &shown]);
    assert_eq!(said, format!("{shown}: PostgreSQL commits\n"));
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(
        written,
        file_in_repository("workloads/postgres-commit.toml")
    );
    let said = error_text(&["show", "idle.json", "-o", &shown]);
    assert!(
        said.contains("the file exists; --force replaces it"),
        "{said}"
    );
    workload(&["show", "idle", "-o", &shown, "--force"]).success();
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(written, file_in_repository("workloads/idle.json"));
}

#[test]
fn an_unknown_workload_is_one_line() {
    for (name, wanted) in [
        ("postgres-comit", "did you mean `postgres-commit.toml`?"),
        ("\u{1b}[31m", "no built-in workload is called `\\u{1b}[31m`"),
    ] {
        let said = error_text(&["show", name]);
        assert!(said.contains(wanted) && said.lines().count() == 1, "{said}");
    }
}
