//! `--on sim`: the simulator, with common random numbers. Runs of equal repeat have the same seed: the same drive and the
//! same background whatever the policy.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wakepath_hardware::machine::MachineError;
use wakepath_hardware::{Machine, recorded};
use wakepath_results::Run;
use wakepath_sim::observer::Observer;
use wakepath_sim::{machine_under, simulate_observed};
use wakepath_units::Nanoseconds;

use super::{Backend, Order, Provenance, rows};
use crate::file::StudyError;
use crate::plan::{Cell, Plan, PlannedPolicy};
use crate::timeline::representative;

/// The simulator.
pub struct Sim<'a> {
    plan: &'a Plan,
    /// What each policy makes of each machine on which something runs under it.
    under: BTreeMap<(usize, usize), Machine>,
}

impl<'a> Sim<'a> {
    /// The simulator for a plan.
    ///
    /// # Errors
    /// No machine, or a policy that it cannot have.
    pub fn new(plan: &'a Plan) -> Result<Self, StudyError> {
        let mut under = BTreeMap::new();
        for cell in plan.cells() {
            let Entry::Vacant(place) = under.entry((cell.machine, cell.policy)) else {
                continue;
            };
            let (machine, policy) = (&plan.machines[cell.machine], &plan.policies[cell.policy]);
            let Some(model) = &machine.model else {
                let message = format!("{}: no machine to simulate", plan.origin);
                return Err(StudyError::Settings(message));
            };
            let changed = machine_under(model, &policy.set);
            let changed = changed.map_err(|e| {
                StudyError::Settings(format!("{}, policy '{}': {e}", machine.name, policy.name))
            })?;
            place.insert(changed.into_owned());
        }
        Ok(Self { plan, under })
    }

    /// The machine of a cell, as its policy makes it.
    fn machine(&self, cell: Cell) -> &Machine {
        &self.under[&(cell.machine, cell.policy)]
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
        let machine = self.machine(cell);
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
        let machines = self.plan.machines.iter();
        let models = || {
            machines
                .clone()
                .filter_map(|m| Some((m, m.model.as_ref()?)))
        };
        let files = models().map(|(_, model)| Ok::<_, MachineError>(model.to_toml()?.into_bytes()));
        Ok(Provenance {
            tools: BTreeMap::from([("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
            machines: models()
                .map(|(machine, model)| machine.in_short(model))
                .collect(),
            machine_files: files.collect::<Result<_, _>>()?,
            notes: models()
                .filter_map(|(_, model)| stands_in(self.plan, model))
                .collect(),
        })
    }

    fn estimate(&self, of_each: Duration) -> Result<Option<Duration>, StudyError> {
        let mut total = 0.0;
        for cell in self.plan.cells().iter().copied() {
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
        let machine = self.machine(cell);
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
fn stands_in(plan: &Plan, machine: &Machine) -> Option<String> {
    let leaves_open = |p: &PlannedPolicy| p.set.idle().is_none() || p.set.frequency().is_none();
    let system = recorded::find(&machine.name).filter(|_| plan.policies.iter().any(leaves_open));
    system.and_then(|system| system.kernel_policy().stands_in)
}

/// Stops a run early.
struct Until<F>(F);

impl<F: Fn() -> bool> Observer for Until<F> {
    const WATCHES: bool = false;

    fn has_enough(&self) -> bool {
        (self.0)()
    }
}
