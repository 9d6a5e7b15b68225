//! Runs policy sets in the simulator.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_results::{LatencyCount, RunKey, RunRecord};
use wakepath_sim::{JobRun, Model, policies_in_force};
use wakepath_study::run::rows;
use wakepath_workloads::Workload;

use crate::TuneError;
use crate::evaluator::{Effort, Evaluator, LoadRuns, Trial, TrialOutcome};
use crate::load::{DailyLoad, check_hours_and_count_rest, rest_workload};

/// The simulator as an evaluator: loads on a machine, and the machine at rest.
pub struct Simulation<'a> {
    machine: &'a Machine,
    loads: &'a [DailyLoad],
    rest: Option<Workload>,
    cancelled: &'a AtomicBool,
    report_requests: &'a (dyn Fn(u64) + Sync),
}

/// A policy set with a load, prepared by its first run for the runs of all seeds.
struct PreparedLoad<'a> {
    set: usize,
    /// `None`: at rest.
    load: Option<usize>,
    workload: &'a Workload,
    /// The model, or why the machine cannot run the set.
    model: OnceLock<Result<Model<'a>, String>>,
}

/// One simulated run to make.
struct RunJob {
    /// Index of the prepared load.
    prepared: usize,
    seed: u64,
}

/// Metrics, latencies and requests per run, warm-up included. For an rt-app file, loops by the first task count as requests.
struct MadeRun {
    metrics: Vec<(String, f64)>,
    latency: Vec<LatencyCount>,
    /// Separate figures for several jobs.
    jobs: Vec<JobRun>,
    requests: u64,
}

impl<'a> Simulation<'a> {
    /// Loads on a machine. `counts_hours_of_rest`: the machine at rest is simulated, too, if the loads leave hours for
    /// rest. `report_requests` is told of requests as they are simulated.
    ///
    /// # Errors
    /// Impossible hours, two loads with one name, or recorded I/O among the loads.
    pub fn new(
        machine: &'a Machine,
        loads: &'a [DailyLoad],
        counts_hours_of_rest: bool,
        cancelled: &'a AtomicBool,
        report_requests: &'a (dyn Fn(u64) + Sync),
    ) -> Result<Self, TuneError> {
        if let Some(recorded) = loads.iter().find(|load| load.workload.is_none()) {
            return Err(TuneError::Load {
                load: recorded.name.clone(),
                problem: "recorded I/O is replayed on a drive, and not simulated".to_owned(),
            });
        }
        let has_rest = counts_hours_of_rest && check_hours_and_count_rest(loads)? > 0.0;
        Ok(Self {
            machine,
            loads,
            rest: has_rest.then(rest_workload).transpose()?,
            cancelled,
            report_requests,
        })
    }

    /// The policies in force on the machine under a policy set.
    ///
    /// # Errors
    /// Why the machine, or a load on it, cannot have the set.
    pub fn policies_in_force_under(&self, set: &PolicySet) -> Result<PolicySet, String> {
        for workload in self.loads.iter().filter_map(|load| load.workload.as_ref()) {
            Model::new(self.machine, workload, set).map_err(|e| e.to_string())?;
        }
        policies_in_force(self.machine, set).map_err(|e| e.to_string())
    }

    fn simulate_seed_and_report_requests(
        &self,
        sets: &[PolicySet],
        prepared: &PreparedLoad<'a>,
        seed: u64,
        shortened: u32,
    ) -> Result<MadeRun, String> {
        let set = &sets[prepared.set];
        let made = prepared.model.get_or_init(|| {
            Model::new(self.machine, prepared.workload, set).map_err(|e| e.to_string())
        });
        let model = made.as_ref().map_err(Clone::clone)?;
        let run = model.run(seed).map_err(|e| e.to_string())?;
        let key = RunKey {
            machine: self.machine.name.clone(),
            workload: prepared
                .load
                .map_or("rest", |load| &self.loads[load].name)
                .to_owned(),
            policy: set.to_string(),
            repeat: 0,
        };
        let mut record = RunRecord::new(key, Some(seed), 0, 0);
        rows::fill_simulated_run(&mut record, model.machine(), &run);
        let factor = prepared.load.map_or(1.0, |load| {
            self.loads[load].simulated_requests_per_measured(shortened)
        });
        let loops = run.threads.as_ref().map_or(0, |threads| threads.operations);
        let requests = ((run.requests as f64 * factor).round() as u64 + loops).max(1);
        (self.report_requests)(requests);
        Ok(MadeRun {
            metrics: record.metrics,
            latency: record.latency,
            jobs: run.jobs,
            requests,
        })
    }
}

/// Adds a run to each job's runs.
fn add_runs_of_jobs(jobs: &mut Vec<(String, LoadRuns)>, run: Vec<JobRun>) {
    for (number, job) in run.into_iter().enumerate() {
        if jobs.len() <= number {
            jobs.push((job.name.clone(), LoadRuns::default()));
        }
        let latency = &job.latency_us;
        let metrics = [
            ("iops", job.iops),
            ("bandwidth_mbs", job.bandwidth_mbs),
            ("mean_us", latency.mean),
            ("p50_us", latency.p50),
            ("p90_us", latency.p90),
            ("p99_us", latency.p99),
            ("p999_us", latency.p999),
            ("max_us", latency.max),
        ];
        let runs = &mut jobs[number].1;
        runs.runs
            .push(metrics.map(|(name, value)| (name.to_owned(), value)).into());
        let counts = job.latency.iter().map(|bucket| LatencyCount {
            low_ns: bucket.low,
            high_ns: bucket.high,
            count: bucket.requests,
        });
        runs.latency.push(counts.collect());
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
            .filter_map(|load| load.workload_with_measured_time_divided(effort.shortened))
            .collect();
        let mut prepared = Vec::new();
        for set in 0..sets.len() {
            let numbered = workloads.iter().enumerate();
            let loads = numbered.map(|(load, workload)| (Some(load), workload));
            let rest = self.rest.iter().map(|workload| (None, workload));
            prepared.extend(loads.chain(rest).map(|(load, workload)| PreparedLoad {
                set,
                load,
                workload,
                model: OnceLock::new(),
            }));
        }
        let jobs: Vec<RunJob> = (0..prepared.len())
            .flat_map(|prepared| {
                (0..effort.repeats).map(move |repeat| RunJob {
                    prepared,
                    seed: effort.first_seed.wrapping_add(u64::from(repeat)),
                })
            })
            .collect();
        let made: Vec<Option<Result<MadeRun, String>>> = jobs
            .par_iter()
            .map(|job| {
                let is_cancelled = self.cancelled.load(Ordering::Relaxed);
                (!is_cancelled).then(|| {
                    let prepared = &prepared[job.prepared];
                    self.simulate_seed_and_report_requests(
                        sets,
                        prepared,
                        job.seed,
                        effort.shortened,
                    )
                })
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
            let PreparedLoad { set, load, .. } = &prepared[job.prepared];
            let outcome = &mut outcomes[*set];
            match (run, &mut *outcome) {
                (None, _) => return Err(TuneError::Interrupted),
                (Some(Err(why)), TrialOutcome::Ran(_)) => *outcome = TrialOutcome::Refused(why),
                (Some(Ok(run)), TrialOutcome::Ran(trial)) => {
                    trial.requests += run.requests;
                    let runs = match load {
                        Some(load) => &mut trial.loads[*load],
                        None => &mut trial.rest,
                    };
                    runs.runs.push(run.metrics);
                    runs.latency.push(run.latency);
                    add_runs_of_jobs(&mut runs.jobs, run.jobs);
                }
                (Some(_), TrialOutcome::Refused(_)) => {}
            }
        }
        Ok(outcomes)
    }
}
