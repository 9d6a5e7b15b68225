//! Results that somebody else has made or changed: what cannot be is refused, with the file and what to do, and nothing
//! outside of the directory is read.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::files::{change, copy_folder, fifo, tiny_results};
use wakepath_results::{Mode, ResultReader, ResultWriter, ResultsError, merge_shards};

/// An unfinished study: its tables are made from the runs.
fn unfinished() -> tempfile::TempDir {
    let dir = tiny_results();
    change(
        &dir.path().join("result.json"),
        "\"complete\": true",
        "\"complete\": false",
    );
    dir
}

/// The message of an error with its causes.
fn said(error: &ResultsError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// All that a reader gives.
fn read_all(dir: &Path) -> Result<(), ResultsError> {
    let reader = ResultReader::open(dir)?;
    reader.read_runs()?;
    reader.read_metric_rows()?;
    reader.read_latency_rows()?;
    reader.read_attribution_rows()?;
    reader.read_idle_rows()?;
    reader.read_frequency_rows()?;
    reader.read_timeline_rows()?;
    let sources = reader.document().workloads.iter().map(|w| &w.source);
    let sources = sources.chain(reader.document().machines.iter().map(|m| &m.source));
    for source in sources {
        reader.read_file_if_present(source)?;
    }
    reader.read_file_if_present("study.toml").map(|_| ())
}

#[test]
fn what_wakepath_has_written_is_read() {
    read_all(tiny_results().path()).unwrap();
    read_all(unfinished().path()).unwrap();
}

#[test]
fn a_number_out_of_range_is_refused_with_its_key() {
    for level in [
        "-1", "0", "1", "5", "1e308", "0.4999", "0.9991", "NaN", "null",
    ] {
        let dir = tiny_results();
        let level = format!("\"level\": {level}");
        change(&dir.path().join("result.json"), "\"level\": 0.95", &level);
        let error = said(&ResultReader::open(dir.path()).unwrap_err());
        assert!(error.contains("result.json"), "{error}");
        if !level.contains(['N', 'n']) {
            assert!(error.contains("0.5 to 0.999"), "{error}");
        }
    }
    let warm_up = |seconds: &str| format!("\"kind\": \"fio\", \"warm_up_s\": {seconds}");
    for (from, to, key) in [
        (
            "\"margin_percent\": 2.0",
            "\"margin_percent\": -2.0",
            "margin_percent",
        ),
        ("\"repeats\": 4", "\"repeats\": 4000000000", "repeats"),
        ("\"cpus\": 4", "\"cpus\": 4000000000", "cpus"),
        ("\"kind\": \"fio\"", &warm_up("-1"), "warm_up_s"),
        ("\"kind\": \"fio\"", &warm_up("1e308"), "warm_up_s"),
    ] {
        let dir = tiny_results();
        change(&dir.path().join("result.json"), from, to);
        let error = said(&ResultReader::open(dir.path()).unwrap_err());
        assert!(error.contains(&format!("`{key}`")), "{error}");
    }
}

#[test]
fn a_source_outside_of_the_directory_is_refused() {
    let machine = ("\"source\": \"machine.toml\"", "machines");
    let workload = ("\"source\": \"workloads/reads.fio\"", "workloads");
    for (own, list) in [machine, workload] {
        for foreign in [
            "../../../../../../etc/passwd",
            "/etc/passwd",
            "workloads/../../x",
            "workloads/..",
            "./../x",
        ] {
            let dir = tiny_results();
            let source = format!("\"source\": \"{foreign}\"");
            change(&dir.path().join("result.json"), own, &source);
            let error = said(&ResultReader::open(dir.path()).unwrap_err());
            assert!(
                error.contains(list) && error.contains("below this directory"),
                "{error}"
            );
        }
    }
}

#[test]
fn links_and_fifos_are_refused_wherever_they_are() {
    let outside = tempfile::tempdir().unwrap();
    copy_folder(tiny_results().path(), outside.path());
    for name in [
        "result.json",
        "study.toml",
        "machine.toml",
        "workloads/reads.fio",
        "workloads",
        "runs/000003.json",
        "runs",
        "metrics.parquet",
        "idle.parquet",
    ] {
        let is_folder = outside.path().join(name).is_dir();
        for link in [true, false] {
            let dir = if name.starts_with("runs") {
                unfinished()
            } else {
                tiny_results()
            };
            let path = dir.path().join(name);
            if is_folder {
                fs::remove_dir_all(&path).unwrap();
            }
            if link {
                let _ = fs::remove_file(&path);
                symlink(outside.path().join(name), &path).unwrap();
            } else {
                fifo(&path);
            }
            let error = said(&read_all(dir.path()).unwrap_err());
            assert!(
                error.contains(name.trim_end_matches(".json")),
                "{name}: {error}"
            );
        }
    }
}

/// What is no run of this study in the place of one, and what the message says of it.
const WRONG_RUNS: [(&str, &str, &str); 16] = [
    (
        "\"seed\":2",
        "\"seed\":20",
        "its seed is 20, and the study has 2 for this repeat",
    ),
    (
        "\"workload\":\"reads\"",
        "\"workload\":\"other\"",
        "in its place",
    ),
    (
        "\"workload\":\"reads\"",
        "\"workload\":\"../../../pwn\"",
        "in its place",
    ),
    (
        "\"machine\":\"rk3399\"",
        "\"machine\":\"mine\"",
        "in its place",
    ),
    ("\"policy\":\"menu\"", "\"policy\":\"teo\"", "in its place"),
    ("\"repeat\":1", "\"repeat\":77", "in its place"),
    ("\"iops\"", "\"imagined\"", "no metric"),
    ("\"version\":2", "\"version\":3", "version 3"),
    ("[\"iops\",", "[\"iops\",1e999,", "no whole run"),
    ("\"metrics\":[", "\"metrics\":[[[", "no whole run"),
    ("[\"iops\",", "[\"iops\",-1.0],[\"iops\",", "iops is -1"),
    ("[\"iops\",", "[\"iops\",1e300],[\"iops\",", "no result"),
    ("[\"iops\",", "[\"iops\",1.0],[\"iops\",", "iops twice"),
    (
        "\"latency\":[",
        "\"latency\":[[1,2,18446744073709551615],",
        "a count of requests is 18446744073709552000",
    ),
    (
        "\"latency\":[",
        "\"latency\":[[1,18446744073709551615,2],",
        "the end of a latency bucket",
    ),
    (
        "\"timeline\":[]",
        "\"timeline\":[[\"p50\",\"x\",\"y\",1,18446744073709551615]]",
        "the end of a stretch",
    ),
];

#[test]
fn a_run_of_another_study_is_refused_by_readers_and_by_resume() {
    for (from, to, why) in WRONG_RUNS {
        let dir = unfinished();
        let run = dir.path().join("runs/000002.json");
        change(&run, from, to);
        let error = said(&read_all(dir.path()).unwrap_err());
        for part in ["runs/000002.json", why, "remove the file"] {
            assert!(error.contains(part), "'{part}' is not in: {error}");
        }
        // The tables are not made of it either.
        let document = ResultReader::open(dir.path()).unwrap().document().clone();
        let writer = ResultWriter::open(dir.path(), document, &[], Mode::Resume).unwrap();
        let error = said(&writer.write_tables_and_finish().unwrap_err());
        assert!(error.contains("runs/000002.json"), "{error}");
    }
}

#[test]
fn a_cut_run_says_what_to_do() {
    let dir = unfinished();
    let run = dir.path().join("runs/000005.json");
    let content = fs::read(&run).unwrap();
    fs::write(&run, &content[..content.len() / 2]).unwrap();
    let error = said(&read_all(dir.path()).unwrap_err());
    for part in ["runs/000005.json", "EOF", "remove the file", "--resume"] {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
}

#[test]
fn tables_of_other_runs_are_refused() {
    // The document is changed, and with it what the tables may have.
    for (from, to) in [
        ("\"name\": \"reads\"", "\"name\": \"other\""),
        ("\"name\": \"rk3399\"", "\"name\": \"mine\""),
        ("\"name\": \"teo\"", "\"name\": \"ladder\""),
        ("\"repeats\": 4", "\"repeats\": 3"),
    ] {
        let dir = tiny_results();
        change(&dir.path().join("result.json"), from, to);
        let reader = ResultReader::open(dir.path()).unwrap();
        let error = said(&reader.read_metric_rows().unwrap_err());
        assert!(
            error.contains("metrics.parquet") && error.contains("--resume"),
            "{error}"
        );
        let mut batches = reader.read_record_batches("metrics").unwrap();
        let error = batches.find_map(Result::err).unwrap().to_string();
        assert!(error.contains("has a row of"), "{error}");
    }
}

/// A shard each with every second run of a copy of the study.
fn shards() -> [tempfile::TempDir; 2] {
    [1, 2].map(|number| {
        let dir = unfinished();
        change(
            &dir.path().join("result.json"),
            "\"study\": {",
            &format!("\"shard\": \"{number}/2\",\n  \"study\": {{"),
        );
        for index in (0..8).filter(|index| index % 2 + 1 != number) {
            fs::remove_file(dir.path().join(format!("runs/{index:06}.json"))).unwrap();
        }
        dir
    })
}

#[test]
fn merge_takes_what_resume_takes() {
    let merged = |shards: &[tempfile::TempDir]| {
        let dirs: Vec<PathBuf> = shards.iter().map(|dir| dir.path().to_owned()).collect();
        let to = tempfile::tempdir().unwrap();
        let into = to.path().join("merged");
        let result = merge_shards(&dirs, &into, Mode::New);
        let text = result.map_err(|error| match error {
            wakepath_results::MergeError::Results(error) => said(&error),
            other => other.to_string(),
        });
        (text, into.join("metrics.parquet").exists())
    };
    assert_eq!(merged(&shards()), (Ok(8), true));
    for (from, to, why) in WRONG_RUNS {
        let shards = shards();
        change(&shards[0].path().join("runs/000002.json"), from, to);
        let (text, complete) = merged(&shards);
        let error = text.unwrap_err();
        assert!(
            error.contains("runs/000002.json") && error.contains(why),
            "{error}"
        );
        assert!(!complete);
    }
    for link in [true, false] {
        let shards = shards();
        let run = shards[1].path().join("runs/000001.json");
        let folder = tempfile::tempdir().unwrap();
        let aside = folder.path().join("aside.json");
        fs::rename(&run, &aside).unwrap();
        if link {
            symlink(&aside, &run).unwrap();
        } else {
            fifo(&run);
        }
        let error = merged(&shards).0.unwrap_err();
        assert!(error.contains("runs/000001.json"), "{error}");
    }
}

#[test]
fn nothing_is_written_or_removed_through_a_link() {
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join(".unfinished-x"), "precious").unwrap();
    for mode in [Mode::Resume, Mode::Replace] {
        let dir = unfinished();
        let runs = dir.path().join("runs");
        fs::remove_dir_all(&runs).unwrap();
        symlink(elsewhere.path(), &runs).unwrap();
        let document = ResultReader::open(dir.path()).unwrap().document().clone();
        let opened = ResultWriter::open(dir.path(), document, &[], mode);
        assert_eq!(opened.is_err(), mode == Mode::Resume);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }
}
