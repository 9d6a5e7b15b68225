//! A machine without background work and without sleep, on which the drive decides.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, simulate};
use wakepath_workloads::fio;

/// Simulates a job file on the quiet machine after a change to it.
pub(crate) fn simulate_on_quiet_machine(job_file: &str, change: impl FnOnce(&mut Machine)) -> Run {
    let mut machine = Machine::find("rk3399").unwrap();
    machine.background.clear();
    change(&mut machine);
    let policies = ["menu@6.1", "performance", "cpu-latency[limit=1us]"];
    let policies = PolicySet::from_names(policies).unwrap();
    let file = fio::parse(job_file, "test.fio").unwrap();
    simulate(&machine, &file.into(), &policies, 1).unwrap()
}
