//! `--on sim`: the simulator, with common random numbers. Runs of equal repeat have the same seed: the same drive and the
//! same background whatever the policy.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wakepath_hardware::machine::MachineError;
use wakepath_hardware::{Machine, recorded};
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_results::{Idle, RunRecord};
use wakepath_sim::observer::Observer;
use wakepath_sim::{
    LONGEST_UNTIMED, Model, PolicyComparison, PolicyResult, SimError, machine_under_policies,
    policies_in_force,
};
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;

use super::backend::{Backend, Order, RunControl, run_items_in_order};
use super::rows;
pub use super::sim_observers::SimulationProgress;
use super::sim_observers::{RunWatch, StopWhen};
use crate::file::StudyError;
use crate::plan::{Cell, Plan, PlannedPolicy, Provenance};
use crate::timeline::representative;

/// Most models that are kept for other seeds. In larger studies every run prepares its own model.
const MOST_MODELS: usize = 4096;

/// The simulator.
pub struct Sim<'a> {
    plan: &'a Plan,
    /// Tasks of rt-app files that did nothing, by workload and task, with the reason in the first such cell.
    never_ran: Mutex<BTreeMap<WorkloadTask, IdleTask>>,
    /// Models by their cell's first repeat, prepared by the first run and used for all seeds. Empty above
    /// [`MOST_MODELS`].
    models: BTreeMap<ModelKey, OnceLock<Box<Model<'a>>>>,
}

/// The part of a cell that a model depends on: everything but the repeat.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ModelKey {
    machine: usize,
    policy: usize,
    workload: usize,
}

impl ModelKey {
    fn new(cell: Cell) -> Self {
        Self {
            machine: cell.machine,
            policy: cell.policy,
            workload: cell.workload,
        }
    }
}

/// A task of a workload, by index and name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct WorkloadTask {
    workload: usize,
    task: String,
}

/// A task that did nothing: the first cell, and the reason.
#[derive(Clone)]
struct IdleTask {
    cell: Cell,
    reason: String,
}

/// The simulated runs of a workload under several policy sets.
#[derive(Clone, Debug)]
pub struct SimComparison {
    /// Runs under each policy set, in order.
    pub results: Vec<SimulatedPolicy>,
}

/// The simulated runs under a policy set, in seed order.
#[derive(Clone, Debug)]
pub struct SimulatedPolicy {
    /// Policies in force: the requested policies, then those that the machine's kernel has.
    pub policy: PolicySet,
    /// Record of each run, as results keep it.
    pub rows: Vec<RunRecord>,
    /// Each run with details beyond its record: tasks, power states, components.
    pub runs: Vec<wakepath_sim::Run>,
}

impl SimulatedPolicy {
    /// Values of a metric in every run; `None` if a run lacks the metric.
    pub fn metric_values(&self, name: &str) -> Option<Vec<f64>> {
        let values = self.rows.iter().map(|run| {
            let (_, value) = run.metrics.iter().find(|(metric, _)| metric == name)?;
            Some(*value)
        });
        values.collect()
    }

    /// In every run, the sum of a count over all idle states.
    pub fn sum_idle_count_in_each_run(&self, count: fn(&Idle) -> u64) -> Vec<u64> {
        let runs = self.rows.iter();
        runs.map(|run| run.idle.iter().map(count).sum()).collect()
    }
}

impl From<SimComparison> for PolicyComparison {
    fn from(comparison: SimComparison) -> Self {
        let results = comparison.results.into_iter();
        Self {
            results: results
                .map(|result| PolicyResult::new(result.policy, result.runs))
                .collect(),
        }
    }
}

impl<'a> Sim<'a> {
    /// Makes the simulator for a plan.
    ///
    /// # Errors
    /// No machine to simulate.
    pub fn new(plan: &'a Plan) -> Result<Self, StudyError> {
        let sim = Self {
            plan,
            never_ran: Mutex::default(),
            models: BTreeMap::new(),
        };
        for cell in plan.cells_of_first_repeat() {
            sim.described_machine(*cell)?;
        }
        let keeps_models = plan.cells_of_first_repeat().len() <= MOST_MODELS;
        let kept = plan.cells_of_first_repeat().iter().filter(|_| keeps_models);
        Ok(Self {
            models: kept
                .map(|cell| (ModelKey::new(*cell), OnceLock::new()))
                .collect(),
            ..sim
        })
    }

    /// The machine of a cell, without the changes that a policy makes.
    fn described_machine(&self, cell: Cell) -> Result<&'a Machine, StudyError> {
        let machine = self.plan.machines[cell.machine].model.as_ref();
        machine.ok_or_else(|| {
            StudyError::Settings(format!("{}: no machine to simulate", self.plan.origin))
        })
    }

    /// The machine of a cell, with the changes that its policy makes.
    ///
    /// # Errors
    /// The machine cannot have the policy.
    pub fn machine_under_policy(&self, cell: Cell) -> Result<Cow<'_, Machine>, StudyError> {
        let kept = self.models.get(&ModelKey::new(cell));
        if let Some(model) = kept.and_then(OnceLock::get) {
            return Ok(Cow::Borrowed(model.machine()));
        }
        let set = &self.plan.policies[cell.policy].set;
        machine_under_policies(self.described_machine(cell)?, set)
            .map_err(|source| self.error_in_cell(cell, source))
    }

    /// Simulates a cell to its end, or until the observer has enough.
    ///
    /// # Errors
    /// The simulator refuses the cell.
    pub fn simulate(
        &self,
        cell: Cell,
        observer: &mut impl Observer,
    ) -> Result<wakepath_sim::Run, StudyError> {
        let set = &self.plan.policies[cell.policy].set;
        let Some(slot) = self.models.get(&ModelKey::new(cell)) else {
            return self.simulate_under_set(cell, set, observer);
        };
        let model = if let Some(model) = slot.get() {
            model
        } else {
            let prepared = Box::new(self.prepare_model(cell, set)?);
            slot.get_or_init(|| prepared)
        };
        self.run_model(cell, model, observer)
    }

    /// Simulates a cell under the policy set `set` in place of its own.
    fn simulate_under_set(
        &self,
        cell: Cell,
        set: &PolicySet,
        observer: &mut impl Observer,
    ) -> Result<wakepath_sim::Run, StudyError> {
        self.run_model(cell, &self.prepare_model(cell, set)?, observer)
    }

    /// Prepares a model: the cell's machine and workload under `set`.
    fn prepare_model(&self, cell: Cell, set: &PolicySet) -> Result<Model<'a>, StudyError> {
        let planned = &self.plan.workloads[cell.workload];
        let Some(workload) = planned.simulated_workload() else {
            let message = format!("{} cannot be simulated", planned.name);
            return Err(StudyError::Settings(message));
        };
        Model::new(self.described_machine(cell)?, workload, set)
            .map_err(|source| self.error_in_cell(cell, source))
    }

    fn run_model(
        &self,
        cell: Cell,
        model: &Model<'_>,
        observer: &mut impl Observer,
    ) -> Result<wakepath_sim::Run, StudyError> {
        let run = model.run_observed(self.plan.seed_for_repeat(cell.repeat), observer);
        run.map_err(|source| self.error_in_cell(cell, source))
    }

    /// An error that names the simulated cell.
    fn error_in_cell(&self, cell: Cell, source: SimError) -> StudyError {
        let on = match self.plan.machines.len() {
            1 => String::new(),
            _ => format!(" on {}", self.plan.machines[cell.machine].name),
        };
        StudyError::Simulation {
            workload: format!("{}{on}", self.plan.workloads[cell.workload].name),
            policy: self.plan.policies[cell.policy].name.clone(),
            source: Box::new(source),
        }
    }

    /// Simulates all runs on all threads in the current rayon pool. For each cell returns the policies in force, and
    /// runs in seed order. Independent from the number of threads. After cancellation, has finished runs and their
    /// cells only.
    ///
    /// # Errors
    /// From the earliest failing run.
    pub fn compare(&self, control: &RunControl<'_>) -> Result<SimComparison, StudyError> {
        self.compare_reporting_progress(control, &|_, _| ())
    }

    /// As [`Sim::compare`]. `report_progress` gets the index of a run, and how far it is, now and then.
    ///
    /// # Errors
    /// As [`Sim::compare`].
    pub fn compare_reporting_progress(
        &self,
        control: &RunControl<'_>,
        report_progress: &(dyn Fn(usize, SimulationProgress) + Sync),
    ) -> Result<SimComparison, StudyError> {
        let all = (0..self.plan.run_count()).collect();
        let runs = run_items_in_order(all, true, control.cancelled, |index| {
            let watch = RunWatch {
                cancelled: control.cancelled,
                report_time: |time| report_progress(index, SimulationProgress::Simulated(time)),
            };
            let run = self.simulate_to_end_watched(self.plan.cell_at(index), watch)?;
            report_progress(index, SimulationProgress::Ended);
            (control.finished)(1);
            Ok((index, run))
        })?;
        let mut finished: Vec<Vec<_>> = vec![Vec::new(); self.plan.cells_of_first_repeat().len()];
        for (index, run) in runs {
            let cell = index % finished.len();
            finished[cell].push((self.make_record(index, &run)?, run));
        }
        let mut results = Vec::new();
        for (cell, runs) in self.plan.cells_of_first_repeat().iter().zip(finished) {
            if runs.is_empty() {
                continue;
            }
            let (rows, runs) = runs.into_iter().unzip();
            let set = &self.plan.policies[cell.policy].set;
            let machine = self.machine_under_policy(*cell)?;
            let policy = policies_in_force(&machine, set)
                .map_err(|e| StudyError::Settings(e.to_string()))?;
            results.push(SimulatedPolicy { policy, rows, runs });
        }
        Ok(SimComparison { results })
    }

    /// The record of a simulated run as results keep it, without its timeline.
    fn make_record(
        &self,
        index: usize,
        simulated: &wakepath_sim::Run,
    ) -> Result<RunRecord, StudyError> {
        let cell = self.plan.cell_at(index);
        let seed = Some(self.plan.seed_for_repeat(cell.repeat));
        let mut run = RunRecord::new(self.plan.key_at(index), seed, cell.repeat, index as u32);
        let machine = self.machine_under_policy(cell)?;
        rows::fill_simulated_run(&mut run, &machine, simulated);
        Ok(run)
    }

    /// A cell's policies, with menu in place of a custom governor: trials run no program that a study names.
    fn policies_with_menu_for_program(&self, cell: Cell) -> Result<Cow<'_, PolicySet>, StudyError> {
        let set = &self.plan.policies[cell.policy].set;
        if set.own_governor().is_none() {
            return Ok(Cow::Borrowed(set));
        }
        let replaced = "menu"
            .parse()
            .and_then(|menu: PolicySpec| set.with_policy(menu));
        replaced
            .map(Cow::Owned)
            .map_err(|e| StudyError::Settings(e.to_string()))
    }

    /// A trial: simulates a cell under `set` to its end, or until `limit` is over.
    fn simulate_trial_for_at_most(
        &self,
        cell: Cell,
        set: &PolicySet,
        limit: Duration,
    ) -> Result<Trial, StudyError> {
        let started = Instant::now();
        let thread_started = thread_cpu_time();
        let model = self.prepare_model(cell, set)?;
        let prepared = thread_cpu_time();
        let set_up = std::cell::Cell::new(None);
        // Reading the clock costs more than an event, so the clock is read at every 256th look.
        let looks = std::cell::Cell::new(0_u32);
        // A run that is stopped in its warm-up has finished nothing, and is stopped a second time afterwards.
        let over = std::cell::Cell::new(false);
        let mut observer = StopWhen(|| {
            if set_up.get().is_none() {
                set_up.set(Some(thread_cpu_time()));
            }
            looks.set(looks.get().wrapping_add(1));
            if looks.get().is_multiple_of(256) && started.elapsed() >= limit {
                over.set(true);
            }
            over.get()
        });
        let run = self.run_model(cell, &model, &mut observer)?;
        let ended = thread_cpu_time();
        let set_up = set_up.get().unwrap_or(ended);
        Ok(Trial {
            run,
            prepared: prepared.saturating_sub(thread_started),
            set_up: set_up.saturating_sub(prepared),
            events: ended.saturating_sub(set_up),
            is_cut: over.get(),
            took: started.elapsed(),
        })
    }

    /// Simulates a cell to its end and fills its record, without the timeline.
    ///
    /// # Errors
    /// The simulator refuses; [`StudyError::Interrupted`] if `cancelled` cut the run short.
    pub fn simulate_into_record(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError> {
        let simulated = self.simulate_to_end(cell, cancelled)?;
        self.fill_record(cell, run, &simulated)
    }

    /// Fills a record with the results of a simulated run, and notes tasks that did nothing.
    fn fill_record(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        simulated: &wakepath_sim::Run,
    ) -> Result<(), StudyError> {
        run.seed = Some(self.plan.seed_for_repeat(cell.repeat));
        self.note_tasks_that_never_ran(cell, simulated);
        let machine = self.machine_under_policy(cell)?;
        rows::fill_simulated_run(run, &machine, simulated);
        Ok(())
    }

    /// Notes tasks of an rt-app file that did nothing. The earliest cell counts, whatever the threads' order.
    fn note_tasks_that_never_ran(&self, cell: Cell, simulated: &wakepath_sim::Run) {
        let tasks = simulated.threads.iter().flat_map(|threads| &threads.tasks);
        let idle = tasks.filter_map(|task| Some((&task.name, task.never_ran.as_ref()?)));
        let mut noted = self
            .never_ran
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (name, reason) in idle {
            let key = WorkloadTask {
                workload: cell.workload,
                task: name.clone(),
            };
            let found = IdleTask {
                cell,
                reason: reason.clone(),
            };
            let first = noted.entry(key).or_insert_with(|| found.clone());
            if sort_key_in_plan(cell) < sort_key_in_plan(first.cell) {
                *first = found;
            }
        }
    }

    /// Simulates a cell to its end; an error if `cancelled` cuts the run short.
    fn simulate_to_end(
        &self,
        cell: Cell,
        cancelled: &AtomicBool,
    ) -> Result<wakepath_sim::Run, StudyError> {
        let watch = RunWatch {
            cancelled,
            report_time: |_| (),
        };
        self.simulate_to_end_watched(cell, watch)
    }

    /// Simulates a cell to its end; an error if the watch's owner cancels the run.
    fn simulate_to_end_watched(
        &self,
        cell: Cell,
        mut observer: RunWatch<'_, impl Fn(Nanoseconds)>,
    ) -> Result<wakepath_sim::Run, StudyError> {
        let simulated = self.simulate(cell, &mut observer)?;
        // The observer is asked again: the run may be cut short, or just finished.
        if observer.lets_run_stop() {
            return Err(StudyError::Interrupted);
        }
        Ok(simulated)
    }
}

impl Backend for Sim<'_> {
    /// The cell is set up and stopped at once.
    fn check_cell(&self, cell: Cell) -> Result<(), StudyError> {
        let set = self.policies_with_menu_for_program(cell)?;
        self.simulate_under_set(cell, &set, &mut StopWhen(|| true))
            .map(drop)
    }

    fn run_order(&self) -> Order {
        Order::Parallel
    }

    fn provenance(&self) -> Result<Provenance, StudyError> {
        let models = self
            .plan
            .machines
            .iter()
            .filter_map(|m| Some((m, m.model.as_ref()?)));
        let files = models
            .clone()
            .map(|(_, model)| Ok::<_, MachineError>(model.to_toml()?.into_bytes()));
        Ok(Provenance {
            tools: BTreeMap::from([("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
            machines: models
                .clone()
                .map(|(machine, model)| machine.describe_model(model))
                .collect(),
            machine_files: files.collect::<Result<_, _>>()?,
            notes: list_notes(self.plan, models.map(|(_, model)| model)),
        })
    }

    fn list_unexpected_findings(&self) -> Vec<String> {
        let noted = self
            .never_ran
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        noted
            .iter()
            .map(|(WorkloadTask { workload, task }, idle)| {
                let name = &self.plan.workloads[*workload].name;
                format!(
                    "workload `{name}`: task `{task}` never ran: {}",
                    idle.reason
                )
            })
            .collect()
    }

    fn estimate_duration(&self, of_each: Duration) -> Result<Option<Duration>, StudyError> {
        let mut total = 0.0;
        let has_program = self
            .plan
            .policies
            .iter()
            .any(|p| p.set.own_governor().is_some());
        let exchange = if has_program {
            wakepath_governors::measure_thread_exchange_time().as_secs_f64()
        } else {
            0.0
        };
        let (mut of_thread, mut by_clock) = (Duration::ZERO, Duration::ZERO);
        for cell in self.plan.cells_of_first_repeat().iter().copied() {
            let set = self.policies_with_menu_for_program(cell)?;
            let mut limit = of_each;
            // On a busy machine no request may be finished in such a short trial.
            let trial = loop {
                match self.simulate_trial_for_at_most(cell, &set, limit) {
                    Err(StudyError::Simulation { .. }) if limit < of_each * 100 => limit *= 10,
                    tried => break tried?,
                }
            };
            of_thread += trial.prepared + trial.set_up + trial.events;
            by_clock += trial.took;
            let lasts = self.plan.workloads[cell.workload].expected_duration();
            let workload = self.plan.workloads[cell.workload].simulated_workload();
            let capacity = self.machine_under_policy(cell)?.drive.capacity_in_bytes();
            let amount =
                workload.and_then(|workload| Amount::requested_by_unless_timed(workload, capacity));
            let factor = trial.whole_run_length_in_trials(lasts, amount);
            let program = self.plan.policies[cell.policy].set.own_governor();
            let exchanges =
                program.map_or(0.0, |_| exchange * count_idle_decisions(&trial.run) as f64);
            let events = (trial.events.as_secs_f64() + exchanges) * factor;
            let runs = f64::from(self.plan.repeats());
            // Without kept models, each run prepares its own model.
            let models = if self.models.is_empty() { runs } else { 1.0 };
            total += trial.prepared.as_secs_f64() * models
                + (trial.set_up.as_secs_f64() + events) * runs;
        }
        // Other work on the machine delays the study as it delayed all trials together. A single trial would be too
        // short to tell.
        let waits = by_clock.as_secs_f64() / of_thread.as_secs_f64().max(1e-9);
        Ok(Some(Duration::from_secs_f64(
            (total * waits.max(1.0)).min(1e9),
        )))
    }

    fn run_cell(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError> {
        let workload = self.plan.workloads[cell.workload].simulated_workload();
        let Some(workload) = workload.filter(|_| cell.repeat == 0) else {
            return self.simulate_into_record(cell, run, cancelled);
        };
        let machine = self.machine_under_policy(cell)?;
        let mut observed = representative::observe_representative(&machine, workload, cancelled);
        let simulated = self.simulate(cell, &mut observed)?;
        // The observer is asked again: the run may be cut short, or just finished.
        if cancelled.load(Ordering::Relaxed) {
            return Err(StudyError::Interrupted);
        }
        self.fill_record(cell, run, &simulated)?;
        run.timeline = representative::make_timeline_spans(observed);
        Ok(())
    }
}

/// Sort key of a cell in its plan.
fn sort_key_in_plan(cell: Cell) -> (usize, usize, u32) {
    (cell.machine, cell.policy, cell.repeat)
}

/// A trial: a run that was made to estimate how long runs take.
struct Trial {
    run: wakepath_sim::Run,
    /// CPU time of the thread for preparing the model, which serves all runs in the cell.
    prepared: Duration,
    /// CPU time of the thread from the model to the first event, however long the run is.
    set_up: Duration,
    /// CPU time of the thread from the first event on.
    events: Duration,
    /// Whether the trial was stopped before its end.
    is_cut: bool,
    /// Wall-clock time of the trial, shared with other work on the machine.
    took: Duration,
}

impl Trial {
    /// How many times as long as the trial a whole run is, at least 1. The run ends by time `lasts` or by `amount`,
    /// whichever comes first.
    fn whole_run_length_in_trials(
        &self,
        lasts: Option<Nanoseconds>,
        amount: Option<Amount>,
    ) -> f64 {
        if !self.is_cut {
            return 1.0;
        }
        let simulated = self.run.seconds + self.run.warm_up_seconds;
        let lasts = lasts.unwrap_or(LONGEST_UNTIMED);
        let by_time = lasts.as_secs_f64() / simulated.max(1e-9);
        let by_amount = amount.map_or(f64::INFINITY, |amount| {
            amount.whole_amount_per_simulated_amount(&self.run)
        });
        by_time.min(by_amount).max(1.0)
    }
}

/// Total work that all fio processes have to do.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    bytes: u64,
    /// Number of requests; `None` if a job counts bytes only.
    requests: Option<u64>,
}

impl Amount {
    /// The work that a workload requests, on a drive with `capacity` bytes; `None` if a job ends by time only.
    fn requested_by_unless_timed(workload: &Workload, capacity: u64) -> Option<Self> {
        let Workload::Fio(file) = workload else {
            return None;
        };
        let mut all = Self {
            bytes: 0,
            requests: Some(0),
        };
        for job in &file.jobs {
            let limits = job.process_limits(capacity);
            let processes = u64::from(job.numjobs);
            let bytes = limits.bytes?.saturating_mul(processes);
            all.bytes = all.bytes.saturating_add(bytes);
            all.requests = all
                .requests
                .zip(limits.ios)
                .map(|(sum, requests)| sum.saturating_add(requests.saturating_mul(processes)));
        }
        Some(all)
    }

    /// How many times as much this work is as a run has done.
    fn whole_amount_per_simulated_amount(self, run: &wakepath_sim::Run) -> f64 {
        let done = run.read_bytes + run.written_bytes;
        let by_bytes = self.bytes as f64 / done.max(1) as f64;
        let by_requests = self.requests.map_or(f64::INFINITY, |requests| {
            requests as f64 / run.requests.max(1) as f64
        });
        by_bytes.min(by_requests)
    }
}

/// CPU time of this thread so far.
fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// How often idle states were entered in a run, which is how often governors decided.
fn count_idle_decisions(run: &wakepath_sim::Run) -> u64 {
    run.idle_states.iter().map(|state| state.entries).sum()
}

/// Notes on the machines' predictions and on the policies for readers, each once.
fn list_notes<'a>(plan: &Plan, machines: impl Iterator<Item = &'a Machine>) -> Vec<String> {
    let mut notes = plan.list_prediction_errors();
    for machine in machines {
        let of_sets = plan.policies.iter().filter_map(|policy| {
            // A policy set that does not fit the machine was refused before.
            wakepath_sim::notes_on_machine_and_policies(machine, &policy.set).ok()
        });
        for note in substitute_note(plan, machine)
            .into_iter()
            .chain(of_sets.flatten())
        {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// A note on the policies that replace a recorded system's own, if a study's policy leaves any open.
fn substitute_note(plan: &Plan, machine: &Machine) -> Option<String> {
    let system = recorded::find_recorded_system(&machine.name).filter(|_| {
        plan.policies
            .iter()
            .any(|p: &PlannedPolicy| p.set.idle().is_none() || p.set.frequency().is_none())
    });
    system.and_then(|system| system.kernel_policy_or_stand_in().stands_in)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use wakepath_policies::PolicySet;
    use wakepath_workloads::fio;

    use super::*;

    const SETS: [&str; 2] = ["menu@6.1", "teo@6.12 + schedutil[iowait_boost=off] + psd"];

    fn plan(options: &str) -> Plan {
        let machine = Machine::find("rk3399").unwrap();
        let job = format!("[a]\nfilename=/dev/nvme0n1\ndirect=1\nbs=4k\n{options}");
        let workload = fio::parse(&job, "a.fio").unwrap();
        let sets: Vec<PolicySet> = SETS.iter().map(|set| set.parse().unwrap()).collect();
        Plan::without_file("test", machine, workload.into(), sets, 1, 3)
    }

    fn with_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().unwrap().install(work)
    }

    #[test]
    fn the_number_of_threads_does_not_change_a_byte() {
        let plan =
            plan("rw=randrw\nioengine=libaio\niodepth=4\nnumjobs=3\ntime_based\nruntime=50ms\n");
        let sim = Sim::new(&plan).unwrap();
        let with = |threads| {
            let result = with_threads(threads, || {
                sim.compare(&RunControl::without_reports_or_cancellation())
            });
            serde_json::to_string(&PolicyComparison::from(result.unwrap())).unwrap()
        };
        let one = with(1);
        assert_eq!(one, with(2));
        assert_eq!(one, with(7));
    }

    #[test]
    fn a_cancelled_comparison_keeps_what_is_finished_in_order() {
        let plan = plan("rw=randread\ntime_based\nruntime=50ms\n");
        let sim = Sim::new(&plan).unwrap();
        let all = sim
            .compare(&RunControl::without_reports_or_cancellation())
            .unwrap();
        for result in &all.results {
            let seeds: Vec<u64> = result.runs.iter().map(|run| run.seed).collect();
            assert_eq!(seeds, [1, 2, 3]);
        }
        let after = |runs: usize| {
            let cancelled = AtomicBool::new(runs == 0);
            let done = AtomicUsize::new(0);
            let control = RunControl {
                finished: &|_| {
                    if done.fetch_add(1, Ordering::Relaxed) + 1 == runs {
                        cancelled.store(true, Ordering::Relaxed);
                    }
                },
                cancelled: &cancelled,
            };
            with_threads(1, || sim.compare(&control)).unwrap()
        };
        assert!(after(0).results.is_empty());
        for runs in 1..=6 {
            let some = after(runs);
            let kept = some.results.iter().map(|result| result.runs.len());
            assert_eq!(kept.sum::<usize>(), runs);
            // By seed, and each the same as in the whole comparison.
            for (result, whole) in some.results.iter().zip(&all.results) {
                assert_eq!(result.policy, whole.policy);
                let text = |runs: &[wakepath_sim::Run]| serde_json::to_string(runs).unwrap();
                let of_whole = &whole.runs[..result.runs.len()];
                assert_eq!(text(&result.runs), text(of_whole));
            }
        }
    }

    #[test]
    fn an_estimate_scales_what_follows_the_set_up_with_its_warm_up() {
        let plan = plan("rw=randread\ntime_based\nruntime=30\nramp_time=10\n");
        let sim = Sim::new(&plan).unwrap();
        let cell = plan.cells_of_first_repeat()[0];
        let set = &plan.policies[0].set;
        let trial = sim
            .simulate_trial_for_at_most(cell, set, Duration::from_millis(1))
            .unwrap();
        assert!(trial.is_cut);
        let simulated = trial.run.seconds + trial.run.warm_up_seconds;
        let lasts = plan.workloads[0].expected_duration();
        assert!((trial.whole_run_length_in_trials(lasts, None) * simulated - 40.0).abs() < 1e-6);
        // A whole machine is set up before the first event, which longer runs do not do again.
        assert!(trial.set_up > Duration::ZERO && trial.set_up + trial.events <= trial.took * 2);
    }

    #[test]
    fn an_estimate_of_jobs_that_end_by_size_scales_with_what_they_transfer() {
        for (options, requests) in [
            ("rw=randread\nsize=256m\n", 65_536.0),
            ("rw=randread\nsize=256m\nnumjobs=2\n", 131_072.0),
            ("rw=randread\nsize=256m\nnumber_ios=20000\n", 20_000.0),
            // By time the run would end much later.
            ("rw=randread\nsize=256m\nruntime=1000\n", 65_536.0),
        ] {
            let plan = plan(options);
            let sim = Sim::new(&plan).unwrap();
            let cell = plan.cells_of_first_repeat()[0];
            let set = &plan.policies[0].set;
            let trial = sim
                .simulate_trial_for_at_most(cell, set, Duration::from_millis(5))
                .unwrap();
            assert!(trial.is_cut, "{options}");
            let workload = plan.workloads[0].simulated_workload().unwrap();
            let amount = Amount::requested_by_unless_timed(
                workload,
                sim.machine_under_policy(cell)
                    .unwrap()
                    .drive
                    .capacity_in_bytes(),
            );
            let factor =
                trial.whole_run_length_in_trials(plan.workloads[0].expected_duration(), amount);
            let all = factor * trial.run.requests as f64;
            assert!((all / requests - 1.0).abs() < 0.01, "{options}: {all}");
        }
    }
}
