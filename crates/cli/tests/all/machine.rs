//! `wakepath machine` as a whole command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;

use predicates::prelude::*;
use serde_json::Value;
use wakepath_policies::input::read_states;

use crate::common;
use crate::common::wakepath;

fn stdout(arguments: &[&str]) -> String {
    let assert = wakepath(arguments).success().stderr("");
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

/// Names of one kind, as `list` gives them.
fn names(kind: &str) -> Vec<String> {
    let text = stdout(&["machine", "list", "--kind", kind, "--format", "json"]);
    let list: Value = serde_json::from_str(&text).unwrap();
    list.as_array()
        .unwrap()
        .iter()
        .inspect(|entry| assert_eq!(entry["kind"], kind))
        .map(|entry| entry["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_list_has_every_kind_and_each_name_once() {
    let mut all: Vec<String> = Vec::new();
    for (kind, count) in [("modelled", 12), ("recorded", 46), ("driver", 26)] {
        let names = names(kind);
        assert_eq!(names.len(), count, "{kind}");
        all.extend(names);
    }
    let csv = stdout(&["machine", "list", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 1 + all.len());
    all.sort();
    assert!(all.windows(2).all(|w| w[0] != w[1]));
}

#[test]
fn the_states_of_every_name_can_be_read_back() {
    for name in ["modelled", "recorded", "driver"]
        .into_iter()
        .flat_map(names)
    {
        if name == "cwf0" {
            continue;
        }
        let text = stdout(&["machine", "show", &name, "--format", "states"]);
        let states = read_states(text.as_bytes(), &name).unwrap();
        assert_eq!(states.len(), text.lines().count(), "{name}");
    }
}

#[test]
fn declared_states_give_the_published_polling_limit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("states.csv");
    let limit = |name: &str| {
        fs::write(
            &path,
            stdout(&["machine", "show", name, "--format", "states"]),
        )
        .unwrap();
        stdout(&["policy", "poll-limit", "--states", path.to_str().unwrap()])
    };
    // The machine of the study: the target residency of C1E. Rome: that of C2 is beyond the cap.
    assert_eq!(limit("intel-tbench-80t").trim(), "20");
    assert_eq!(limit("hsw_cstates").trim(), "20");
    assert_eq!(limit("rome0").trim(), "250");
}

#[test]
fn every_model_can_be_simulated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("job.fio");
    let job =
        "[j]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nruntime=20ms\ntime_based\n";
    fs::write(&path, job).unwrap();
    for name in names("modelled") {
        let arguments = [
            "sim",
            path.to_str().unwrap(),
            "--machine",
            &name,
            "--runs",
            "1",
        ];
        wakepath(&arguments).success();
    }
}

#[test]
fn a_record_says_what_it_lacks() {
    wakepath(&["machine", "show", "cwf0"])
        .success()
        .stdout(predicate::str::contains("no idle states were recorded"));
    wakepath(&["machine", "show", "cwf0", "--format", "states"])
        .code(1)
        .stdout("")
        .stderr(predicate::str::contains(
            "cwf0: no idle states were recorded",
        ));
}

#[test]
fn a_wrong_name_leads_to_the_nearest_of_any_kind() {
    for (wrong, right) in [
        ("rome1", "rome0"),
        ("skl_cstate", "skl_cstates"),
        ("rk3388", "rk3399"),
        ("epyc-7503", "epyc-7502"),
    ] {
        wakepath(&["machine", "show", wrong])
            .code(1)
            .stdout("")
            .stderr(predicate::str::contains(format!("did you mean '{right}'")));
    }
}

/// The keys of a machine file: all keys in the JSON, without what a figure is made of.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) if map.contains_key("origin") => {}
        Value::Object(map) => {
            for (key, value) in map {
                found.insert(key.clone());
                keys(value, found);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn the_documentation_explains_every_key() {
    let page = fs::read_to_string("../../docs/reference/machines.md").unwrap();
    let text = stdout(&["machine", "show", "epyc-7502", "--format", "json"]);
    let mut found = BTreeSet::new();
    keys(&serde_json::from_str(&text).unwrap(), &mut found);
    assert!(found.contains("exit_spread"));
    for key in found {
        let named = [
            format!("`{key}`"),
            format!("`[{key}]`"),
            format!("`[[{key}]]`"),
        ]
        .iter()
        .any(|written| page.contains(written))
            || page.contains(&format!("{key} ="));
        assert!(named, "docs/reference/machines.md does not explain {key}");
    }
}

#[test]
fn a_recorded_system_as_a_machine_tells_what_is_assumed() {
    wakepath(&["machine", "show", "spr1", "--model"])
        .success()
        .stdout(predicate::str::contains("idle_state.C6.true_exit_us"))
        .stdout(predicate::str::contains("Platinum 8480+"))
        .stdout(predicate::str::contains("figures assumed"))
        .stdout(predicate::str::contains(
            "4 socket(s) of 40 cores, 2 thread(s) each: 320 CPUs",
        ))
        .stdout(
            predicate::str::contains("TDP: 330 W").and(predicate::str::contains(
                "power limits: PL1 330 W over 1000 ms, PL2 396 W over 11.7 ms\n",
            )),
        );
}

#[test]
fn the_list_marks_what_is_assumed_of_a_recorded_system() {
    let text = stdout(&["machine", "list", "--kind", "recorded"]);
    let line = |name: &str| {
        let mut lines = text.lines();
        lines.find(|l| l.starts_with(name)).unwrap().to_owned()
    };
    assert!(line("gnr3").contains("350 assumed"));
    assert!(line("spr1").contains(" 320  ") && !line("spr1").contains("320 assumed"));
}

#[test]
fn the_list_counts_the_figures_of_each_machine_by_origin() {
    let text = stdout(&["machine", "list", "--format", "csv"]);
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let header = rows.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|title| title == name).unwrap();
    for row in rows.records().map(Result::unwrap) {
        let counts = ["measured", "published", "declared", "fitted", "assumed"].map(column);
        let counts = counts.map(|column| row[column].parse::<usize>().ok());
        let name = &row[0];
        // Tables of drivers and a system without idle states cannot be simulated.
        let is_simulated = &row[column("kind")] != "driver" && name != "cwf0";
        assert_eq!(counts.iter().all(Option::is_some), is_simulated, "{name}");
        if !is_simulated {
            continue;
        }
        let shown = stdout(&["machine", "show", name, "--model", "--format", "csv"]);
        let given = shown.lines().count() - 1;
        assert_eq!(counts.iter().flatten().sum::<usize>(), given, "{name}");
    }
}

#[test]
fn a_recorded_system_is_simulated_under_what_it_ran() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("job.fio");
    let job = "[j]\nrw=randread\ndirect=1\nruntime=5ms\ntime_based\n";
    fs::write(&path, job).unwrap();
    let sim = |machine: &str, more: &[&str]| {
        let mut arguments = vec!["sim", path.to_str().unwrap(), "--machine", machine];
        arguments.extend(["--runs", "1", "--format", "csv"]);
        arguments.extend(more);
        wakepath(&arguments).success()
    };
    sim("spr1", &[])
        .stdout(predicate::str::contains("hwp_dynamic_boost=on,epp=32"))
        .stdout(predicate::str::contains("menu@6.18.8 + "))
        .stderr(predicate::str::starts_with(
            "wakepath: note: EPP 32 moves the lower end",
        ));
    sim("spr1", &["--kernel", "6.12.48"]).stdout(predicate::str::contains("menu@6.12.48 + "));
    sim("turin0", &[])
        .stdout(predicate::str::contains("[governor=performance]"))
        .stderr("");
    sim("turin0", &["--policy", "menu + schedutil"])
        .stdout(predicate::str::contains("schedutil"))
        .stderr("");
}

#[test]
fn a_table_of_idle_states_is_no_machine_and_short_names_are_drives() {
    let job = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../workloads/iowait-rk3399.fio"
    );
    common::fails_with(
        common::wakepath(&["sim", job, "--machine", "skl_cstates"]),
        &["table of idle states", "machine show skl_cstates"],
    );
    for args in [
        &["drive", "show", "sn530"][..],
        &["apst", "plan", "--drive", "SN530"],
    ] {
        let shown = common::wakepath(args).success();
        let text = String::from_utf8(shown.get_output().stdout.clone()).unwrap();
        assert!(text.contains("SN530 SDBPNPZ-256G-1006"), "{text}");
    }
}

#[test]
fn a_hybrid_system_says_what_it_is_simulated_as_and_where_its_power_is_from() {
    wakepath(&["machine", "show", "adl0"])
        .success()
        .stdout(predicate::str::contains(
            "simulated as 8 performance CPUs, 8 efficiency CPUs\n",
        ))
        .stdout(predicate::str::contains(
            "TDP: 28 W (Intel's product specification of the Core i7-1260P (ARK)",
        ))
        .stdout(predicate::str::contains("PL1 28 W over 28000 ms, PL2 64 W"))
        .stdout(predicate::str::contains("EPP 102 moves the lower end"));
}

#[test]
fn a_captured_directory_is_its_machine() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("captured").display().to_string();
    let root = common::repository().join("docs/examples/captured-laptop");
    let root = root.to_str().unwrap();
    wakepath(&["machine", "capture", "--root", root, "-o", &directory]).success();
    let by_directory = wakepath(&["machine", "show", &directory]).success();
    let by_file = wakepath(&["machine", "show", &format!("{directory}/machine.toml")]).success();
    assert_eq!(
        by_directory.get_output().stdout,
        by_file.get_output().stdout
    );
    common::fails_with(
        wakepath(&["machine", "show", "Xeon 8460H"]),
        &["did you mean 'spr1'"],
    );
}

#[test]
fn tables_fit_in_a_pipe() {
    for arguments in [
        &["policy", "list"][..],
        &["policy", "kernels"],
        &["drive", "list"],
        &["machine", "list"],
        &["machine", "show", "spr1", "--model"],
        &["study", "list"],
        &["study", "check", "idle-governor"],
    ] {
        let run = |columns: Option<&str>| {
            let mut command = assert_cmd::Command::cargo_bin("wakepath").unwrap();
            command.args(arguments).env_remove("COLUMNS");
            if let Some(columns) = columns {
                command.env("COLUMNS", columns);
            }
            let output = command.assert().success();
            let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
            let widest = text.lines().max_by_key(|line| line.chars().count());
            widest.unwrap().to_owned()
        };
        for (columns, most) in [(None, 100), (Some("140"), 140)] {
            let widest = run(columns);
            assert!(widest.chars().count() <= most, "{arguments:?}: {widest}");
        }
    }
}

#[test]
fn a_machine_says_what_it_draws_at_rest_as_a_whole_and_where_that_is_from() {
    let shown = |arguments: &[&str]| stdout(&[&["machine", "show"], arguments].concat());
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let built_in = one_line(shown(&["xeon-6741p"]));
    for said in [
        "at rest: 123 W (90 W to 195 W), 48 W more for the first core awake",
        "Counts AC of the whole system",
        "never added to package power",
        "assumed: median of 5 published results of Granite Rapids",
    ] {
        assert!(built_in.contains(said), "{said}: {built_in}");
    }
    let milan = one_line(shown(&["milan0", "--model"]));
    assert!(milan.contains("at rest: 104 W (76 W to 191 W)"), "{milan}");
    let laptop = one_line(shown(&["dell-9360-kbl", "--model"]));
    assert!(
        laptop.contains("at rest: 4.6 W (2.9 W to 7.8 W)") && laptop.contains("as on laptop"),
        "{laptop}"
    );
    // Family 6/63 was not published, and a Xeon is no laptop.
    assert!(!shown(&["hswep0", "--model"]).contains("whole machine at rest"));
}

#[test]
fn keys_are_listed_by_table_and_as_a_schema() {
    wakepath(&["machine", "keys", "io_path.completion"])
        .success()
        .stdout(
            predicates::str::contains("coalesce_us").and(predicates::str::contains("one per CPU")),
        );
    let printed = wakepath(&["machine", "keys", "--format", "schema"]).success();
    let schema: Value = serde_json::from_slice(&printed.get_output().stdout).unwrap();
    assert!(schema["properties"]["hz"]["description"].is_string());
    wakepath(&["machine", "keys", "clusters"]).code(1).stderr(
        predicates::str::contains("did you mean `cluster`")
            .and(predicates::str::contains("io_path.completion")),
    );
}
