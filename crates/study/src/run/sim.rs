//! `--on sim`: every run on all threads of the current rayon pool, with common random numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::prelude::*;
use wakepath_hardware::Machine;
use wakepath_hardware::recorded;
use wakepath_results::{Mode, Run, Shard, Writer};
use wakepath_sim::observer::Observer;
use wakepath_sim::{machine_under, simulate_observed};
use wakepath_units::Nanoseconds;

use super::{Waiting, rows, timeline};
use crate::file::StudyError;
use crate::plan::{Plan, PlannedPolicy, machine_in_short};

/// Runs what is missing of a plan, or of a shard of it, in `dir`. Runs of equal repeat have the same seed: the same drive and the same
/// background whatever the policy. The bytes written do not depend on the number of threads, nor on how often the study
/// was interrupted.
///
/// # Errors
/// A workload that cannot be simulated under a policy, before anything is written; the earliest run that fails; the
/// directory; [`StudyError::Interrupted`].
pub fn run(
    plan: &Plan,
    shard: Option<Shard>,
    dir: &Path,
    mode: Mode,
    waiting: &Waiting<'_>,
) -> Result<(), StudyError> {
    let machine = machine_of(plan)?;
    let experiments = Experiments::new(plan)?;
    experiments.check()?;
    let text = machine.to_toml()?;
    let tools = BTreeMap::from([("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    let mut document = plan.document(machine_in_short(machine), tools, stands_in(plan, machine));
    document.shard = shard;
    let writer = Writer::open(dir, document, &plan.files(text.into_bytes()), mode)?;
    // By repeat, so that an interrupted study has about as many runs of each.
    let mut missing = Vec::new();
    let planned = plan.of_shard(shard);
    for &index in &planned {
        if !writer.has(index, &plan.key(index))? {
            missing.push(index);
        }
    }
    (waiting.finished)(planned.len() - missing.len());
    // The earliest run that has failed: what comes after it need not be done.
    let failed = AtomicUsize::new(usize::MAX);
    let cancelled = || waiting.cancelled.load(Ordering::Relaxed);
    let one = |(position, index): (usize, usize)| {
        if cancelled() || position > failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let run = experiments.run(index, waiting);
        let written = run.and_then(|run| match run {
            Some(run) => Ok(writer.write_run(index, &run)?),
            None => Ok(()),
        });
        if written.is_err() {
            failed.fetch_min(position, Ordering::Relaxed);
        } else {
            (waiting.finished)(1);
        }
        written.map_err(|e| (position, e))
    };
    // The bridge hands the runs out in order, which plain parallel iterators do not.
    let errors: Vec<(usize, StudyError)> = missing
        .into_iter()
        .enumerate()
        .par_bridge()
        .filter_map(|item| one(item).err())
        .collect();
    if let Some((_, error)) = errors.into_iter().min_by_key(|(position, _)| *position) {
        return Err(error);
    }
    if cancelled() {
        return Err(StudyError::Interrupted);
    }
    match shard {
        // Its tables are made when all are merged.
        Some(_) => Ok(()),
        None => Ok(writer.finish()?),
    }
}

/// What stands in for a recorded system's own policies, where a policy of the study does not name one.
fn stands_in(plan: &Plan, machine: &Machine) -> Vec<String> {
    let leaves_open = |p: &PlannedPolicy| p.set.idle().is_none() || p.set.frequency().is_none();
    let system = recorded::find(&machine.name).filter(|_| plan.policies.iter().any(leaves_open));
    let told = system.and_then(|system| system.kernel_policy().stands_in);
    told.into_iter().collect()
}

fn machine_of(plan: &Plan) -> Result<&Machine, StudyError> {
    let missing = || StudyError::Settings(format!("{}: no machine to simulate", plan.origin));
    plan.machine.as_ref().ok_or_else(missing)
}

/// The machine of each policy, and the workload of each pair.
struct Experiments<'a> {
    plan: &'a Plan,
    machines: Vec<Machine>,
}

impl<'a> Experiments<'a> {
    fn new(plan: &'a Plan) -> Result<Self, StudyError> {
        let machine = machine_of(plan)?;
        let machines = plan.policies.iter().map(|p| {
            let machine = machine_under(machine, &p.set).map(Cow::into_owned);
            machine.map_err(|e| StudyError::Settings(format!("policy '{}': {e}", p.name)))
        });
        Ok(Self {
            plan,
            machines: machines.collect::<Result<_, _>>()?,
        })
    }

    /// Whether each workload can be simulated under each policy: they are set up and stopped at once.
    fn check(&self) -> Result<(), StudyError> {
        for workload in 0..self.plan.workloads.len() {
            for policy in 0..self.plan.policies.len() {
                let mut stopped = Until(|| true);
                self.simulate(workload, policy, self.plan.seed(0), &mut stopped, |_| ())?;
            }
        }
        Ok(())
    }

    /// One run, unless it is called off.
    fn run(&self, index: usize, waiting: &Waiting<'_>) -> Result<Option<Run>, StudyError> {
        let (workload, policy, repeat) = self.plan.run(index);
        let machine = &self.machines[policy];
        let seed = self.plan.seed(repeat);
        let cancelled = || waiting.cancelled.load(Ordering::Relaxed);
        let mut run = Run::new(self.plan.key(index), Some(seed), repeat, index as u32);
        self.simulate(workload, policy, seed, &mut Until(cancelled), |simulated| {
            rows::fill(&mut run, machine, simulated);
        })?;
        if repeat == 0 && !cancelled() {
            let mut recording = timeline::Recording::new(machine, cancelled);
            self.simulate(workload, policy, seed, &mut recording, |_| ())?;
            run.timeline = recording.rows();
        }
        // Cut short or just finished: there is no telling.
        Ok((!cancelled()).then_some(run))
    }

    fn simulate<O: Observer>(
        &self,
        workload: usize,
        policy: usize,
        seed: u64,
        observer: &mut O,
        then: impl FnOnce(&wakepath_sim::Run),
    ) -> Result<(), StudyError> {
        let (of_workload, of_policy) =
            (&self.plan.workloads[workload], &self.plan.policies[policy]);
        let Some(workload) = of_workload.workload() else {
            let message = format!("{} cannot be simulated", of_workload.name);
            return Err(StudyError::Settings(message));
        };
        let machine = &self.machines[policy];
        let run = simulate_observed(machine, workload, &of_policy.set, seed, observer);
        let run = run.map_err(|source| StudyError::Simulation {
            workload: of_workload.name.clone(),
            policy: of_policy.name.clone(),
            source: Box::new(source),
        })?;
        then(&run);
        Ok(())
    }
}

/// Stops a run early.
struct Until<F>(F);

impl<F: Fn() -> bool> Observer for Until<F> {
    const WATCHES: bool = false;

    fn has_enough(&self) -> bool {
        (self.0)()
    }
}

/// How long the whole plan takes on one core, from a short try of each workload under each policy. Tells of whatever
/// the simulator refuses, too.
///
/// # Errors
/// A run that cannot be simulated.
pub fn estimate(plan: &Plan, of_each: Duration) -> Result<Duration, StudyError> {
    let experiments = Experiments::new(plan)?;
    experiments.check()?;
    let mut total = 0.0;
    for (w, workload) in plan.workloads.iter().enumerate() {
        for policy in 0..plan.policies.len() {
            let started = Instant::now();
            let mut simulated = 0.0;
            // Reading the clock costs more than an event.
            let looks = std::cell::Cell::new(0_u32);
            let mut observer = Until(|| {
                looks.set(looks.get() + 1);
                looks.get().is_multiple_of(256) && started.elapsed() >= of_each
            });
            experiments.simulate(w, policy, plan.seed(0), &mut observer, |run| {
                simulated = run.seconds;
            })?;
            let took = started.elapsed();
            let all = workload
                .duration()
                .map_or(simulated, Nanoseconds::as_secs_f64);
            let factor = if took < of_each {
                1.0
            } else {
                all / simulated.max(1e-9)
            };
            total += took.as_secs_f64() * factor * f64::from(plan.repeats());
        }
    }
    Ok(Duration::from_secs_f64(total.min(1e9)))
}
