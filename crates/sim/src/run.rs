//! One run: a machine, a workload and policies in, a result out.

use wakepath_hardware::Machine;
use wakepath_policies::idle::stay::NO_LATENCY_REQUEST;
use wakepath_policies::idle::{Governor, IdlePolicy};
use wakepath_policies::psd::Lease;
use wakepath_policies::spec::{PolicySpec, SpecError};
use wakepath_workloads::Workload;

use crate::engine::Engine;
use crate::error::SimError;
use crate::observe::observer::{Observer, Unobserved};
use crate::result::Run;
use crate::setup::Setup;
use crate::state::clocks::Domain;
use crate::state::cpu::Cpu;
use crate::state::drive::{Drive, DriveSetup};

/// The policies of one run.
#[derive(Clone, Debug)]
pub struct Combination {
    /// Idle governor.
    pub idle: PolicySpec,
    /// Frequency policy.
    pub freq: PolicySpec,
    /// Power-sleep demotion prevention, if any.
    pub psd: Option<PolicySpec>,
    /// When the drive sleeps, if it has power states; none: never.
    pub apst: Option<PolicySpec>,
    /// How long the polling idle state polls; none: as the kernel does now.
    pub poll: Option<PolicySpec>,
}

impl Combination {
    /// The idle governor and the frequency policy of these names, and nothing else.
    ///
    /// ```
    /// use wakepath_sim::Combination;
    ///
    /// let psd = Combination {
    ///     psd: Some("psd[timeout=1ms]".parse()?),
    ///     ..Combination::named("menu@6.1", "schedutil")?
    /// };
    /// assert_eq!(psd.idle.to_string(), "menu@6.1");
    /// # Ok::<(), wakepath_policies::spec::SpecError>(())
    /// ```
    ///
    /// # Errors
    /// One of the names is none of a policy.
    pub fn named(idle: &str, freq: &str) -> Result<Self, SpecError> {
        Ok(Self {
            idle: idle.parse()?,
            freq: freq.parse()?,
            psd: None,
            apst: None,
            poll: None,
        })
    }
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
    let poll = policies.poll.as_ref().map(PolicySpec::poll).transpose()?;
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
    let psd = match &policies.psd {
        Some(spec) => Some(spec.psd()?.on(&states).map_err(|why| SimError::Psd {
            policy: spec.to_string(),
            why,
        })?),
        None => None,
    };
    let apst = policies.apst.as_ref().map(PolicySpec::apst).transpose()?;
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
