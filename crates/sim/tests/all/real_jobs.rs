//! Job files that people really use, simulated for a moment: whatever is modelled has to run.
//!
//! They are other people's files, and not part of the repository: the test reads them in `../shared/fio-jobs` beside it,
//! and is skipped where they are absent. How many of them are modelled is counted in `crates/workloads/tests/all/real_jobs.rs`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::PathBuf;

use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_sim::{SimError, simulate};
use wakepath_units::Nanoseconds;
use wakepath_workloads::fio;

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
    let mut ran = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "fio") {
            continue;
        }
        let Ok(mut file) = fio::load(&path) else {
            continue;
        };
        if file.refuse_unmodelled_options().is_err() {
            continue;
        }
        for job in &mut file.jobs {
            job.at_most = Some(Nanoseconds::from_millis(50));
            // Otherwise they would be most of what is simulated.
            job.ramp_time = job
                .ramp_time
                .map(|ramp| ramp.min(Nanoseconds::from_millis(10)));
            job.startdelay = Default::default();
        }
        match simulate(&machine, &file.into(), &policies, 1) {
            Ok(run) => {
                ran += 1;
                assert!(run.requests > 0 && run.seconds > 0.0, "{}", path.display());
            }
            // A request may be due later.
            Err(SimError::NoRequest { .. }) => ran += 1,
            Err(e) => failed.push(format!("{}: {e}", path.display())),
        }
    }
    println!("{ran} files ran");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(ran > 20, "only {ran} files are modelled");
}
