//! Runs policy sets in the simulator.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_results::{RunKey, RunRecord};
use wakepath_sim::{Model, policies_in_force};
use wakepath_study::run::rows;
use wakepath_workloads::Workload;

use crate::TuneError;
use crate::evaluator::{Effort, Evaluator, LoadRuns, Trial, TrialOutcome};
use crate::load::{DailyLoad, hours_left_for_rest, rest_workload};

/// The simulator as an evaluator: loads on a machine, and the machine at rest.
pub struct Simulation<'a> {
    machine: &'a Machine,
    loads: &'a [DailyLoad],
    rest: Option<Workload>,
    cancelled: &'a AtomicBool,
    finished: &'a (dyn Fn(u64) + Sync),
}

/// One simulated run to make.
struct Job<'a> {
    set: usize,
    /// `None`: at rest.
    load: Option<usize>,
    workload: &'a Workload,
    seed: u64,
}

/// Metrics and requests per run, warm-up included. For an rt-app file, loops by the first task count as requests.
struct MadeRun {
    metrics: Vec<(String, f64)>,
    requests: u64,
}

impl<'a> Simulation<'a> {
    /// Loads on a machine. `counts_rest`: the machine at rest is simulated, too, if the loads leave hours for rest. `finished` is told of requests as
    /// they are simulated.
    ///
    /// # Errors
    /// Impossible hours, or two loads with one name.
    pub fn new(
        machine: &'a Machine,
        loads: &'a [DailyLoad],
        counts_rest: bool,
        cancelled: &'a AtomicBool,
        finished: &'a (dyn Fn(u64) + Sync),
    ) -> Result<Self, TuneError> {
        let has_rest = counts_rest && hours_left_for_rest(loads)? > 0.0;
        Ok(Self {
            machine,
            loads,
            rest: has_rest.then(rest_workload).transpose()?,
            cancelled,
            finished,
        })
    }

    /// The policies in force on the machine under a policy set.
    ///
    /// # Errors
    /// Why the machine, or a load on it, cannot have the set.
    pub fn policies_in_force(&self, set: &PolicySet) -> Result<PolicySet, String> {
        for load in self.loads {
            Model::new(self.machine, &load.workload, set).map_err(|e| e.to_string())?;
        }
        policies_in_force(self.machine, set).map_err(|e| e.to_string())
    }

    fn simulate_run(
        &self,
        set: &PolicySet,
        job: &Job<'_>,
        shortened: u32,
    ) -> Result<MadeRun, String> {
        let model = Model::new(self.machine, job.workload, set).map_err(|e| e.to_string())?;
        let run = model.run(job.seed).map_err(|e| e.to_string())?;
        let key = RunKey {
            machine: self.machine.name.clone(),
            workload: job
                .load
                .map_or("rest", |load| &self.loads[load].name)
                .to_owned(),
            policy: set.to_string(),
            repeat: 0,
        };
        let mut record = RunRecord::new(key, Some(job.seed), 0, 0);
        rows::fill_simulated_run(&mut record, model.machine(), &run);
        let factor = job.load.map_or(1.0, |load| {
            self.loads[load].requests_per_measured(shortened)
        });
        let loops = run.threads.as_ref().map_or(0, |threads| threads.operations);
        let requests = ((run.requests as f64 * factor).round() as u64 + loops).max(1);
        (self.finished)(requests);
        Ok(MadeRun {
            metrics: record.metrics,
            requests,
        })
    }
}

impl Evaluator for Simulation<'_> {
    fn run_sets_in_order(
        &self,
        sets: &[PolicySet],
        effort: Effort,
    ) -> Result<Vec<TrialOutcome>, TuneError> {
        let workloads: Vec<Workload> = self
            .loads
            .iter()
            .map(|load| load.shortened_workload(effort.shortened))
            .collect();
        let mut jobs = Vec::new();
        for set in 0..sets.len() {
            for repeat in 0..effort.repeats {
                let seed = effort.first_seed.wrapping_add(u64::from(repeat));
                for (load, workload) in workloads.iter().enumerate() {
                    jobs.push(Job {
                        set,
                        load: Some(load),
                        workload,
                        seed,
                    });
                }
                jobs.extend(self.rest.as_ref().map(|workload| Job {
                    set,
                    load: None,
                    workload,
                    seed,
                }));
            }
        }
        let made: Vec<Option<Result<MadeRun, String>>> = jobs
            .par_iter()
            .map(|job| {
                let is_cancelled = self.cancelled.load(Ordering::Relaxed);
                (!is_cancelled).then(|| self.simulate_run(&sets[job.set], job, effort.shortened))
            })
            .collect();
        let mut outcomes: Vec<TrialOutcome> = sets
            .iter()
            .map(|_| {
                TrialOutcome::Ran(Trial {
                    loads: vec![LoadRuns::default(); self.loads.len()],
                    rest: LoadRuns::default(),
                    requests: 0,
                })
            })
            .collect();
        for (job, run) in jobs.iter().zip(made) {
            let outcome = &mut outcomes[job.set];
            match (run, &mut *outcome) {
                (None, _) => return Err(TuneError::Interrupted),
                (Some(Err(why)), TrialOutcome::Ran(_)) => *outcome = TrialOutcome::Refused(why),
                (Some(Ok(run)), TrialOutcome::Ran(trial)) => {
                    trial.requests += run.requests;
                    let runs = match job.load {
                        Some(load) => &mut trial.loads[load],
                        None => &mut trial.rest,
                    };
                    runs.runs.push(run.metrics);
                }
                (Some(_), TrialOutcome::Refused(_)) => {}
            }
        }
        Ok(outcomes)
    }
}
