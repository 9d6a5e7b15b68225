//! One run: a machine, a workload and policies in, a result out.

use std::borrow::Cow;

use wakepath_hardware::Machine;
use wakepath_hardware::idle::IdleStates;
use wakepath_policies::PolicySet;
use wakepath_workloads::Workload;

use crate::core::observer::{Observer, Unobserved};
use crate::engine::Engine;
use crate::error::SimError;
use crate::result::Run;
use crate::setup::Setup;
use crate::setup::policies::{Policies, machine_under_policies, policies_in_force};

/// Simulates one run. What `policies` does not name is as the machine's kernel has it ([`policies_in_force`]).
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
    setup: Setup,
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
        let machine = machine_under_policies(machine, policies)?;
        let states: Vec<IdleStates> = (machine.cluster.iter())
            .map(|cluster| machine.declared_idle_states_on_cluster(cluster))
            .collect::<Result<_, _>>()?;
        let policies = Policies::new(&machine, &states, &policies_in_force(&machine, policies)?)?;
        let setup = Setup::new(&machine, workload, policies)?;
        Ok(Self {
            machine,
            workload,
            setup,
        })
    }

    /// The machine as changed by the policies: disabled idle states, latency requests, kernel configuration.
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
        let points = setup.frequency.operating_point_counts();
        let cpus = setup.cpu.create_idle_cpus(&setup.topology, &points);
        let clocks = setup.frequency.create_clocks()?;
        let drives = setup.create_idle_drives(self.machine.drive.count);
        let engine = Engine::new(setup, cpus, clocks, drives, seed, observer);
        let finished = engine.run_to_end()?;
        let run = Run::new(
            seed,
            &self.machine,
            self.workload,
            setup.cpu.declared_states_of_first_cluster(),
            (&setup.programs, setup.server()),
            &finished,
        );
        let makes_requests = !setup.jobs.is_empty() || setup.server().is_some();
        if run.requests == 0 && makes_requests && !observer.lets_run_stop() {
            return Err(explain_run_without_request(&run));
        }
        Ok(run)
    }
}

/// Why a run of jobs or of a server has no request.
fn explain_run_without_request(run: &Run) -> SimError {
    let seconds = run.seconds;
    let Some(server) = &run.server else {
        return SimError::NoRequest { seconds };
    };
    let name = server.name.clone();
    match server.arrived {
        0 => SimError::NoArrival { name, seconds },
        arrived => SimError::NoReply {
            name,
            arrived,
            seconds,
        },
    }
}
