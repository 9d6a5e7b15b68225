//! rt-app threads: progress by thread, and locks to wait for each other.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use crate::core::basics::TaskId;
use crate::task::rtapp::program::{Op, Program, Programs, TimerId};

pub(crate) type ThreadId = usize;

/// The state that only a task for an rt-app thread has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadTask {
    pub(in crate::task) thread: ThreadId,
    /// The rt-app task's index.
    pub(in crate::task) program: usize,
    /// Bytes in the request under way.
    pub(in crate::task) writes: u64,
    /// The next block to write: a thread writes one after the other, for ever.
    next_block: u64,
}

impl ThreadTask {
    pub(super) fn new(thread: ThreadId, program: usize) -> Self {
        Self {
            thread,
            program,
            writes: 0,
            next_block: 0,
        }
    }

    /// Where the next write begins.
    pub(in crate::task) fn next_offset(&mut self, bytes: u64) -> u64 {
        let block = self.next_block;
        self.next_block = (block + 1) % (u64::MAX / bytes);
        block * bytes
    }
}

/// Significant figures in histograms: every task has two.
const FIGURES: u8 = 2;

/// Steps that may be taken without time going on, all threads together.
const MAX_STEPS_AT_ONCE: u32 = 1_000_000;

/// What blocks a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Nothing, or time.
    No,
    Mutex(usize),
    Condition(usize),
    Barrier(usize),
    Semaphore(usize),
}

/// A thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(in crate::task) task: TaskId,
    pub(in crate::task) program: usize,
    pub(in crate::task) copy: usize,
    stage: usize,
    op: usize,
    /// Loops left in the program and in the stage, including the present; `None`: for ever.
    loops: Option<u64>,
    stage_loops: Option<u64>,
    /// The scheduling of the present stage is in force.
    entered: bool,
    /// When the present loop of the program began.
    loop_began: u64,
    /// The present step has been taken; only passing is left.
    pub(in crate::task) done: bool,
    /// The present step's work has been done, or is in progress.
    pub(in crate::task) worked: bool,
    /// End of a `runtime` in progress.
    pub(in crate::task) run_until: Option<u64>,
    /// When each own timer expires next.
    timers: Vec<Option<u64>>,
    pub(in crate::task) blocked: Blocked,
    /// The thread had the `sync`'s mutex before.
    keeps_mutex: bool,
    /// The thread has been woken up and has not run since.
    pub(in crate::task) woken: Option<WakeUp>,
    pub(in crate::task) ended: bool,
}

/// A pending wake-up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeUp {
    /// When the cause occurred.
    pub(in crate::task) since: u64,
    /// Latency is attributed up to this time.
    pub(in crate::task) cut: u64,
    /// Delay before the CPU hears about the wake-up.
    pub(in crate::task) ipi: u64,
    pub(in crate::task) parts: WakeParts,
}

/// A wake-up's latency by part, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeParts {
    /// The timer expiring later than asked for.
    pub(in crate::task) slack: u64,
    /// The inter-processor interrupt.
    pub(in crate::task) delivery: u64,
    /// CPUs leaving idle states.
    pub(in crate::task) idle_exit: u64,
    /// The CPU doing something else.
    pub(in crate::task) waiting: u64,
}

/// A task's counts over all threads.
#[derive(Clone, Debug)]
pub(crate) struct TaskStats {
    /// Earlier ends are not counted.
    from: u64,
    /// A thread has worked, or completed a loop.
    pub(in crate::task) active: bool,
    pub(in crate::task) loops: u64,
    pub(in crate::task) loop_sum: u128,
    pub(in crate::task) loop_times: Histogram<u64>,
    pub(in crate::task) wake_ups: u64,
    pub(in crate::task) wake_sum: u128,
    pub(in crate::task) wake_times: Histogram<u64>,
    pub(in crate::task) wake_parts: [u128; 4],
}

#[expect(clippy::expect_used, reason = "the number of figures is a constant")]
fn empty_histogram() -> Histogram<u64> {
    Histogram::new(FIGURES).expect("valid figures")
}

impl TaskStats {
    fn new(from: u64) -> Self {
        Self {
            from,
            active: false,
            loops: 0,
            loop_sum: 0,
            loop_times: empty_histogram(),
            wake_ups: 0,
            wake_sum: 0,
            wake_times: empty_histogram(),
            wake_parts: [0; 4],
        }
    }

    pub(crate) fn wake_up(&mut self, wake: &WakeUp) {
        if wake.cut < self.from {
            return;
        }
        let WakeParts {
            slack,
            delivery,
            idle_exit,
            waiting,
        } = wake.parts;
        let latency = wake.cut - wake.since;
        debug_assert_eq!(latency, slack + delivery + idle_exit + waiting);
        self.wake_ups += 1;
        self.wake_sum += u128::from(latency);
        // The histogram grows as needed, so this cannot fail.
        let _ = self.wake_times.record(latency);
        for (sum, part) in self
            .wake_parts
            .iter_mut()
            .zip([slack, delivery, idle_exit, waiting])
        {
            *sum += u128::from(part);
        }
    }

    fn loop_done(&mut self, began: u64, now: u64) {
        self.active = true;
        if now < self.from {
            return;
        }
        let time = now - began;
        self.loops += 1;
        self.loop_sum += u128::from(time);
        let _ = self.loop_times.record(time);
    }
}

#[derive(Clone, Debug, Default)]
struct Mutex {
    owner: Option<ThreadId>,
    waiters: VecDeque<ThreadId>,
}

#[derive(Clone, Debug, Default)]
struct Semaphore {
    count: u64,
    waiters: VecDeque<ThreadId>,
}

/// A thread waiting for a condition, and the mutex wanted back.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    thread: ThreadId,
    mutex: Option<usize>,
}

/// A run's threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    pub(in crate::task) all: Vec<Thread>,
    pub(super) stats: Vec<TaskStats>,
    mutexes: Vec<Mutex>,
    conditions: Vec<VecDeque<Waiter>>,
    barriers: Vec<Vec<ThreadId>>,
    semaphores: Vec<Semaphore>,
    timers: Vec<Option<u64>>,
    /// Threads not ended, and threads among them waiting for another thread.
    pub(in crate::task) running: usize,
    waiting: usize,
    steps: u32,
    steps_at: u64,
    /// When every thread not ended began to wait for another one, and for what.
    pub(super) halt: Option<Halt>,
}

/// A halt: no thread in the workload can do anything any more.
#[derive(Clone, Debug)]
pub(crate) struct Halt {
    pub(in crate::task) at: u64,
    /// Which thread waits for what.
    pub(in crate::task) waits: String,
}

/// A run's thread totals.
#[derive(Debug)]
pub(crate) struct ThreadTotals {
    /// By rt-app task.
    pub(super) stats: Vec<TaskStats>,
    /// By rt-app task, why no thread has done anything, if so.
    pub(super) never_ran: Vec<Option<String>>,
    /// The run ended before the threads did, or before the file's duration was over.
    pub(super) time_capped: bool,
    /// If the threads came to a halt before the run's end.
    pub(super) halt: Option<Halt>,
    /// How often a task changed its CPU.
    pub(super) migrations: u64,
}

impl Threads {
    /// Thread totals, with facts from outside.
    pub(crate) fn into_totals(
        self,
        never_ran: Vec<Option<String>>,
        time_capped: bool,
        migrations: u64,
    ) -> ThreadTotals {
        ThreadTotals {
            stats: self.stats,
            never_ran,
            time_capped,
            halt: self.halt,
            migrations,
        }
    }

    pub(crate) fn new(programs: &Programs) -> Self {
        let copies = programs.copies as usize;
        Self {
            all: Vec::with_capacity(programs.threads()),
            stats: vec![TaskStats::new(programs.warm_up); programs.tasks.len()],
            mutexes: vec![Mutex::default(); programs.mutexes.len() * copies],
            conditions: vec![VecDeque::new(); programs.conditions.len() * copies],
            barriers: vec![Vec::new(); programs.barriers.len() * copies],
            semaphores: vec![Semaphore::default(); programs.semaphores.len() * copies],
            timers: vec![None; programs.shared_timers * copies],
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, programs: &Programs, program: usize, copy: usize, task: TaskId) {
        let task_program = &programs.tasks[program];
        self.all.push(Thread {
            task,
            program,
            copy,
            stage: 0,
            op: 0,
            loops: task_program.loops,
            stage_loops: task_program.stages.first().and_then(|s| s.loops),
            entered: false,
            loop_began: task_program.delay,
            done: false,
            worked: false,
            run_until: None,
            timers: vec![None; task_program.own_timers],
            blocked: Blocked::No,
            keeps_mutex: false,
            woken: None,
            ended: false,
        });
        self.running += 1;
    }

    /// Notes a step. Returns false if too many steps took no time.
    pub(crate) fn step(&mut self, now: u64) -> bool {
        if self.steps_at != now {
            self.steps_at = now;
            self.steps = 0;
        }
        self.steps += 1;
        self.steps < MAX_STEPS_AT_ONCE
    }

    /// Whether every thread that has not ended waits for another one.
    pub(crate) fn stuck(&self) -> bool {
        self.running > 0 && self.waiting == self.running
    }

    fn block(&mut self, thread: ThreadId, on: Blocked) {
        self.all[thread].blocked = on;
        self.waiting += 1;
    }

    fn unblock(&mut self, thread: ThreadId) {
        self.all[thread].blocked = Blocked::No;
        self.waiting -= 1;
    }

    pub(crate) fn end(&mut self, thread: ThreadId) {
        self.all[thread].ended = true;
        self.running -= 1;
    }

    /// Takes a mutex, or waits for it. Returns whether the thread has the mutex.
    pub(crate) fn lock(&mut self, thread: ThreadId, mutex: usize) -> bool {
        let lock = &mut self.mutexes[mutex];
        if lock.owner.is_none() {
            lock.owner = Some(thread);
            return true;
        }
        lock.waiters.push_back(thread);
        self.block(thread, Blocked::Mutex(mutex));
        false
    }

    /// Gives a mutex back, if owned. Returns the next owner, to be woken up.
    pub(crate) fn unlock(&mut self, thread: ThreadId, mutex: usize) -> Option<ThreadId> {
        let lock = &mut self.mutexes[mutex];
        if lock.owner != Some(thread) {
            return None;
        }
        lock.owner = lock.waiters.pop_front();
        let next = lock.owner?;
        self.unblock(next);
        Some(next)
    }

    /// Takes a `sync`'s mutex, unless owned. Returns whether the thread has the mutex now.
    pub(crate) fn begin_sync(&mut self, thread: ThreadId, mutex: usize) -> bool {
        let has_it = self.mutexes[mutex].owner == Some(thread);
        self.all[thread].keeps_mutex = has_it;
        has_it || self.lock(thread, mutex)
    }

    /// Gives a `sync`'s mutex back, unless owned before. Returns the thread to be woken up.
    pub(crate) fn end_sync(&mut self, thread: ThreadId, mutex: usize) -> Option<ThreadId> {
        if std::mem::take(&mut self.all[thread].keeps_mutex) {
            return None;
        }
        self.unlock(thread, mutex)
    }

    /// Counts a semaphore up. Returns a waiting thread, to be woken up.
    pub(crate) fn post(&mut self, semaphore: usize) -> Option<ThreadId> {
        let semaphore = &mut self.semaphores[semaphore];
        let Some(first) = semaphore.waiters.pop_front() else {
            semaphore.count += 1;
            return None;
        };
        self.unblock(first);
        Some(first)
    }

    /// Counts a semaphore down, or waits. Returns whether the count was enough.
    pub(crate) fn pend(&mut self, thread: ThreadId, semaphore: usize) -> bool {
        let counter = &mut self.semaphores[semaphore];
        if counter.count > 0 {
            counter.count -= 1;
            return true;
        }
        counter.waiters.push_back(thread);
        self.block(thread, Blocked::Semaphore(semaphore));
        false
    }

    /// A thread works.
    pub(crate) fn works(&mut self, thread: ThreadId) {
        let program = self.all[thread].program;
        self.stats[program].active = true;
    }

    /// Whether any thread has worked, or completed a loop.
    pub(crate) fn has_done_something(&self) -> bool {
        self.stats.iter().any(|stats| stats.active)
    }

    /// Waits for a condition. Returns who got the mutex and is to be woken up.
    pub(crate) fn wait(
        &mut self,
        thread: ThreadId,
        condition: usize,
        mutex: Option<usize>,
    ) -> Option<ThreadId> {
        self.conditions[condition].push_back(Waiter { thread, mutex });
        self.block(thread, Blocked::Condition(condition));
        mutex.and_then(|mutex| self.unlock(thread, mutex))
    }

    /// Takes a condition's first waiter off. Returns the thread if free to go on without its mutex's owner.
    pub(crate) fn signal(&mut self, condition: usize) -> Signalled {
        let Some(Waiter { thread, mutex }) = self.conditions[condition].pop_front() else {
            return Signalled::Nobody;
        };
        self.unblock(thread);
        match mutex {
            Some(mutex) if !self.lock(thread, mutex) => Signalled::WaitsForMutex,
            _ => Signalled::Wakes(thread),
        }
    }

    /// Comes to a barrier for `users`. The last one returns the threads to be woken up.
    pub(crate) fn meet(
        &mut self,
        thread: ThreadId,
        barrier: usize,
        users: u32,
    ) -> Option<Vec<ThreadId>> {
        if self.barriers[barrier].len() + 1 < users as usize {
            self.barriers[barrier].push(thread);
            self.block(thread, Blocked::Barrier(barrier));
            return None;
        }
        let all = std::mem::take(&mut self.barriers[barrier]);
        for waiter in &all {
            self.unblock(*waiter);
        }
        Some(all)
    }

    /// A timer's next expiry, or `None` if passed.
    pub(crate) fn next_expiry(
        &mut self,
        thread: ThreadId,
        timer: TimerId,
        period: u64,
        absolute: bool,
        now: u64,
    ) -> Option<u64> {
        let own = &mut self.all[thread];
        let next = match timer {
            TimerId::Own(index) => &mut own.timers[index],
            TimerId::Shared(index) => &mut self.timers[index],
        };
        // A timer runs from the loop's start where first used.
        let at = next.unwrap_or(own.loop_began) + period;
        let missed = at <= now;
        *next = Some(if missed && !absolute { now } else { at });
        (!missed).then_some(at)
    }
}

/// A signal's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signalled {
    Nobody,
    WaitsForMutex,
    Wakes(ThreadId),
}

/// A thread's place in the program.
pub(crate) enum NextStep {
    /// At this step, in this stage if just entered.
    Op(Op, Option<usize>),
    End,
}

impl Thread {
    /// The step to take now.
    pub(crate) fn next(&mut self, program: &Program) -> NextStep {
        let Some(op) = program
            .stages
            .get(self.stage)
            .and_then(|s| s.ops.get(self.op))
        else {
            return NextStep::End;
        };
        let entered = !std::mem::replace(&mut self.entered, true);
        NextStep::Op(*op, entered.then_some(self.stage))
    }

    /// Enters the present stage once more, on another CPU.
    pub(crate) fn retry_stage(&mut self) {
        self.entered = false;
    }

    /// Whether the step after the present one blocks for sure, unless something happens meanwhile.
    pub(crate) fn blocks_next(&self, program: &Program) -> bool {
        let stage = &program.stages[self.stage];
        let next = if self.op + 1 < stage.ops.len() {
            stage.ops.get(self.op + 1)
        } else if self.stage_loops == Some(1) {
            let next = (self.stage + 1) % program.stages.len();
            program.stages[next].ops.first()
        } else {
            stage.ops.first()
        };
        matches!(
            next,
            Some(Op::Wait { .. } | Op::Sleep(_) | Op::Timer { .. })
        )
    }

    /// Goes past the present step. Notes every completed program loop.
    pub(crate) fn pass(&mut self, program: &Program, now: u64, stats: &mut TaskStats) {
        self.op += 1;
        let stage = &program.stages[self.stage];
        if self.op < stage.ops.len() {
            return;
        }
        self.op = 0;
        if let Some(left) = &mut self.stage_loops {
            *left -= 1;
        }
        if self.stage_loops != Some(0) {
            return;
        }
        self.stage += 1;
        if self.stage == program.stages.len() {
            stats.loop_done(self.loop_began, now);
            self.loop_began = now;
            if let Some(left) = &mut self.loops {
                *left -= 1;
            }
            if self.loops == Some(0) {
                return;
            }
            self.stage = 0;
        }
        self.entered = false;
        self.stage_loops = program.stages[self.stage].loops;
    }
}
