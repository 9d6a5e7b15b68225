//! `wakepath sim --perfetto`, the progress bar and Ctrl-C, as whole commands.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

/// A folder with a job file of this run time.
struct Folder(TempDir);

impl Folder {
    fn new(runtime: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let job = format!(
            "[j]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nruntime={runtime}\ntime_based\n"
        );
        fs::write(folder.path().join("job.fio"), job).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.path());
        command
    }

    /// `wakepath sim` on the job.
    fn sim(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_wakepath"));
        command.args(["sim", "job.fio", "--machine", "rk3399"]);
        command.args(arguments);
        command
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The call ends with `code`, prints no result and one message with all of `parts`.
fn fails(mut command: Command, code: i32, parts: &[&str]) {
    let output = command.output().unwrap();
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(output.stdout.is_empty());
    if code == 1 {
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    for part in parts {
        assert!(message.contains(part), "'{part}' is not in: {message}");
    }
}

#[test]
fn the_result_is_the_same_with_a_timeline() {
    let folder = Folder::new("50ms");
    let without = folder.sim(&["--format", "json"]).output().unwrap();
    let with = folder
        .sim(&["--format", "json", "--perfetto", "t.pftrace"])
        .output()
        .unwrap();
    assert_eq!(stderr(&with), "");
    assert_eq!(with.stdout, without.stdout);
    assert!(fs::metadata(folder.path("t.pftrace")).unwrap().len() > 1000);
    assert_eq!(folder.files(), ["job.fio", "t.pftrace"]);
}

#[test]
fn a_shorter_span_is_a_smaller_file_and_the_default_bounds_it() {
    let size = |runtime, arguments: &[&str]| {
        let folder = Folder::new(runtime);
        let mut all = vec!["--runs", "1", "--perfetto", "t"];
        all.extend(arguments);
        assert!(folder.sim(&all).output().unwrap().status.success());
        fs::metadata(folder.path("t")).unwrap().len()
    };
    let span = size("3s", &["--perfetto-span", "100ms"]);
    let default = size("3s", &[]);
    assert!(span * 5 < default, "{span} {default}");
    assert_eq!(default, size("5s", &[]));
}

#[test]
fn an_existing_file_is_replaced_only_by_force() {
    let folder = Folder::new("5ms");
    fs::write(folder.path("t"), "precious").unwrap();
    fails(
        folder.sim(&["--perfetto", "t"]),
        1,
        &["--perfetto t", "--force"],
    );
    assert_eq!(fs::read(folder.path("t")).unwrap(), b"precious");
    let forced = folder.sim(&["--perfetto", "t", "--force"]).output();
    assert!(forced.unwrap().status.success());
    assert!(fs::metadata(folder.path("t")).unwrap().len() > 1000);
    // Not even by force: what is not a file.
    fails(
        folder.sim(&["--perfetto", "/dev/null", "--force"]),
        1,
        &["not a regular file"],
    );
    fails(
        folder.sim(&["--perfetto", ".", "--force"]),
        1,
        &["not a regular file"],
    );
}

#[test]
fn an_error_leaves_no_file_behind() {
    let folder = Folder::new("1s");
    fails(
        folder.sim(&["--perfetto", "no/such/folder/t"]),
        1,
        &["--perfetto no/such/folder/t"],
    );
    // Files may get no bigger than 8 blocks here: as a full disk, later than at the first byte.
    let mut full = folder.command("sh");
    let wakepath = env!("CARGO_BIN_EXE_wakepath");
    full.args([
        "-c",
        &format!(
            "trap '' XFSZ; ulimit -f 8; exec {wakepath} sim job.fio --machine rk3399 --perfetto t"
        ),
    ]);
    fails(full, 1, &["--perfetto t", "File too large"]);
    fails(
        folder.sim(&["--policy", "intel_pstate", "--perfetto", "t"]),
        1,
        &["intel_pstate"],
    );
    assert_eq!(folder.files(), ["job.fio"]);
}

#[test]
fn a_timeline_is_of_one_policy_set() {
    let folder = Folder::new("5ms");
    fails(
        folder.sim(&["--policy", "menu", "--policy", "teo", "--perfetto", "t"]),
        2,
        &["one policy set", "there are 2", "--policy"],
    );
    for span in ["0ms", "1", "s", "-1s", "99999999999999999999s"] {
        let span = format!("--perfetto-span={span}");
        fails(
            folder.sim(&["--perfetto", "t", &span]),
            2,
            &["--perfetto-span"],
        );
    }
    fails(folder.sim(&["--force"]), 2, &["--perfetto"]);
    assert_eq!(folder.files(), ["job.fio"]);
}

/// Calls off a long comparison once it has begun.
fn interrupted(folder: &Folder, arguments: &[&str]) -> Output {
    let child = folder
        .sim(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let id = child.id().to_string();
    let mut kill = Command::new("sh");
    kill.args(["-c", &format!("kill -INT {id}")]);
    assert!(kill.status().unwrap().success());
    child.wait_with_output().unwrap()
}

#[test]
fn ctrl_c_prints_what_is_finished() {
    let folder = Folder::new("2s");
    let output = interrupted(&folder, &["--runs", "100000", "--format", "json"]);
    assert_eq!(output.status.code(), Some(130));
    let message = stderr(&output);
    assert!(message.contains("of 100000 runs are finished"), "{message}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = result["results"][0]["runs"].as_array().unwrap();
    assert!(message.contains(&format!(" {} of", runs.len())));
    assert!((1..100_000).contains(&runs.len()));
}

#[test]
fn ctrl_c_before_the_first_run_is_finished_is_one_line() {
    let folder = Folder::new("100000s");
    for format in ["table", "csv", "json"] {
        let output = interrupted(&folder, &["--format", format]);
        assert_eq!(output.status.code(), Some(130));
        assert_eq!(
            stderr(&output),
            "wakepath: interrupted; 0 of 3 runs are finished\n"
        );
        assert!(output.stdout.is_empty(), "{format}");
    }
}

#[test]
fn a_job_that_never_ends_says_how_long_it_takes() {
    let folder = Folder::new("100d");
    let mut child = folder
        .sim(&["--runs", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let told = child.stderr.take().unwrap();
    BufReader::new(told).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        line.contains(" of at most 2400.0 h are simulated after ")
            && line.ends_with(" left; --seconds N simulates less of each run\n"),
        "{line}"
    );
}

#[test]
fn ctrl_c_keeps_no_half_timeline() {
    let folder = Folder::new("100000s");
    let output = interrupted(&folder, &["--perfetto", "t", "--perfetto-span", "100000s"]);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("interrupted").count(), 1);
    assert_eq!(folder.files(), ["job.fio"]);
}

#[test]
fn progress_is_shown_on_a_terminal_only() {
    let folder = Folder::new("1s");
    let piped = folder.sim(&["--runs", "2"]).output().unwrap();
    let note = "wakepath: note: the first 2 s are a warm-up and do not count (--warm-up)\n";
    assert_eq!(stderr(&piped), note);
    // script runs a command on a terminal of its own.
    if !Path::new("/usr/bin/script").exists() {
        let reason = "script is not installed (Debian package bsdutils)";
        assert!(
            std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
            "{reason}"
        );
        eprintln!("skipped: progress_is_shown_on_a_terminal_only: {reason}");
        return;
    }
    let wakepath = env!("CARGO_BIN_EXE_wakepath");
    let sim = format!("{wakepath} sim job.fio --machine rk3399 --runs 40");
    let shown = folder
        .command("script")
        .args(["-qec", &sim, "/dev/null"])
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("of 40 runs"), "{text}");
    assert!(text.contains("left"), "{text}");
}

/// Timelines of results: as many tracks of CPUs as there are policies, and errors that name what there is.
#[test]
fn results_are_drawn_for_perfetto() {
    let folder = Folder::new("300ms");
    let study = "name = 's'\nmachine = 'rk3399'\nrepeats = 1\npolicy = ['menu', 'teo']\n\
                 [[workload]]\nname = 'w'\nfio = 'job.fio'\n";
    fs::write(folder.path("s.toml"), study).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = folder.command(env!("CARGO_BIN_EXE_wakepath"));
        command.args(arguments);
        command
    };
    let made = run(&["study", "run", "s.toml", "-o", "r"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    let draw = |more: &[&str]| run(&[&["results", "timeline", "r", "-o", "t"], more].concat());
    assert!(draw(&[]).output().unwrap().status.success());
    let both = fs::read(folder.path("t")).unwrap();
    let has = |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
    for text in ["w, menu, p99", "w, teo, p99", "idle exit", "request slot 0"] {
        assert!(has(&both, text), "{text}");
    }
    fails(draw(&[]), 1, &["t: the file exists", "--force"]);
    let one = draw(&["--force", "--policy", "teo", "--at", "p50"])
        .output()
        .unwrap();
    assert!(one.status.success(), "{}", stderr(&one));
    let one = fs::read(folder.path("t")).unwrap();
    assert!(one.len() < both.len() && !has(&one, "w, teo, p50"));
    fails(
        draw(&["--force", "--policy", "tea"]),
        1,
        &["--policy: nothing of `tea`; did you mean `teo`?"],
    );
    fails(draw(&["--force", "--at", "p90"]), 1, &["p50, p99"]);
    fails(run(&["results", "timeline", "s", "-o", "u"]), 1, &["s"]);
}
