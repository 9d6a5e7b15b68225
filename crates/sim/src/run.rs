//! One run: a machine, a workload and policies in, a result out.

use std::borrow::Cow;

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
    Model::new(machine, workload, policies)?.run_observed(seed, observer)
}

/// A machine under its policies with a workload, prepared once for the runs of all seeds.
pub struct Model<'a> {
    machine: Cow<'a, Machine>,
    workload: &'a Workload,
    /// By cluster.
    states: Vec<IdleStates>,
    policies: Policies,
    setup: Setup,
    drive: DriveSetup,
}

impl<'a> Model<'a> {
    /// Compiles the machine, the workload and the policies in force.
    ///
    /// # Errors
    /// The machine, the workload or a policy asks for something that is not modelled.
    pub fn new(
        machine: &'a Machine,
        workload: &'a Workload,
        policies: &PolicySet,
    ) -> Result<Self, SimError> {
        let machine = machine_under(machine, policies)?;
        let clusters = machine.cluster.iter();
        let states = clusters.map(|cluster| machine.declared_idle_states_of(cluster));
        let states: Vec<IdleStates> = states.collect::<Result<_, _>>()?;
        let policies = Policies::new(&machine, &states, &in_force(&machine, policies)?)?;
        let setup = Setup::new(&machine, workload, &policies)?;
        let drive = DriveSetup::new(&machine.drive, policies.apst.as_ref());
        Ok(Self {
            machine,
            workload,
            states,
            policies,
            setup,
            drive,
        })
    }

    /// The machine under its policies.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Simulates the run of a seed.
    ///
    /// # Errors
    /// The workload goes nowhere, or makes no request.
    pub fn run(&self, seed: u64) -> Result<Run, SimError> {
        self.run_observed(seed, &mut Unobserved)
    }

    /// As [`simulate_observed`].
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn run_observed<O: Observer>(&self, seed: u64, observer: &mut O) -> Result<Run, SimError> {
        let setup = &self.setup;
        let drives = (0..self.machine.drive.count)
            .map(|_| Drive::new(&self.drive))
            .collect();
        let engine = Engine::new(setup, self.cpus(), self.clocks()?, drives, seed, observer);
        let finished = engine.run()?;
        let run = Run::new(
            seed,
            &self.machine,
            self.workload,
            &self.states[0],
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

    /// The clocks of all clusters, before anything runs.
    fn clocks(&self) -> Result<Vec<Domain>, SimError> {
        let mut clocks = Vec::with_capacity(self.setup.clusters.len());
        for (index, cluster) in self.setup.clusters.iter().enumerate() {
            for offset in (0..cluster.cpus).step_by(cluster.cpus_per_clock) {
                let first = cluster.first_cpu + offset;
                clocks.push(Domain::new(
                    cluster,
                    index,
                    first..first + cluster.cpus_per_clock,
                    (self.policies.frequency, &self.policies.frequency_name),
                    self.setup.tick,
                    self.machine.irq_time_accounting.value > 0.0,
                )?);
            }
        }
        Ok(clocks)
    }

    /// The CPUs of all clusters, idle for long.
    fn cpus(&self) -> Vec<Cpu<'_>> {
        let tick = self.setup.tick;
        let mut cpus = Vec::with_capacity(self.machine.cpus());
        let mut first_clock = 0;
        for (index, cluster) in self.setup.clusters.iter().enumerate() {
            for cpu in 0..cluster.cpus {
                let lease = self.policies.psd.get(index);
                cpus.push(Cpu::new(
                    index,
                    &self.setup.idle[index],
                    first_clock + cpu / cluster.cpus_per_clock,
                    Governor::in_kernel(&self.policies.idle, &self.states[index], tick),
                    latency_request(&self.machine, cluster.first_cpu + cpu),
                    lease.map(|policy| (Lease::new(policy, tick), *policy)),
                    cluster.table.as_slice().len(),
                ));
            }
            first_clock += cluster.cpus.div_ceil(cluster.cpus_per_clock);
        }
        cpus
    }
}
