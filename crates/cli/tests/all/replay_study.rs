//! Recordings as workloads of studies, and `replay` as a study made on the spot.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{fails_with, json, wakepath};
use wakepath_hardware::IdleState;
use wakepath_results::{IdleRow, MetricRow, ResultReader};
use wakepath_trace::recording::{
    Before, Block, CpuIdleStates, Event, EventKind, IdleInputs, IdlePeriod, Metadata, Overwrite,
    Reader as RecordingReader, Writer,
};
use wakepath_units::Nanoseconds;

const US: u64 = 1_000;
const BLOCKS: usize = 5;

/// A second of one CPU that waits 100 us for each of its I/Os, and now and then sleeps for longer.
fn recording(folder: &Path, name: &str) -> PathBuf {
    let state = |name: &str, us: u64, residency: u64| IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds::from_micros(us),
        target_residency: Nanoseconds::from_micros(residency),
        polling: us == 0,
        disabled: false,
    };
    let metadata = Metadata {
        source: "wakepath record".to_owned(),
        kernel: Some("6.12.48+deb13-amd64".to_owned()),
        processor: Some("A processor".to_owned()),
        idle_driver: Some("intel_idle".to_owned()),
        idle_governor: Some("menu".to_owned()),
        cpus: 1,
        idle_states: vec![CpuIdleStates {
            cpus: vec![0],
            states: vec![
                state("POLL", 0, 0),
                state("C1", 2, 2),
                state("C6", 100, 300),
            ],
        }],
        ..Metadata::default()
    };
    let path = folder.join(name);
    let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
    let block = |sector: u64| Block {
        device: 259 << 20,
        sector,
        bytes: 4096,
        write: false,
    };
    let mut now = 0;
    let mut push = |time: u64, kind: EventKind| {
        let event = Event {
            time: Nanoseconds(time),
            cpu: 0,
            kind,
        };
        writer.add_event(&event).unwrap();
    };
    for i in 0..4000_u64 {
        push(now, EventKind::BlockIssue(block(i)));
        now += 20 * US;
        // Deterministic, and without a pattern that a governor could learn.
        let wait = 60 + i * 7919 % 97;
        let length = if i % 50 == 49 { 5_000 } else { wait } * US;
        now += length;
        let inputs = IdleInputs {
            sleep_length: Some(50_000_000),
            delta_tick: Some(4_000_000),
            tick_stopped: Some(false),
            latency_request: Some(i64::MAX / 2),
            iowaiters: Some(1),
            ..IdleInputs::default()
        };
        let period = IdlePeriod {
            state: 1 + u8::from(i % 3 == 0),
            duration: Nanoseconds(length),
            inputs,
            before: Before::Task,
            ..IdlePeriod::default()
        };
        push(now, EventKind::Idle(period));
        push(now + US, EventKind::BlockComplete(block(i)));
        now += 2 * US;
    }
    writer.finish_and_count_events().unwrap();
    path
}

fn study(folder: &Path, text: &str) -> String {
    let path = folder.join("study.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const STUDY: &str = "name = 'recorded'\nrepeats = 5\nbaseline = 'unchanged'\n\
                     policy = ['unchanged', 'menu@6.12.48', 'deepest', 'menu + psd[ceiling=2us]']\n\
                     [[workload]]\nname = 'load'\nrecording = 'load.parquet'\n\
                     [[question]]\nminimise = 'too_deep_per_s'\nkeep = ['added_us_per_io < 1']\n";

/// The metric of a policy by block.
fn values(rows: &[MetricRow], policy: &str, metric: &str) -> Vec<f64> {
    let is_wanted = |row: &&MetricRow| row.policy == policy && row.metric == metric;
    let mut rows: Vec<&MetricRow> = rows.iter().filter(is_wanted).collect();
    rows.sort_by_key(|row| row.repeat);
    rows.into_iter().map(|row| row.value).collect()
}

#[test]
fn a_recording_is_a_workload() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path(), "load.parquet");
    let trace = trace.to_str().unwrap();
    let file = study(folder.path(), STUDY);
    let out = folder.path().join("out");
    let dir = out.to_str().unwrap();
    let checked = json(
        &wakepath(&[
            "study", "check", &file, "--on", "replay", "--format", "json",
        ])
        .success(),
    );
    assert_eq!(
        (&checked["runs"], &checked["on"]),
        (&20.into(), &"replay".into())
    );
    wakepath(&["study", "run", &file, "--on", "replay", "-o", dir]).success();

    // The blocks add up to what `replay` says of the whole.
    let results = ResultReader::open(dir).unwrap();
    let (metrics, idle) = (
        results.read_metric_rows().unwrap(),
        results.read_idle_rows().unwrap(),
    );
    let policies = ["--policy", "menu@6.12.48", "--policy", "deepest"];
    let whole = json(
        &wakepath(&[&["replay", trace, "--format", "json"], &policies[..]].concat()).success(),
    );
    assert_eq!(whole["policies"][2]["policy"], "deepest");
    for (at, policy) in ["unchanged", "menu@6.12.48", "deepest"]
        .into_iter()
        .enumerate()
    {
        let rows_of_state = |state: &str| {
            let found = idle
                .iter()
                .filter(|r| r.policy == policy && r.state == state);
            found.collect::<Vec<&IdleRow>>()
        };
        for (i, name) in ["POLL", "C1", "C6"].into_iter().enumerate() {
            let state = &whole["policies"][at]["states"][i];
            let rows = rows_of_state(name);
            assert_eq!(rows.len(), BLOCKS);
            let time: u64 = rows.iter().map(|r| r.time_ns).sum();
            let added: u64 = rows.iter().filter_map(|r| r.added_latency_ns).sum();
            assert_eq!(state["time_ns"], time, "{policy} {name}");
            assert_eq!(state["added_latency_ns"], added, "{policy} {name}");
        }
        let seconds = whole["duration_ns"].as_f64().unwrap() / 1e9 / BLOCKS as f64;
        let too_deep = values(&metrics, policy, "too_deep_per_s");
        let count: f64 = too_deep.iter().map(|rate| rate * seconds).sum();
        let states = whole["policies"][at]["states"].as_array().unwrap();
        let expected: f64 = states.iter().map(|s| s["too_deep"].as_f64().unwrap()).sum();
        assert!(
            (count - expected).abs() < 0.01,
            "{policy}: {count} {expected}"
        );
    }
    // `deepest` makes each of the 4000 I/Os wait 98 us longer, but for the 80 that it may sleep for.
    let added = values(&metrics, "deepest", "added_us_per_io");
    let mean = added.iter().sum::<f64>() / BLOCKS as f64;
    assert!((mean - 98.0 * 0.98).abs() < 0.3, "{added:?}");
    assert!(values(&metrics, "deepest", "mean_mw").is_empty());
    assert_eq!(values(&metrics, "unchanged", "as_recorded").len(), BLOCKS);
    assert!(values(&metrics, "deepest", "as_recorded").is_empty());
    let leased = values(&metrics, "menu + psd[ceiling=2us]", "leased");
    assert!(leased.iter().all(|share| *share > 95.0), "{leased:?}");

    // Everything that serves results serves these.
    let compared = json(&wakepath(&["compare", dir, "--format", "json"]).success());
    let rows = compared["rows"].as_array().unwrap();
    let deepest = |metric: &str| {
        let found = rows
            .iter()
            .find(|r| r["policy"] == "deepest" && r["metric"] == metric);
        found.unwrap().clone()
    };
    assert_eq!(deepest("added_us_per_io")["significant"], true);
    assert_eq!(deepest("added_us_per_io")["design"], "paired");
    let answer = compared["answers"][0]["sentences"].to_string();
    assert!(answer.contains("psd"), "{answer}");
    let page = folder.path().join("page.html");
    wakepath(&["report", dir, "-o", page.to_str().unwrap()]).success();
    let page = fs::read_to_string(page).unwrap();
    for part in [
        "replayed",
        "added latency per I&#x2f;O",
        "--on replay",
        "Time in idle states",
    ] {
        assert!(page.contains(part), "{part}");
    }

    // The kept study gives the same bytes, and so does one that goes on after an interruption.
    let again = folder.path().join("again");
    let kept = out.join("study.toml");
    let run = |study: &str, more: &[&str]| {
        let dir = again.to_str().unwrap();
        wakepath(&[&["study", "run", study, "--on", "replay", "-o", dir], more].concat())
    };
    run(kept.to_str().unwrap(), &[]).success();
    let same = |name: &str| {
        let [a, b] = [&out, &again].map(|dir| fs::read(dir.join(name)).unwrap());
        assert!(a == b, "{name} differs");
    };
    same("metrics.parquet");
    fs::remove_file(again.join("runs/000007.json")).unwrap();
    fs::remove_file(again.join("metrics.parquet")).unwrap();
    run(kept.to_str().unwrap(), &["--resume"]).success();
    for name in ["metrics.parquet", "idle.parquet", "runs/000007.json"] {
        same(name);
    }
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let folder = tempfile::tempdir().unwrap();
    recording(folder.path(), "load.parquet");
    fs::write(folder.path().join("no.parquet"), "no recording").unwrap();
    for (from, to, on, says) in [
        (
            "repeats = 5",
            "repeats = 3",
            "replay",
            &["study.toml:2", "blocks of time", "4 to 1000"][..],
        ),
        (
            "repeats = 5",
            "repeats = 1001",
            "replay",
            &["study.toml:2", "4 to 1000"],
        ),
        (
            "load.parquet",
            "none.parquet",
            "replay",
            &["none.parquet", "No such file"],
        ),
        (
            "load.parquet",
            "no.parquet",
            "replay",
            &["no.parquet", "Parquet"],
        ),
        ("", "", "sim", &["machine"]),
        (
            "name = 'recorded'",
            "name = 'recorded'\nmachine = 'rk3399'",
            "sim",
            &["study.toml:8", "--on replay"],
        ),
        ("", "", "live", &["study.toml:7", "--on replay"]),
        (
            "recording = 'load.parquet'",
            "fio_job = '[a]'",
            "replay",
            &["only a recording can be replayed"],
        ),
        (
            "recording = 'load.parquet'",
            "fio_job = '[a]'\nhz = 250",
            "sim",
            &["study.toml:8", "for recordings"],
        ),
        (
            "'load.parquet'",
            "'load.parquet'\nseconds = 3",
            "replay",
            &["replayed to its end"],
        ),
        (
            "'load.parquet'",
            "'load.parquet'\nhz = 9000",
            "replay",
            &["study.toml:8", "1 to 6250"],
        ),
        (
            "'load.parquet'",
            "'load.parquet'\nran = 'meno'",
            "replay",
            &["study.toml:8", "`menu`"],
        ),
        (
            "'load.parquet'",
            "'load.parquet'\nstates = 'no.parquet'",
            "replay",
            &["study.toml:8"],
        ),
        (
            "'deepest'",
            "'schedutil'",
            "replay",
            &["study.toml:4", "does not act on a recording"],
        ),
        (
            "[ceiling=2us]",
            "[ceiling=C9]",
            "replay",
            &["load.parquet", "`C9`"],
        ),
        (
            "name = 'recorded'",
            "name = 'recorded'\nmachine = 'rk3398'",
            "replay",
            &["rk3399"],
        ),
    ] {
        let text = STUDY.replacen(from, to, 1);
        assert!(from.is_empty() || text != STUDY, "{from}");
        let file = study(folder.path(), &text);
        fails_with(wakepath(&["study", "check", &file, "--on", on]), says);
    }
}

#[test]
fn replay_prints_intervals_and_keeps_its_results() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path(), "load.parquet");
    let trace = trace.to_str().unwrap();
    let dir = folder.path().join("kept");
    let dir = dir.to_str().unwrap();
    let replay = |more: &[&str]| wakepath(&[&["replay", trace], more].concat());
    let kernels = ["--kernel", "6.1,6.12.30,6.12.48,7.3"];
    let kept = replay(
        &[
            &kernels[..],
            &["-o", dir, "--blocks", "8", "--format", "json"],
        ]
        .concat(),
    )
    .success();
    let document = json(&kept);
    assert_eq!(document["intervals"]["blocks"], 8);
    assert_eq!(document["intervals"]["baseline"], "menu@6.1");
    let rows = document["intervals"]["rows"].as_array().unwrap();
    // What was recorded and four kernels, in four metrics: no power is known. Then the time in each state.
    assert_eq!(rows.len(), 5 * 4 + 5 * 3);
    let (rows, times) = rows.split_at(5 * 4);
    let busy: Vec<f64> = (0..5)
        .map(|governor| {
            let of_state = |state: usize| times[5 * state + governor]["mean"].as_f64().unwrap();
            100.0 - (0..3).map(of_state).sum::<f64>()
        })
        .collect();
    // 20 us and more of work for each I/O, whatever the governor; but for what lies across the ends of blocks.
    assert!(
        busy.iter().all(|share| (share - busy[0]).abs() < 0.01),
        "{busy:?}"
    );
    assert!((5.0..20.0).contains(&busy[0]), "{busy:?}");
    assert_eq!(times[14]["metric"], "time_in_C6");
    for row in rows {
        let mean = row["mean"].as_f64().unwrap();
        let [low, high] = [0, 1].map(|end| row["interval"][end].as_f64().unwrap());
        assert!(low <= mean && mean <= high, "{row}");
        let baseline = row["governor"] == "menu@6.1";
        assert_eq!(row["verdict"] == "", baseline, "{row}");
    }
    // The same by way of the kept results.
    let compared = json(&wakepath(&["compare", dir, "--format", "json"]).success());
    let of_compare = compared["rows"].as_array().unwrap();
    assert_eq!(of_compare.len(), rows.len());
    for (row, other) in rows.iter().zip(of_compare) {
        assert_eq!(row["mean"], other["mean"]);
        assert_eq!(row["gain_percent"], other["gain"]["percent"]);
    }
    let results = ResultReader::open(dir).unwrap();
    assert_eq!(results.document().repeats, 8);

    fails_with(replay(&["-o", dir]), &["kept", "--force"]);
    replay(&["-o", dir, "--force"]).success();
    replay(&["--blocks", "3"]).code(2);
    let csv = replay(&["--format", "csv", "--table", "intervals"]).success();
    let csv = String::from_utf8(csv.get_output().stdout.clone()).unwrap();
    assert!(
        csv.starts_with("metric,governor,unit,mean,low,high,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 1 + 5 * 4);
    let text = replay(&[]).success();
    let text = String::from_utf8(text.get_output().stdout.clone()).unwrap();
    assert!(
        text.contains("10 blocks of") && text.contains("compared with recorded"),
        "{text}"
    );
}

/// Writes a recording again as that of a machine with another processor.
fn with_processor(from: &Path, to: &str, processor: &str) {
    let mut reader = RecordingReader::open(from).unwrap();
    let metadata = Metadata {
        processor: Some(processor.to_owned()),
        ..reader.metadata().clone()
    };
    let mut writer = Writer::create(&from.with_file_name(to), Overwrite::Yes, metadata).unwrap();
    reader
        .for_each_event(|event| writer.add_event(&event))
        .unwrap();
    writer.finish_and_count_events().unwrap();
}

#[test]
fn recordings_of_several_machines_are_compared_each_on_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let first = recording(folder.path(), "first.parquet");
    for (name, processor) in [("a", "One"), ("b", "Other/2"), ("c", "One")] {
        with_processor(&first, &format!("{name}.parquet"), processor);
    }
    let workload = |name: &str, more: &str| {
        format!("[[workload]]\nname = '{name}'\nrecording = '{name}.parquet'\n{more}\n")
    };
    let head = "name = 'fleet'\nrepeats = 5\npolicy = ['unchanged', 'menu', 'deepest']\n";
    let question = "[[question]]\nminimise = 'too_deep_per_s'\nmachines = ['Other/2']\n";
    let text = [
        head,
        &["a", "b", "c"].map(|n| workload(n, "")).concat(),
        question,
    ]
    .concat();
    let file = study(folder.path(), &text);
    let out = folder.path().join("out");
    let dir = out.to_str().unwrap();
    let run = |file: &str, dir: &str, more: &[&str]| {
        wakepath(&[&["study", "run", file, "--on", "replay", "-o", dir], more].concat())
    };
    run(&file, dir, &[]).success();
    let results = ResultReader::open(dir).unwrap();
    let document = results.document();
    let names: Vec<&str> = document.machines.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["One", "Other/2"]);
    let on = |workload: usize| document.workloads[workload].machines.join(" ");
    assert_eq!([on(0), on(1), on(2)], ["One", "Other/2", "One"]);
    assert_eq!(document.planned_runs_in_all_shards(), 3 * 3 * 5);
    assert!(out.join("machines/Other%2F2.toml").is_file());
    // The question is about one of the machines, so it has one answer.
    let compared = json(&wakepath(&["compare", dir, "--format", "json"]).success());
    let answers = compared["answers"].as_array().unwrap();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(
        answers[0]["question"]
            .as_str()
            .unwrap()
            .ends_with("(Other/2)")
    );
    wakepath(&[
        "report",
        dir,
        "-o",
        folder.path().join("p.html").to_str().unwrap(),
    ])
    .success();
    let again = folder.path().join("again");
    let kept = out.join("study.toml");
    run(kept.to_str().unwrap(), again.to_str().unwrap(), &[]).success();
    assert_eq!(
        common::files::contents(&out),
        common::files::contents(&again)
    );

    // A grid: the figures of two machines. One recording is replayed with those of one of them.
    let machines = head.replace("repeats", "machine = ['epyc-7502', 'rk3399']\nrepeats");
    let text = [
        &*machines,
        &workload("a", ""),
        &workload("b", "machines = 'epyc-7502'"),
    ]
    .concat();
    let file = study(folder.path(), &text);
    let grid = folder.path().join("grid");
    let checked = wakepath(&["study", "check", &file, "--on", "replay"]).success();
    let checked = String::from_utf8(checked.get_output().stdout.clone()).unwrap();
    assert!(
        checked.contains("the figures of epyc-7502, rk3399"),
        "{checked}"
    );
    run(&file, grid.to_str().unwrap(), &[]).success();
    let rows = ResultReader::open(&grid)
        .unwrap()
        .read_metric_rows()
        .unwrap();
    let power = |machine: &str, workload: &str| {
        let is_wanted = |row: &&MetricRow| {
            row.machine == machine && row.workload == workload && row.metric == "mean_mw"
        };
        rows.iter()
            .filter(is_wanted)
            .map(|row| row.value)
            .sum::<f64>()
    };
    assert!(power("epyc-7502", "a") > 10.0 * power("rk3399", "a"));
    assert!(power("rk3399", "a") > 0.0 && power("rk3399", "b") == 0.0);
    let [a, b] = ["a", "b"].map(|workload| power("epyc-7502", workload));
    assert_eq!(a.to_bits(), b.to_bits());

    for (from, to, says) in [
        (
            "repeats",
            "drive = 'sn530'\nrepeats",
            "a replay has no `drive`",
        ),
        (
            "repeats",
            "kernel = '7.3'\nrepeats",
            "a replay has no `kernel`",
        ),
        ("'rk3399']", "'rk3398']", "rk3399"),
        (
            "machine = ['epyc-7502', 'rk3399']\n",
            "",
            "`machines` goes with `machine`",
        ),
        ("= 'epyc-7502'", "= 'laptop'", "epyc-7502"),
    ] {
        let file = study(folder.path(), &text.replacen(from, to, 1));
        fails_with(
            wakepath(&["study", "check", &file, "--on", "replay"]),
            &["study.toml:", says],
        );
    }
}

#[test]
fn results_of_a_recording_are_of_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path(), "load.parquet");
    let file = study(folder.path(), STUDY);
    let out = folder.path().join("out");
    let run = |study: &str, more: &[&str]| {
        let dir = out.to_str().unwrap();
        wakepath(&[&["study", "run", study, "--on", "replay", "-o", dir], more].concat())
    };
    run(&file, &[]).success();
    let document = json_file(&out.join("result.json"));
    let path = trace.canonicalize().unwrap();
    let sha256 = document["sha256"][path.to_str().unwrap()].as_str().unwrap();
    let printed = std::process::Command::new("sha256sum")
        .arg(&path)
        .output()
        .unwrap();
    assert!(printed.stdout.starts_with(sha256.as_bytes()), "{sha256}");
    let kept = fs::read_to_string(out.join("study.toml")).unwrap();
    assert!(kept.contains(&format!("sha256 = \"{sha256}\"")), "{kept}");

    // The same names with another content.
    fs::remove_file(out.join("runs/000007.json")).unwrap();
    let first = recording(folder.path(), "first.parquet");
    with_processor(&first, "load.parquet", "Another");
    fails_with(
        run(&file, &["--resume"]),
        &[
            "load.parquet",
            "another content",
            sha256,
            "another directory",
        ],
    );
    let kept = out.join("study.toml");
    fails_with(
        run(kept.to_str().unwrap(), &["--resume"]),
        &["load.parquet", "another content", sha256, "`sha256`"],
    );
    assert!(!out.join("runs/000007.json").exists());
    run(&file, &["--force"]).success();

    for (name, says) in [
        ("{ path = 'load.parquet', sha256 = 'abc' }", "no SHA-256"),
        ("{ path = 'load.parquet', sha1 = 'abc' }", "sha1"),
        ("{ sha256 = 'abc' }", "path"),
        ("['load.parquet']", "a path, or a table"),
    ] {
        let file = study(folder.path(), &STUDY.replace("'load.parquet'", name));
        let check = wakepath(&["study", "check", &file, "--on", "replay"]);
        fails_with(check, &["study.toml:7", says]);
    }
}

fn json_file(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}
