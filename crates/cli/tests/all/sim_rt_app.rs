//! `wakepath sim` on rt-app files, as a whole command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::common;
use assert_cmd::Command;
use predicates::prelude::*;
use serde_json::{Value, json};
use wakepath_workloads::rtapp::{self, RtAppVersion};

fn sim(arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("wakepath")
        .unwrap()
        .arg("sim")
        .args(arguments)
        .assert()
}

fn stdout(arguments: &[&str]) -> String {
    let assert = sim(arguments).success().stderr("");
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

fn workload(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    root.join(name).to_str().unwrap().to_owned()
}

/// Operations per second of each combination.
fn operations(arguments: &[&str]) -> Vec<f64> {
    let json: Value =
        serde_json::from_str(&stdout(&[arguments, &["--format", "json"]].concat())).unwrap();
    let results = json["results"].as_array().unwrap();
    results
        .iter()
        .map(|r| r["operations_per_second"].as_f64().unwrap())
        .collect()
}

#[test]
fn threads_have_a_table_of_their_own() {
    let file = workload("ping-pong.json");
    let text = stdout(&[&file, "--machine", "laptop", "--runs", "1"]);
    for word in ["operations/s", "ping", "pong", "wake us", "(busy)"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("IOPS"), "{text}");
    let csv = stdout(&[
        &file,
        "--machine",
        "laptop",
        "--runs",
        "2",
        "--format",
        "csv",
    ]);
    // A header, and two threads in each of two runs.
    assert_eq!(csv.lines().count(), 5, "{csv}");
}

#[test]
fn more_pairs_do_more_and_a_shorter_polling_limit_does_not_help() {
    let file = workload("ping-pong.json");
    let base = ["--machine", "intel-tbench-80t", "--runs", "1"];
    let performance = ["--policy", "performance"];
    let run = |more: &[&str]| operations(&[&[file.as_str()], &base[..], more].concat());
    let (one, four) = (
        run(&performance)[0],
        run(&[&performance[..], &["--copies", "4"]].concat())[0],
    );
    assert!(four > 3.0 * one && four < 5.0 * one, "{one} {four}");
    let limits = run(&[
        "--policy",
        "menu@6.1 + performance + poll[rule=first]",
        "--policy",
        "menu@6.1 + performance + poll",
    ]);
    assert!(limits[0] <= limits[1], "{limits:?}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_threads() {
    let file = workload("worker-pool.json");
    let run = |jobs: &str| {
        let sets = ["--policy", "menu", "--policy", "teo"];
        let more = [&sets[..], &["--format", "json", "--jobs", jobs]].concat();
        stdout(
            &[
                &[file.as_str(), "--machine", "laptop", "--runs", "3"],
                &more[..],
            ]
            .concat(),
        )
    };
    assert_eq!(run("1"), run("4"));
}

#[test]
fn what_cannot_run_says_why() {
    let folder = tempfile::tempdir().unwrap();
    // What the file was read as stands in front of the error that came of it.
    for (name, text, warning, message) in [
        (
            "key",
            r#"{"tasks": {"a": {"loop": 2, "rnu": 5}}, "global": {"duration": 1}}"#,
            "",
            "tasks.a.rnu: key `rnu` is not known; did you mean `run`?",
        ),
        (
            "stuck",
            r#"{"tasks": {"a": {"suspend": "x"}}, "global": {"duration": 1}}"#,
            "`suspend` waits for the name of its task",
            "every thread waits for another one",
        ),
        (
            "endless",
            r#"{"tasks": {"a": {"loop": -1, "resume": "x"}}, "global": {"duration": 1}}"#,
            "`resume` of `x` wakes nobody",
            "takes steps without end and without taking time",
        ),
        ("empty", "", "", "empty.json:"),
        ("cut", r#"{"tasks": {"a": {"run": "#, "", "cut.json:1: "),
    ] {
        let path = folder.path().join(format!("{name}.json"));
        std::fs::write(&path, text).unwrap();
        sim(&[path.to_str().unwrap(), "--machine", "laptop", "--runs", "1"])
            .failure()
            .code(1)
            .stdout("")
            .stderr(predicate::str::contains(message))
            .stderr(predicate::function(|e: &str| {
                let mut lines = e.lines();
                let warned =
                    warning.is_empty() || lines.next().unwrap_or_default().contains(warning);
                warned && lines.count() == 1
            }));
    }
    sim(&[
        &workload("iowait-rk3399.fio"),
        "--machine",
        "rk3399",
        "--copies",
        "2",
    ])
    .failure()
    .stderr(predicate::str::contains("numjobs"));
}

/// A file of the tests.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/rt-app/{name}.json"))
}

/// The first run, and what was said about it.
fn run(path: &Path, arguments: &[&str]) -> (Value, String) {
    let fixed = [path.to_str().unwrap(), "--runs", "1", "--format", "json"];
    let done = sim(&[&fixed[..], arguments].concat()).success();
    let output = done.get_output();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (json["results"][0]["runs"][0].clone(), said)
}

const LAPTOP: [&str; 4] = ["--machine", "laptop", "--policy", "menu + performance"];
const BOARD: [&str; 4] = ["--machine", "rk3399", "--policy", "menu + performance"];

/// Loops of a task.
fn loops(run: &Value, task: &str) -> u64 {
    let tasks = run["threads"]["tasks"].as_array().unwrap();
    let task = tasks.iter().find(|t| t["name"] == task).unwrap();
    task["loops"].as_u64().unwrap()
}

fn busy(run: &Value, cpu: usize) -> f64 {
    run["cpus"][cpu]["busy_seconds"].as_f64().unwrap()
}

fn seconds(run: &Value) -> f64 {
    run["seconds"].as_f64().unwrap()
}

#[test]
fn keys_that_rt_app_ignores_are_ignored_with_a_word() {
    let (run, said) = run(&file("unknown-key"), &BOARD);
    assert_eq!(loops(&run, "P"), 100);
    // 100 loops of 1 ms, on whichever CPU.
    let busy: f64 = (0..run["cpus"].as_array().unwrap().len())
        .map(|c| busy(&run, c))
        .sum();
    assert!((0.1..0.12).contains(&busy), "{busy}");
    assert!(said.contains("`frag` is not known, and ignored"), "{said}");
}

#[test]
fn a_suspend_without_a_value_waits_for_its_own_task() {
    for version in ["1.0", "2025"] {
        let (run, said) = run(
            &file("suspend-without-value"),
            &[&LAPTOP[..], &["--rt-app", version]].concat(),
        );
        assert_eq!((loops(&run, "A"), loops(&run, "B")), (100, 100));
        assert_eq!(said, "");
    }
}

#[test]
fn what_suspend_names_counts_in_the_rt_app_that_took_it() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.json");
    let text = std::fs::read_to_string(file("suspend-string")).unwrap();
    std::fs::write(
        &other,
        text.replace("\"resume\": \"B\"", "\"resume\": \"X\""),
    )
    .unwrap();
    let named = folder.path().join("named.json");
    let with_version = "\"rt_app_version\": \"1.0\", \"duration\"";
    std::fs::write(&named, text.replace("\"duration\"", with_version)).unwrap();
    let older = ["--rt-app", "1.0"];
    for (path, arguments, loops_of_b) in [
        (&file("suspend-string"), &[][..], 50),
        (&file("suspend-string"), &older[..], 0),
        (&other, &[], 0),
        (&other, &older, 50),
        (&named, &[], 0),
        (&named, &["--rt-app", "2025"], 50),
    ] {
        let (run, said) = run(path, &[&LAPTOP[..], arguments].concat());
        assert_eq!(
            (loops(&run, "A"), loops(&run, "B")),
            (50, loops_of_b),
            "{said}"
        );
        assert!(said.contains("here `X` in the task `B`"), "{said}");
        let idle = "task `B` never ran: it waits to be resumed";
        assert_eq!(said.contains(idle), loops_of_b == 0, "{said}");
        assert_eq!(said.contains("wakes nobody"), loops_of_b == 0, "{said}");
    }
    sim(&[
        &workload("iowait-rk3399.fio"),
        "--machine",
        "rk3399",
        "--rt-app",
        "1.0",
    ])
    .failure()
    .stderr(predicate::str::contains("--rt-app is for rt-app files"));
}

#[test]
fn a_sync_keeps_a_mutex_that_its_task_has() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("alone.json");
    let text = std::fs::read_to_string(file("lock-sync-unlock")).unwrap();
    let kicker = ", \"K\": { \"loop\": -1, \"sleep\": 10000, \"run\": 10 }";
    std::fs::write(&alone, text.replace(kicker, "")).unwrap();
    for path in [file("lock-sync-unlock"), alone] {
        let (run, _) = run(&path, &LAPTOP);
        assert_eq!(
            (loops(&run, "A"), loops(&run, "B")),
            (5, 5),
            "{}",
            path.display()
        );
        assert!((seconds(&run) - 1.0).abs() < 1e-9);
    }
}

/// The files of videos that come with rt-app do this.
#[test]
fn a_sync_wakes_a_task_that_suspends_on_its_condition() {
    let asked = [&LAPTOP[..], &["--rt-app", "1.0"]].concat();
    let (run, _) = run(&file("sync-resumes-suspended"), &asked);
    assert_eq!((loops(&run, "A"), loops(&run, "B")), (5, 5));
}

#[test]
fn a_run_lasts_its_duration_after_the_main_task_has_ended() {
    let (run, said) = run(&file("main-ends"), &LAPTOP);
    assert_eq!((loops(&run, "M"), loops(&run, "H")), (5, 5));
    assert!((seconds(&run) - 1.0).abs() < 1e-9, "{run}");
    // The rest of the second is idle, and its power counts.
    let energy = run["energy"]["total_mj"].as_f64().unwrap();
    let mean = run["energy"]["mean_mw"].as_f64().unwrap();
    assert!((energy - mean).abs() < 1e-6 * energy, "{energy} {mean}");
    assert!(
        said.contains("waits for another one: 'H' waits to be resumed"),
        "{said}"
    );
    let (board, _) = all_ended_early(&BOARD);
    assert!((seconds(&board) - 2.0).abs() < 1e-9);
}

/// The run of a file whose tasks all end long before its duration.
fn all_ended_early(arguments: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.json");
    let text = r#"{ "tasks": { "a": { "loop": 3, "run": 100 } }, "global": { "duration": 2 } }"#;
    std::fs::write(&path, text).unwrap();
    run(&path, arguments)
}

#[test]
fn new_threads_begin_on_cpus_without_one() {
    let server = ["--machine", "epyc-7502", "--policy", "menu + performance"];
    // Exits of the laptop's deep states would leave fewer loops.
    let shallow = "menu + cpu-latency[limit=100us] + performance";
    let laptop = ["--machine", "laptop", "--policy", shallow];
    for machine in [BOARD, laptop, server] {
        let (run, said) = run(&file("start-placement"), &machine);
        for task in ["sig", "wtr"] {
            assert!(
                (470..=600).contains(&loops(&run, task)),
                "{machine:?}: {run}"
            );
        }
        assert!(!said.contains("never ran"), "{machine:?}: {said}");
    }
}

#[test]
fn work_is_given_in_the_time_of_the_calibrated_cpu() {
    let (small, said) = run(&file("calibration-of-a-small-cpu"), &BOARD);
    let share = busy(&small, 0) / seconds(&small);
    assert!((0.25..0.265).contains(&share), "{share}");
    assert_eq!(said, "");
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(file("calibration-of-a-small-cpu")).unwrap();
    let with = |calibration: &str| {
        let path = folder.path().join("with.json");
        std::fs::write(&path, text.replace("\"CPU0\"", calibration)).unwrap();
        path
    };
    // The time of a big core, which is less work than the small one does in 5 ms.
    for (calibration, word) in [("\"CPU4\"", ""), ("250", "ns per loop")] {
        let (big, said) = run(&with(calibration), &BOARD);
        let share = busy(&big, 0) / seconds(&big);
        assert!((0.6..0.7).contains(&share), "{calibration}: {share}");
        assert!(said.contains(word), "{said}");
    }
    sim(&[&[with("\"CPU6\"").to_str().unwrap()], &BOARD[..]].concat())
        .failure()
        .stderr(predicate::str::contains("CPUs 0 to 5"));
}

#[test]
fn a_long_file_is_cut_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.json");
    let write = |global: &str| {
        let text =
            format!("{{ \"tasks\": {{ \"a\": {{ \"run\": 100, \"sleep\": 100000 }} }}{global} }}");
        std::fs::write(&path, text).unwrap();
        path.clone()
    };
    let years = ", \"global\": { \"duration\": 999999999 }";
    for (global, asked, simulated, word) in [
        (
            years,
            &["--seconds", "2"][..],
            2.0,
            "of its 999999999 s 2 s were simulated",
        ),
        (years, &[], 600.0, "of its 999999999 s 600 s were simulated"),
        ("", &[], 60.0, "which have not ended, 60 s were simulated"),
        (
            "",
            &["--seconds", "0.5"],
            0.5,
            "0.5 s were simulated; --seconds N",
        ),
        (
            ", \"global\": { \"duration\": 3 }",
            &["--seconds", "900"],
            3.0,
            "",
        ),
    ] {
        let (run, said) = run(&write(global), &[&LAPTOP[..], asked].concat());
        assert!(
            (seconds(&run) - simulated).abs() < 1e-9,
            "{global} {asked:?}"
        );
        assert!(said.contains(word), "{said}");
        assert!(!word.is_empty() || said.is_empty(), "{said}");
    }
}

/// Writes a file as plain JSON for Debian's rt-app, which is 1.0, to run for 4 s and log into a folder.
fn write_plain_for_rt_app(file: &rtapp::RtAppFile, folder: &Path, calibration: &Value) -> PathBuf {
    // With phases: in 1.0 a task without them goes on for ever, whatever its loops.
    let mut content: Value = serde_json::from_str(&file.to_string()).unwrap();
    content["global"]["logdir"] = json!(folder);
    content["global"]["log_basename"] = json!("log");
    content["global"]["lock_pages"] = json!(false);
    // The loops have an end, and this machine may be busy.
    content["global"]["duration"] = json!(4);
    content["global"]["calibration"] = calibration.clone();
    let plain = folder.join("plain.json");
    std::fs::write(&plain, content.to_string()).unwrap();
    plain
}

fn parse_for_rt_app(path: &Path) -> rtapp::RtAppFile {
    let text = std::fs::read_to_string(path).unwrap();
    rtapp::parse_overriding_version(&text, "file", Some(RtAppVersion::V1)).unwrap()
}

/// Loops of each task in Debian's rt-app, for a file that was written by [`write_plain_for_rt_app`]; `None` without the program.
fn loops_of_real_rt_app(
    file: &rtapp::RtAppFile,
    plain: &Path,
    folder: &Path,
) -> Option<Vec<(String, u64)>> {
    let done = std::process::Command::new("rt-app")
        .arg(plain)
        .output()
        .ok()?;
    assert!(done.status.success(), "{done:?}");
    let mut thread = 0;
    let mut loops = Vec::new();
    for task in &file.tasks {
        let mut lines = 0;
        for _ in 0..task.instances {
            let log = folder.join(format!("log-{}-{thread}.log", task.name));
            let log = std::fs::read_to_string(log).unwrap();
            lines += log.lines().filter(|line| !line.starts_with('#')).count() as u64;
            thread += 1;
        }
        // Each repetition of a phase has a line.
        let phases = task.phases.iter();
        let lines_of_loop: u64 = phases.map(|phase| phase.loops.unwrap_or(1)).sum();
        loops.push((task.name.clone(), lines / lines_of_loop.max(1)));
    }
    Some(loops)
}

/// Looks for differences up to three times, since other work on this machine delays real threads; the last ones found.
fn last_of_three_differences(find: impl Fn() -> Option<Vec<String>>) -> Option<Vec<String>> {
    let mut differences = find()?;
    for _ in 0..2 {
        if differences.is_empty() {
            break;
        }
        differences = find()?;
    }
    Some(differences)
}

/// Tasks of a file with other loops in the real rt-app than simulated. `None` without the program.
fn find_tasks_with_other_loops(name: &str) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let parsed = parse_for_rt_app(&file(name));
    // No measurement of the loop, which takes seconds: how long the work takes does not matter here.
    let plain = write_plain_for_rt_app(&parsed, folder.path(), &json!(200));
    let real = loops_of_real_rt_app(&parsed, &plain, folder.path())?;
    let (run, _) = run(&file(name), &[&LAPTOP[..], &["--rt-app", "1.0"]].concat());
    let mut other = Vec::new();
    for (task, real) in real {
        let simulated = loops(&run, &task);
        // A thread that is ended while it waits has a line for that. K, which goes on for ever, depends on how busy this
        // machine is.
        if task != "K" && real != simulated && real != simulated + 1 {
            other.push(format!(
                "{name}: {task}: {real} really, {simulated} simulated"
            ));
        }
    }
    Some(other)
}

#[test]
fn loops_are_those_of_the_real_rt_app() {
    for name in [
        "suspend-without-value",
        "suspend-string",
        "lock-sync-unlock",
        "sync-resumes-suspended",
        "main-ends",
    ] {
        let Some(other) = last_of_three_differences(|| find_tasks_with_other_loops(name)) else {
            common::skip("loops_are_those_of_the_real_rt_app", "no rt-app");
            return;
        };
        assert_eq!(other, Vec::<String>::new());
    }
}

/// Examples of Debian's rt-app whose tasks wait for timers and each other. Left out are those that keep CPUs busy, whose loops
/// follow this machine's load: browser, video, and the tutorial's examples 4, 7 and 8.
const EXAMPLES: [&str; 8] = [
    "template",
    "mp3-short",
    "mp3-long",
    "spreading-tasks",
    "tutorial/example1",
    "tutorial/example2",
    "tutorial/example3",
    "tutorial/example5",
];

/// Tasks of an example whose loops are not within 2 % or one loop of those of the real rt-app, and which no warning names. `None`
/// without the program.
fn find_tasks_far_from_real_loops(path: &Path) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let parsed = parse_for_rt_app(path);
    let plain = write_plain_for_rt_app(&parsed, folder.path(), &json!("CPU0"));
    let real = loops_of_real_rt_app(&parsed, &plain, folder.path())?;
    let (run, said) = run(&plain, &[&LAPTOP[..], &["--rt-app", "1.0"]].concat());
    let mut other = Vec::new();
    for (task, real) in parsed.tasks.iter().zip(real) {
        // An endless phase ends no loop.
        if task.phases.iter().any(|phase| phase.loops.is_none()) {
            continue;
        }
        let (name, real) = real;
        let simulated = loops(&run, &name);
        let is_named = simulated == 0 && said.contains(&format!("task `{name}` never ran"));
        if real.abs_diff(simulated) > 1 + simulated / 50 && !is_named {
            other.push(format!("{name}: {real} really, {simulated} simulated"));
        }
    }
    Some(other)
}

/// Tasks of these files whose loops are far from those of the real rt-app. `None` without the program.
fn find_examples_far_from_real_loops(folder: &Path, names: &[&str]) -> Option<Vec<String>> {
    let mut far = Vec::new();
    for name in names {
        let path = folder.join(format!("{name}.json"));
        let other = last_of_three_differences(|| find_tasks_far_from_real_loops(&path))?;
        far.extend(other.into_iter().map(|task| format!("{name}: {task}")));
    }
    Some(far)
}

#[test]
#[ignore = "nightly: runs each example of rt-app for seconds"]
fn examples_loop_as_in_the_real_rt_app() {
    let test = "examples_loop_as_in_the_real_rt_app";
    let examples = Path::new("/usr/share/doc/rt-app/examples");
    if !examples.exists() {
        return common::skip(test, "no examples of rt-app");
    }
    match find_examples_far_from_real_loops(examples, &EXAMPLES) {
        None => common::skip(test, "no rt-app"),
        Some(far) => assert_eq!(far, Vec::<String>::new()),
    }
}

/// The rt-app files of Workload Automation, which `scripts/setup-python.sh` fetches with the package `wlauto`.
fn workload_automation_files() -> Option<PathBuf> {
    let libraries = common::repository().join(".cache/python/lib");
    let environments = std::fs::read_dir(libraries).ok()?.flatten();
    let mut folders = environments.map(|environment| {
        let package = environment.path().join("site-packages/wa");
        package.join("workloads/rt_app/use_cases")
    });
    folders.find(|folder| folder.exists())
}

/// Simulates two seconds of a file. Tasks that neither run nor are named in a warning, or are named and run.
fn find_tasks_at_odds_with_warnings(path: &Path) -> Vec<String> {
    let shortened = ["--rt-app", "1.0", "--seconds", "2"];
    let (run, said) = run(path, &[&LAPTOP[..], &shortened].concat());
    let tasks = run["threads"]["tasks"].as_array().unwrap();
    let at_odds = tasks.iter().filter(|task| {
        let name = task["name"].as_str().unwrap();
        let did_something = task["wake_ups"] != 0 || task["loops"] != 0;
        did_something == said.contains(&format!("task `{name}` never ran"))
    });
    let named = at_odds.map(|task| format!("{}: {task}", path.display()));
    named.collect()
}

#[test]
fn files_of_workload_automation_run_or_name_what_cannot() {
    let test = "files_of_workload_automation_run_or_name_what_cannot";
    let Some(folder) = workload_automation_files() else {
        return common::skip(test, "no wlauto; scripts/setup-python.sh fetches it");
    };
    let names: BTreeSet<String> = (std::fs::read_dir(&folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 10, "{names:?}");
    for name in names {
        let path = folder.join(format!("{name}.json"));
        if name == "taskset" {
            // A file of before rt-app 1.0, which takes it no more.
            let refused = sim(&[path.to_str().unwrap(), "--machine", "laptop"]).failure();
            let said = String::from_utf8_lossy(&refused.get_output().stderr).into_owned();
            let unlike = "tasks.ThreadA.lock_order: is an array; a string is wanted";
            assert!(said.contains(unlike), "{said}");
            continue;
        }
        assert_eq!(
            find_tasks_at_odds_with_warnings(&path),
            Vec::<String>::new()
        );
        // What is compared with the real rt-app is the same file in Debian's rt-app.
        let debians = Path::new("/usr/share/doc/rt-app/examples").join(format!("{name}.json"));
        if EXAMPLES.contains(&&*name) && debians.exists() {
            let [one, other] = [path, debians].map(|path| std::fs::read(path).unwrap());
            assert!(one == other, "{name} is another file in Debian's rt-app");
        }
    }
}

/// Examples of Debian's rt-app beside [`EXAMPLES`]. Left out is the tutorial's example 6, for which the simulator lacks the speed of
/// memory.
const BUSY_EXAMPLES: [&str; 9] = [
    "browser-short",
    "browser-long",
    "video-short",
    "video-long",
    "tutorial/example4",
    "tutorial/example7",
    "tutorial/example8",
    "cpufreq_governor_efficiency/calibration",
    "cpufreq_governor_efficiency/dvfs",
];

#[test]
fn examples_of_rt_app_run_or_name_what_cannot() {
    let examples = Path::new("/usr/share/doc/rt-app/examples");
    if !examples.exists() {
        let test = "examples_of_rt_app_run_or_name_what_cannot";
        return common::skip(test, "no examples of rt-app");
    }
    for name in EXAMPLES.iter().chain(&BUSY_EXAMPLES) {
        let path = examples.join(format!("{name}.json"));
        assert_eq!(
            find_tasks_at_odds_with_warnings(&path),
            Vec::<String>::new()
        );
    }
}

#[test]
fn studies_name_tasks_that_never_ran_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(file("suspend-string")).unwrap();
    let nobody = text.replace("\"resume\": \"B\"", "\"resume\": \"X\"");
    std::fs::write(folder.path().join("idle.json"), nobody).unwrap();
    let study = folder.path().join("study.toml");
    std::fs::write(
        &study,
        "name = 's'\nmachine = 'laptop'\nrepeats = 2\npolicy = ['menu', 'teo']\n\
         [[workload]]\nname = 'w'\nrt_app = 'idle.json'\n",
    )
    .unwrap();
    let results = folder.path().join("r");
    let assert = common::wakepath(&[
        "study",
        "run",
        study.to_str().unwrap(),
        "-o",
        results.to_str().unwrap(),
    ])
    .success();
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let idle = "workload `w`: task `B` never ran: it waits to be resumed";
    assert_eq!(said.matches(idle).count(), 1, "{said}");
}
