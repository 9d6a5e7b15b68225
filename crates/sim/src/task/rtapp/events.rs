//! Events of rt-app threads: their steps on a CPU, and how they wake each other.

use wakepath_workloads::tasks::MAX_IO_BYTES;

use crate::core::basics::{CpuId, Cycles, Direction, TaskId, Timer};
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::engine::Engine;
use crate::error::SimError;
use crate::task::events::TaskTurn;
use crate::task::rtapp::program::{Op, Stage, TimerId};
use crate::task::rtapp::state::{
    Blocked, Halt, NextStep, Signalled, Thread, ThreadId, ThreadIo, ThreadIoKind, ThreadTask,
    WakeParts, WakeUp,
};
use crate::task::state::{Kind, Step, Task};

/// What a CPU does after a step of its rt-app thread.
enum Turn {
    /// Take the thread's next step at once.
    On,
    /// Work for so many cycles.
    Work(Cycles),
    /// Work until a time in ns.
    Until(u64),
    /// Submit a request.
    Submit(ThreadIo),
    /// Take back own requests, or sleep until enough of them have completed.
    AwaitIo,
    /// Let other tasks run (`sched_yield()`).
    Yield,
    /// Look for another task: the thread sleeps.
    Block,
    /// Look for another task: the thread may not run on this CPU any more.
    Move,
}

impl Turn {
    /// Continue with the next step if the thread is `free` to go on, otherwise sleep.
    fn continue_or_block(free: bool) -> Self {
        if free { Self::On } else { Self::Block }
    }
}

/// Highest number of threads named in an error message.
const MAX_NAMED: usize = 8;

impl<O: Observer> Engine<'_, O> {
    pub(crate) fn create_rtapp_threads(&mut self) {
        let programs = &self.setup.programs;
        let mut begun = vec![0; self.cpus.len()];
        if programs.lasts {
            // rt-app's main program counts as a process, which sleeps for the duration.
            self.context.count_begun_process();
        }
        for copy in 0..programs.copies as usize {
            for (index, program) in programs.tasks.iter().enumerate() {
                for _ in 0..program.instances {
                    let task = self.tasks.len();
                    let thread = self.workload.threads.all.len();
                    let rules = program.step_rules;
                    let kind = Kind::Thread(ThreadTask::new(thread, index, rules));
                    let mut new = Task::new(0, false, Step::Wait, kind);
                    new.entity.set_class(program.class);
                    let cpu_set = program.stages.first().and_then(|s| s.allowed);
                    new.entity.set_allowed_cpu_set(cpu_set);
                    let placed = self.placement().first_cpu_of_thread(&new.entity, &begun);
                    let cpu = rules.and_then(|rules| rules.first_cpu).unwrap_or(placed);
                    if let Some(rules) = rules {
                        // A task of given steps says when it waits for requests.
                        new.requests.wanted = usize::MAX;
                        new.requests.counts_from = rules.counts_from;
                    }
                    begun[cpu] += 1;
                    new.cpu = cpu;
                    self.tasks.push(new);
                    self.workload
                        .threads
                        .add_thread(programs, index, copy, task);
                    self.begin_arrivals_of_thread(thread, program);
                    self.context.count_begun_process();
                    if program.delay == 0 {
                        self.wake_task(None, task, cpu);
                    } else if rules.is_some() {
                        self.start_timer_of_thread(cpu, task, thread, (program.delay, 0));
                    } else {
                        self.start_sleep_timer_of_thread(cpu, task, thread, program.delay);
                    }
                }
            }
        }
    }

    /// Takes steps of an rt-app thread, a CPU's current task, until the thread works, sleeps or gives way.
    pub(in crate::task) fn take_steps_of_thread(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        id: ThreadId,
    ) -> TaskTurn {
        self.record_wake_up_of_thread(cpu, id);
        self.tasks[task].step = Step::Wait;
        loop {
            if !self.workload.threads.count_step_at(self.context.now()) {
                let program = self.workload.threads.all[id].program;
                let name = &self.setup.programs.tasks[program].name;
                self.fail_without_progress(format!(
                    "task '{name}' takes steps without end and without taking time"
                ));
                self.put_current_task_to_sleep(cpu, task, false);
                return TaskTurn::Free;
            }
            match self.take_next_step(cpu, task, id) {
                Turn::On => {}
                Turn::Work(cycles) => {
                    self.workload.threads.mark_task_active(id);
                    self.tasks[task].begin_step(Step::Thread, cycles);
                    self.start_work(cpu, Mode::Task, cycles);
                    return TaskTurn::Busy;
                }
                Turn::Until(time) => {
                    self.workload.threads.mark_task_active(id);
                    self.spin_until(cpu, task, time);
                    return TaskTurn::Busy;
                }
                Turn::Submit(io) => {
                    self.workload.threads.mark_task_active(id);
                    self.begin_request_of_thread(cpu, task, io);
                    return TaskTurn::Busy;
                }
                Turn::AwaitIo if self.tasks[task].requests.lack_completions() => {
                    return self.wait_for_own_requests(cpu, task);
                }
                Turn::AwaitIo => {
                    let work = self.begin_resumption_with_completed(cpu, task);
                    self.start_work(cpu, Mode::Task, work);
                    return TaskTurn::Busy;
                }
                Turn::Yield => self.yield_to_waiting_tasks(cpu, task),
                Turn::Block => {
                    if self.workload.threads.all_wait_for_each_other() {
                        self.note_halt_or_fail();
                    }
                    self.put_current_task_to_sleep(cpu, task, false);
                    return TaskTurn::Free;
                }
                Turn::Move => {
                    self.put_current_task_to_sleep(cpu, task, false);
                    let to = self.choose_cpu_for_woken_task(task, None);
                    self.wake_task(Some(cpu), task, to);
                    return TaskTurn::Free;
                }
            }
            if self.cpus[cpu].run_queue.needs_resched() {
                return TaskTurn::Free;
            }
        }
    }

    /// Takes the next step of an rt-app thread.
    fn take_next_step(&mut self, cpu: CpuId, task: TaskId, id: ThreadId) -> Turn {
        if std::mem::take(&mut self.workload.threads.all[id].done) {
            self.pass_step_of_thread(id);
        }
        let thread = &mut self.workload.threads.all[id];
        let program = &self.setup.programs.tasks[thread.program];
        let (op, stage) = match thread.enter_and_return_step(program) {
            NextStep::Op(op, stage) => (op, stage),
            NextStep::End => {
                self.workload.threads.mark_ended(id);
                self.context.count_ended_process();
                return Turn::Block;
            }
        };
        if let Some(stage) = stage
            && !self.enter_stage_on_cpu(cpu, task, &program.stages[stage])
        {
            // The thread begins the stage on another CPU.
            self.workload.threads.all[id].enter_stage_again();
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
                // Work that was done already before the thread came back to this step.
                if !std::mem::take(&mut thread.worked) && cycles > 0 {
                    thread.worked = true;
                    return Turn::Work(cycles);
                }
                thread.done = true;
                Turn::On
            }
            Op::AwaitIo(most) => {
                let waits = self.plan_wait_for_requests_of_thread(task, most);
                // A thread that still waits looks at this step again when it runs.
                self.workload.threads.all[id].done = !waits;
                if waits { Turn::AwaitIo } else { Turn::On }
            }
            Op::Submit {
                direction,
                bytes,
                offset,
                is_forced,
            } => {
                let depth = program.step_rules.map_or(1, |rules| rules.depth);
                if self.plan_wait_for_requests_of_thread(task, depth - 1) {
                    return Turn::AwaitIo;
                }
                let thread = &mut self.workload.threads.all[id];
                thread.done = true;
                let others = match direction {
                    Direction::Write => std::mem::take(&mut thread.bytes_of_others),
                    Direction::Read => 0,
                };
                Turn::Submit(ThreadIo {
                    direction,
                    bytes: (bytes + others).min(MAX_IO_BYTES),
                    offset: Some(offset),
                    waits: false,
                    kind: if is_forced {
                        ThreadIoKind::Forced
                    } else {
                        ThreadIoKind::Plain
                    },
                })
            }
            // The kernel sends no flush to a drive without a volatile cache.
            Op::Flush if !self.setup.volume.has_volatile_cache() => {
                thread.done = true;
                Turn::On
            }
            Op::Flush => {
                let depth = program.step_rules.map_or(1, |rules| rules.depth);
                if self.plan_wait_for_requests_of_thread(task, depth - 1) {
                    return Turn::AwaitIo;
                }
                self.workload.threads.all[id].done = true;
                Turn::Submit(ThreadIo::for_flush())
            }
            _ => {
                let sleeps_next = thread.next_step_blocks(program);
                // A thread that comes back after a sleep is past this step.
                thread.done = true;
                self.take_time_or_io_step(cpu, task, id, op)
                    .unwrap_or_else(|| self.take_synchronisation_step(cpu, id, op, sleeps_next))
            }
        }
    }

    /// Makes completions end a thread's wait for its requests once at most `most` are in flight. Returns whether more are now.
    fn plan_wait_for_requests_of_thread(&mut self, task: TaskId, most: u32) -> bool {
        let own = &mut self.tasks[task].requests;
        let surplus = own.in_flight.saturating_sub(most);
        own.wanted = if surplus > 0 {
            surplus as usize
        } else {
            usize::MAX
        };
        surplus > 0
    }

    /// Applies the scheduling of a stage that a thread enters. Returns whether the thread may stay on this CPU.
    fn enter_stage_on_cpu(&mut self, cpu: CpuId, task: TaskId, stage: &Stage) -> bool {
        let entity = &mut self.tasks[task].entity;
        if let Some(class) = stage.class {
            entity.set_class(class);
        }
        entity.set_allowed_cpu_set(stage.allowed);
        self.placement().is_allowed(task, cpu)
    }

    /// Takes a thread's step if it is a yield, write, sleep, timer or callback. `None`: the step is something else.
    fn take_time_or_io_step(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        id: ThreadId,
        op: Op,
    ) -> Option<Turn> {
        let now = self.context.now();
        match op {
            Op::Yield => Some(Turn::Yield),
            Op::LeaveCallback => {
                self.leave_rcu_callback(cpu);
                Some(Turn::On)
            }
            Op::Write(bytes) => Some(Turn::Submit(ThreadIo::for_rtapp_write(bytes))),
            Op::Pause(time) => Some(self.pause_thread_until(cpu, task, id, now + time)),
            Op::PauseAfterLast(time) => {
                let at = self.workload.threads.all[id].last_timer + time;
                if at > now {
                    return Some(self.pause_thread_until(cpu, task, id, at));
                }
                self.workload.threads.all[id].last_timer = at;
                Some(Turn::On)
            }
            Op::AwaitArrival {
                time,
                cpu: interrupted,
                pool,
            } => Some(Turn::continue_or_block(self.await_arrival(
                id,
                (time, interrupted),
                pool,
            ))),
            Op::JoinSync { log, bytes, end } => Some(Turn::continue_or_block(self.join_sync(
                id,
                (log, bytes),
                end,
            ))),
            Op::EndSharedSync(log) => {
                self.end_sync_of_thread(cpu, id, log);
                Some(Turn::On)
            }
            Op::Sleep(time) => {
                self.start_sleep_timer_of_thread(cpu, task, id, now + time);
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
                let Some(at) = threads.next_timer_expiry(id, timer, period, absolute, now) else {
                    return Some(Turn::On);
                };
                self.start_sleep_timer_of_thread(cpu, task, id, at);
                Some(Turn::Block)
            }
            _ => None,
        }
    }

    /// Takes a step by which threads wait for each other or wake each other. `sleeps_next`: the thread's next step is a sleep.
    fn take_synchronisation_step(
        &mut self,
        cpu: CpuId,
        id: ThreadId,
        op: Op,
        sleeps_next: bool,
    ) -> Turn {
        let programs = &self.setup.programs;
        let threads = &mut self.workload.threads;
        let copy = threads.all[id].copy;
        let first_mutex = copy * programs.mutexes.len();
        let first_semaphore = copy * programs.semaphores.len();
        let first_condition = copy * programs.conditions.len();
        match op {
            Op::Lock(mutex) => {
                Turn::continue_or_block(threads.lock_mutex_or_wait(id, first_mutex + mutex))
            }
            Op::BeginSync(mutex) => {
                Turn::continue_or_block(threads.begin_sync(id, first_mutex + mutex))
            }
            Op::Pend(semaphore) => Turn::continue_or_block(
                threads.pend_semaphore_or_wait(id, first_semaphore + semaphore),
            ),
            Op::Unlock(mutex) => {
                let next = threads.unlock_mutex(id, first_mutex + mutex);
                self.wake_other_threads(cpu, sleeps_next, next)
            }
            Op::EndSync(mutex) => {
                let next = threads.end_sync(id, first_mutex + mutex);
                self.wake_other_threads(cpu, sleeps_next, next)
            }
            Op::Post(semaphore) => {
                let next = threads.post_semaphore(first_semaphore + semaphore);
                self.wake_other_threads(cpu, sleeps_next, next)
            }
            Op::Wait { condition, mutex } => {
                let mutex = mutex.map(|mutex| first_mutex + mutex);
                let next = threads.wait_for_condition(id, first_condition + condition, mutex);
                self.wake_other_threads(cpu, true, next);
                Turn::Block
            }
            Op::Signal(condition) => {
                if let Signalled::Wakes(next) =
                    threads.signal_condition(first_condition + condition)
                {
                    self.wake_other_thread(cpu, sleeps_next, next);
                }
                Turn::On
            }
            Op::Broadcast(condition) => {
                self.wake_all_waiting_for_condition(cpu, sleeps_next, first_condition + condition)
            }
            Op::Barrier(barrier) => {
                let users = programs.barriers[barrier].1;
                let number = copy * programs.barriers.len() + barrier;
                match threads.meet_at_barrier(id, number, users) {
                    Some(others) => self.wake_other_threads(cpu, sleeps_next, others),
                    None => Turn::Block,
                }
            }
            Op::Run(_)
            | Op::Runtime(_)
            | Op::Yield
            | Op::Write(_)
            | Op::Submit { .. }
            | Op::Flush
            | Op::AwaitIo(_)
            | Op::Pause(_)
            | Op::PauseAfterLast(_)
            | Op::AwaitArrival { .. }
            | Op::JoinSync { .. }
            | Op::EndSharedSync(_)
            | Op::LeaveCallback
            | Op::Sleep(_)
            | Op::Timer { .. } => Turn::On,
        }
    }

    /// Wakes all threads that wait for a condition, one after the other.
    fn wake_all_waiting_for_condition(
        &mut self,
        cpu: CpuId,
        sleeps_next: bool,
        condition: usize,
    ) -> Turn {
        loop {
            match self.workload.threads.signal_condition(condition) {
                Signalled::Nobody => return Turn::On,
                Signalled::WaitsForMutex => {}
                Signalled::Wakes(next) => self.wake_other_thread(cpu, sleeps_next, next),
            }
        }
    }

    /// Wakes threads on behalf of the thread that runs on `cpu`, which goes on with its next step.
    fn wake_other_threads(
        &mut self,
        cpu: CpuId,
        sleeps_next: bool,
        woken: impl IntoIterator<Item = ThreadId>,
    ) -> Turn {
        for thread in woken {
            self.wake_other_thread(cpu, sleeps_next, thread);
        }
        Turn::On
    }

    fn pass_step_of_thread(&mut self, id: ThreadId) {
        let thread = &mut self.workload.threads.all[id];
        let stats = &mut self.workload.threads.stats[thread.program];
        thread.pass_step(
            &self.setup.programs.tasks[thread.program],
            self.context.now(),
            stats,
        );
    }

    /// Wakes a thread on behalf of the thread that runs on `cpu`, and is about to sleep or not.
    pub(super) fn wake_other_thread(&mut self, cpu: CpuId, sleeps_next: bool, woken: ThreadId) {
        let now = self.context.now();
        let thread = &mut self.workload.threads.all[woken];
        let task = thread.task;
        thread.woken = Some(WakeUp {
            since: now,
            cut: now,
            ..WakeUp::default()
        });
        let to = self.choose_cpu_for_woken_task(task, Some((cpu, sleeps_next)));
        let ipi = self.wake_task(Some(cpu), task, to);
        if let Some(wake) = &mut self.workload.threads.all[woken].woken {
            wake.ipi = ipi;
        }
    }

    /// The thread's timer is on the CPU on which it falls asleep. It expires later than asked for by the timer slack, which
    /// threads of a real-time class do not have (`hrtimer_nanosleep()`, Linux 6.12).
    fn start_sleep_timer_of_thread(&mut self, cpu: CpuId, task: TaskId, id: ThreadId, at: u64) {
        let slack = if self.tasks[task].entity.is_realtime() {
            0
        } else {
            self.setup.cpu.timer_slack()
        };
        self.start_timer_of_thread(cpu, task, id, (at, slack));
    }

    /// Lets a task of given steps sleep until a timer at `at` ns, whose slack is in the time.
    fn pause_thread_until(&mut self, cpu: CpuId, task: TaskId, id: ThreadId, at: u64) -> Turn {
        self.workload.threads.all[id].last_timer = at;
        self.start_timer_of_thread(cpu, task, id, (at, 0));
        Turn::Block
    }

    /// Starts the timer that ends a thread's sleep, `slack` ns after `at`.
    fn start_timer_of_thread(
        &mut self,
        cpu: CpuId,
        task: TaskId,
        id: ThreadId,
        (at, slack): (u64, u64),
    ) {
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
        self.start_high_resolution_timer(cpu, expiry, 0, Timer::Task(task));
    }

    /// Wakes a thread in the interrupt that it sleeps for, and attributes its latency so far.
    pub(crate) fn wake_sleeping_thread(&mut self, cpu: CpuId, task: TaskId, id: ThreadId) {
        let to = self.choose_cpu_for_woken_task(task, None);
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

    /// Records the wake-up latency of a thread that has got a CPU, if it was woken.
    fn record_wake_up_of_thread(&mut self, cpu: CpuId, id: ThreadId) {
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
        self.workload.threads.stats[program].record_wake_up(&wake);
    }

    /// Every thread that has not ended waits for another one. rt-app sleeps on until its duration is over, and so does the run
    /// if anything has been done.
    fn note_halt_or_fail(&mut self) {
        let waits = self.describe_waiting_threads();
        if self.setup.programs.lasts && self.workload.threads.any_task_was_active() {
            self.workload.threads.halt = Some(Halt {
                at: self.context.now(),
                waits,
            });
        } else {
            self.fail_without_progress(format!("every thread waits for another one: {waits}"));
        }
    }

    /// Explains why no thread of an rt-app task has done anything; `None` if one has.
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
            _ => format!("it waits {}", self.describe_wait_of_thread(first)),
        })
    }

    /// Ends the run without a result, with an error that the workload makes no progress.
    fn fail_without_progress(&mut self, what: String) {
        self.context.end_run_with_failure(SimError::NoProgress {
            seconds: self.context.now() as f64 / 1e9,
            what,
        });
    }

    /// Describes, for a message, what each thread that has not ended waits for.
    fn describe_waiting_threads(&self) -> String {
        let programs = &self.setup.programs;
        let named: Vec<String> = (self.workload.threads.all.iter())
            .filter(|thread| !thread.ended)
            .map(|thread| {
                let name = &programs.tasks[thread.program].name;
                format!("'{name}' waits {}", self.describe_wait_of_thread(thread))
            })
            .collect();
        let more = match named.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more threads wait"),
        };
        let shown = &named[..named.len().min(MAX_NAMED)];
        format!("{}{more}", shown.join(", "))
    }

    /// Describes, for a message, what a thread waits for.
    fn describe_wait_of_thread(&self, thread: &Thread) -> String {
        let programs = &self.setup.programs;
        match thread.blocked {
            Blocked::No => "for nothing".to_owned(),
            Blocked::Mutex(m) => format!(
                "for the mutex \"{}\"",
                programs.mutexes[m % programs.mutexes.len()]
            ),
            Blocked::Condition(c) => format!(
                "for the condition \"{}\"",
                programs.conditions[c % programs.conditions.len()]
            ),
            Blocked::Suspended(c) => format!(
                "to be resumed (\"suspend\": \"{}\")",
                programs.conditions[c % programs.conditions.len()]
            ),
            Blocked::Barrier(b) => format!(
                "at the barrier \"{}\"",
                programs.barriers[b % programs.barriers.len()].0
            ),
            Blocked::Sync { log, .. } => format!("for another task's sync of log {log}"),
            Blocked::Semaphore(s) => format!(
                "for the semaphore \"{}\"",
                programs.semaphores[s % programs.semaphores.len()]
            ),
        }
    }
}
