//! Built-in recipes beside the programs that they stand for: what an operation asks of the disk, as `scripts/recipes.py` counted it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_workloads::server::{self, ServerFile};

use crate::server::{ideal_machine, run_file_on};

/// Recipes that were measured, in the order of `scripts/recipes.py --list`.
const RECIPES: [&str; 5] = [
    "postgres-commit",
    "mariadb-commit",
    "etcd-put",
    "rocksdb-fillsync",
    "redis-everysec",
];

/// How far a simulated figure may be from the measured one.
const TOLERANCE: f64 = 0.1;

/// Reads of an operation, and bytes read, below which a program only keeps house: a metadata block now and then.
const LEAST_READS: f64 = 0.02;
const LEAST_BYTES_READ: f64 = 256.0;

/// A row of `docs/background/data/recipes.csv`.
#[derive(Debug, serde::Deserialize)]
struct Row {
    recipe: String,
    clients: u32,
    reads: f64,
    read_bytes: f64,
    writes: f64,
    written_bytes: f64,
    flushes: f64,
    write_us: f64,
    flush_us: f64,
}

fn file_in_repository(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(name)
}

fn measured_rows() -> Vec<Row> {
    let path = file_in_repository("docs/background/data/recipes.csv");
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

fn recipe_for_clients(name: &str, clients: u32) -> ServerFile {
    let path = file_in_repository(&format!("workloads/{name}.toml"));
    let text = fs::read_to_string(path).unwrap();
    let file = server::parse(&text, name, None).unwrap();
    if file.open_rate().is_some() {
        return file;
    }
    let variables = [("clients".to_owned(), clients.to_string())].into();
    file.with_variables(&variables, name).unwrap()
}

/// Two CPUs, as the programs had, and a drive with the measured times of writes and flushes.
fn machine_of_measurement(row: &Row) -> Machine {
    let mut machine = ideal_machine();
    machine.cluster[0].cpus = 2;
    machine.drive.write_service_us = Figure::assumed(row.write_us, "measured with the recipe");
    machine.drive.flush_us = Figure::assumed(row.flush_us, "measured with the recipe");
    machine.drive.parallel_units = Figure::assumed(64.0, "a test");
    machine
}

/// Describes a simulated figure that is too far from the measured one; nothing if it is near.
fn describe_difference(figure: &str, simulated: f64, measured: f64, least: f64) -> Option<String> {
    let is_near = (simulated - measured).abs() <= (TOLERANCE * measured).max(least);
    (!is_near).then(|| format!("{figure}: simulated {simulated:.4}, measured {measured:.4}"))
}

#[test]
fn operations_ask_of_the_disk_what_real_programs_asked() {
    let rows = measured_rows();
    let mut wrong = Vec::new();
    for row in &rows {
        let file = recipe_for_clients(&row.recipe, row.clients);
        let run = run_file_on(&machine_of_measurement(row), file);
        let calls = run.server.as_ref().unwrap().disk_per_reply;
        let differences = [
            describe_difference("reads", calls.reads, row.reads, LEAST_READS),
            describe_difference(
                "bytes read",
                calls.read_bytes,
                row.read_bytes,
                LEAST_BYTES_READ,
            ),
            describe_difference("writes", calls.writes, row.writes, 0.0),
            describe_difference("bytes written", calls.written_bytes, row.written_bytes, 0.0),
            describe_difference("flushes", calls.flushes, row.flushes, 0.0),
        ];
        let place = format!("{} with {} clients", row.recipe, row.clients);
        wrong.extend(
            differences
                .into_iter()
                .flatten()
                .map(|text| format!("{place}: {text}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut names: Vec<&str> = rows.iter().map(|row| row.recipe.as_str()).collect();
    names.dedup();
    assert_eq!(names, RECIPES);
}

/// What `scripts/recipes.py` counts now; an error is why it could not.
fn count_with_real_program(row: &Row) -> Result<Row, String> {
    let output = Command::new(file_in_repository("scripts/recipes.py"))
        .args([&row.recipe, "--clients", &row.clients.to_string()])
        .output()
        .map_err(|e| e.to_string())?;
    if output.status.success() {
        return serde_json::from_slice(&output.stdout).map_err(|e| e.to_string());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

/// Only with a client for itself, or at a rate, does a program share flushes as it did, whatever else the machine does.
#[test]
#[ignore = "nightly: runs the real programs for minutes, as root"]
fn real_programs_still_ask_for_the_same() {
    let rows = measured_rows().into_iter();
    for row in rows.filter(|row| row.clients == 1 || row.recipe == "redis-everysec") {
        let now = match count_with_real_program(&row) {
            Ok(now) => now,
            Err(reason) if reason.contains("not installed") || reason.contains("needs root") => {
                eprintln!("skipped: real_programs_still_ask_for_the_same: {reason}");
                continue;
            }
            Err(reason) => panic!("{}: {reason}", row.recipe),
        };
        let differences = [
            describe_difference("writes", row.writes, now.writes, 0.0),
            describe_difference("bytes written", row.written_bytes, now.written_bytes, 0.0),
            describe_difference("flushes", row.flushes, now.flushes, 0.0),
        ];
        let wrong: Vec<String> = differences.into_iter().flatten().collect();
        assert!(wrong.is_empty(), "{}: {}", row.recipe, wrong.join("; "));
    }
}
