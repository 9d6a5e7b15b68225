//! Threads of rt-app tasks: what they do on a CPU, and how they wake each other.

use crate::core::basics::{CpuId, Cycles, TaskId, Timer};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::error::SimError;
use crate::task::events::TaskTurn;
use crate::task::rtapp::program::{Op, Stage, TimerId};
use crate::task::rtapp::state::{
    Blocked, Halt, NextStep, Signalled, Thread, ThreadId, ThreadTask, WakeParts, WakeUp,
};
use crate::task::state::{Kind, Step, Task};

/// What a thread's step leaves its CPU to do.
enum Turn {
    /// The next step, at once.
    On,
    /// So much work.
    Work(Cycles),
    /// Work until then.
    Until(u64),
    /// To write so many bytes.
    Write(u64),
    /// To let others run.
    Yield,
    /// To look for something else: the thread sleeps.
    Block,
    /// To look for something else: the thread may not run here any more.
    Move,
}

impl Turn {
    /// The next step if the thread is `free` to go on, otherwise sleep.
    fn on_if(free: bool) -> Self {
        if free { Self::On } else { Self::Block }
    }
}

/// Threads that are named in a diagnosis.
const MAX_NAMED: usize = 8;

impl<O: Observer> Engine<'_, O> {
    pub(crate) fn start_threads(&mut self) {
        let programs = &self.setup.programs;
        let mut begun = vec![0; self.cpus.len()];
        if programs.lasts {
            // rt-app's main program, which sleeps for the duration.
            self.context.begin_process();
        }
        for copy in 0..programs.copies as usize {
            for (index, program) in programs.tasks.iter().enumerate() {
                for _ in 0..program.instances {
                    let task = self.tasks.len();
                    let thread = self.workload.threads.all.len();
                    let kind = Kind::Thread(ThreadTask::new(thread, index));
                    let mut new = Task::new(0, false, Step::Wait, kind);
                    new.entity.set_class(program.class);
                    let cpu_set = program.stages.first().and_then(|s| s.allowed);
                    new.entity.allow(cpu_set);
                    let cpu = self.placement().idlest_cpu(&new.entity, &begun);
                    begun[cpu] += 1;
                    new.cpu = cpu;
                    self.tasks.push(new);
                    self.workload.threads.add(programs, index, copy, task);
                    self.context.begin_process();
                    if program.delay == 0 {
                        self.wake_task(None, task, cpu);
                    } else {
                        self.sleep_until(cpu, task, thread, program.delay);
                    }
                }
            }
        }
    }

    /// The current task of a CPU is a thread that has nothing to work on: takes its next steps.
    pub(in crate::task) fn run_thread(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        id: ThreadId,
    ) -> TaskTurn {
        self.thread_runs(cpu, id);
        self.tasks[task].step = Step::Wait;
        loop {
            if !self.workload.threads.step(self.context.now()) {
                let program = self.workload.threads.all[id].program;
                let name = &self.setup.programs.tasks[program].name;
                self.fail(format!(
                    "task '{name}' takes steps without end and without taking time"
                ));
                self.sleep(cpu, task, false);
                return TaskTurn::Free;
            }
            match self.thread_step(cpu, task, id) {
                Turn::On => {}
                Turn::Work(cycles) => {
                    self.workload.threads.works(id);
                    self.tasks[task].begin(Step::Thread, cycles);
                    self.execute(cpu, Mode::Task, cycles);
                    return TaskTurn::Busy;
                }
                Turn::Until(time) => {
                    self.workload.threads.works(id);
                    self.spin_until(cpu, task, time);
                    return TaskTurn::Busy;
                }
                Turn::Write(bytes) => {
                    self.workload.threads.works(id);
                    self.begin_write(cpu, task, bytes);
                    return TaskTurn::Busy;
                }
                Turn::Yield => self.yield_cpu(cpu, task),
                Turn::Block => {
                    if self.workload.threads.stuck() {
                        self.halt();
                    }
                    self.sleep(cpu, task, false);
                    return TaskTurn::Free;
                }
                Turn::Move => {
                    self.sleep(cpu, task, false);
                    let to = self.choose_cpu(task, None);
                    self.wake_task(Some(cpu), task, to);
                    return TaskTurn::Free;
                }
            }
            if self.cpus[cpu].run_queue.needs_resched() {
                return TaskTurn::Free;
            }
        }
    }

    /// Takes the step that a thread is at.
    fn thread_step(&mut self, cpu: CpuId, task: TaskId, id: ThreadId) -> Turn {
        if std::mem::take(&mut self.workload.threads.all[id].done) {
            self.pass(id);
        }
        let thread = &mut self.workload.threads.all[id];
        let program = &self.setup.programs.tasks[thread.program];
        let (op, stage) = match thread.next(program) {
            NextStep::Op(op, stage) => (op, stage),
            NextStep::End => {
                self.workload.threads.end(id);
                self.context.end_process();
                return Turn::Block;
            }
        };
        if let Some(stage) = stage
            && !self.enter_stage(cpu, task, &program.stages[stage])
        {
            // The stage begins elsewhere.
            self.workload.threads.all[id].retry_stage();
            return Turn::Move;
        }
        let thread = &mut self.workload.threads.all[id];
        match op {
            Op::Runtime(time) => {
                let until = *thread.run_until.get_or_insert(self.context.now() + time);
                if until > self.context.now() {
                    return Turn::Until(until);
                }
                thread.run_until = None;
                thread.done = true;
                Turn::On
            }
            Op::Run(cycles) => {
                // Work done before the thread came back here.
                if !std::mem::take(&mut thread.worked) && cycles > 0 {
                    thread.worked = true;
                    return Turn::Work(cycles);
                }
                thread.done = true;
                Turn::On
            }
            _ => {
                let sleeps_next = thread.blocks_next(program);
                // A thread that comes back is past this step.
                thread.done = true;
                self.timed_step(cpu, task, id, op)
                    .unwrap_or_else(|| self.locking_step(cpu, id, op, sleeps_next))
            }
        }
    }

    /// Applies the scheduling of a stage that a thread enters on a CPU. Returns whether the thread may stay on this CPU.
    fn enter_stage(&mut self, cpu: CpuId, task: TaskId, stage: &Stage) -> bool {
        let entity = &mut self.tasks[task].entity;
        if let Some(class) = stage.class {
            entity.set_class(class);
        }
        entity.allow(stage.allowed);
        self.placement().is_allowed(task, cpu)
    }

    /// Takes a step that has to do with time or I/O. `None`: the step is none of these.
    fn timed_step(&mut self, cpu: CpuId, task: TaskId, id: ThreadId, op: Op) -> Option<Turn> {
        let now = self.context.now();
        match op {
            Op::Yield => Some(Turn::Yield),
            Op::Write(bytes) => Some(Turn::Write(bytes)),
            Op::Sleep(time) => {
                self.sleep_until(cpu, task, id, now + time);
                Some(Turn::Block)
            }
            Op::Timer {
                timer,
                period,
                absolute,
            } => {
                let copy = self.workload.threads.all[id].copy;
                let timer = match timer {
                    TimerId::Own(_) => timer,
                    TimerId::Shared(number) => {
                        TimerId::Shared(copy * self.setup.programs.shared_timers + number)
                    }
                };
                let threads = &mut self.workload.threads;
                let Some(at) = threads.next_expiry(id, timer, period, absolute, now) else {
                    return Some(Turn::On);
                };
                self.sleep_until(cpu, task, id, at);
                Some(Turn::Block)
            }
            _ => None,
        }
    }

    /// Takes a step in which threads wait for each other. `sleeps_next`: the thread sleeps with its next step.
    fn locking_step(&mut self, cpu: CpuId, id: ThreadId, op: Op, sleeps_next: bool) -> Turn {
        let programs = &self.setup.programs;
        let threads = &mut self.workload.threads;
        let copy = threads.all[id].copy;
        let first_mutex = copy * programs.mutexes.len();
        let first_semaphore = copy * programs.semaphores.len();
        let first_condition = copy * programs.conditions.len();
        match op {
            Op::Lock(mutex) => Turn::on_if(threads.lock(id, first_mutex + mutex)),
            Op::BeginSync(mutex) => Turn::on_if(threads.begin_sync(id, first_mutex + mutex)),
            Op::Pend(semaphore) => Turn::on_if(threads.pend(id, first_semaphore + semaphore)),
            Op::Unlock(mutex) => {
                let next = threads.unlock(id, first_mutex + mutex);
                self.wake_threads(cpu, sleeps_next, next)
            }
            Op::EndSync(mutex) => {
                let next = threads.end_sync(id, first_mutex + mutex);
                self.wake_threads(cpu, sleeps_next, next)
            }
            Op::Post(semaphore) => {
                let next = threads.post(first_semaphore + semaphore);
                self.wake_threads(cpu, sleeps_next, next)
            }
            Op::Wait { condition, mutex } => {
                let mutex = mutex.map(|mutex| first_mutex + mutex);
                let next = threads.wait(id, first_condition + condition, mutex);
                self.wake_threads(cpu, true, next);
                Turn::Block
            }
            Op::Signal(condition) => {
                if let Signalled::Wakes(next) = threads.signal(first_condition + condition) {
                    self.wake_thread(cpu, sleeps_next, next);
                }
                Turn::On
            }
            Op::Broadcast(condition) => {
                self.broadcast(cpu, sleeps_next, first_condition + condition)
            }
            Op::Barrier(barrier) => {
                let users = programs.barriers[barrier].1;
                let number = copy * programs.barriers.len() + barrier;
                match threads.meet(id, number, users) {
                    Some(others) => self.wake_threads(cpu, sleeps_next, others),
                    None => Turn::Block,
                }
            }
            Op::Run(_)
            | Op::Runtime(_)
            | Op::Yield
            | Op::Write(_)
            | Op::Sleep(_)
            | Op::Timer { .. } => Turn::On,
        }
    }

    /// Wakes all threads that wait for a condition, one after the other.
    fn broadcast(&mut self, cpu: CpuId, sleeps_next: bool, condition: usize) -> Turn {
        loop {
            match self.workload.threads.signal(condition) {
                Signalled::Nobody => return Turn::On,
                Signalled::WaitsForMutex => {}
                Signalled::Wakes(next) => self.wake_thread(cpu, sleeps_next, next),
            }
        }
    }

    /// A thread that runs on `cpu` wakes others up, and goes on.
    fn wake_threads(
        &mut self,
        cpu: CpuId,
        sleeps_next: bool,
        woken: impl IntoIterator<Item = ThreadId>,
    ) -> Turn {
        for thread in woken {
            self.wake_thread(cpu, sleeps_next, thread);
        }
        Turn::On
    }

    fn pass(&mut self, id: ThreadId) {
        let thread = &mut self.workload.threads.all[id];
        let stats = &mut self.workload.threads.stats[thread.program];
        thread.pass(
            &self.setup.programs.tasks[thread.program],
            self.context.now(),
            stats,
        );
    }

    /// A thread that runs on `cpu`, and is about to sleep or not, wakes up another one.
    fn wake_thread(&mut self, cpu: CpuId, sleeps_next: bool, woken: ThreadId) {
        let now = self.context.now();
        let thread = &mut self.workload.threads.all[woken];
        let task = thread.task;
        thread.woken = Some(WakeUp {
            since: now,
            cut: now,
            ..WakeUp::default()
        });
        let to = self.choose_cpu(task, Some((cpu, sleeps_next)));
        let ipi = self.wake_task(Some(cpu), task, to);
        if let Some(wake) = &mut self.workload.threads.all[woken].woken {
            wake.ipi = ipi;
        }
    }

    /// The thread's timer is on the CPU on which it falls asleep. It expires later than asked for by the timer slack, which
    /// threads of a real-time class do not have (`hrtimer_nanosleep()`, Linux 6.12).
    fn sleep_until(&mut self, cpu: CpuId, task: TaskId, id: ThreadId, at: u64) {
        let slack = if self.tasks[task].entity.is_realtime() {
            0
        } else {
            self.setup.cpu.timer_slack()
        };
        let expiry = at.saturating_add(slack);
        self.workload.threads.all[id].woken = Some(WakeUp {
            since: at,
            cut: expiry,
            parts: WakeParts {
                slack,
                ..WakeParts::default()
            },
            ..WakeUp::default()
        });
        self.start_timer(cpu, expiry, 0, Timer::Task(task));
    }

    /// The timer of a sleeping thread has been served.
    pub(crate) fn thread_timer(&mut self, cpu: CpuId, task: TaskId, id: ThreadId) {
        let to = self.choose_cpu(task, None);
        let ipi = self.wake_task(Some(cpu), task, to);
        if let Some(wake) = &mut self.workload.threads.all[id].woken {
            let idle_exit =
                (self.cpus[cpu].awake_since().min(self.context.now())).saturating_sub(wake.cut);
            wake.parts.idle_exit += idle_exit;
            wake.parts.waiting += self.context.now() - wake.cut - idle_exit;
            wake.cut = self.context.now();
            wake.ipi = ipi;
        }
    }

    /// A thread has got a CPU.
    fn thread_runs(&mut self, cpu: CpuId, id: ThreadId) {
        let Some(mut wake) = self.workload.threads.all[id].woken.take() else {
            return;
        };
        let time = self.context.now() - wake.cut;
        let delivery = wake.ipi.min(time);
        let heard = wake.cut + delivery;
        let idle_exit = self.cpus[cpu].awake_since().saturating_sub(heard);
        wake.parts.delivery += delivery;
        wake.parts.idle_exit += idle_exit;
        wake.parts.waiting += time - delivery - idle_exit;
        wake.cut = self.context.now();
        let program = self.workload.threads.all[id].program;
        self.workload.threads.stats[program].wake_up(&wake);
    }

    /// Every thread that has not ended waits for another one. rt-app sleeps on until its duration is over, and so does the run
    /// if anything has been done.
    fn halt(&mut self) {
        let waits = self.who_waits();
        if self.setup.programs.lasts && self.workload.threads.has_done_something() {
            self.workload.threads.halt = Some(Halt {
                at: self.context.now(),
                waits,
            });
        } else {
            self.fail(format!("every thread waits for another one: {waits}"));
        }
    }

    /// Why the threads of a task have done nothing until now; `None` if they have.
    pub(crate) fn why_never_ran(&self, program: usize) -> Option<String> {
        let task = &self.setup.programs.tasks[program];
        if self.workload.threads.stats[program].active || task.instances == 0 {
            return None;
        }
        let mut threads = self
            .workload
            .threads
            .all
            .iter()
            .filter(|t| t.program == program);
        let first = threads.next()?;
        Some(match first.blocked {
            Blocked::No if task.delay >= self.context.now() => "its delay is not over".to_owned(),
            Blocked::No if self.tasks[first.task].runnable => "it waits for a CPU".to_owned(),
            Blocked::No => "it sleeps".to_owned(),
            _ => format!("it waits {}", self.waits_for(first)),
        })
    }

    /// Ends the run without a result.
    fn fail(&mut self, what: String) {
        self.context.give_up(SimError::NoProgress {
            seconds: self.context.now() as f64 / 1e9,
            what,
        });
    }

    /// What the threads that have not ended wait for.
    fn who_waits(&self) -> String {
        let programs = &self.setup.programs;
        let named: Vec<String> = (self.workload.threads.all.iter())
            .filter(|thread| !thread.ended)
            .map(|thread| {
                let name = &programs.tasks[thread.program].name;
                format!("'{name}' waits {}", self.waits_for(thread))
            })
            .collect();
        let more = match named.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more threads wait"),
        };
        let shown = &named[..named.len().min(MAX_NAMED)];
        format!("{}{more}", shown.join(", "))
    }

    /// What a thread waits for.
    fn waits_for(&self, thread: &Thread) -> String {
        let programs = &self.setup.programs;
        match thread.blocked {
            Blocked::No => "for nothing".to_owned(),
            Blocked::Mutex(m) => format!(
                "for the mutex \"{}\"",
                programs.mutexes[m % programs.mutexes.len()]
            ),
            Blocked::Condition(c) => programs.conditions[c % programs.conditions.len()].clone(),
            Blocked::Barrier(b) => format!(
                "at the barrier \"{}\"",
                programs.barriers[b % programs.barriers.len()].0
            ),
            Blocked::Semaphore(s) => format!(
                "for the semaphore \"{}\"",
                programs.semaphores[s % programs.semaphores.len()]
            ),
        }
    }
}
