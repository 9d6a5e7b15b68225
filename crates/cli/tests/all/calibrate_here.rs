//! `wakepath calibrate` on the machine that runs the tests: how far predictions are off, in rounds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use wakepath_hardware::Machine;

use crate::common::{json, lock_machine, skip, wakepath};

/// Rounds of calibrating, predicting and measuring in turn.
const ROUNDS: usize = 5;
/// Fewest rounds that count: a round is left out while other work keeps the CPUs busy.
const FEWEST_ROUNDS: usize = 3;
/// How far the median of the mean latencies may be off in any case, in per cent.
const MOST_PERCENT: f64 = 15.0;
/// A perfect prediction differs from a measurement by as much as two measurements differ. The
/// quarter of the uncalibrated error is asked for where the machine repeats itself that well.
const MOST_OF_ITSELF: f64 = 1.5;

#[test]
#[ignore = "nightly: calibrates this machine for some minutes, with nothing else to do"]
fn predictions_on_this_machine_are_within_their_bounds() {
    let test = "predictions_on_this_machine_are_within_their_bounds";
    if !rustix::process::geteuid().is_root() {
        return skip(test, "needs root to change settings");
    }
    if Command::new("fio").arg("--version").output().is_err() {
        return skip(test, "fio is not installed");
    }
    let _machine = lock_machine();
    // On a disk: temporary files may be kept in memory.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("calibrate-here");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("machine.toml");
    let rounds = ROUNDS.to_string();
    let assert = wakepath(&[
        "calibrate",
        "--folder",
        folder.to_str().unwrap(),
        "--size",
        "256m",
        "--budget",
        "8m",
        "--rounds",
        &rounds,
        "-o",
        file.to_str().unwrap(),
        "--format",
        "json",
    ])
    .success();
    let notes = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    let calibration = json(&assert);
    for job in calibration["jobs"].as_array().unwrap() {
        println!("{job}");
    }
    let error = Machine::load(&file).unwrap().prediction;
    let error = error.unwrap_or_else(|| panic!("no round counts:\n{notes}"));
    println!("{error:?}");
    assert_eq!(error.jobs, 4);
    assert!(
        error.rounds >= FEWEST_ROUNDS,
        "{} of {ROUNDS} rounds count:\n{notes}",
        error.rounds
    );
    let [itself, uncalibrated] =
        [error.itself, error.uncalibrated].map(|errors| errors.unwrap().mean_percent);
    assert!(
        error.mean_percent <= MOST_PERCENT.max(2.0 * itself),
        "{error:?}"
    );
    assert!(
        error.mean_percent <= (uncalibrated / 4.0).max(MOST_OF_ITSELF * itself),
        "{error:?}"
    );
}
