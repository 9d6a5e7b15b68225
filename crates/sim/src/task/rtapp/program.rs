//! rt-app tasks, compiled into what the engine executes.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_units::Nanoseconds;
use wakepath_workloads::fio::{CpusPolicy, FioJob, FioJobFile};
use wakepath_workloads::rtapp::{Phase, RtAppEvent, RtAppFile, RtTask, Scheduling};

use crate::core::basics::Cycles;
use crate::error::SimError;
use crate::scheduler::state::Class;
use crate::task::fio::setup::JobSetup;

/// One step in a program. Mutexes, conditions, barriers, semaphores and shared timers are numbered within one copy of
/// the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// So much work.
    Run(Cycles),
    /// Work for so long.
    Runtime(u64),
    /// Sleep for so long.
    Sleep(u64),
    /// Sleep until the next period of a timer.
    Timer {
        timer: TimerId,
        period: u64,
        absolute: bool,
    },
    Lock(usize),
    Unlock(usize),
    /// Take a mutex for a `sync`, which the thread may have already.
    BeginSync(usize),
    /// Give the `sync`'s mutex back, unless owned before.
    EndSync(usize),
    /// Sleep until a condition is signalled, without the mutex, if there is one.
    Wait {
        condition: usize,
        mutex: Option<usize>,
    },
    /// Wake the first that waits for a condition.
    Signal(usize),
    /// Wake all that wait for a condition.
    Broadcast(usize),
    Barrier(usize),
    /// Count a semaphore up.
    Post(usize),
    /// Count a semaphore down, or sleep until it is counted up.
    Pend(usize),
    Yield,
    /// Write so many bytes and wait for it.
    Write(u64),
}

/// A timer's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerId {
    /// The thread.
    Own(usize),
    /// Everybody who names the timer.
    Shared(usize),
}

/// A phase of a program.
#[derive(Clone, Debug)]
pub(crate) struct Stage {
    /// How often; `None` for ever.
    pub(in crate::task) loops: Option<u64>,
    /// How the thread is scheduled from here on, if that changes.
    pub(in crate::task) class: Option<Class>,
    /// Index of the allowed CPU set here; `None`: all CPUs.
    pub(in crate::task) allowed: Option<usize>,
    pub(in crate::task) ops: Vec<Op>,
}

/// What every thread of a task does.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(in crate::task) name: String,
    pub(in crate::task) instances: u32,
    pub(in crate::task) delay: u64,
    /// How often; `None` for ever.
    pub(in crate::task) loops: Option<u64>,
    pub(in crate::task) class: Class,
    pub(in crate::task) stages: Vec<Stage>,
    pub(in crate::task) own_timers: usize,
}

/// A compiled workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    pub(in crate::task) tasks: Vec<Program>,
    pub(in crate::task) copies: u32,
    /// From when on loops and wake-ups are counted, in ns.
    pub(in crate::task) warm_up: u64,
    /// When the run ends at the latest, in ns.
    end: Option<u64>,
    /// The run lasts until then, also if all threads have ended.
    pub(in crate::task) lasts: bool,
    /// The file does not ask for that end.
    cut: bool,
    pub(in crate::task) mutexes: Vec<String>,
    pub(in crate::task) conditions: Vec<String>,
    /// Threads of one copy that meet at each barrier.
    pub(in crate::task) barriers: Vec<(String, u32)>,
    pub(in crate::task) semaphores: Vec<String>,
    pub(in crate::task) shared_timers: usize,
    /// Sets of CPUs: whether each belongs to it.
    cpu_sets: Vec<Vec<bool>>,
}

/// Numbers names in the order of their appearance.
#[derive(Default)]
struct Numbers(BTreeMap<String, usize>);

impl Numbers {
    fn number_for(&mut self, name: String) -> usize {
        let next = self.0.len();
        *self.0.entry(name).or_insert(next)
    }

    fn names(self) -> Vec<String> {
        let mut names = vec![String::new(); self.0.len()];
        for (name, index) in self.0 {
            names[index] = name;
        }
        names
    }
}

struct Compiler<'a> {
    /// Thousands of cycles a second of the CPU in whose time work is given.
    khz: u64,
    cpus: usize,
    mutexes: Numbers,
    conditions: Numbers,
    barriers: Numbers,
    semaphores: Numbers,
    barrier_users: Vec<u32>,
    timers: Numbers,
    cpu_sets: Vec<Vec<bool>>,
    /// An unmodelled request: the task's line and name, and what the task asks for.
    refused: BTreeSet<(usize, &'a str, String)>,
    task: &'a RtTask,
}

impl Programs {
    /// No programs, but the sets of CPUs on which the processes of jobs may run.
    pub(crate) fn for_jobs(
        file: &FioJobFile,
        setups: &mut [JobSetup],
        machine_cpus: usize,
    ) -> Self {
        let mut programs = Self::default();
        for (setup, job) in setups.iter_mut().zip(&file.jobs) {
            setup.set_cpus(programs.cpu_sets_of(job, machine_cpus));
        }
        programs
    }

    /// How many tasks the file has, each of some threads.
    pub(crate) fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// When the run ends at the latest, in ns.
    pub(crate) fn ends(&self) -> Option<u64> {
        self.end
    }

    /// Whether the run is over now, although its file does not ask for that.
    pub(crate) fn is_capped(&self, now: u64) -> bool {
        self.cut && self.end.is_some_and(|end| now >= end)
    }

    /// Whether a CPU belongs to a set of CPUs.
    pub(crate) fn allows(&self, set: usize, cpu: usize) -> bool {
        self.cpu_sets[set][cpu]
    }

    /// The CPUs of each process of a fio job in turn, as indices of `cpu_sets`; empty: all CPUs for all.
    fn cpu_sets_of(&mut self, job: &FioJob, machine_cpus: usize) -> Vec<usize> {
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
            tasks.push(compiler.program());
        }
        if let Some(error) = compiler.refusal() {
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
            mutexes: compiler.mutexes.names(),
            conditions: compiler.conditions.names(),
            barriers: compiler
                .barriers
                .names()
                .into_iter()
                .zip(compiler.barrier_users)
                .collect(),
            semaphores: compiler.semaphores.names(),
            shared_timers: compiler.timers.0.len(),
            cpu_sets: compiler.cpu_sets,
        })
    }

    /// Threads of all copies.
    pub(crate) fn threads(&self) -> usize {
        let of_one: usize = self.tasks.iter().map(|t| t.instances as usize).sum();
        of_one * self.copies as usize
    }
}

/// What a thread waits for that suspends itself.
fn suspended(name: &str) -> String {
    format!("to be resumed (\"suspend\": \"{name}\")")
}

/// What a thread waits for at a condition.
fn signalled(name: &str) -> String {
    format!("for the condition \"{name}\"")
}

impl Compiler<'_> {
    fn refuse(&mut self, what: String) {
        self.refused.insert((self.task.line, &self.task.name, what));
    }

    /// Everything that is not modelled, as one error.
    fn refusal(&mut self) -> Option<SimError> {
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

    fn program(&mut self) -> Program {
        let task = self.task;
        let mut own_timers = Numbers::default();
        let own_cpus = self.cpu_set(task.cpus.as_deref());
        let mut stages = Vec::with_capacity(task.phases.len());
        for phase in &task.phases {
            stages.push(self.stage(phase, own_cpus, &mut own_timers));
        }
        Program {
            name: task.name.clone(),
            instances: task.instances,
            delay: task.delay.0,
            loops: task.loops,
            class: class(task.scheduling),
            stages,
            own_timers: own_timers.0.len(),
        }
    }

    fn stage(&mut self, phase: &Phase, own_cpus: Option<usize>, own_timers: &mut Numbers) -> Stage {
        let allowed = match &phase.cpus {
            Some(cpus) => self.cpu_set(Some(cpus)),
            None => own_cpus,
        };
        let mut ops = Vec::with_capacity(phase.events.len());
        for event in &phase.events {
            self.event(event, own_timers, &mut ops);
        }
        Stage {
            loops: phase.loops,
            class: phase.scheduling.map(class),
            allowed,
            ops,
        }
    }

    fn event(&mut self, event: &RtAppEvent, own_timers: &mut Numbers, ops: &mut Vec<Op>) {
        let op = match event {
            RtAppEvent::Run(time) => Op::Run(self.cycles(*time)),
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
                condition: self.conditions.number_for(signalled(condition)),
                mutex: Some(self.mutexes.number_for(mutex.clone())),
            },
            RtAppEvent::Signal(condition) => {
                Op::Signal(self.conditions.number_for(signalled(condition)))
            }
            RtAppEvent::Broadcast(condition) => {
                Op::Broadcast(self.conditions.number_for(signalled(condition)))
            }
            RtAppEvent::Sync { condition, mutex } => {
                let mutex = self.mutexes.number_for(mutex.clone());
                let condition = self.conditions.number_for(signalled(condition));
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
            RtAppEvent::Suspend(name) => Op::Wait {
                condition: self.conditions.number_for(suspended(name)),
                mutex: None,
            },
            RtAppEvent::Resume(name) => Op::Broadcast(self.conditions.number_for(suspended(name))),
            RtAppEvent::SemPost(name) => Op::Post(self.semaphores.number_for(name.clone())),
            RtAppEvent::SemWait(name) => Op::Pend(self.semaphores.number_for(name.clone())),
            RtAppEvent::Yield => Op::Yield,
            RtAppEvent::Mem(_) => {
                let what = "the speed of memory (mem); say how long the work takes with run";
                return self.refuse(what.to_owned());
            }
            RtAppEvent::IoRun(0) => return,
            RtAppEvent::IoRun(bytes) => Op::Write(*bytes),
        };
        ops.push(op);
    }

    fn cycles(&self, time: Nanoseconds) -> Cycles {
        let cycles = u128::from(time.0) * u128::from(self.khz) / 1_000_000;
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    fn cpu_set(&mut self, cpus: Option<&[usize]>) -> Option<usize> {
        let cpus = cpus?;
        if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= self.cpus) {
            let last = self.cpus - 1;
            self.refuse(format!("CPU {cpu}: the machine has CPUs 0 to {last}"));
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

fn class(scheduling: Scheduling) -> Class {
    match scheduling {
        Scheduling::Other { nice } => Class::fair(nice),
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
