//! `cargo bench`: nanoseconds per decision of our governors and of the kernel's C, in one run. Does
//! what `wakepath-conformance bench` does.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // `cargo test --all-targets` runs this without the argument, and wants no benchmark.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let status = Command::new(env!("CARGO_BIN_EXE_wakepath-conformance"))
        .arg("bench")
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
