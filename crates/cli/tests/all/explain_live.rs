//! `wakepath explain` on the machine that the tests run on.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use crate::common;

const WAKEPATH: &str = env!("CARGO_BIN_EXE_wakepath");

/// fio reads a file of 8 MiB past the page cache, 300 times.
const PAUSING_READS: &str = "[job]\nfilename=data\nsize=8m\nrw=randread\ndirect=1\nioengine=psync\nthinktime=1ms\nnumber_ios=300\n";

/// fio reads the same for two minutes.
const LONG_READS: &str = "[job]\nfilename=data\nsize=8m\nrw=randread\ndirect=1\nioengine=psync\nthinktime=1ms\ntime_based\nruntime=120\n";

/// A folder on a real file system: those in memory know no direct I/O.
fn disk_folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn explain(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(WAKEPATH);
    command.current_dir(folder).arg("explain").args(arguments);
    command
}

/// Runs a job of fio while `explain` watches.
fn explain_fio(folder: &Path, job: &str, arguments: &[&str]) -> Option<Output> {
    std::fs::write(folder.join("job.fio"), job).unwrap();
    // Output of fio goes to standard error: JSON and CSV stand alone.
    let load = ["--", "fio", "job.fio"];
    let output = explain(folder, arguments).args(load).output().unwrap();
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        common::skip("explain on this machine", reason.trim());
        return None;
    }
    Some(output)
}

#[test]
fn this_machine_is_explained_and_parts_add_up() {
    let folder = disk_folder();
    let Some(output) = explain_fio(folder.path(), PAUSING_READS, &["--format", "json"]) else {
        return;
    };
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let kinds = answer["kinds"].as_array().unwrap();
    assert!(!kinds.is_empty());
    for kind in kinds {
        let part = |name: &str| kind["parts"][name].as_f64().unwrap();
        let latency =
            part("out_ns") + part("interrupt_ns") + part("remote_exit_ns") + part("remote_ns");
        assert!((latency - part("latency_ns")).abs() < 1.0, "{kind}");
        let Some(wait) = kind["wait"].as_object() else {
            continue;
        };
        let names = [
            "queued_ns",
            "latency_ns",
            "hand_over_ns",
            "through_ns",
            "task_exit_ns",
            "run_queue_ns",
        ];
        let sum: f64 = names.iter().map(|name| wait[*name].as_f64().unwrap()).sum();
        assert!(
            (sum - wait["wait_ns"].as_f64().unwrap()).abs() < 1.0,
            "{kind}"
        );
    }
    assert!(answer["probes"]["run_ns"].as_f64().unwrap() > 0.0);
    let processes = answer["processes"].as_array().unwrap();
    let fio = processes.iter().find(|process| process["name"] == "fio");
    let fio = fio.unwrap_or_else(|| panic!("no fio in {processes:?}"));
    assert!(fio["requests"].as_u64().unwrap() >= 250, "{fio}");
}

fn parse_answer(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// An answer for each line.
fn parse_lines(text: &[u8]) -> Vec<Value> {
    let text = str::from_utf8(text).unwrap();
    text.lines().map(parse_answer).collect()
}

fn covered(answer: &Value, what: &str) -> u64 {
    answer["coverage"][what].as_u64().unwrap()
}

/// Number of requests over all kinds.
fn count_explained(answer: &Value) -> u64 {
    let kinds = answer["kinds"].as_array().unwrap().iter();
    kinds.map(|kind| kind["requests"].as_u64().unwrap()).sum()
}

/// Number of requests with only an issue or only a completion.
fn count_unpaired(answer: &Value) -> u64 {
    covered(answer, "without_issue") + covered(answer, "without_completion")
}

/// Requests are in flight whenever an interval ends, and none of them is lost.
#[test]
fn requests_in_flight_at_the_end_of_an_interval_come_with_a_later_one() {
    let folder = disk_folder();
    let job = "[job]\nfilename=data\nsize=64m\nrw=randread\ndirect=1\nioengine=libaio\niodepth=32\nbs=512k\ntime_based\nruntime=3\n";
    let arguments = ["--watch", "--interval", "200ms", "--format", "json"];
    let Some(output) = explain_fio(folder.path(), job, &arguments) else {
        return;
    };
    let answers = parse_lines(&output.stdout);
    let [first, middle @ .., last] = answers.as_slice() else {
        panic!("{} lines", answers.len());
    };
    assert!(middle.len() >= 8, "{} lines", answers.len());
    if answers.iter().any(|answer| covered(answer, "gaps") > 0) {
        common::skip("requests in flight", "events were lost");
        return;
    }
    let said = String::from_utf8(output.stderr).unwrap();
    let unpaired: u64 = middle.iter().map(count_unpaired).sum();
    // A request from before the begin may complete late. Completions are missing where the kernel ran no eBPF programs.
    assert!(
        unpaired < middle.len() as u64 || said.contains("ran no eBPF programs"),
        "{unpaired}: {said}"
    );
    for answer in middle.iter().chain([first, last]) {
        assert_eq!(covered(answer, "requests"), count_explained(answer));
    }
    let requests: u64 = answers.iter().map(count_explained).sum();
    assert!(requests >= 100, "{requests}");
    // What is left at the end is said, over all intervals.
    let unpaired: u64 = answers.iter().map(count_unpaired).sum();
    let warning = format!("{unpaired} requests have only an issue or only a completion");
    assert_eq!(said.contains(&warning), unpaired > 0, "{said}");
}

#[test]
fn intervals_as_csv_have_one_header() {
    let folder = disk_folder();
    let arguments = ["--watch", "--interval", "200ms", "--format", "csv"];
    let Some(output) = explain_fio(folder.path(), PAUSING_READS, &arguments) else {
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    assert!(lines.next().unwrap().starts_with("interval,device,"));
    let numbers: Vec<u64> = lines
        .map(|line| line.split(',').next().unwrap().parse().unwrap())
        .collect();
    assert!(!numbers.is_empty() && numbers.is_sorted(), "{text}");
}

fn has_fio(answer: &Value) -> bool {
    let mut processes = answer["processes"].as_array().unwrap().iter();
    processes.any(|process| process["name"] == "fio")
}

/// fio, which reads for two minutes, and is ended with the test.
struct Load(Child);

impl Load {
    fn start(folder: &Path) -> Self {
        std::fs::write(folder.join("job.fio"), LONG_READS).unwrap();
        let mut command = Command::new("fio");
        command.current_dir(folder).arg("job.fio");
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.process_group(0).spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Whether a process handles Ctrl-C by itself (proc(5), `SigCgt`); bit 0 is signal 1.
fn catches_ctrl_c(process: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id()));
    let status = status.unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) >> (Signal::INT.as_raw() - 1) & 1 != 0
}

fn press_ctrl_c(process: &Child) {
    kill_process(Pid::from_child(process), Signal::INT).unwrap();
}

/// Waits until `explain` watches; `None`, and skips the test, where it cannot.
fn wait_until_it_watches(mut process: Child) -> Option<Child> {
    while !catches_ctrl_c(&process) {
        if process.try_wait().unwrap().is_some() {
            let output = process.wait_with_output().unwrap();
            let reason = String::from_utf8_lossy(&output.stderr);
            common::skip("explain on this machine", reason.trim());
            return None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(process)
}

#[test]
fn ctrl_c_ends_with_the_answer_so_far() {
    let folder = disk_folder();
    let _load = Load::start(folder.path());
    let mut command = explain(folder.path(), &["--duration", "10m", "--format", "json"]);
    let process = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let Some(process) = wait_until_it_watches(process.spawn().unwrap()) else {
        return;
    };
    std::thread::sleep(Duration::from_secs(2));
    press_ctrl_c(&process);
    let asked = Instant::now();
    let output = process.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(asked.elapsed() < Duration::from_secs(60));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(count_explained(&answer) > 0);
    assert!(has_fio(&answer), "{answer}");
}

#[test]
fn ctrl_c_ends_a_watched_command_too() {
    let folder = disk_folder();
    std::fs::write(folder.path().join("job.fio"), LONG_READS).unwrap();
    let mut command = explain(
        folder.path(),
        &["--watch", "--interval", "200ms", "--format", "json"],
    );
    // The shell becomes fio: both have one process number. Without a terminal it is that of a process group, too.
    let load = ["--", "sh", "-c", "echo $$ > number; exec fio job.fio"];
    let command = command.args(load).stdout(Stdio::piped());
    let command = command.stdin(Stdio::null()).stderr(Stdio::null());
    let process = command.spawn().unwrap();
    let Some(mut process) = wait_until_it_watches(process) else {
        return;
    };
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let seen = lines
        .by_ref()
        .any(|line| has_fio(&parse_answer(&line.unwrap())));
    assert!(seen);
    let number = std::fs::read_to_string(folder.path().join("number")).unwrap();
    let group = Pid::from_raw(number.trim().parse().unwrap()).unwrap();
    test_kill_process_group(group).unwrap();
    press_ctrl_c(&process);
    let asked = Instant::now();
    // The answer of the last interval is whole, too.
    for line in lines {
        parse_answer(&line.unwrap());
    }
    assert_eq!(process.wait().unwrap().code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(40));
    // Processes that fio began have init, or who stands in for it, to wait for them.
    while test_kill_process_group(group).is_ok() {
        assert!(asked.elapsed() < Duration::from_secs(40), "fio goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
}
