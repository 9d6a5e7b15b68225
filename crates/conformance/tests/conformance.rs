//! A quick end-to-end run over a handful of inputs. The real comparison, of a million calls per
//! governor, is the program's `run` command, which `make test` calls.

use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use wakepath_conformance::program::compiler_found;

/// Runs the program, or says why not: it needs gcc, and kernel sources that are in the cache, are
/// installed, or can be had from apt.
fn run(arguments: &[&str]) -> Option<(bool, String)> {
    if !compiler_found() {
        eprintln!("skipped: no gcc");
        return None;
    }
    let output = Command::new(cargo_bin("wakepath-conformance"))
        .args(arguments)
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("error: linux-source-") || errors.contains("error: cannot obtain") {
        eprintln!("skipped: {}", errors.trim());
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output.status.success(), format!("{text}{errors}")))
}

#[test]
fn a_few_calls_agree() {
    let arguments = [
        "run", "--calls", "2000", "--tables", "500", "--drives", "500", "--seed", "99",
    ];
    if let Some((success, text)) = run(&arguments) {
        assert!(success, "{text}");
        assert!(text.contains(" 0 differ"), "{text}");
        assert!(
            text.contains("comparing with linux-source-6.12 6.12."),
            "{text}"
        );
    }
}
