//! `wakepath policy`, as scripts use it.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::PathBuf;

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};
use tempfile::TempDir;

/// C-states of a Skylake server.
const SKYLAKE: &str = "POLL,0,0,1,0\nC1,2000,2000,0,0\nC1E,10000,20000,0,0\n\
                       C3,33000,100000,0,0\nC6,133000,400000,0,0\n";

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

fn policy(verb: &str) -> Command {
    let mut command = Command::cargo_bin("wakepath").unwrap();
    command.args(["policy", verb]);
    // Room for whole sentences in a line.
    command.env("COLUMNS", "1000");
    command
}

fn idle(files: &Files, governor: &str, states: &str, calls: &str) -> Command {
    let states = files.write("states.csv", states);
    let calls = files.write("calls.csv", calls);
    let mut command = policy("idle");
    command.args(["--governor", governor, "--states"]);
    command.args([states, calls]);
    command
}

fn assert_input_error(command: &mut Command, message: &str) {
    command
        .assert()
        .code(1)
        .stdout(is_empty())
        .stderr(contains(message).and(predicate::function(|text: &str| text.lines().count() == 1)));
}

#[test]
fn idle_prints_state_and_tick_for_each_call() {
    // A timer 1 us away leaves only the polling state; one 10 ms away allows C6 and a stopped tick;
    // a latency request of 5 us allows no more than C1.
    let calls = "1000,1000,0,2147483647000,0,0,900,900,0,0\n\
                 10000000,3000000,0,2147483647000,0,1000,10001000,10000000,0,0\n\
                 10000000,3000000,1,5000,0,20000000,30000000,10000000,0,0\n";
    for (governor, expected) in [
        ("menu@6.12", "0,0\n4,1\n1,1\n"),
        ("menu", "0,0\n4,1\n1,1\n"),
        ("deepest", "4,1\n4,1\n1,1\n"),
        ("shallowest", "0,0\n0,0\n0,0\n"),
        ("oracle", "0,0\n4,1\n1,1\n"),
        ("oracle[goal=latency]", "0,0\n0,0\n0,0\n"),
        ("ladder", "1,1\n1,1\n1,1\n"),
        // A halt of 0.9 us makes it poll from then on.
        ("haltpoll", "1,1\n0,0\n0,0\n"),
    ] {
        idle(&Files::new(), governor, SKYLAKE, calls)
            .assert()
            .success()
            .stdout(expected)
            .stderr(is_empty());
    }
}

#[test]
fn idle_reads_standard_input_and_heeds_hz() {
    let files = Files::new();
    let states = files.write("states.csv", SKYLAKE);
    // The timer is 2 ms away: more than a tick at 1000 Hz, less at 250 Hz.
    let call = "2000000,900000,0,2147483647000,0,0,2000000,2000000,0,0\n";
    for (hz, expected) in [("1000", "4,1\n"), ("250", "4,0\n")] {
        for dash in [&["-"][..], &[]] {
            policy("idle")
                .args(["--governor", "menu@6.12", "--hz", hz, "--states"])
                .arg(&states)
                .args(dash)
                .write_stdin(call)
                .assert()
                .success()
                .stdout(expected);
        }
    }
}

#[test]
fn idle_bench_prints_one_line() {
    let calls = "1000,1000,0,2147483647000,0,0,900,900,0,0\n";
    idle(&Files::new(), "teo", SKYLAKE, calls)
        .args(["--bench", "3"])
        .assert()
        .success()
        .stdout(
            predicate::str::is_match(r"^[0-9.]+ ns per decision of teo@6.12 \(3 x 1 calls\)\n$")
                .unwrap(),
        );
}

#[test]
fn bad_governors_get_a_suggestion() {
    let files = Files::new();
    let call = "1,1,0,1,0,10,20,10,0,0\n";
    for (governor, message) in [
        ("meno", "did you mean `menu`?"),
        ("menu@5.4", "those of 6.1 to 7.3; nearest: 6.1"),
        ("menu@6.12.x", "not a kernel version"),
        ("teo@7.4", "nearest: 7.3"),
        ("teo@6.8", "nearest: 6.2, 6.11"),
        ("oracle[goal=fun]", "expected energy or latency"),
        ("oracle[aim=energy]", "known: goal"),
        ("schedutil", "not an idle policy"),
    ] {
        assert_input_error(&mut idle(&files, governor, SKYLAKE, call), message);
    }
}

#[test]
fn bad_logs_are_one_error_and_no_output() {
    let files = Files::new();
    let good = "1,1,0,1,0,10,20,10,0,0\n";
    for (bad, message) in [
        ("", "calls.csv: empty; expected"),
        (
            "1,1,0,1,0,10,20,10,0,0\n1,1,0,1",
            "calls.csv:2: expected 10 fields",
        ),
        (
            "NaN,1,0,1,0,10,20,10,0,0",
            "calls.csv:1: sleep_length_ns: expected a whole number",
        ),
        ("1,1,0,-1,0,10,20,10,0,0", "calls.csv:1: latency_req_ns"),
        (
            "1,1,0,1,0,10,20,99999999999999999999,0,0",
            "calls.csv:1: residency_ns",
        ),
        (
            "1,1,0,1,0,10,20,10,0,2",
            "calls.csv:1: poll_limit_hit: expected 0 or 1",
        ),
        (
            "1,1,0,1,0,10,9,10,0,0",
            "calls.csv:1: reflect_clock_ns: 9 is before 10",
        ),
    ] {
        assert_input_error(&mut idle(&files, "menu", SKYLAKE, bad), message);
    }
    let late = format!("{}{}", good.repeat(1000), good.replace("10,20", "9,20"));
    assert_input_error(
        &mut idle(&files, "menu", SKYLAKE, &late),
        "calls.csv:1001: select_clock_ns: 9 is before 10",
    );
}

#[test]
fn bad_state_tables_are_one_error_and_no_output() {
    let files = Files::new();
    let call = "1,1,0,1,0,10,20,10,0,0\n";
    let eleven = "S,1,1,0,0\n".repeat(11);
    for (bad, message) in [
        ("", "states.csv: empty; expected"),
        ("C1,1,1", "states.csv:1: expected 5 fields"),
        ("C1,NaN,1,0,0", "states.csv:1: exit_latency_ns: expected"),
        ("C1,1,-1,0,0", "states.csv:1: target_residency_ns: expected"),
        (
            "C1,1,9223372036854775808,0,0",
            "states.csv:1: target_residency_ns: expected",
        ),
        (
            "C6,1,9,0,0\nC1,1,1,0,0",
            "states.csv:2: target_residency_ns: 1 is less than",
        ),
        (&*eleven, "states.csv:11: one idle state too many"),
    ] {
        assert_input_error(&mut idle(&files, "menu", bad, call), message);
    }
    assert_input_error(
        policy("poll-limit").args(["--states", "no/such/file.csv"]),
        "no/such/file.csv: No such file",
    );
}

#[test]
fn calls_that_make_no_sense_are_usage_errors() {
    for args in [
        &["policy", "idle"][..],
        &["policy", "nonsense"],
        &["policy", "poll-limit", "--states", "x", "--hz", "0"],
        &[
            "policy",
            "poll-limit",
            "--states",
            "x",
            "--request-us",
            "-1",
        ],
        &["policy", "schedutil-boost", "--step", "triple"],
        &["policy", "schedutil-boost", "--cap", "1025"],
        &[
            "policy",
            "hwp-boost",
            "--min",
            "1",
            "--guaranteed",
            "2",
            "--max",
            "256",
        ],
        &["policy", "psd", "--timeout-ms", "x"],
        &[
            "policy",
            "idle",
            "--governor",
            "menu",
            "--states",
            "x",
            "--bench",
            "0",
        ],
    ] {
        Command::cargo_bin("wakepath")
            .unwrap()
            .args(args)
            .assert()
            .code(2)
            .stdout(is_empty());
    }
}

#[test]
fn poll_limit_gives_the_published_figures() {
    let files = Files::new();
    for (residencies, extra, expected) in [
        (&[2_u64, 20, 100, 400][..], &[][..], "20\n"),
        (&[2], &[], "250\n"),
        (&[2, 800], &[], "250\n"),
        (&[2, 800], &["--hz", "1000"], "62\n"),
        (&[2, 800], &["--request-us", "100"], "100\n"),
        (&[2, 800], &["--request-us", "1"], "10\n"),
        (&[2, 800], &["--request-us", "1000"], "250\n"),
    ] {
        let mut table = "POLL,0,0,1,0\n".to_owned();
        for us in residencies {
            table = format!("{table}C,{us}000,{us}000,0,0\n");
        }
        let states = files.write("states.csv", &table);
        policy("poll-limit")
            .arg("--states")
            .arg(states)
            .args(extra)
            .assert()
            .success()
            .stdout(expected);
    }
}

#[test]
fn schedutil_boost_doubles_halves_and_resets() {
    // Updates 1 ms apart; then one 4 ms later, just within a tick, and one beyond it.
    let updates = "1000000,1,1024\n2000000,1,1024\n3000000,1,512\n4000000,0,1024\n\
                   8000000,1,1024\n12000001,1,1024\n13000000,0,1024\n";
    policy("schedutil-boost")
        .write_stdin(updates)
        .assert()
        .success()
        .stdout("128\n256\n256\n256\n512\n128\n0\n");
    policy("schedutil-boost")
        .args(["--step", "linear", "--cap", "300", "-"])
        .write_stdin(updates)
        .assert()
        .success()
        .stdout("128\n256\n150\n150\n278\n128\n0\n");
    assert_input_error(
        policy("schedutil-boost").write_stdin("1,1\n"),
        "<stdin>:1: expected 3 fields",
    );
}

#[test]
fn hwp_boost_climbs_and_falls_back() {
    let updates = "100000000,1\n101000000,1\n102000000,1\n103000000,1\n106000000,0\n109000001,0\n";
    policy("hwp-boost")
        .args(["--min", "8", "--guaranteed", "24", "--max", "40"])
        .write_stdin(updates)
        .assert()
        .success()
        .stdout("8\n16\n24\n40\n40\n8\n");
    assert_input_error(
        policy("hwp-boost")
            .args(["--min", "8", "--guaranteed", "24", "--max", "40"])
            .write_stdin("5,1\n4,1\n"),
        "<stdin>:2: time_ns: 4 is before 5",
    );
}

#[test]
fn a_kernel_says_whether_its_governor_was_compared() {
    for (name, says) in [
        (
            "menu@6.12.48",
            "as from Linux 6.6.103, 6.12.44, not compared with a kernel's C: I/O wait does not count",
        ),
        (
            "teo@7.3",
            "as from Linux 7.1, compared with the C of 7.1.13",
        ),
    ] {
        policy("show")
            .arg(name)
            .assert()
            .success()
            .stdout(predicate::str::contains(format!("{name}: {says}")));
    }
    policy("show")
        .arg("ladder")
        .assert()
        .success()
        .stdout(predicate::str::contains("as from").not());
}

#[test]
fn every_machine_names_its_kernel_and_how_that_is_known() {
    for (name, kernel) in [
        ("rk3399", "kernel: 6.12, assumed: "),
        ("spr1", "kernel: 6.18.8, the record: Linux 6.18.8-200.fc43"),
    ] {
        Command::cargo_bin("wakepath")
            .unwrap()
            .args(["machine", "show", name, "--model"])
            .assert()
            .success()
            .stdout(predicate::str::contains(kernel));
    }
}

#[test]
fn psd_answers_only_the_governor() {
    // 3 ms are one tick at 250 Hz and three at 1000 Hz.
    let events = "1000000,0\n5000000,1\n7999999,0\n8000000,0\n";
    for (args, expected) in [
        (&["--timeout-ms", "3"][..], "0\n1\n0\n"),
        (&["--timeout-ms", "3", "--hz", "1000"], "0\n1\n0\n"),
        (&["--timeout-ms", "4", "--hz", "1000"], "0\n1\n1\n"),
        (&["--timeout-ms", "0"], "0\n0\n0\n"),
        (&[], "0\n1\n0\n"),
        // The module counts time, not ticks; the third I/O of a burst is missing.
        (&["--psd", "psd[rule=module]"], "0\n1\n0\n"),
        (&["--psd", "psd[rule=module,timeout=4ms]"], "0\n1\n1\n"),
        (&["--psd", "psd[start_after=3]"], "0\n0\n0\n"),
        (
            &["--psd", "psd[rule=module]", "--timeout-ms", "4"],
            "0\n1\n1\n",
        ),
    ] {
        policy("psd")
            .args(args)
            .write_stdin(events)
            .assert()
            .success()
            .stdout(expected);
    }
    assert_input_error(policy("psd").write_stdin(""), "<stdin>: empty; expected");
    for (name, says) in [
        ("menu", "not a PSD policy"),
        ("psd[rule=modul]", "patch or module"),
    ] {
        let mut command = policy("psd");
        command.args(["--psd", name]);
        command.assert().code(2).stderr(contains(says));
    }
}

#[test]
fn list_knows_every_policy() {
    for format in ["table", "json", "csv"] {
        policy("list")
            .args(["--format", format])
            .assert()
            .success()
            .stdout(
                contains("guest_halt_poll_grow_start")
                    .and(contains("intel_pstate-hwp"))
                    .and(contains("tuned[latency-performance]")),
            );
    }
}

#[test]
fn show_says_what_a_set_stands_for() {
    let show = |arguments: &[&str]| {
        let mut command = policy("show");
        command.args(arguments);
        command.assert()
    };
    show(&["tuned[balanced] + psd"]).success().stdout(
        contains("schedutil or ondemand or intel_pstate-hwp")
            .and(contains("psd "))
            .and(contains("boost=1")),
    );
    show(&["tuned[balanced]", "--machine", "rk3399", "--format", "json"])
        .success()
        .stdout(contains("\"schedutil\"").and(contains("does not apply")));
    show(&["menu@6.1", "--format", "csv"])
        .success()
        .stdout(contains("menu@6.1,idle"));
    show(&["tuned[blanced]"])
        .failure()
        .stderr(contains("did you mean `balanced`?"));
    show(&["menu", "--machine", "rk3398"])
        .failure()
        .stderr(contains("rk3399"));
}

#[test]
fn every_verb_has_an_example() {
    for verb in [
        "idle",
        "poll-limit",
        "schedutil-boost",
        "hwp-boost",
        "psd",
        "list",
        "show",
    ] {
        policy(verb)
            .arg("--help")
            .assert()
            .success()
            .stdout(contains("Example").and(contains(format!("wakepath policy {verb}"))));
    }
}
