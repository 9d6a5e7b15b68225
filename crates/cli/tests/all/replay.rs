//! Importing and replaying, as whole commands.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::common;
use crate::common::{fails_with, json, wakepath};
use assert_cmd::Command;
use serde_json::Value;
use wakepath_hardware::IdleState;
use wakepath_trace::recording::{
    Block, CpuIdleStates, Event, EventKind, IdlePeriod, Metadata, Overwrite, RecordedSetting,
    Writer,
};
use wakepath_units::Nanoseconds;

fn epyc(mhz: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!(
        "../trace/tests/data/epyc7502-idle-wake-{mhz}MHz.perf-script.txt"
    ))
}

/// The measured wake-up latencies from C2, in us: 5th and 95th percentile at these frequencies, from
/// `zen2_c2_wake_latency_raw_stats.csv` (TU Dresden, arXiv 2108.00808), local and remote.
const MEASURED: [(u32, f64, f64); 2] = [(1500, 21.86, 24.39), (2500, 17.35, 23.63)];

#[test]
fn the_epyc_traces_wake_up_as_slowly_as_measured() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("epyc.parquet");
    let out = out.to_str().unwrap();
    // For the package's sake the oracle would be in C2, too; by the CPU alone it takes C1 where that is enough.
    let alone = folder.path().join("alone.toml");
    let machine = "../hardware/data/machines/epyc-7502.toml";
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(machine)).unwrap();
    let (before, package) = text.split_once("[package]").unwrap();
    let (_, after) = package.split_once("\n[").unwrap();
    fs::write(&alone, format!("{before}[{after}")).unwrap();
    for (mhz, low, high) in MEASURED {
        let file = epyc(mhz);
        let imported = wakepath(&[
            "import",
            file.to_str().unwrap(),
            "-o",
            out,
            "--force",
            "--format",
            "json",
        ])
        .success();
        let lines = fs::read_to_string(&file).unwrap().lines().count() as u64;
        assert_eq!(json(&imported)["files"][0]["events"], lines);
        let replayed = wakepath(&[
            "replay",
            out,
            "--machine",
            alone.to_str().unwrap(),
            "--policy",
            "deepest",
            "--policy",
            "oracle",
            "--ran",
            "menu@6.1",
            "--format",
            "json",
        ])
        .success();
        let report = json(&replayed);
        assert_eq!(report["periods"], lines / 2);
        let c2 = &report["policies"][1]["states"][2];
        let each = c2["added_latency_ns"].as_f64().unwrap() / c2["slower"].as_f64().unwrap() / 1e3;
        // Against the oracle, which may have been in C1: that takes about 1 us itself.
        assert!((low - 1.6..=high).contains(&each), "{mhz} MHz: {each} us");
        // Nothing is known of the timers, and that is said.
        assert!(report["approximate"].as_object().unwrap().len() >= 2);
        let agreement = &report["agreement"][1];
        let same = agreement["same_state"].as_u64().unwrap();
        assert!(
            same * 100 >= agreement["periods"].as_u64().unwrap() * 95,
            "{agreement}"
        );
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.parquet");
    let bad = folder.path().join("bad.txt");
    fs::write(&out, "precious").unwrap();
    fs::write(&bad, "no trace\n").unwrap();
    let (out_name, bad_name) = (out.to_str().unwrap(), bad.to_str().unwrap());
    fails_with(
        wakepath(&["import", epyc(2500).to_str().unwrap(), "-o", out_name]),
        &["a.parquet: the file exists", "--force"],
    );
    fails_with(
        wakepath(&["import", bad_name, "-o", out_name, "--force"]),
        &["bad.txt: no trace event in 1 lines"],
    );
    assert_eq!(fs::read_to_string(&out).unwrap(), "precious");
    fails_with(
        wakepath(&["replay", out_name]),
        &["no recording", "wakepath import"],
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn sets_with_other_leases_are_replayed_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("e.parquet").to_str().unwrap().to_owned();
    wakepath(&["import", epyc(2500).to_str().unwrap(), "-o", &out]).success();
    let replay = |sets: &[&str]| {
        let mut args = vec!["replay", &out, "--machine", "epyc-7502", "--format", "json"];
        args.extend(sets.iter().flat_map(|set| ["--policy", set]));
        wakepath(&args)
    };
    let sets = [
        "menu",
        "menu + psd[ceiling=C1]",
        "teo",
        "psd[timeout=0ms] + menu",
    ];
    let report = json(&replay(&sets).success());
    let policies = report["policies"].as_array().unwrap();
    let names: Vec<&str> = policies
        .iter()
        .map(|p| p["policy"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "recorded",
            "menu@6.12",
            "menu@6.12 + psd[ceiling=C1]",
            "teo@6.12",
            "psd[timeout=0ms] + menu@6.12"
        ]
    );
    // Each is as if it had been alone, and leases of no time change nothing.
    let alone = json(&replay(&["teo"]).success());
    assert_eq!(alone["policies"][1], policies[3]);
    assert_eq!(policies[1]["states"], policies[4]["states"]);
    let twice = replay(&["teo", "teo"]).success();
    assert_eq!(json(&twice)["policies"].as_array().unwrap().len(), 2);
    let limited = ["teo", "teo + cpu-latency[state=C1]"];
    let limited = json(&replay(&limited).success())["policies"].clone();
    assert_eq!((&limited[0], &limited[1]), (&policies[0], &policies[3]));
    let entries = |state: usize| limited[2]["states"][state]["count"].as_u64().unwrap();
    assert!(entries(1) > 0 && entries(2) == 0, "{limited}");
    for (set, says) in [
        ("schedutil", "takes an idle governor, cpu-latency and psd"),
        (
            "menu + idle-states[ceiling=20us]",
            "`idle-states[ceiling=20us]` does not act",
        ),
        ("menu + cpu-latency[state=C9]", "`C9`"),
        ("menu + cpu-latency[limit=none]", "none can be lifted"),
        ("psd", "names no idle governor"),
        ("menu + psd[ceiling=C9]", "`C9`"),
    ] {
        fails_with(replay(&[set]), &["policy '", says]);
    }
    replay(&["meno"]).code(2);
}

#[test]
fn the_call_log_runs_through_policy_idle() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (out, calls, states) = (path("e.parquet"), path("calls.csv"), path("states.csv"));
    wakepath(&["import", epyc(2500).to_str().unwrap(), "-o", &out]).success();
    wakepath(&[
        "replay",
        &out,
        "--machine",
        "epyc-7502",
        "--cpu",
        "9",
        "--calls",
        &calls,
    ])
    .success();
    let table = wakepath(&["machine", "show", "epyc-7502", "--format", "states"]).success();
    fs::write(&states, &table.get_output().stdout).unwrap();
    let run = wakepath(&[
        "policy",
        "idle",
        "--governor",
        "menu@6.1",
        "--states",
        &states,
        &calls,
    ])
    .success();
    let decisions = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    assert_eq!(decisions.lines().count(), 818);
    // The states are not in the recording.
    fails_with(wakepath(&["replay", &out]), &["--machine", "--states"]);
    fails_with(
        wakepath(&["replay", &out, "--machine", "epyc-7502", "--calls", &calls]),
        &["calls.csv", "--force"],
    );

    // Whatever goes wrong, it is still there, and so is the recording.
    let (before, recording) = (fs::read(&calls).unwrap(), fs::read(&out).unwrap());
    let again = |more: &[&str]| wakepath(&[&["replay", &out, "--force", "--calls"], more].concat());
    let machine = ["--machine", "epyc-7502"];
    let few = path("few.csv");
    let table = fs::read_to_string(&states).unwrap();
    fs::write(&few, table.lines().take(2).collect::<Vec<_>>().join("\n")).unwrap();
    fails_with(
        again(&[calls.as_str(), "--states", &few]),
        &["there are only"],
    );
    fails_with(
        again(&[&[calls.as_str(), "--cpu", "4000"], &machine[..]].concat()),
        &["CPU 4000 has no idle period"],
    );
    fails_with(
        again(&[&[out.as_str()], &machine[..]].concat()),
        &["it is the recording itself"],
    );
    assert_eq!(
        (fs::read(&calls).unwrap(), fs::read(&out).unwrap()),
        (before, recording)
    );
}

#[test]
fn a_log_of_answers_is_scored_as_the_governor_that_gave_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (out, calls, states) = (path("e.parquet"), path("calls.csv"), path("states.csv"));
    wakepath(&["import", epyc(2500).to_str().unwrap(), "-o", &out]).success();
    let replay = |more: &[&str]| {
        let machine = ["replay", &out, "--machine", "epyc-7502"];
        wakepath(&[&machine[..], more].concat())
    };
    replay(&["--cpu", "9", "--calls", &calls]).success();
    let table = wakepath(&["machine", "show", "epyc-7502", "--format", "states"]).success();
    fs::write(&states, &table.get_output().stdout).unwrap();
    let governor = ["policy", "idle", "--governor", "teo@6.12", "--states"];
    let answered = wakepath(&[&governor[..], &[&states, &calls]].concat()).success();
    let answered = String::from_utf8(answered.get_output().stdout.clone()).unwrap();
    let file = path("answers.csv");
    let score = |text: &str, more: &[&str]| {
        fs::write(&file, text).unwrap();
        let cpu = if more.contains(&"--cpu") {
            &[][..]
        } else {
            &["--cpu", "9"]
        };
        replay(&[&["--decisions", &file], cpu, more].concat())
    };

    let both = [
        "--policy",
        "teo@6.12",
        "--policy",
        "menu@6.12",
        "--format",
        "csv",
    ];
    let scored = score(&answered, &both).success();
    let scored = String::from_utf8(scored.get_output().stdout.clone()).unwrap();
    let rows = |name: &str| -> Vec<String> {
        let rows = scored.lines().filter_map(|row| row.strip_prefix(name));
        rows.map(str::to_owned).collect()
    };
    assert_eq!(rows(&file).len(), 4, "{scored}");
    assert_eq!(rows(&file), rows("teo@6.12"));
    // Always the shallowest state is worse, and looks it.
    let shallow = "0,0\n".repeat(answered.lines().count());
    let shallow = score(&shallow, &["--format", "json"]).success();
    let shallow: serde_json::Value = serde_json::from_slice(&shallow.get_output().stdout).unwrap();
    assert_eq!(shallow[0]["count"], 818);
    assert!(shallow[0]["too_shallow"].as_u64() > Some(700), "{shallow}");

    let first = answered.lines().next().unwrap();
    let rest = answered.split_once('\n').unwrap().1;
    for (text, more, says) in [
        (
            rest.to_owned(),
            &[][..],
            "has 817 answers, and CPU 9 was asked 818 times",
        ),
        (format!("{answered}{first}\n"), &[], "has 819 answers"),
        (String::new(), &[], "answers.csv: empty"),
        (
            answered.clone(),
            &["--cpu", "4000"],
            "CPU 4000 has no idle period",
        ),
        (format!("one,two\n{rest}"), &[], "answers.csv:1"),
        (format!("0,2\n{rest}"), &[], "answers.csv:1"),
        (format!("-1,0\n{rest}"), &[], "answers.csv:1"),
        (format!("9,0\n{rest}"), &[], "answers.csv"),
        (answered.clone(), &["--policy", "teo + psd"], "without psd"),
    ] {
        fails_with(score(&text, more), &[says]);
    }
    fails_with(
        replay(&["--decisions", &path("none.csv")]),
        &["none.csv", "No such file"],
    );
    fails_with(replay(&["--decisions", &out]), &["e.parquet"]);
}

#[test]
fn files_have_more_digits_than_people_read() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("e.parquet");
    let out = out.to_str().unwrap();
    wakepath(&["import", epyc(2500).to_str().unwrap(), "-o", out]).success();
    let print_replay = |more: &[&str]| {
        let machine = ["replay", out, "--machine", "epyc-7502"];
        let done = wakepath(&[&machine, more].concat()).success();
        String::from_utf8(done.get_output().stdout.clone()).unwrap()
    };
    let energy = |line: &str, separator| {
        let package = line.contains("package").then_some(line)?;
        Some(package.rsplit(separator).next()?.trim().to_owned())
    };
    let (text, csv) = (
        print_replay(&[]),
        print_replay(&["--table", "states", "--format", "csv"]),
    );
    let read = text.lines().find_map(|l| energy(l, ' ')).unwrap();
    let full = csv.lines().find_map(|l| energy(l, ',')).unwrap();
    assert!(read.len() <= 8 && full.len() > 10, "{read} {full}");
    let [read, full] = [read, full].map(|v| v.parse::<f64>().unwrap());
    assert!((read - full).abs() <= 0.5, "{read} {full}");
}

#[test]
fn only_files_are_replaced_and_links_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let import =
        |out: &str| wakepath(&["import", epyc(2500).to_str().unwrap(), "-o", out, "--force"]);
    let (pipe, link, file) = (path("pipe"), path("link"), path("file.parquet"));
    Command::new("mkfifo").arg(&pipe).assert().success();
    fails_with(import(&pipe), &["pipe", "not a regular file"]);
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    // What a recording that was killed left there belongs to what is replaced.
    let tail = path("file.parquet.tail");
    fs::write(&tail, "old").unwrap();
    import(&link).success();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read(&file).unwrap().starts_with(b"PAR1"));
    assert!(!fs::exists(&tail).unwrap());
}

#[test]
fn a_trace_can_come_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let [file, piped] = ["file.parquet", "piped.parquet"].map(|name| folder.path().join(name));
    wakepath(&[
        "import",
        epyc(2500).to_str().unwrap(),
        "-o",
        file.to_str().unwrap(),
    ])
    .success();
    let name = piped.to_str().unwrap();
    let text = fs::read(epyc(2500)).unwrap();
    let import = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wakepath"));
        command.args(["import", "-", "-o", name]);
        command
    };
    import().write_stdin(text).assert().success();
    assert!(fs::read(&file).unwrap() == fs::read(&piped).unwrap());
    import().arg("--force").write_stdin("").assert().failure();
    assert!(fs::read(&file).unwrap() == fs::read(&piped).unwrap());
}

/// A recording of a guest whose haltpoll never polls: 200 halts of 100 us, as the governor chose them.
fn guest(folder: &Path, name: &str, change: impl FnOnce(&mut Metadata)) -> PathBuf {
    let state = |name: &str, us: u64| IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds::from_micros(us),
        target_residency: Nanoseconds::from_micros(us),
        polling: us == 0,
        disabled: false,
    };
    let mut metadata = Metadata {
        source: "wakepath record".to_owned(),
        kernel: Some("6.12.0".to_owned()),
        architecture: Some("x86_64".to_owned()),
        processor: Some("A guest".to_owned()),
        idle_driver: Some("haltpoll".to_owned()),
        idle_governor: Some("haltpoll".to_owned()),
        idle_states: vec![CpuIdleStates {
            cpus: vec![0],
            states: vec![state("poll_idle", 0), state("haltpoll idle", 1)],
        }],
        settings: [
            ("haltpoll-max", "0"),
            ("haltpoll-shrink", "2"),
            ("haltpoll-grow", "2"),
            ("haltpoll-start", "50000"),
            ("haltpoll-may-shrink", "Y"),
        ]
        .map(|(name, value)| RecordedSetting {
            name: name.to_owned(),
            places: vec!["system".to_owned()],
            value: value.to_owned(),
        })
        .to_vec(),
        ..Metadata::default()
    };
    change(&mut metadata);
    let path = folder.join(name);
    let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
    for i in 1..=200 {
        let period = IdlePeriod {
            state: 1,
            duration: Nanoseconds(100_000),
            ..IdlePeriod::default()
        };
        let event = Event {
            time: Nanoseconds(i * 200_000),
            cpu: 0,
            kind: EventKind::Idle(period),
        };
        writer.add_event(&event).unwrap();
    }
    writer.finish_and_count_events().unwrap();
    path
}

fn agreement(recording: &Path) -> Value {
    let recording = recording.to_str().unwrap();
    let args = ["replay", recording, "--policy", "menu", "--format", "json"];
    json(&wakepath(&args).success())["agreement"].clone()
}

#[test]
fn haltpoll_is_asked_with_the_parameters_that_it_had() {
    let folder = tempfile::tempdir().unwrap();
    let found = agreement(&guest(folder.path(), "all.parquet", |_| ()));
    assert_eq!(found[0], "haltpoll@6.12.0[guest_halt_poll_ns=0]");
    assert_eq!(found[1]["same_state"], 200);
    // An older recording has none: that is the reason, not the sleep length, which haltpoll never asks for.
    let older = guest(folder.path(), "older.parquet", |m| m.settings.clear());
    let found = agreement(&older);
    let reasons = found[1]["reasons"].as_object().unwrap();
    assert_eq!(found[0], "haltpoll@6.12.0");
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(
        reasons.keys().all(|reason| reason.contains("parameters")),
        "{reasons:?}"
    );
}

#[test]
fn recordings_are_counted_and_those_of_different_machines_refused() {
    let folder = tempfile::tempdir().unwrap();
    let one = guest(folder.path(), "one.parquet", |_| ());
    let same = guest(folder.path(), "same.parquet", |_| ());
    let other = guest(folder.path(), "other.parquet", |m| {
        m.processor = Some("A server".to_owned());
    });
    let twin =
        |name: &str, id: &str| guest(folder.path(), name, |m| m.machine_id = Some(id.to_owned()));
    let (first, second) = (twin("first.parquet", "1"), twin("second.parquet", "2"));
    let out = folder.path().join("both.parquet");
    let import = |files: [&PathBuf; 2], more: &[&str]| {
        let files = files.map(|file| file.to_str().unwrap());
        let options = ["-o", out.to_str().unwrap(), "--force", "--format", "json"];
        wakepath(&[&["import"], &files[..], &options, more].concat())
    };
    let document = json(&import([&one, &same], &[]).success());
    assert_eq!(document["files"][0]["events"], 200);
    assert_eq!(document["files"][1]["by_name"][0][0], "idle period");
    assert_eq!(document["recorded_events"], 400);
    fails_with(
        import([&one, &other], &[]),
        &["other.parquet", "A guest", "A server", "--any-machine"],
    );
    fails_with(
        import([&first, &second], &[]),
        &["second.parquet", "one kind"],
    );
    let document = json(&import([&one, &other], &["--any-machine"]).success());
    assert_eq!(document["recorded_events"], 400);
    // A trace that says nothing of its machine.
    fails_with(import([&one, &epyc(1500)], &[]), &["only one of them"]);
    // Two of them.
    let unknown = |more: &[&str]| {
        let document = json(&import([&epyc(1500), &epyc(2500)], more).success());
        let warnings = document["warnings"].as_array().unwrap();
        warnings.iter().any(|w| w["name"] == "machine-unknown")
    };
    assert!(unknown(&[]) && !unknown(&["--any-machine"]));
}

#[test]
fn what_a_replay_cannot_do_says_what_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let recording = guest(folder.path(), "guest.parquet", |_| ());
    let recording = recording.to_str().unwrap();
    fails_with(
        wakepath(&["replay", recording, "--table", "gaps"]),
        &["--table", "--format csv"],
    );
    let calls = folder.path().join("calls.csv");
    let calls = calls.to_str().unwrap();
    fails_with(
        wakepath(&["replay", recording, "--calls", calls, "--cpu", "7"]),
        &["CPU 7", "--cpu can be 0"],
    );
}

#[test]
fn no_share_of_time_is_above_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("epyc.parquet");
    let out = out.to_str().unwrap();
    wakepath(&["import", epyc(2500).to_str().unwrap(), "-o", out]).success();
    let machine = [
        "replay",
        out,
        "--machine",
        "epyc-7502",
        "--kernel",
        "6.12.30,7.3",
    ];
    let printed = wakepath(&[&machine[..], &["--format", "csv", "--table", "intervals"]].concat());
    let printed = printed.success();
    let mut rows = csv::Reader::from_reader(&printed.get_output().stdout[..]);
    let headers = rows.headers().unwrap().clone();
    let [metric, high] =
        ["metric", "high"].map(|name| headers.iter().position(|c| c == name).unwrap());
    let shares: Vec<f64> = rows
        .records()
        .map(Result::unwrap)
        .filter(|row| &row[metric] == "time_in_C2")
        .map(|row| row[high].parse().unwrap())
        .collect();
    assert_eq!(shares, [100.0; 3]);
}

#[test]
fn kernels_are_set_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let recording = guest(folder.path(), "guest.parquet", |metadata| {
        metadata.idle_governor = Some("menu".to_owned());
    });
    let recording = recording.to_str().unwrap();
    let replay = |more: &[&str]| wakepath(&[&["replay", recording], more].concat());
    let printed = replay(&["--kernel", "6.12.30,6.12.48,7.3", "--format", "csv"]).success();
    let text = String::from_utf8(printed.get_output().stdout.clone()).unwrap();
    for (line, start) in text.lines().zip([
        "governor,as from,compared,",
        "menu@6.12.30,\"6.6, 6.7, 6.12\",6.12.8,",
        "menu@6.12.48,\"6.6.103, 6.12.44\",not compared,",
        "menu@7.3,7.1,7.1.13,",
    ]) {
        assert!(line.starts_with(start), "{line}");
    }
    assert_eq!(text.lines().count(), 4);
    // Without --policy it is the governor that ran; a table of kernels comes before the others.
    let printed = replay(&["--kernel", "6.1"]).success();
    let text = String::from_utf8(printed.get_output().stdout.clone()).unwrap();
    assert!(text.starts_with("governor  as from"), "{text}");
    for (more, problem) in [
        (&["--kernel", "6.0"][..], "nearest: 6.1"),
        (&["--kernel", ""], "not a kernel version"),
        (
            &["--kernel", "6.8", "--policy", "teo"],
            "in 6.8 is not known; the next series in which it is has teo@6.11.0",
        ),
        (&["--kernel", "6.1,6.1"], "menu@6.1 twice"),
        (
            &["--kernel", "7.3", "--policy", "menu@6.1"],
            "names a kernel itself",
        ),
    ] {
        let refused = replay(more).failure();
        let errors = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
        assert!(errors.contains(problem), "{errors}");
    }
}

#[test]
fn a_foreign_machine_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let guest = guest(folder.path(), "guest.parquet", |_| ());
    let guest = guest.to_str().unwrap();
    let replay = [
        "replay",
        guest,
        "--policy",
        "menu",
        "--machine",
        "epyc-7502",
    ];
    fails_with(
        wakepath(&replay),
        &["another machine than epyc-7502", "--any-machine"],
    );
    wakepath(&[&replay[..], &["--any-machine"]].concat()).success();
}

#[test]
fn a_recording_without_idle_periods_has_its_drives() {
    let folder = tempfile::tempdir().unwrap();
    let like = guest(folder.path(), "guest.parquet", |_| ());
    let (metadata, _) = common::recording::read(&like);
    let path = folder.path().join("busy.parquet");
    let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
    for i in 0..200_u64 {
        let block = Block {
            device: 259 << 20,
            sector: i,
            bytes: 4096,
            write: false,
        };
        for (time, kind) in [
            (i * 1_000_000, EventKind::BlockIssue(block)),
            (i * 1_000_000 + 80_000, EventKind::BlockComplete(block)),
        ] {
            let event = Event {
                time: Nanoseconds(time + 1),
                cpu: 0,
                kind,
            };
            writer.add_event(&event).unwrap();
        }
    }
    writer.finish_and_count_events().unwrap();
    let path = path.to_str().unwrap();
    let replay = ["replay", path, "--policy", "menu"];
    let shown = wakepath(&replay).success();
    let output = shown.get_output();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(
        text.contains("no idle periods in 0.199 s") && text.contains("200 requests issued"),
        "{text}"
    );
    let notes = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(notes.contains("no-idle-periods"), "{notes}");
    let gaps = [&replay[..], &["--format", "csv", "--table", "gaps"]].concat();
    let gaps = wakepath(&gaps).success();
    assert!(
        String::from_utf8(gaps.get_output().stdout.clone())
            .unwrap()
            .lines()
            .count()
            > 1
    );
    let states = [&replay[..], &["--format", "csv"]].concat();
    fails_with_last(wakepath(&states), "--table drives, gaps and timeouts");
}

/// Exit code 1, and a last line on standard error with this in it; warnings may stand before.
fn fails_with_last(assert: assert_cmd::assert::Assert, part: &str) {
    let assert = assert.code(1).stdout("");
    let message = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert!(
        message
            .lines()
            .last()
            .is_some_and(|line| line.contains(part)),
        "{message}"
    );
}
