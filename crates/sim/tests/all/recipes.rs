//! Built-in recipes beside the programs that they stand for: what an operation asks of the disk, as `scripts/recipes.py` counted it.
//!
//! With `WAKEPATH_UPDATE_DOCS=1` the table of simulated calls is written anew.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_sim::DiskPerReply;
use wakepath_workloads::server::{self, Arrivals, ServerFile};

use crate::server::{ideal_machine, run_file_on};

/// Recipes that were measured, in the order of `scripts/recipes.py --list`.
const RECIPES: [&str; 9] = [
    "postgres-commit",
    "postgres-checkpoint",
    "mariadb-commit",
    "sqlite-insert",
    "etcd-put",
    "rocksdb-fillsync",
    "rocksdb-compaction",
    "nginx-static",
    "redis-everysec",
];

/// Recipes without a real program beside them whose calls are in the table of simulated ones, too.
const ASSUMED_SERVERS: [&str; 5] = [
    "ceph-osd-assumed",
    "build-assumed",
    "dbench-assumed",
    "sqlite-assumed",
    "pgbench-assumed",
];

/// How far a simulated figure may be from the measured one.
const TOLERANCE: f64 = 0.1;

/// How far a figure that is counted now may be from the stored one. MariaDB's log also grows by time: it wrote 2,900 bytes a
/// transaction on a fast disk, 3,340 where it made 190 transactions a second, and 3,730 beside other load. Of Redis only the bytes of an
/// operation do not depend on the rate: how many operations share the calls of each second does. PostgreSQL reads pages again that the
/// kernel dropped for lack of memory. RocksDB's compactions depend on the rate: at 2,100 to 15,100 operations a second it wrote 1,549 to
/// 1,781 bytes for each, in 4.8 to 6.2 writes for 1,000. `None` for what is not compared.
fn tolerance_now(recipe: &str, figure: &str) -> Option<f64> {
    match (recipe, figure) {
        ("mariadb-commit" | "rocksdb-compaction", "bytes written") => Some(0.2),
        ("redis-everysec", figure) if figure != "bytes written" => None,
        ("postgres-checkpoint" | "postgres-commit", "reads" | "bytes read")
        | ("rocksdb-compaction", "writes" | "flushes") => None,
        _ => Some(TOLERANCE),
    }
}

/// Calls and bytes a second up to which only the file system keeps house: a commit of ext4's journal each 5 s.
const HOUSEKEEPING_CALLS: f64 = 3.0 / 5.0;
const HOUSEKEEPING_BYTES: f64 = 3.0 * 16384.0 / 5.0;

/// A row of `docs/background/data/recipes.csv`.
#[derive(Debug, serde::Deserialize)]
struct Row {
    recipe: String,
    clients: u32,
    operations_per_s: f64,
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
    // Nothing was written where no write took any time.
    let write_us = row.write_us.max(1.0);
    machine.drive.write_service_us = Figure::assumed(write_us, "measured with the recipe");
    machine.drive.flush_us = Figure::assumed(row.flush_us, "measured with the recipe");
    machine.drive.parallel_units = Figure::assumed(64.0, "a test");
    machine
}

/// Describes figures of an operation, simulated or counted now, too far from the table's: by more than the tolerance of recipe and figure.
fn describe_differences(
    row: &Row,
    now: &DiskPerReply,
    find_tolerance: fn(&str, &str) -> Option<f64>,
) -> Vec<String> {
    let figures = [
        ("reads", now.reads, row.reads, HOUSEKEEPING_CALLS),
        (
            "bytes read",
            now.read_bytes,
            row.read_bytes,
            HOUSEKEEPING_BYTES,
        ),
        ("writes", now.writes, row.writes, HOUSEKEEPING_CALLS),
        (
            "bytes written",
            now.written_bytes,
            row.written_bytes,
            HOUSEKEEPING_BYTES,
        ),
        ("flushes", now.flushes, row.flushes, HOUSEKEEPING_CALLS),
    ];
    (figures.into_iter())
        .filter(|(figure, value, measured, housekeeping)| {
            let tolerance = find_tolerance(&row.recipe, figure);
            let is_far =
                tolerance.is_some_and(|tolerance| (value - measured).abs() > tolerance * measured);
            is_far && value.max(*measured) > housekeeping / row.operations_per_s
        })
        .map(|(name, value, measured, _)| {
            let (recipe, clients) = (&row.recipe, row.clients);
            format!("{recipe} with {clients} clients: {name}: {value:.4}, measured {measured:.4}")
        })
        .collect()
}

#[test]
fn operations_ask_of_the_disk_what_real_programs_asked() {
    let rows = measured_rows();
    let mut wrong = Vec::new();
    for row in &rows {
        let file = recipe_for_clients(&row.recipe, row.clients);
        let run = run_file_on(&machine_of_measurement(row), file);
        let calls = run.server.as_ref().unwrap().disk_per_reply;
        wrong.extend(describe_differences(row, &calls, |_, _| Some(TOLERANCE)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut names: Vec<&str> = rows.iter().map(|row| row.recipe.as_str()).collect();
    names.dedup();
    assert_eq!(names, RECIPES);
}

/// Flushes for a commit of eight clients, on so many CPUs and a drive with these times of a write and of a flush.
fn count_flushes_of_eight_clients(row: &Row, cpus: usize, [write_us, flush_us]: [f64; 2]) -> f64 {
    let mut machine = machine_of_measurement(row);
    machine.cluster[0].cpus = cpus;
    machine.drive.write_service_us = Figure::assumed(write_us, "a test");
    machine.drive.flush_us = Figure::assumed(flush_us, "a test");
    let run = run_file_on(&machine, recipe_for_clients(&row.recipe, 8));
    run.server.unwrap().disk_per_reply.flushes
}

#[test]
fn all_clients_share_two_syncs_unless_a_sync_is_shorter_than_a_transaction() {
    let rows = measured_rows();
    let row = rows.iter().find(|row| row.recipe == "postgres-commit");
    let row = row.unwrap();
    let counted = count_flushes_of_eight_clients(row, 2, [row.write_us, row.flush_us]);
    let long = count_flushes_of_eight_clients(row, 2, [4000.0, 4000.0]);
    // On fewer CPUs than clients, the wait for a CPU makes each sync long.
    let short = count_flushes_of_eight_clients(row, 16, [10.0, 10.0]);
    // docs/guides/recipes.md has these figures.
    assert!((counted - 0.24).abs() < 0.01, "{counted}");
    assert!((long - 0.25).abs() < 0.01, "{long}");
    assert!(short > 2.0 * counted, "{short} {counted}");
}

/// A line of the table of simulated calls.
fn table_line(recipe: &str, clients: Option<u32>, calls: &DiskPerReply) -> String {
    let clients = clients.map_or_else(String::new, |clients| clients.to_string());
    let figures = [
        calls.reads,
        calls.read_bytes,
        calls.writes,
        calls.written_bytes,
        calls.flushes,
    ];
    let cells = figures.map(|value| format!("{:?}", (value * 1e5).round() / 1e5));
    format!("{recipe},{clients},{}\n", cells.join(","))
}

/// Calls of a server on two CPUs and a drive that nobody measured.
fn simulate_assumed_server(name: &str) -> (Option<u32>, DiskPerReply) {
    let path = file_in_repository(&format!("workloads/{name}.toml"));
    let file = server::parse(&fs::read_to_string(path).unwrap(), name, None).unwrap();
    let clients = match file.arrivals {
        Arrivals::Clients { clients, .. } => Some(clients),
        _ => None,
    };
    let mut machine = ideal_machine();
    machine.cluster[0].cpus = 2;
    let run = run_file_on(&machine, file);
    (clients, run.server.unwrap().disk_per_reply)
}

/// The table that `wakepath workload show` prints beside the counted one.
#[test]
fn the_table_of_simulated_calls_is_what_the_recipes_ask_for() {
    let mut table = "recipe,clients,reads,read_bytes,writes,written_bytes,flushes\n".to_owned();
    for row in measured_rows() {
        let file = recipe_for_clients(&row.recipe, row.clients);
        let run = run_file_on(&machine_of_measurement(&row), file);
        let calls = run.server.unwrap().disk_per_reply;
        table.push_str(&table_line(&row.recipe, Some(row.clients), &calls));
    }
    for name in ASSUMED_SERVERS {
        let (clients, calls) = simulate_assumed_server(name);
        table.push_str(&table_line(name, clients, &calls));
    }
    let path = file_in_repository("docs/background/data/recipes-simulated.csv");
    if std::env::var_os("WAKEPATH_UPDATE_DOCS").is_some() {
        fs::write(path, table).unwrap();
        return;
    }
    let stored = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(stored, table, "WAKEPATH_UPDATE_DOCS=1 writes it anew");
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

/// A reader of tables sees by a server's name whether a real program was set beside the server.
#[test]
fn a_server_without_a_real_program_says_so_in_its_name() {
    let files = fs::read_dir(file_in_repository("workloads")).unwrap();
    let texts = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let mut measured = 0;
    for path in texts {
        let text = fs::read_to_string(&path).unwrap();
        let file = server::parse(&text, &path.to_string_lossy(), None).unwrap();
        let stem = path.file_stem().unwrap().to_string_lossy();
        if RECIPES.contains(&file.name.as_str()) {
            assert_eq!(file.name, stem);
            measured += 1;
        } else if let Some(program) = stem.strip_suffix("-assumed") {
            assert_eq!(file.name, format!("{program} (assumed)"));
        } else {
            assert!(file.name.ends_with("-like"), "{}", file.name);
        }
    }
    assert_eq!(measured, RECIPES.len());
}

/// Whether a program asks for the same on any machine. Other load changes how many flushes several clients share: etcd's 50 asked for 1.05
/// to 1.38 a put, one client for 1.50 to 1.55.
fn asks_for_the_same_on_any_machine(row: &Row) -> bool {
    let unshared = ["nginx-static", "redis-everysec", "rocksdb-compaction"];
    row.clients == 1 || unshared.contains(&row.recipe.as_str())
}

#[test]
#[ignore = "nightly: runs the real programs for minutes, as root"]
fn real_programs_still_ask_for_the_same() {
    let rows = measured_rows().into_iter();
    for row in rows.filter(asks_for_the_same_on_any_machine) {
        let now = match count_with_real_program(&row) {
            Ok(now) => now,
            Err(reason) if reason.contains("not installed") || reason.contains("needs root") => {
                eprintln!("skipped: real_programs_still_ask_for_the_same: {reason}");
                continue;
            }
            Err(reason) => panic!("{}: {reason}", row.recipe),
        };
        let counted = DiskPerReply {
            reads: now.reads,
            read_bytes: now.read_bytes,
            writes: now.writes,
            written_bytes: now.written_bytes,
            flushes: now.flushes,
        };
        let wrong = describe_differences(&row, &counted, tolerance_now);
        assert!(wrong.is_empty(), "{}", wrong.join("; "));
    }
}
