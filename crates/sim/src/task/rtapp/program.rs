//! rt-app tasks, compiled into what the engine executes.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_units::Nanoseconds;
use wakepath_workloads::fio::{CpusPolicy, FioJob, FioJobFile};
use wakepath_workloads::rtapp::{Phase, RtAppEvent, RtAppFile, RtTask, Scheduling};

use crate::core::basics::{CpuId, Cycles, Direction};
use crate::error::SimError;
use crate::scheduler::state::Class;
use crate::task::fio::setup::JobSetup;

/// One step in a program. Mutexes, conditions, barriers, semaphores and shared timers are numbered within one copy of
/// the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Do work of so many cycles.
    Run(Cycles),
    /// Work for a time in ns, however fast the CPU is.
    Runtime(u64),
    /// Sleep for a time in ns.
    Sleep(u64),
    /// Sleep until the next period of a timer.
    Timer {
        timer: TimerId,
        period: u64,
        absolute: bool,
    },
    Lock(usize),
    Unlock(usize),
    /// Take the mutex of a `sync`, unless the thread has it already.
    BeginSync(usize),
    /// Give the mutex of a `sync` back, unless the thread had it before.
    EndSync(usize),
    /// Release the mutex, if any, and sleep until a condition is signalled.
    Wait {
        condition: usize,
        mutex: Option<usize>,
    },
    /// Wake the first thread that waits for a condition.
    Signal(usize),
    /// Wake all threads that wait for a condition.
    Broadcast(usize),
    Barrier(usize),
    /// Count a semaphore up.
    Post(usize),
    /// Count a semaphore down, or sleep until another thread counts it up.
    Pend(usize),
    Yield,
    /// Write so many bytes, and sleep until the write is completed.
    Write(u64),
    /// Submit a request, and go on.
    Submit {
        direction: Direction,
        bytes: u64,
        offset: u64,
        /// Whether the request ends once the data are on the media.
        is_forced: bool,
    },
    /// Submit a flush of the drives' caches, and go on.
    Flush,
    /// Sleep until at most so many own requests are in flight.
    AwaitIo(u32),
    /// Sleep until a timer for so many ns, which has no slack beyond.
    Pause(u64),
    /// Sleep until a timer so many ns after the thread's last one; no sleep if that is over.
    PauseAfterLast(u64),
    /// Sleep until a network card interrupts a CPU, so many ns after now. Requests for a pool come so long after the one before of this
    /// thread's steps, and are for any thread of the pool.
    AwaitArrival {
        time: u64,
        cpu: CpuId,
        pool: Option<usize>,
    },
    /// Append bytes to a log, and sync it, or wait for another thread's sync; `end` is the index of the step that ends the sync.
    JoinSync {
        log: usize,
        bytes: u64,
        end: usize,
    },
    /// End the sync of a log by this thread.
    EndSharedSync(usize),
    /// Leave an RCU callback on the CPU, on a machine with RCU.
    LeaveCallback,
}

/// A timer, by its owner and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerId {
    /// A timer of the thread itself.
    Own(usize),
    /// A timer shared by all threads that name it.
    Shared(usize),
}

/// A phase of an rt-app task's program.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// How often it is repeated; `None`: for ever.
    pub(in crate::task) loops: Option<u64>,
    /// Scheduling class from this stage on; `None`: unchanged.
    pub(in crate::task) class: Option<Class>,
    /// Index of the set of CPUs allowed in this stage; `None`: all CPUs.
    pub(in crate::task) allowed: Option<usize>,
    pub(in crate::task) ops: Vec<Op>,
}

/// The program that every thread of an rt-app task runs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(in crate::task) name: String,
    pub(in crate::task) instances: u32,
    pub(in crate::task) delay: u64,
    /// How often it is repeated; `None`: for ever.
    pub(in crate::task) loops: Option<u64>,
    pub(in crate::task) class: Class,
    pub(in crate::task) stages: Vec<Stage>,
    pub(in crate::task) own_timers: usize,
    /// How a task of given steps begins and does I/O; `None`: an rt-app task.
    pub(in crate::task) step_rules: Option<StepRules>,
}

/// How a task of given steps begins and does I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepRules {
    /// CPU where the task runs first; `None`: as the scheduler places it.
    pub(in crate::task) first_cpu: Option<CpuId>,
    /// How many of its requests may be in flight.
    pub(in crate::task) depth: u32,
    /// Whether its waits for requests count as I/O wait.
    pub(in crate::task) io_wait: bool,
    /// Whether its requests are the page cache's.
    pub(in crate::task) uses_page_cache: bool,
    /// Time in ns from which on its requests count for the figures.
    pub(in crate::task) counts_from: u64,
}

/// A compiled workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    pub(in crate::task) tasks: Vec<Program>,
    pub(in crate::task) copies: u32,
    /// Time in ns from which on loops and wake-ups are counted.
    pub(in crate::task) warm_up: u64,
    /// Latest time in ns when the run ends.
    end: Option<u64>,
    /// Whether the run lasts until its latest end even if all threads have ended.
    pub(in crate::task) lasts: bool,
    /// Whether the latest end is imposed from outside, and not by the file.
    cut: bool,
    pub(in crate::task) mutexes: Vec<String>,
    pub(in crate::task) conditions: Vec<String>,
    /// Barriers, each with the number of threads of one copy that meet there.
    pub(in crate::task) barriers: Vec<(String, u32)>,
    pub(in crate::task) semaphores: Vec<String>,
    pub(in crate::task) shared_timers: usize,
    /// Number of logs whose syncs are shared.
    pub(in crate::task) logs: usize,
    /// Sets of CPUs, each as a flag by CPU.
    cpu_sets: Vec<Vec<bool>>,
}

/// Names, numbered in the order of their first appearance.
#[derive(Default)]
struct Numbers(BTreeMap<String, usize>);

impl Numbers {
    fn number_for(&mut self, name: String) -> usize {
        let next = self.0.len();
        *self.0.entry(name).or_insert(next)
    }

    fn into_names_in_order(self) -> Vec<String> {
        let mut names = vec![String::new(); self.0.len()];
        for (name, index) in self.0 {
            names[index] = name;
        }
        names
    }
}

struct Compiler<'a> {
    /// Speed in kHz of the CPU in whose time the file gives its work.
    khz: u64,
    cpus: usize,
    mutexes: Numbers,
    conditions: Numbers,
    barriers: Numbers,
    semaphores: Numbers,
    barrier_users: Vec<u32>,
    timers: Numbers,
    cpu_sets: Vec<Vec<bool>>,
    /// Things that are not modelled: line and name of the task, and what it asks for.
    refused: BTreeSet<(usize, &'a str, String)>,
    task: &'a RtTask,
}

impl Programs {
    /// For a fio file: no programs, but the sets of CPUs on which the jobs' processes may run.
    pub(crate) fn for_jobs(
        file: &FioJobFile,
        setups: &mut [JobSetup],
        machine_cpus: usize,
    ) -> Self {
        let mut programs = Self::default();
        for (setup, job) in setups.iter_mut().zip(&file.jobs) {
            setup.set_cpu_sets(programs.add_cpu_sets_of_job(job, machine_cpus));
        }
        programs
    }

    /// For a server: no programs, and a run that ends at `end` ns.
    pub(crate) fn for_server(end: u64) -> Self {
        Self {
            end: Some(end),
            ..Self::default()
        }
    }

    /// For tasks of given steps: these programs, with a semaphore by name for each task's wake-ups, and a number of logs. The run ends at
    /// `end` ns.
    pub(super) fn for_step_tasks(
        tasks: Vec<Program>,
        (semaphores, logs): (Vec<String>, usize),
        cpu_sets: Vec<Vec<bool>>,
        end: u64,
    ) -> Self {
        Self {
            tasks,
            copies: 1,
            end: Some(end),
            semaphores,
            logs,
            cpu_sets,
            ..Self::default()
        }
    }

    /// Whether the programs are tasks of given steps, and no rt-app file's.
    pub(crate) fn have_arrivals(&self) -> bool {
        let stages = self.tasks.iter().flat_map(|task| &task.stages);
        stages
            .flat_map(|stage| &stage.ops)
            .any(|op| matches!(op, Op::AwaitArrival { .. }))
    }

    pub(crate) fn have_given_steps(&self) -> bool {
        self.tasks.iter().any(|task| task.step_rules.is_some())
    }

    /// Number of tasks in the rt-app file; 0 for other workloads.
    pub(crate) fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// Latest time in ns when the run ends.
    pub(crate) fn latest_end(&self) -> Option<u64> {
        self.end
    }

    /// Whether the run is at its latest end now, and this end is not the file's.
    pub(crate) fn is_ended_by_cap(&self, now: u64) -> bool {
        self.cut && self.end.is_some_and(|end| now >= end)
    }

    /// Whether a CPU belongs to the set of CPUs with this number.
    pub(crate) fn cpu_set_contains(&self, set: usize, cpu: usize) -> bool {
        self.cpu_sets[set][cpu]
    }

    /// Adds the CPU sets that a fio job's processes take in turn. Returns their indices in `cpu_sets`; empty: all CPUs for all.
    fn add_cpu_sets_of_job(&mut self, job: &FioJob, machine_cpus: usize) -> Vec<usize> {
        let listed = job.cpus_allowed.iter().flatten().map(|cpu| *cpu as usize);
        let there: Vec<usize> = listed.filter(|cpu| *cpu < machine_cpus).collect();
        if there.is_empty() {
            return Vec::new();
        }
        let size = match job.cpus_policy {
            CpusPolicy::Shared => there.len(),
            CpusPolicy::Split => 1,
        };
        let sets = (there.chunks(size))
            .map(|set| (0..machine_cpus).map(|cpu| set.contains(&cpu)).collect());
        let first = self.cpu_sets.len();
        self.cpu_sets.extend(sets);
        (first..self.cpu_sets.len()).collect()
    }

    /// Adds a set of CPUs, given as a flag by CPU. Returns the set's number.
    pub(crate) fn add_cpu_set(&mut self, cpus: Vec<bool>) -> usize {
        self.cpu_sets.push(cpus);
        self.cpu_sets.len() - 1
    }

    /// Compiles a file for a machine of `cpus` CPUs. The one in whose time its work is given does `khz` thousand cycles a
    /// second. The run is over after `longest`.
    pub(crate) fn new(
        file: &RtAppFile,
        khz: u64,
        cpus: usize,
        longest: Nanoseconds,
    ) -> Result<Self, SimError> {
        let Some(first) = file.tasks.first() else {
            return Ok(Self::default());
        };
        let mut compiler = Compiler {
            khz,
            cpus,
            mutexes: Numbers::default(),
            conditions: Numbers::default(),
            barriers: Numbers::default(),
            semaphores: Numbers::default(),
            barrier_users: Vec::new(),
            timers: Numbers::default(),
            cpu_sets: Vec::new(),
            refused: BTreeSet::new(),
            task: first,
        };
        let mut tasks = Vec::with_capacity(file.tasks.len());
        for task in &file.tasks {
            compiler.task = task;
            tasks.push(compiler.compile_program());
        }
        if let Some(error) = compiler.take_refusals_as_error() {
            return Err(error);
        }
        let end = file.duration.map_or(longest, |lasts| lasts.min(longest));
        Ok(Self {
            tasks,
            copies: file.copies,
            warm_up: file.warm_up.0,
            end: Some(end.0),
            lasts: file.duration.is_some(),
            cut: file.duration != Some(end),
            mutexes: compiler.mutexes.into_names_in_order(),
            conditions: compiler.conditions.into_names_in_order(),
            barriers: compiler
                .barriers
                .into_names_in_order()
                .into_iter()
                .zip(compiler.barrier_users)
                .collect(),
            semaphores: compiler.semaphores.into_names_in_order(),
            shared_timers: compiler.timers.0.len(),
            logs: 0,
            cpu_sets: compiler.cpu_sets,
        })
    }

    /// Number of threads in all copies of the workload.
    pub(crate) fn thread_count(&self) -> usize {
        let of_one: usize = self.tasks.iter().map(|t| t.instances as usize).sum();
        of_one * self.copies as usize
    }
}

impl Compiler<'_> {
    fn add_refusal(&mut self, what: String) {
        self.refused.insert((self.task.line, &self.task.name, what));
    }

    /// Removes and returns everything found that is not modelled, as one error; `None` if all is modelled.
    fn take_refusals_as_error(&mut self) -> Option<SimError> {
        let refused = std::mem::take(&mut self.refused);
        let mut errors = Vec::with_capacity(refused.len());
        for (line, task, what) in refused {
            let task = task.to_owned();
            errors.push(SimError::Task { line, task, what });
        }
        match errors.len() {
            0 | 1 => errors.pop(),
            _ => Some(SimError::Several(errors)),
        }
    }

    fn compile_program(&mut self) -> Program {
        let task = self.task;
        let mut own_timers = Numbers::default();
        let own_cpus = self.add_cpu_set(task.cpus.as_deref());
        let mut stages = Vec::with_capacity(task.phases.len());
        for phase in &task.phases {
            stages.push(self.compile_stage(phase, own_cpus, &mut own_timers));
        }
        Program {
            name: task.name.clone(),
            instances: task.instances,
            delay: task.delay.0,
            loops: task.loops,
            class: scheduling_class(task.scheduling),
            stages,
            own_timers: own_timers.0.len(),
            step_rules: None,
        }
    }

    fn compile_stage(
        &mut self,
        phase: &Phase,
        own_cpus: Option<usize>,
        own_timers: &mut Numbers,
    ) -> Stage {
        let allowed = match &phase.cpus {
            Some(cpus) => self.add_cpu_set(Some(cpus)),
            None => own_cpus,
        };
        let mut ops = Vec::with_capacity(phase.events.len());
        for event in &phase.events {
            self.compile_event(event, own_timers, &mut ops);
        }
        Stage {
            loops: phase.loops,
            class: phase.scheduling.map(scheduling_class),
            allowed,
            ops,
        }
    }

    fn compile_event(&mut self, event: &RtAppEvent, own_timers: &mut Numbers, ops: &mut Vec<Op>) {
        let op = match event {
            RtAppEvent::Run(time) => Op::Run(self.cycles_in_time(*time)),
            RtAppEvent::Runtime(time) => Op::Runtime(time.0),
            RtAppEvent::Sleep(time) => Op::Sleep(time.0),
            RtAppEvent::Timer {
                timer,
                period,
                absolute,
            } => Op::Timer {
                timer: if timer.starts_with("unique") {
                    TimerId::Own(own_timers.number_for(timer.clone()))
                } else {
                    TimerId::Shared(self.timers.number_for(timer.clone()))
                },
                period: period.0,
                absolute: *absolute,
            },
            RtAppEvent::Lock(mutex) => Op::Lock(self.mutexes.number_for(mutex.clone())),
            RtAppEvent::Unlock(mutex) => Op::Unlock(self.mutexes.number_for(mutex.clone())),
            RtAppEvent::Wait { condition, mutex } => Op::Wait {
                condition: self.conditions.number_for(condition.clone()),
                mutex: Some(self.mutexes.number_for(mutex.clone())),
            },
            RtAppEvent::Signal(condition) => {
                Op::Signal(self.conditions.number_for(condition.clone()))
            }
            RtAppEvent::Broadcast(condition) => {
                Op::Broadcast(self.conditions.number_for(condition.clone()))
            }
            RtAppEvent::Sync { condition, mutex } => {
                let mutex = self.mutexes.number_for(mutex.clone());
                let condition = self.conditions.number_for(condition.clone());
                ops.extend([Op::BeginSync(mutex), Op::Signal(condition)]);
                ops.push(Op::Wait {
                    condition,
                    mutex: Some(mutex),
                });
                Op::EndSync(mutex)
            }
            RtAppEvent::Barrier(barrier) => {
                let barrier = self.barriers.number_for(barrier.clone());
                if barrier == self.barrier_users.len() {
                    self.barrier_users.push(0);
                }
                self.barrier_users[barrier] += self.task.instances;
                Op::Barrier(barrier)
            }
            // `rtapp_suspend` and `rtapp_resume` use the condition that `wait`, `sync` and `signal` have by this name.
            RtAppEvent::Suspend(name) => Op::Wait {
                condition: self.conditions.number_for(name.clone()),
                mutex: None,
            },
            RtAppEvent::Resume(name) => Op::Broadcast(self.conditions.number_for(name.clone())),
            RtAppEvent::SemPost(name) => Op::Post(self.semaphores.number_for(name.clone())),
            RtAppEvent::SemWait(name) => Op::Pend(self.semaphores.number_for(name.clone())),
            RtAppEvent::Yield => Op::Yield,
            RtAppEvent::Mem(_) => {
                let what = "the speed of memory (mem); say how long the work takes with run";
                return self.add_refusal(what.to_owned());
            }
            RtAppEvent::IoRun(0) => return,
            RtAppEvent::IoRun(bytes) => Op::Write(*bytes),
        };
        ops.push(op);
    }

    fn cycles_in_time(&self, time: Nanoseconds) -> Cycles {
        let cycles = u128::from(time.0) * u128::from(self.khz) / 1_000_000;
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    fn add_cpu_set(&mut self, cpus: Option<&[usize]>) -> Option<usize> {
        let cpus = cpus?;
        if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= self.cpus) {
            let last = self.cpus - 1;
            self.add_refusal(format!("CPU {cpu}: the machine has CPUs 0 to {last}"));
            return None;
        }
        let set: Vec<bool> = (0..self.cpus).map(|cpu| cpus.contains(&cpu)).collect();
        let known = self.cpu_sets.iter().position(|s| *s == set);
        Some(known.unwrap_or_else(|| {
            self.cpu_sets.push(set);
            self.cpu_sets.len() - 1
        }))
    }
}

fn scheduling_class(scheduling: Scheduling) -> Class {
    match scheduling {
        Scheduling::Other { nice } => Class::fair_with_nice(nice),
        Scheduling::Idle => Class::Idle,
        Scheduling::Fifo { priority } => Class::Realtime {
            priority,
            round_robin: false,
        },
        Scheduling::RoundRobin { priority } => Class::Realtime {
            priority,
            round_robin: true,
        },
    }
}
