//! One run: a machine, a workload and policies in, a result out.

use wakepath_hardware::Machine;
use wakepath_hardware::idle::IdleStates;
use wakepath_policies::PolicySet;
use wakepath_policies::idle::Governor;
use wakepath_policies::psd::Lease;
use wakepath_workloads::Workload;

use crate::cpu::state::Cpu;
use crate::drive::{Drive, DriveSetup};
use crate::engine::Engine;
use crate::error::SimError;
use crate::frequency::clocks::Domain;
use crate::observe::observer::{Observer, Unobserved};
use crate::result::Run;
use crate::setup::policies::{Policies, in_force, machine_under};
use crate::setup::{Setup, latency_request};

/// Simulates one run. What `policies` does not name is as the machine's kernel has it ([`in_force`]).
///
/// ```
/// use wakepath_hardware::Machine;
/// use wakepath_sim::simulate;
/// use wakepath_workloads::fio;
///
/// let machine = Machine::find("rk3399")?;
/// let job = "[reads]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\ntime_based\nruntime=10ms\n";
/// let job = fio::parse(job, "reads.fio")?;
/// let run = simulate(&machine, &job.into(), &"menu + psd[timeout=1ms]".parse()?, 1)?;
/// assert!(run.iops > 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The machine, the workload or a policy asks for something that is not modelled.
pub fn simulate(
    machine: &Machine,
    workload: &Workload,
    policies: &PolicySet,
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
    policies: &PolicySet,
    seed: u64,
    observer: &mut O,
) -> Result<Run, SimError> {
    let machine = &*machine_under(machine, policies)?;
    let states = machine.cluster.iter();
    let states = states.map(|cluster| machine.declared_idle_states_of(cluster));
    let states: Vec<IdleStates> = states.collect::<Result<_, _>>()?;
    let policies = Policies::new(machine, &states, &in_force(machine, policies)?)?;
    let setup = Setup::new(machine, workload, &policies)?;
    let drive = DriveSetup::new(&machine.drive, policies.apst.as_ref());
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
                (policies.frequency, &policies.frequency_name),
                setup.tick,
                machine.irq_time_accounting.value > 0.0,
            )?);
        }
        cpus.extend((0..cluster.cpus).map(|cpu| {
            let lease = policies.psd.get(index);
            let lease = lease.map(|p| (Lease::new(p, setup.tick), *p));
            Cpu::new(
                index,
                &setup.idle[index],
                first_domain + cpu / cluster.cpus_per_clock,
                Governor::in_kernel(&policies.idle, &states[index], setup.tick),
                latency_request(machine, cluster.first_cpu + cpu),
                lease,
                cluster.table.as_slice().len(),
            )
        }));
    }
    let engine = Engine::new(&setup, cpus, domains, drives, seed, observer);
    let finished = engine.run()?;
    let run = Run::new(
        seed,
        machine,
        workload,
        &states[0],
        &setup.programs,
        &finished,
    );
    if run.requests == 0 && !setup.jobs.is_empty() && !observer.has_enough() {
        return Err(SimError::NoRequest {
            seconds: run.seconds,
        });
    }
    Ok(run)
}
