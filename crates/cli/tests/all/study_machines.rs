//! Studies over machines, drives and values of options, as whole commands.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::Path;

use crate::common;
use crate::common::files::contents;
use crate::common::{fails_with, json, wakepath};

/// Two machines with two drives; one workload in two rates, one that runs on one machine under two policies.
const STUDY: &str = "name = 's'\nmachine = ['rk3399', 'laptop']\ndrive = ['sn530', '760p']\nrepeats = 4\n\
    policy = ['menu', 'teo', 'deepest']\n\
    [[workload]]\nname = 'reads'\nfio = 'iowait-rk3399.fio'\nseconds = 0.02\n\
    fio_options = { thinktime = [0, 500] }\n\
    [[workload]]\nname = 'all out'\nfio = 'iowait-rk3399.fio'\nseconds = 0.02\n\
    machines = 'rk3399'\npolicies = ['menu', 'teo', 'menu']\n\
    [[question]]\nminimise = 'mean_mw'\nkeep = ['p99_us < 400']\nworkloads = ['reads']\n\
    [[question]]\nminimise = 'mean_mw'\nmachines = ['laptop']\n\
    [[question]]\nminimise = 'mean_mw'\nmachines = ['rk3399/760p']\n\
    [[question]]\nmetric = 'iops'\nmachines = ['laptop/sn530']\n";

/// Cells of each repeat: four machines with two workloads under three policies, two machines with one under two.
const CELLS: usize = 4 * 2 * 3 + 2 * 2;

/// Runs a study in a directory of `folder`.
fn run(folder: &Path, text: &str, dir: &str, more: &[&str]) -> String {
    let study = folder.join("s.toml");
    fs::write(&study, text).unwrap();
    let dir = folder.join(dir).display().to_string();
    let arguments = ["study", "run", study.to_str().unwrap(), "-o", &dir];
    wakepath(&[&arguments, more].concat()).success();
    dir
}

fn printed(arguments: &[&str]) -> String {
    let done = wakepath(arguments).success();
    String::from_utf8(done.get_output().stdout.clone()).unwrap()
}

#[test]
fn a_study_of_machines_and_drives_can_be_sharded_resumed_and_run_again() {
    let temp = tempfile::tempdir().unwrap();
    let whole = run(temp.path(), STUDY, "whole", &[]);
    let wanted = contents(Path::new(&whole));
    let runs = wanted.keys().filter(|p| p.starts_with("runs")).count();
    assert_eq!(runs, 4 * CELLS);
    for name in [
        "rk3399%2Fsn530",
        "rk3399%2F760p",
        "laptop%2Fsn530",
        "laptop%2F760p",
    ] {
        let copy = format!("machines/{name}.toml");
        assert!(wanted.contains_key(&copy), "{name}");
    }
    // From the directory alone, the grid's own file included.
    let again = temp.path().join("again");
    let stored = format!("{whole}/study.toml");
    wakepath(&["study", "run", &stored, "-o", again.to_str().unwrap()]).success();
    assert!(
        wanted == contents(&again),
        "run again from its results it differs"
    );
    // Fewer repeats first, then the rest.
    let fewer = STUDY.replace("repeats = 4", "repeats = 1");
    run(temp.path(), &fewer, "grown", &[]);
    let grown = run(temp.path(), STUDY, "grown", &["--resume"]);
    assert!(wanted == contents(Path::new(&grown)), "more repeats differ");
    let shards: Vec<String> = (1..=3)
        .map(|n| {
            run(
                temp.path(),
                STUDY,
                &format!("shard{n}"),
                &["--shard", &format!("{n}/3")],
            )
        })
        .collect();
    let merged = temp.path().join("merged").display().to_string();
    let mut merge = vec!["results", "merge", "-o", &merged];
    merge.extend(shards.iter().map(String::as_str));
    wakepath(&merge).success();
    assert!(
        wanted == contents(Path::new(&merged)),
        "merged shards differ"
    );
}

#[test]
fn each_machine_has_its_own_baseline_ranking_and_front() {
    let temp = tempfile::tempdir().unwrap();
    let dir = run(temp.path(), STUDY, "r", &[]);
    let compared =
        json(&wakepath(&["compare", &dir, "--metric", "mean_us", "--format", "json"]).success());
    let rows = compared["rows"].as_array().unwrap();
    assert_eq!(rows.len(), CELLS);
    for row in rows {
        let same = |r: &&serde_json::Value| {
            (&r["machine"], &r["workload"]) == (&row["machine"], &row["workload"])
        };
        let menu = rows
            .iter()
            .filter(same)
            .find(|r| r["policy"] == "menu")
            .unwrap();
        if row["policy"] != "menu" {
            assert_eq!(row["baseline"], "menu");
            let means = &row["gain"]["means"];
            assert_eq!(means[0], menu["mean"], "{row}");
        }
    }
    let table = printed(&["compare", &dir, "--metric", "mean_us"]);
    assert!(table.contains("\nmachine       workload  "), "{table}");
    // A ranking for each machine and one over all; `deepest` was not asked about everywhere.
    let ranked = printed(&["compare", &dir, "--minimise", "mean_mw", "--top", "1"]);
    for part in [
        "rk3399/sn530\n",
        "laptop/760p\n",
        "1 of 3 policies",
        "All machines\n",
        "1 of 2 policies",
    ] {
        assert!(ranked.contains(part), "{part} is not in {ranked}");
    }
    let only = printed(&[
        "compare",
        &dir,
        "--minimise",
        "mean_mw",
        "--machine",
        "laptop/760p",
    ]);
    assert!(
        !only.contains("All machines") && !only.contains("rk3399"),
        "{only}"
    );
    let front = [
        "compare",
        &dir,
        "--pareto",
        "mean_mw,p99_us",
        "--format",
        "csv",
    ];
    let front = printed(&front);
    assert!(
        front.starts_with("machine,policy,metric,value,on_front\n"),
        "{front}"
    );
    // Four machines with three policies, two of them with two that ran everywhere, and those two over all.
    assert_eq!(front.lines().count(), 1 + 2 * (2 * 2 + 2 * 3 + 2));
    // The question is answered over all machines and for each; the other one over those that it names.
    let answers = compared_answers(&dir);
    assert_eq!(answers.len(), 5 + 3 + 1);
    assert!(answers[1].ends_with("(rk3399/sn530)"), "{answers:?}");
    assert!(!answers[5].ends_with(')') && answers[7].ends_with("(laptop/760p)"));
    assert!(answers[8].ends_with("(rk3399/760p)"), "{answers:?}");
    fails_with(
        wakepath(&["compare", &dir, "--machine", "spr1"]),
        &["no machine is called `spr1`", "laptop/760p"],
    );
    let page = temp.path().join("page.html");
    wakepath(&["report", &dir, "-o", page.to_str().unwrap()]).success();
    assert!(
        fs::read_to_string(page)
            .unwrap()
            .contains("reads/thinktime=500 (laptop/760p)")
    );
}

fn compared_answers(dir: &str) -> Vec<String> {
    let compared = json(&wakepath(&["compare", dir, "--format", "json"]).success());
    let answers = compared["answers"].as_array().unwrap().iter();
    answers
        .map(|a| a["question"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn with_one_machine_tables_and_files_are_as_they_were() {
    let temp = tempfile::tempdir().unwrap();
    let first_question = STUDY.find("[[question]]\nminimise = 'mean_mw'\nmachines");
    let one = STUDY[..first_question.unwrap_or(STUDY.len())]
        .replace("['rk3399', 'laptop']", "['rk3399']")
        .replace("['sn530', '760p']", "['sn530']");
    let dir = run(temp.path(), &one, "r", &[]);
    let files = contents(Path::new(&dir));
    assert!(files.contains_key("machine.toml"));
    assert!(!files.keys().any(|name| name.starts_with("machines")));
    let csv = printed(&["compare", &dir, "--metric", "mean_us", "--format", "csv"]);
    assert!(csv.starts_with("metric,unit,workload,policy,"), "{csv}");
    let table = printed(&["compare", &dir, "--metric", "mean_us"]);
    assert!(table.contains("\nworkload             "), "{table}");
}

/// Under the study's kernel, a bare name gives what the name with its version gives under the machine's.
#[test]
fn a_study_may_choose_the_kernel() {
    let temp = tempfile::tempdir().unwrap();
    let study = |kernel: &str, policy: &str| {
        format!(
            "name = 's'\nmachine = 'xeon-6741p'\n{kernel}repeats = 4\npolicy = ['{policy}']\n[[workload]]\n\
             name = 'reads'\nfio_job = \"\"\"\n[reads]\nrw=randread\nbs=4k\nsize=1g\nruntime=1\nthinktime=300\n\"\"\"\n"
        )
    };
    let means = |dir: &str| {
        let csv = printed(&["compare", dir, "--metric", "mean_us", "--format", "csv"]);
        let line = csv.lines().nth(1).unwrap();
        let numbers = line.split(',').filter_map(|cell| cell.parse::<f64>().ok());
        numbers.map(f64::to_bits).collect::<Vec<_>>()
    };
    let of_study = run(temp.path(), &study("kernel = '7.3'\n", "menu"), "a", &[]);
    let named = run(temp.path(), &study("", "menu@7.3"), "b", &[]);
    let older = run(temp.path(), &study("kernel = '6.1'\n", "menu"), "c", &[]);
    assert_eq!(means(&of_study), means(&named));
    assert_ne!(means(&of_study), means(&older));
    let machine = fs::read_to_string(Path::new(&of_study).join("machine.toml")).unwrap();
    assert!(machine.contains("kernel = \"7.3\""), "{machine}");
    assert!(machine.contains("the study"), "{machine}");
}

#[test]
fn what_is_wrong_with_machines_is_said_with_its_line() {
    let temp = tempfile::tempdir().unwrap();
    let study = temp.path().join("s.toml");
    let many = vec!["'rk3399'"; 1001].join(",");
    let values = (0..1001)
        .map(|n| n.to_string())
        .collect::<Vec<_>>()
        .join(",");
    for (from, to, parts) in [
        (
            "['rk3399', 'laptop']",
            "[]",
            &["s.toml:2", "an empty list"][..],
        ),
        (
            "['rk3399', 'laptop']",
            "7",
            &["s.toml:2", "a name or a list of names"],
        ),
        ("['rk3399', 'laptop']", "['rk3399', 7]", &["s.toml:2"]),
        (
            "['rk3399', 'laptop']",
            "'rk3399'\nkernel = '7.4'",
            &["s.toml:3", "7.4", "7.3"],
        ),
        (
            "['rk3399', 'laptop']",
            "['rk3399', 'rk3398']",
            &["s.toml:2", "rk3398"],
        ),
        (
            "['rk3399', 'laptop']",
            "['rk3399', 'rk3399']",
            &["s.toml:2", "a second machine is called `rk3399/sn530`"],
        ),
        (
            "['rk3399', 'laptop']",
            &format!("[{many}]"),
            &["s.toml:2", "2002 machines"],
        ),
        (
            "['sn530', '760p']",
            "['sn530', 'sn53']",
            &["s.toml:3", "sn53"],
        ),
        (
            "machines = 'rk3399'",
            "machines = 'rk33'",
            &["s.toml:15", "no machine is called `rk33`"],
        ),
        (
            "machines = 'rk3399'",
            "machines = []",
            &["s.toml:15", "an empty list"],
        ),
        (
            "policies = ['menu', 'teo', 'menu']",
            "policies = ['tea']",
            &["s.toml:16", "`tea`"],
        ),
        (
            "thinktime = [0, 500]",
            "thinktime = []",
            &["s.toml:7", "`thinktime` is empty"],
        ),
        (
            "thinktime = [0, 500]",
            "thinktime = [0, [1]]",
            &["s.toml:7", "a text, a number"],
        ),
        (
            "thinktime = [0, 500]",
            "thinktime = [5, 5]",
            &["s.toml:7", "`reads/thinktime=5`"],
        ),
        (
            "thinktime = [0, 500]",
            &format!("thinktime = [{values}]"),
            &["s.toml:7", "more than 1000"],
        ),
        ("workloads = ['reads']", "workloads = ['read']", &["`read`"]),
        (
            "['rk3399/760p']",
            "['rk3399/760']",
            &["s.toml:26", "no machine is called `rk3399/760`"],
        ),
        (
            "['rk3399/760p']",
            "['laptop']\nworkloads = ['all out']",
            &["s.toml:24", "about nothing that is run"],
        ),
        (
            "'deepest'",
            "'idle-states[ceiling=C1E]'",
            &["s.toml:5", "rk3399/sn530: "],
        ),
    ] {
        assert!(STUDY.contains(from), "{from}");
        fs::write(&study, STUDY.replacen(from, to, 1)).unwrap();
        fails_with(
            wakepath(&["study", "check", study.to_str().unwrap()]),
            parts,
        );
    }
}

#[test]
fn captures_of_several_machines_do_not_collide() {
    let temp = tempfile::tempdir().unwrap();
    for (directory, name) in [("a", "captured"), ("b", "captured"), ("c", "web-01")] {
        let into = temp.path().join(directory).display().to_string();
        let root = common::captured::laptop().display().to_string();
        wakepath(&[
            "machine", "capture", "--root", &root, "-o", &into, "--name", name,
        ])
        .success();
    }
    let study = "name = 's'\nmachine = ['a/machine.toml', 'b/machine.toml', 'c/machine.toml']\nrepeats = 4\n\
         policy = ['unchanged', 'teo']\n[[workload]]\nname = 'reads'\nfio = 'iowait-rk3399.fio'\nseconds = 0.02\n";
    let dir = run(temp.path(), study, "results", &[]);
    let machines = contents(&Path::new(&dir).join("machines"));
    let names: Vec<&String> = machines.keys().collect();
    assert_eq!(names, ["a.toml", "b.toml", "web-01.toml"]);
}
