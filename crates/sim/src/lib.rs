//! A discrete-event simulator of I/O requests that meet sleeping hardware.
//!
//! [`simulate`] runs a workload on a machine under one combination of policies, [`compare`] under
//! many of them with the same random numbers. Time is integer nanoseconds, work is cycles of the
//! machine's biggest core, and the same seed gives the same result on any number of threads. What
//! is modelled, and what is not, is in `docs/model.md`.

#![allow(
    clippy::inline_always,
    reason = "where it was measured to make runs shorter: small steps of every event"
)]

mod attribution;
mod compare;
mod completion;
mod cpu;
mod demotion;
pub mod details;
mod drive;
mod engine;
mod exponential;
mod fifo;
mod frequency;
pub mod observer;
#[doc(hidden)]
pub mod pattern;
mod pelt;
mod power;
mod program;
mod queue;
mod random;
mod recorder;
mod result;
mod sched;
mod setup;
mod speed;
mod task;
mod threads;
mod threads_run;
mod timers;
mod uncore;

pub use attribution::Attribution;
pub use compare::{
    Combination, CombinationResult, Comparison, Experiment, Waiting, compare, compare_all, median,
};
pub use engine::watchdog::Stuck;
pub use frequency::HwpBoostRun;
pub use power::Energy;
pub use result::{
    ClockTime, CpuTime, DriveRun, DriveStateTime, FrequencyTime, Latency, LatencyParts, Run,
    StateTime,
};
pub use setup::LONGEST_UNTIMED;

pub use threads_run::{Spread, TaskRun, ThreadsRun, WakeAttribution};

use wakepath_hardware::Machine;
use wakepath_policies::idle::stay::NO_LATENCY_REQUEST;
use wakepath_policies::idle::{Governor, IdlePolicy};
use wakepath_policies::psd::Lease;
use wakepath_policies::spec::SpecError;
use wakepath_workloads::Workload;
use wakepath_workloads::fio::FioError;

use crate::cpu::Cpu;
use crate::drive::{Drive, DriveSetup};
use crate::engine::Engine;
use crate::frequency::Domain;
use crate::observer::{Observer, Unobserved};
use crate::setup::Setup;

/// Why a simulation cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// The simulator has no model of something that a job file asks for.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// The simulator has no model of something that the job asks for.
    #[error("job '{job}': the simulator does not model {what}")]
    Workload {
        /// Name of the job.
        job: String,
        /// What it asks for.
        what: String,
    },
    /// The simulator has no model of a policy.
    #[error("policy '{policy}': the simulator does not model {what}")]
    Policy {
        /// Name of the policy.
        policy: String,
        /// What about it.
        what: String,
    },
    /// A cluster does not say what a frequency policy needs.
    #[error(
        "cluster '{cluster}' of this machine gives no {what}, which {policy} needs: add it to the \
         machine's file (docs/machines.md), or take schedutil, ondemand, performance or powersave"
    )]
    NoClock {
        /// Name of the cluster.
        cluster: String,
        /// Name of the policy.
        policy: String,
        /// What is missing.
        what: String,
    },
    /// The workload comes to nothing: its threads wait for each other, or do something endless that
    /// takes no time.
    #[error("after {seconds} s the workload makes no progress: {what}")]
    NoProgress {
        /// Simulated time until then.
        seconds: f64,
        /// Who does what.
        what: String,
    },
    /// The run goes nowhere.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// The jobs end before they have done anything.
    #[error("no request was finished in {seconds} s of simulated time: the jobs are too short")]
    NoRequest {
        /// How long the jobs ran.
        seconds: f64,
    },
    /// A cluster without operating points.
    #[error("cluster '{0}' has no operating point")]
    NoFrequency(String),
    /// An APST policy for a drive without power states.
    #[error(
        "drive '{0}' has no power states in this model, so APST has nothing to choose from; name a drive (--drive)"
    )]
    NoPowerStates(String),
    /// A policy of another kind than its place asks for.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The machine's idle states are no state table.
    #[error(transparent)]
    IdleStates(#[from] wakepath_hardware::idle::IdleStatesError),
}

/// Simulates one run.
///
/// # Errors
/// The machine, the workload or a policy asks for something that is not modelled.
pub fn simulate(
    machine: &Machine,
    workload: &Workload,
    policies: &Combination,
    seed: u64,
) -> Result<Run, SimError> {
    simulate_observed(machine, workload, policies, seed, &mut Unobserved)
}

/// Simulates one run before the eyes of `observer`, which sees it but cannot change it. When the
/// observer has enough, the run ends there, and its figures are those up to then.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_observed<O: Observer>(
    machine: &Machine,
    workload: &Workload,
    policies: &Combination,
    seed: u64,
    observer: &mut O,
) -> Result<Run, SimError> {
    let poll = policies
        .poll
        .as_ref()
        .map(wakepath_policies::spec::PolicySpec::poll)
        .transpose()?;
    let setup = Setup::new(machine, workload, poll)?;
    let states = machine.declared_idle_states()?;
    let idle = policies.idle.idle()?;
    if let IdlePolicy::Oracle(_) = idle {
        return Err(SimError::Policy {
            policy: policies.idle.to_string(),
            what: "it: how long a CPU stays idle follows from what is decided here, so nobody can know it before; \
                   'wakepath replay' sets other governors against it"
                .to_owned(),
        });
    }
    if let Some(poll) = &policies.poll
        && !states.iter().any(|s| s.polling && !s.disabled)
    {
        return Err(SimError::Policy {
            policy: poll.to_string(),
            what: "it on a machine without a polling idle state".to_owned(),
        });
    }
    let psd = policies
        .psd
        .as_ref()
        .map(wakepath_policies::spec::PolicySpec::psd)
        .transpose()?;
    let apst = policies
        .apst
        .as_ref()
        .map(wakepath_policies::spec::PolicySpec::apst)
        .transpose()?;
    if apst.is_some() && machine.drive.power.is_none() {
        return Err(SimError::NoPowerStates(machine.drive.name.clone()));
    }
    let latency_request = |cpu: usize| {
        let request = machine.latency_request(cpu);
        request.map_or(NO_LATENCY_REQUEST, |limit| limit.0 as i64)
    };
    let drive = DriveSetup::new(&machine.drive, apst.as_ref());
    let drives = (0..machine.drive.count)
        .map(|_| Drive::new(&drive))
        .collect();
    let mut cpus = Vec::with_capacity(machine.cpus());
    let mut domains = Vec::with_capacity(setup.clusters.len());
    for (index, cluster) in setup.clusters.iter().enumerate() {
        let first_domain = domains.len();
        for first in (0..cluster.cpus).step_by(cluster.cpus_per_clock) {
            let first = cluster.first_cpu + first;
            let of = first..first + cluster.cpus_per_clock;
            domains.push(Domain::new(
                cluster,
                index,
                of,
                &policies.freq,
                setup.tick,
                machine.irq_time_accounting.value > 0.0,
            )?);
        }
        cpus.extend((0..cluster.cpus).map(|cpu| {
            let lease = psd.map(|p| (Lease::new(p.timeout_ms, setup.tick), p));
            Cpu::new(
                index,
                first_domain + cpu / cluster.cpus_per_clock,
                Governor::new(&idle, &states, setup.tick),
                latency_request(cluster.first_cpu + cpu),
                lease,
                states.len(),
                cluster.table.as_slice().len(),
            )
        }));
    }
    let engine = Engine::new(&setup, cpus, domains, &states, drives, seed, observer);
    let finished = engine.run()?;
    let run = Run::new(seed, machine, &states, &setup.programs, &finished);
    if run.requests == 0 && !setup.jobs.is_empty() && !observer.has_enough() {
        return Err(SimError::NoRequest {
            seconds: run.seconds,
        });
    }
    Ok(run)
}
