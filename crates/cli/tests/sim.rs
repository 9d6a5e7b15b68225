//! `wakepath sim` as a whole command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use assert_cmd::Command;
use predicates::prelude::*;
use serde_json::Value;

const JOB: &str =
    "[j]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nruntime=200ms\ntime_based\n";

fn wakepath(arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("wakepath")
        .unwrap()
        .args(arguments)
        .assert()
}

/// Runs `sim` on a job file with this text.
fn sim(job: &str, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("job.fio");
    fs::write(&path, job).unwrap();
    let mut all = vec!["sim", path.to_str().unwrap()];
    all.extend(arguments);
    wakepath(&all)
}

fn json(assert: &assert_cmd::assert::Assert) -> Value {
    serde_json::from_slice(&assert.get_output().stdout).unwrap()
}

/// Exit code 1, one message, nothing on standard output.
fn fails_with(assert: assert_cmd::assert::Assert, parts: &[&str]) {
    let assert = assert.code(1).stdout("");
    let message = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

#[test]
fn one_result_per_combination_with_its_runs() {
    let assert = sim(
        JOB,
        &[
            "--machine",
            "rk3399",
            "--idle",
            "menu@6.1,teo",
            "--freq",
            "schedutil,schedutil[iowait_boost=off]",
            "--runs",
            "3",
            "--seed",
            "7",
            "--format",
            "json",
        ],
    )
    .success();
    let results = json(&assert)["results"].as_array().unwrap().clone();
    let names: Vec<(&str, &str)> = results
        .iter()
        .map(|r| (r["idle"].as_str().unwrap(), r["freq"].as_str().unwrap()))
        .collect();
    assert_eq!(
        names,
        [
            ("menu@6.1", "schedutil"),
            ("menu@6.1", "schedutil[iowait_boost=off]"),
            ("teo@6.12", "schedutil"),
            ("teo@6.12", "schedutil[iowait_boost=off]"),
        ]
    );
    for result in &results {
        let runs = result["runs"].as_array().unwrap();
        let seeds: Vec<u64> = runs.iter().map(|r| r["seed"].as_u64().unwrap()).collect();
        assert_eq!(seeds, [7, 8, 9]);
        let mut iops: Vec<f64> = runs.iter().map(|r| r["iops"].as_f64().unwrap()).collect();
        iops.sort_by(f64::total_cmp);
        assert!((result["iops"].as_f64().unwrap() - iops[1]).abs() < 1e-9);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| {
        let assert = sim(
            JOB,
            &["--machine", "rk3399", "--seed", seed, "--format", "json"],
        )
        .success();
        assert.get_output().stdout.clone()
    };
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
}

#[test]
fn any_number_of_jobs_gives_the_same_bytes() {
    let run = |jobs| {
        let arguments = ["--machine", "rk3399", "--idle", "menu,teo", "--runs", "4"];
        let assert = sim(
            JOB,
            &[&arguments[..], &["--format", "json", "--jobs", jobs]].concat(),
        );
        assert.success().get_output().stdout.clone()
    };
    let one = run("1");
    for jobs in ["2", "3", "16"] {
        assert!(one == run(jobs), "--jobs {jobs} prints something else");
    }
}

#[test]
fn csv_has_a_line_per_run() {
    let assert = sim(
        JOB,
        &["--machine", "rk3399", "--runs", "2", "--format", "csv"],
    )
    .success();
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(text.starts_with("idle,freq,seed,iops,"));
    assert!(
        text.lines()
            .nth(1)
            .unwrap()
            .starts_with("menu@6.12,schedutil,1,")
    );
}

#[test]
fn unknown_names_suggest_the_nearest() {
    let machine = ["--machine", "rk3399"];
    fails_with(
        sim(JOB, &["--machine", "rk3398"]),
        &["rk3398", "did you mean 'rk3399'"],
    );
    fails_with(
        sim(JOB, &[machine.as_slice(), &["--idle", "tea"]].concat()),
        &["tea", "teo"],
    );
    fails_with(
        sim(
            JOB,
            &[machine.as_slice(), &["--freq", "schedutil[iowait_bost=on]"]].concat(),
        ),
        &["iowait_bost", "iowait_boost"],
    );
    fails_with(
        sim(
            JOB,
            &[machine.as_slice(), &["--idle", "schedutil"]].concat(),
        ),
        &["schedutil"],
    );
}

#[test]
fn a_bad_job_file_names_its_line() {
    let machine = ["--machine", "rk3399"];
    fails_with(sim(&JOB.replace("bs=4k", "bs=0"), &machine), &["job.fio:4"]);
    fails_with(
        sim(&JOB.replace("rw=", "rww="), &machine),
        &["job.fio:3", "rww"],
    );
    fails_with(
        sim(&JOB.replace("runtime=200ms\ntime_based\n", ""), &machine),
        &["job.fio"],
    );
    fails_with(sim("", &machine), &["job.fio"]);
}

#[test]
fn what_is_not_modelled_is_refused_by_name() {
    let machine = ["--machine", "rk3399"];
    fails_with(
        sim(&format!("{JOB}rate_iops=100\n"), &machine),
        &["'j'", "rate"],
    );
    fails_with(
        sim(&JOB.replace("bs=4k", "bs=2g"), &machine),
        &["'j'", "1 GiB"],
    );
    fails_with(
        sim(&JOB.replace("direct=1", "direct=0"), &machine),
        &["direct=1"],
    );
    fails_with(
        sim(JOB, &["--machine", "rk3399", "--freq", "intel_pstate"]),
        &["intel_pstate", "'little'", "base_mhz"],
    );
}

#[test]
fn idle_states_can_be_switched_off() {
    let machine = ["--machine", "rk3399", "--runs", "1", "--format", "json"];
    let off = |names: &'static str| {
        let mut all = machine.to_vec();
        all.extend(["--disable-idle", names]);
        all
    };
    let states = &json(&sim(JOB, &off("cpu-sleep,cluster-sleep")).success())["results"][0]["runs"]
        [0]["idle_states"];
    assert!(states[0]["entries"].as_u64() > Some(0));
    assert_eq!(
        (&states[1]["entries"], &states[2]["entries"]),
        (&0.into(), &0.into())
    );
    fails_with(
        sim(JOB, &off("C6")),
        &["--disable-idle", "'C6'", "WFI, cpu-sleep"],
    );
}

#[test]
fn a_missing_or_broken_machine_file_is_named() {
    fails_with(sim(JOB, &["--machine", "no/such.toml"]), &["no/such.toml"]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m.toml");
    fs::write(&path, "schema = 1\nname = 3\n").unwrap();
    fails_with(
        sim(JOB, &["--machine", path.to_str().unwrap()]),
        &["m.toml:2"],
    );
    fs::write(&path, b"\xff\xfe").unwrap();
    fails_with(
        sim(JOB, &["--machine", path.to_str().unwrap()]),
        &["m.toml"],
    );
}

#[test]
fn a_wrong_call_is_a_usage_error() {
    wakepath(&["sim"]).code(2).stdout("");
    sim(JOB, &["--machine", "rk3399", "--runs", "0"])
        .code(2)
        .stdout("");
    sim(JOB, &["--machine", "rk3399", "--jobs", "0"])
        .code(2)
        .stdout("");
}

#[test]
fn a_machine_shows_where_its_figures_come_from() {
    wakepath(&["machine", "list"])
        .success()
        .stdout(predicate::str::contains("rk3399"));
    wakepath(&["machine", "show", "rk3399"]).success().stdout(
        predicate::str::is_match(r"drive.read_service_us +[0-9.]+ +fitted +part B").unwrap(),
    );
    fails_with(
        wakepath(&["machine", "show", "rk3999"]),
        &["did you mean 'rk3399'"],
    );
}
