//! `scripts/failed-tests.awk`: what the summary of `make test` says of the tests that failed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::common::repository;

fn summary(log: &str) -> String {
    let mut awk = Command::new("awk")
        .arg("-f")
        .arg(repository().join("scripts/failed-tests.awk"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    awk.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let output = awk.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The log of one test binary as cargo and libtest write it.
fn binary(name: &str, failed: &[(&str, &str)]) -> String {
    let mut log =
        format!("     Running tests/{name}.rs (target/debug/deps/{name}-0123456789abcdef)\n\n");
    log += "test fine ... ok\n\nsuccesses:\n\n---- fine stdout ----\nnot to be shown\n\n";
    log += "successes:\n    fine\n\n";
    if failed.is_empty() {
        return log + "test result: ok. 1 passed; 0 failed;\n\n";
    }
    let outputs = failed.iter();
    let outputs = outputs.map(|(test, output)| format!("---- {test} stdout ----\n{output}\n\n"));
    let names = failed.iter().map(|(test, _)| format!("    {test}\n"));
    log += "failures:\n\n";
    log.extend(outputs);
    log += "\nfailures:\n";
    log.extend(names);
    log + "\ntest result: FAILED. 1 passed; 1 failed;\n\nerror: test failed, to rerun pass `-p x`\n"
}

#[test]
fn nothing_is_said_when_all_passed() {
    assert_eq!(summary(&(binary("one", &[]) + &binary("two", &[]))), "");
    assert_eq!(summary("error: could not compile `x`\n"), "");
    assert_eq!(summary(""), "");
}

#[test]
fn each_failed_test_has_its_output_and_then_its_name() {
    let log = binary("one", &[("a::b", "left: 1"), ("c", "    indented")]) + &binary("two", &[]);
    let said = summary(&log);
    assert!(said.contains("== one a::b ==\n    left: 1\n"), "{said}");
    assert!(said.contains("== one c ==\n        indented\n"), "{said}");
    assert!(
        said.ends_with("\nfailed test: one a::b\nfailed test: one c\n"),
        "{said}"
    );
    assert!(!said.contains("not to be shown"), "{said}");
}

#[test]
fn a_binary_that_was_killed_is_named() {
    let killed =
        binary("one", &[]).replace("test result: ok. 1 passed; 0 failed;\n", "stack overflow\n");
    for log in [killed.clone(), killed + &binary("two", &[])] {
        let said = summary(&log);
        assert!(said.contains("    stack overflow\n"), "{said}");
        assert!(
            said.ends_with("failed test: one (ended without a result)\n"),
            "{said}"
        );
    }
}

#[test]
fn a_failed_example_in_the_documentation_is_named() {
    let log = binary("x", &[("src/lib.rs - f (line 4)", "exit status: 101")]).replace(
        "     Running tests/x.rs (target/debug/deps/x-0123456789abcdef)",
        "   Doc-tests wakepath_units",
    );
    let name = "wakepath_units (documentation) src/lib.rs - f (line 4)";
    assert!(summary(&log).ends_with(&format!("failed test: {name}\n")));
}

#[test]
fn the_output_is_bounded_and_its_end_is_kept() {
    let long: Vec<String> = (0..1000).map(|line| format!("line {line}")).collect();
    let output = long.join("\n") + "\n" + &"x".repeat(100_000);
    let names: Vec<String> = (0..300).map(|test| format!("t{test}")).collect();
    let failed: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), output.as_str()))
        .collect();
    let said = summary(&binary("one", &failed));
    assert!(said.contains("    line 999\n"), "{said}");
    assert!(!said.contains("    line 969\n"), "{said}");
    assert_eq!(said.matches("\nfailed test: ").count(), 200);
    assert!(
        said.ends_with("\nfailed tests that are not named here: 100\n"),
        "{said}"
    );
    assert!(said.len() < 60_000, "{}", said.len());
}
