//! `--on sim`: the simulator, with common random numbers. Runs of equal repeat have the same seed: the same drive and the
//! same background whatever the policy.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wakepath_hardware::machine::MachineError;
use wakepath_hardware::{Machine, recorded};
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_results::RunRecord;
use wakepath_sim::observer::Observer;
use wakepath_sim::{
    LONGEST_UNTIMED, Model, PolicyComparison, PolicyResult, SimError, in_force, machine_under,
};
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;

use super::{Backend, Order, RunControl, each, rows};
use crate::file::StudyError;
use crate::plan::{Cell, Plan, PlannedPolicy, Provenance};
use crate::timeline::representative;

/// Models kept for other seeds. Of a study with more cells, each run prepares its own.
const MOST_MODELS: usize = 4096;

/// The simulator.
pub struct Sim<'a> {
    plan: &'a Plan,
    /// What each policy makes of each machine on which something runs under it.
    under: BTreeMap<(usize, usize), Machine>,
    /// Tasks of rt-app files that did nothing, by workload and task: why, in the first cell where that happened.
    never_ran: Mutex<BTreeMap<(usize, String), (Cell, String)>>,
    /// By machine, workload and policy: prepared by the first run, for all seeds. Empty above [`MOST_MODELS`].
    models: BTreeMap<(usize, usize, usize), OnceLock<Box<Model<'a>>>>,
}

impl<'a> Sim<'a> {
    /// The simulator for a plan.
    ///
    /// # Errors
    /// No machine, or a policy that it cannot have.
    pub fn new(plan: &'a Plan) -> Result<Self, StudyError> {
        let mut under = BTreeMap::new();
        let mut models = BTreeMap::new();
        for cell in plan.cells() {
            if plan.cells().len() <= MOST_MODELS {
                models.insert((cell.machine, cell.workload, cell.policy), OnceLock::new());
            }
            let Entry::Vacant(place) = under.entry((cell.machine, cell.policy)) else {
                continue;
            };
            let (machine, policy) = (&plan.machines[cell.machine], &plan.policies[cell.policy]);
            let Some(model) = &machine.model else {
                let message = format!("{}: no machine to simulate", plan.origin);
                return Err(StudyError::Settings(message));
            };
            let changed = machine_under(model, &policy.set);
            let changed = changed.map_err(|e| StudyError::Settings(e.to_string()))?;
            place.insert(changed.into_owned());
        }
        Ok(Self {
            plan,
            under,
            never_ran: Mutex::default(),
            models,
        })
    }

    /// The machine of a cell, as its policy makes it.
    pub fn machine(&self, cell: Cell) -> &Machine {
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
        let set = &self.plan.policies[cell.policy].set;
        let models = &self.models;
        let Some(slot) = models.get(&(cell.machine, cell.workload, cell.policy)) else {
            return self.simulate_under(cell, set, observer);
        };
        let model = if let Some(model) = slot.get() {
            model
        } else {
            let prepared = Box::new(self.prepare(cell, set)?);
            slot.get_or_init(|| prepared)
        };
        self.run_model(cell, model, observer)
    }

    /// Simulates a cell with other policies than its own.
    fn simulate_under(
        &self,
        cell: Cell,
        set: &PolicySet,
        observer: &mut impl Observer,
    ) -> Result<wakepath_sim::Run, StudyError> {
        self.run_model(cell, &self.prepare(cell, set)?, observer)
    }

    /// The machine of a cell under these policies, with the cell's workload.
    fn prepare(&self, cell: Cell, set: &PolicySet) -> Result<Model<'a>, StudyError> {
        let planned = &self.plan.workloads[cell.workload];
        let Some(workload) = planned.workload() else {
            let message = format!("{} cannot be simulated", planned.name);
            return Err(StudyError::Settings(message));
        };
        let Some(machine) = &self.plan.machines[cell.machine].model else {
            let message = format!("{}: no machine to simulate", self.plan.origin);
            return Err(StudyError::Settings(message));
        };
        Model::new(machine, workload, set).map_err(|source| self.failure(cell, source))
    }

    fn run_model(
        &self,
        cell: Cell,
        model: &Model<'_>,
        observer: &mut impl Observer,
    ) -> Result<wakepath_sim::Run, StudyError> {
        let run = model.run_observed(self.plan.seed(cell.repeat), observer);
        run.map_err(|source| self.failure(cell, source))
    }

    /// What the simulator refuses, with the cell that asks for it.
    fn failure(&self, cell: Cell, source: SimError) -> StudyError {
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

    /// Simulates all runs of the plan, on all threads of the current rayon pool: for each of its cells what was in force, and
    /// the runs in the order of their seeds. The result does not depend on the number of threads. Called off, it has the runs
    /// that were finished, and only cells with at least one.
    ///
    /// # Errors
    /// Of the earliest run that fails.
    pub fn compare(&self, control: &RunControl<'_>) -> Result<PolicyComparison, StudyError> {
        let one = |index: usize| {
            let run = self.whole(self.plan.cell(index), control.cancelled)?;
            (control.finished)(1);
            Ok((index, run))
        };
        let all = (0..self.plan.runs()).collect();
        let mut finished: Vec<Vec<wakepath_sim::Run>> = vec![Vec::new(); self.plan.cells().len()];
        for (index, run) in each(all, true, control.cancelled, one)? {
            finished[index % self.plan.cells().len()].push(run);
        }
        let cells = self.plan.cells().iter().zip(finished);
        let results = cells
            .filter(|(_, runs)| !runs.is_empty())
            .map(|(cell, runs)| {
                let policy = &self.plan.policies[cell.policy];
                let in_force = in_force(self.machine(*cell), &policy.set);
                let in_force = in_force.map_err(|e| StudyError::Settings(e.to_string()))?;
                Ok(PolicyResult::new(in_force, runs))
            });
        Ok(PolicyComparison {
            results: results.collect::<Result<_, StudyError>>()?,
        })
    }

    /// The policies of a cell, with the kernel's default in place of a governor of one's own: what is only tried runs
    /// nothing that a study names.
    fn without_program(&self, cell: Cell) -> Result<Cow<'_, PolicySet>, StudyError> {
        let set = &self.plan.policies[cell.policy].set;
        if set.program().is_none() {
            return Ok(Cow::Borrowed(set));
        }
        let replaced = "menu".parse().and_then(|menu: PolicySpec| set.with(menu));
        replaced
            .map(Cow::Owned)
            .map_err(|e| StudyError::Settings(e.to_string()))
    }

    /// Simulates a cell until `limit` is over, if it takes so long.
    fn try_for(&self, cell: Cell, set: &PolicySet, limit: Duration) -> Result<Trial, StudyError> {
        let started = Instant::now();
        let thread_started = time_of_thread();
        let model = self.prepare(cell, set)?;
        let prepared = time_of_thread();
        let set_up = std::cell::Cell::new(None);
        // Reading the clock costs more than an event.
        let looks = std::cell::Cell::new(0_u32);
        // A run that was stopped in its warm-up has finished nothing, and is stopped again after it.
        let over = std::cell::Cell::new(false);
        let mut observer = StopWhen(|| {
            if set_up.get().is_none() {
                set_up.set(Some(time_of_thread()));
            }
            looks.set(looks.get().wrapping_add(1));
            if looks.get().is_multiple_of(256) && started.elapsed() >= limit {
                over.set(true);
            }
            over.get()
        });
        let run = self.run_model(cell, &model, &mut observer)?;
        let ended = time_of_thread();
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

    /// The run of a cell without its timeline.
    ///
    /// # Errors
    /// It cannot be simulated; [`StudyError::Interrupted`] if it was cut short because `cancelled` is set.
    pub fn measure(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError> {
        let simulated = self.whole(cell, cancelled)?;
        self.fill(cell, run, &simulated);
        Ok(())
    }

    /// Writes down what a run came to.
    fn fill(&self, cell: Cell, run: &mut RunRecord, simulated: &wakepath_sim::Run) {
        run.seed = Some(self.plan.seed(cell.repeat));
        self.note_idle_tasks(cell, simulated);
        rows::fill(run, self.machine(cell), simulated);
    }

    /// Notes the tasks of an rt-app file that did nothing. The earliest cell counts, whatever the order of the threads.
    fn note_idle_tasks(&self, cell: Cell, simulated: &wakepath_sim::Run) {
        let tasks = simulated.threads.iter().flat_map(|threads| &threads.tasks);
        let idle = tasks.filter_map(|task| Some((&task.name, task.never_ran.as_ref()?)));
        let mut noted = self
            .never_ran
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (name, why) in idle {
            let place = noted.entry((cell.workload, name.clone()));
            let first = place.or_insert_with(|| (cell, why.clone()));
            if place_in_plan(cell) < place_in_plan(first.0) {
                *first = (cell, why.clone());
            }
        }
    }

    /// Simulates a cell to its end.
    fn whole(&self, cell: Cell, cancelled: &AtomicBool) -> Result<wakepath_sim::Run, StudyError> {
        let is_cancelled = || cancelled.load(Ordering::Relaxed);
        let simulated = self.simulate(cell, &mut StopWhen(is_cancelled))?;
        // Cut short or just finished: there is no telling.
        if is_cancelled() {
            return Err(StudyError::Interrupted);
        }
        Ok(simulated)
    }
}

impl Backend for Sim<'_> {
    /// The cell is set up and stopped at once.
    fn check(&self, cell: Cell) -> Result<(), StudyError> {
        let set = self.without_program(cell)?;
        self.simulate_under(cell, &set, &mut StopWhen(|| true))
            .map(drop)
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
            notes: notes(self.plan, models().map(|(_, model)| model)),
        })
    }

    fn surprises(&self) -> Vec<String> {
        let noted = self
            .never_ran
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let say = |((workload, task), (_, why)): (&(usize, String), &(Cell, String))| {
            let name = &self.plan.workloads[*workload].name;
            format!("workload `{name}`: task `{task}` never ran: {why}")
        };
        noted.iter().map(say).collect()
    }

    fn estimate(&self, of_each: Duration) -> Result<Option<Duration>, StudyError> {
        let mut total = 0.0;
        let has_program = self.plan.policies.iter().any(|p| p.set.program().is_some());
        let exchange = if has_program {
            wakepath_governors::time_exchange().as_secs_f64()
        } else {
            0.0
        };
        let (mut of_thread, mut by_clock) = (Duration::ZERO, Duration::ZERO);
        for cell in self.plan.cells().iter().copied() {
            let set = self.without_program(cell)?;
            let mut limit = of_each;
            // On a busy machine no request may be finished in so short a time.
            let trial = loop {
                match self.try_for(cell, &set, limit) {
                    Err(StudyError::Simulation { .. }) if limit < of_each * 100 => limit *= 10,
                    tried => break tried?,
                }
            };
            of_thread += trial.prepared + trial.set_up + trial.events;
            by_clock += trial.took;
            let lasts = self.plan.workloads[cell.workload].duration();
            let workload = self.plan.workloads[cell.workload].workload();
            let capacity = self.machine(cell).drive.capacity();
            let amount = workload.and_then(|workload| Amount::asked(workload, capacity));
            let factor = trial.remains(lasts, amount);
            let program = self.plan.policies[cell.policy].set.program();
            let exchanges = program.map_or(0.0, |_| exchange * asked(&trial.run) as f64);
            let events = (trial.events.as_secs_f64() + exchanges) * factor;
            let runs = f64::from(self.plan.repeats());
            total += trial.prepared.as_secs_f64() + (trial.set_up.as_secs_f64() + events) * runs;
        }
        // What else runs on the machine keeps the study waiting as it did the trials. One trial would not tell how long.
        let waits = by_clock.as_secs_f64() / of_thread.as_secs_f64().max(1e-9);
        Ok(Some(Duration::from_secs_f64(
            (total * waits.max(1.0)).min(1e9),
        )))
    }

    fn run(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError> {
        let workload = self.plan.workloads[cell.workload].workload();
        let Some(workload) = workload.filter(|_| cell.repeat == 0) else {
            return self.measure(cell, run, cancelled);
        };
        let mut observed = representative::observe(self.machine(cell), workload, cancelled);
        let simulated = self.simulate(cell, &mut observed)?;
        // Cut short or just finished: there is no telling.
        if cancelled.load(Ordering::Relaxed) {
            return Err(StudyError::Interrupted);
        }
        self.fill(cell, run, &simulated);
        run.timeline = representative::rows(observed);
        Ok(())
    }
}

/// Where a cell stands in its plan.
fn place_in_plan(cell: Cell) -> (usize, usize, u32) {
    (cell.machine, cell.policy, cell.repeat)
}

/// A run that was made to see how long runs take.
struct Trial {
    run: wakepath_sim::Run,
    /// Time of its thread for the model, which serves all runs of the cell.
    prepared: Duration,
    /// Time of its thread from the model to the first event, however long the run is.
    set_up: Duration,
    /// What its thread worked after that.
    events: Duration,
    /// It was stopped before its end.
    is_cut: bool,
    /// By the clock of the machine, on which others run, too.
    took: Duration,
}

impl Trial {
    /// How many times as much as was simulated a whole run has, of a workload that lasts so long or transfers so much, whichever
    /// ends it first.
    fn remains(&self, lasts: Option<Nanoseconds>, amount: Option<Amount>) -> f64 {
        if !self.is_cut {
            return 1.0;
        }
        let simulated = self.run.seconds + self.run.warm_up_seconds;
        let lasts = lasts.unwrap_or(LONGEST_UNTIMED);
        let by_time = lasts.as_secs_f64() / simulated.max(1e-9);
        let by_amount = amount.map_or(f64::INFINITY, |amount| amount.times_done(&self.run));
        by_time.min(by_amount).max(1.0)
    }
}

/// How much the processes of fio jobs do before they end.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    bytes: u64,
    /// None if a job counts bytes only.
    requests: Option<u64>,
}

impl Amount {
    /// What a workload asks for on a drive of `capacity` bytes; none if only time ends one of its jobs.
    fn asked(workload: &Workload, capacity: u64) -> Option<Self> {
        let Workload::Fio(file) = workload else {
            return None;
        };
        let mut all = Self {
            bytes: 0,
            requests: Some(0),
        };
        for job in &file.jobs {
            let limits = job.limits(capacity);
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

    /// How many times as much as a run has done.
    fn times_done(self, run: &wakepath_sim::Run) -> f64 {
        let done = run.read_bytes + run.written_bytes;
        let by_bytes = self.bytes as f64 / done.max(1) as f64;
        let by_requests = self.requests.map_or(f64::INFINITY, |requests| {
            requests as f64 / run.requests.max(1) as f64
        });
        by_bytes.min(by_requests)
    }
}

/// What this thread has worked.
fn time_of_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// How often governors were asked in a run.
fn asked(run: &wakepath_sim::Run) -> u64 {
    run.idle_states.iter().map(|state| state.entries).sum()
}

/// What a reader of the results should know of the policies on the machines, each thing once.
fn notes<'a>(plan: &Plan, machines: impl Iterator<Item = &'a Machine>) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for machine in machines {
        let of_sets = plan.policies.iter().filter_map(|policy| {
            // A set that does not fit the machine has been refused.
            wakepath_sim::notes(machine, &policy.set).ok()
        });
        for note in stands_in(plan, machine)
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

/// What stands in for a recorded system's own policies, where a policy of the study does not name one.
fn stands_in(plan: &Plan, machine: &Machine) -> Option<String> {
    let leaves_open = |p: &PlannedPolicy| p.set.idle().is_none() || p.set.frequency().is_none();
    let system = recorded::find(&machine.name).filter(|_| plan.policies.iter().any(leaves_open));
    system.and_then(|system| system.kernel_policy().stands_in)
}

/// Stops a run early.
struct StopWhen<F>(F);

impl<F: Fn() -> bool> Observer for StopWhen<F> {
    const WATCHES: bool = false;

    fn has_enough(&self) -> bool {
        (self.0)()
    }
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
        Plan::on_the_spot("test", machine, workload.into(), sets, 1, 3)
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
            let result = with_threads(threads, || sim.compare(&RunControl::for_nobody()));
            serde_json::to_string(&result.unwrap()).unwrap()
        };
        let one = with(1);
        assert_eq!(one, with(2));
        assert_eq!(one, with(7));
    }

    #[test]
    fn a_cancelled_comparison_keeps_what_is_finished_in_order() {
        let plan = plan("rw=randread\ntime_based\nruntime=50ms\n");
        let sim = Sim::new(&plan).unwrap();
        let all = sim.compare(&RunControl::for_nobody()).unwrap();
        let seeds = |of: &PolicyResult| of.runs.iter().map(|run| run.seed).collect::<Vec<_>>();
        assert!(all.results.iter().all(|result| seeds(result) == [1, 2, 3]));
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
        let cell = plan.cells()[0];
        let set = &plan.policies[0].set;
        let trial = sim.try_for(cell, set, Duration::from_millis(1)).unwrap();
        assert!(trial.is_cut);
        let simulated = trial.run.seconds + trial.run.warm_up_seconds;
        let lasts = plan.workloads[0].duration();
        assert!((trial.remains(lasts, None) * simulated - 40.0).abs() < 1e-6);
        // A whole machine is set up before the first event, which longer runs do not do again.
        assert!(trial.set_up > Duration::ZERO && trial.set_up + trial.events <= trial.took * 2);
    }

    #[test]
    fn an_estimate_of_jobs_that_end_by_size_scales_with_what_they_transfer() {
        for (options, requests) in [
            ("rw=randread\nsize=256m\n", 65_536.0),
            ("rw=randread\nsize=256m\nnumjobs=2\n", 131_072.0),
            ("rw=randread\nsize=256m\nnumber_ios=20000\n", 20_000.0),
            // Its time would end it much later.
            ("rw=randread\nsize=256m\nruntime=1000\n", 65_536.0),
        ] {
            let plan = plan(options);
            let sim = Sim::new(&plan).unwrap();
            let cell = plan.cells()[0];
            let set = &plan.policies[0].set;
            let trial = sim.try_for(cell, set, Duration::from_millis(5)).unwrap();
            assert!(trial.is_cut, "{options}");
            let workload = plan.workloads[0].workload().unwrap();
            let amount = Amount::asked(workload, sim.machine(cell).drive.capacity());
            let factor = trial.remains(plan.workloads[0].duration(), amount);
            let all = factor * trial.run.requests as f64;
            assert!((all / requests - 1.0).abs() < 0.01, "{options}: {all}");
        }
    }
}
