//! Job files that people really use, simulated for a moment: whatever is modelled has to run.
//!
//! They are other people's files, and not part of the repository: the test reads them in `../shared/fio-jobs` beside it,
//! and is skipped where they are absent. How many of them are modelled is counted in `crates/workloads/tests/all/real_jobs.rs`.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, SimError, simulate};
use wakepath_units::Nanoseconds;
use wakepath_workloads::fio::{self, FioJobFile};

/// How many of the files are modelled at least. All 105 in scope are.
const LEAST_MODELLED: usize = 100;

/// How long each job is simulated at most, and where nothing is due by then.
const SHORT: Nanoseconds = Nanoseconds::from_millis(50);
const LONG: Nanoseconds = Nanoseconds::from_millis(20_000);

/// Runs the jobs of a file for a moment, without what would only be waiting.
fn simulate_at_most(
    file: &FioJobFile,
    most: Nanoseconds,
    machine: &Machine,
    policies: &PolicySet,
) -> Result<Run, SimError> {
    let mut file = file.clone();
    for job in &mut file.jobs {
        job.at_most = Some(most);
        // Otherwise they would be most of what is simulated.
        job.ramp_time = job
            .ramp_time
            .map(|ramp| ramp.min(Nanoseconds::from_millis(10)));
        job.startdelay = Default::default();
    }
    simulate(machine, &file.into(), policies, 1)
}

#[test]
fn real_jobs_that_are_modelled_run() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fio-jobs");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!(
            "skipped: real_jobs_that_are_modelled_run: no {}",
            folder.display()
        );
        return;
    };
    let mut machine = Machine::find("xeon-e3-1240v5").unwrap();
    machine.io_path.completion.poll_queues = Some(4);
    let policies = PolicySet::from_names(["menu@6.1", "performance"]).unwrap();
    let mut failed = Vec::new();
    let (mut ran, mut modelled) = (0, 0);
    for entry in entries {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "fio") {
            continue;
        }
        // fio takes all of them.
        let file = fio::load(&path).unwrap_or_else(|e| panic!("{e}"));
        if file.refuse_unmodelled_options().is_err() {
            continue;
        }
        modelled += 1;
        // Where nothing is due at first, a longer time has a request.
        let mut result = simulate_at_most(&file, SHORT, &machine, &policies);
        if let Err(SimError::NoRequest { .. }) = result {
            println!("{}: no request in {SHORT}", path.display());
            result = simulate_at_most(&file, LONG, &machine, &policies);
        }
        match result {
            Ok(run) => {
                ran += 1;
                assert!(run.requests > 0 && run.seconds > 0.0, "{}", path.display());
            }
            Err(e) => failed.push(format!("{}: {e}", path.display())),
        }
    }
    println!("{ran} of {modelled} files ran");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert_eq!(ran, modelled);
    assert!(
        modelled >= LEAST_MODELLED,
        "only {modelled} files are modelled"
    );
}
