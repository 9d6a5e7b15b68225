//! `--on sim`: the simulator, with common random numbers. Runs of equal repeat have the same seed: the same drive and the
//! same background whatever the policy.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wakepath_hardware::Machine;
use wakepath_hardware::recorded;
use wakepath_results::Run;
use wakepath_sim::observer::Observer;
use wakepath_sim::{machine_under, simulate_observed};
use wakepath_units::Nanoseconds;

use super::{Backend, Order, Provenance, rows};
use crate::file::StudyError;
use crate::plan::{Cell, Plan, PlannedPolicy, machine_in_short};
use crate::timeline::representative;

/// The simulator.
pub struct Sim<'a> {
    plan: &'a Plan,
    machine: &'a Machine,
    /// What each policy makes of the machine.
    under: Vec<Machine>,
}

impl<'a> Sim<'a> {
    /// The simulator for a plan.
    ///
    /// # Errors
    /// No machine, or a policy that it cannot have.
    pub fn new(plan: &'a Plan) -> Result<Self, StudyError> {
        let missing = || StudyError::Settings(format!("{}: no machine to simulate", plan.origin));
        let machine = plan.machine.as_ref().ok_or_else(missing)?;
        let under = plan.policies.iter().map(|p| {
            let machine = machine_under(machine, &p.set).map(Cow::into_owned);
            machine.map_err(|e| StudyError::Settings(format!("policy '{}': {e}", p.name)))
        });
        Ok(Self {
            plan,
            machine,
            under: under.collect::<Result<_, _>>()?,
        })
    }

    /// Simulates a cell.
    ///
    /// # Errors
    /// It cannot be simulated.
    pub fn simulate(
        &self,
        cell: Cell,
        observer: &mut impl Observer,
    ) -> Result<wakepath_sim::Run, StudyError> {
        let of_workload = &self.plan.workloads[cell.workload];
        let of_policy = &self.plan.policies[cell.policy];
        let Some(workload) = of_workload.workload() else {
            let message = format!("{} cannot be simulated", of_workload.name);
            return Err(StudyError::Settings(message));
        };
        let machine = &self.under[cell.policy];
        let seed = self.plan.seed(cell.repeat);
        simulate_observed(machine, workload, &of_policy.set, seed, observer).map_err(|source| {
            StudyError::Simulation {
                workload: of_workload.name.clone(),
                policy: of_policy.name.clone(),
                source: Box::new(source),
            }
        })
    }
}

impl Backend for Sim<'_> {
    /// The cell is set up and stopped at once.
    fn check(&self, cell: Cell) -> Result<(), StudyError> {
        self.simulate(cell, &mut Until(|| true)).map(drop)
    }

    fn order(&self) -> Order {
        Order::Parallel
    }

    fn provenance(&self) -> Result<Provenance, StudyError> {
        Ok(Provenance {
            tools: BTreeMap::from([("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
            machine: machine_in_short(self.machine),
            machine_file: self.machine.to_toml()?.into_bytes(),
            notes: stands_in(self.plan, self.machine),
        })
    }

    fn estimate(&self, of_each: Duration) -> Result<Option<Duration>, StudyError> {
        let mut total = 0.0;
        for cell in self.plan.cells() {
            let started = Instant::now();
            // Reading the clock costs more than an event.
            let looks = std::cell::Cell::new(0_u32);
            let mut observer = Until(|| {
                looks.set(looks.get() + 1);
                looks.get().is_multiple_of(256) && started.elapsed() >= of_each
            });
            let simulated = self.simulate(cell, &mut observer)?.seconds;
            let took = started.elapsed();
            let all = self.plan.workloads[cell.workload]
                .duration()
                .map_or(simulated, Nanoseconds::as_secs_f64);
            let factor = if took < of_each {
                1.0
            } else {
                all / simulated.max(1e-9)
            };
            total += took.as_secs_f64() * factor * f64::from(self.plan.repeats());
        }
        Ok(Some(Duration::from_secs_f64(total.min(1e9))))
    }

    fn run(&self, cell: Cell, run: &mut Run, cancelled: &AtomicBool) -> Result<(), StudyError> {
        let is_cancelled = || cancelled.load(Ordering::Relaxed);
        let simulated = self.simulate(cell, &mut Until(is_cancelled))?;
        let machine = &self.under[cell.policy];
        run.seed = Some(self.plan.seed(cell.repeat));
        rows::fill(run, machine, &simulated);
        if cell.repeat == 0
            && !is_cancelled()
            && let Some(workload) = self.plan.workloads[cell.workload].workload()
        {
            let mut observed = representative::observe(machine, workload, is_cancelled);
            self.simulate(cell, &mut observed)?;
            run.timeline = representative::rows(observed);
        }
        // Cut short or just finished: there is no telling.
        if is_cancelled() {
            return Err(StudyError::Interrupted);
        }
        Ok(())
    }
}

/// What stands in for a recorded system's own policies, where a policy of the study does not name one.
fn stands_in(plan: &Plan, machine: &Machine) -> Vec<String> {
    let leaves_open = |p: &PlannedPolicy| p.set.idle().is_none() || p.set.frequency().is_none();
    let system = recorded::find(&machine.name).filter(|_| plan.policies.iter().any(leaves_open));
    let told = system.and_then(|system| system.kernel_policy().stands_in);
    told.into_iter().collect()
}

/// Stops a run early.
struct Until<F>(F);

impl<F: Fn() -> bool> Observer for Until<F> {
    const WATCHES: bool = false;

    fn has_enough(&self) -> bool {
        (self.0)()
    }
}
