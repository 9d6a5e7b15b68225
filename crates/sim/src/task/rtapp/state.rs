//! rt-app threads: progress by thread, and locks to wait for each other.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use crate::core::basics::{Direction, TaskId};
use crate::task::group_commit::GroupCommit;
use crate::task::rtapp::arrivals::Arrivals;
use crate::task::rtapp::program::{Op, Program, Programs, StepRules, TimerId};

pub(crate) type ThreadId = usize;

/// State of a task that runs an rt-app thread, beyond that of any task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadTask {
    pub(in crate::task) thread: ThreadId,
    /// Index of the rt-app task that the thread belongs to.
    pub(in crate::task) program: usize,
    /// The request that the thread submits, or submitted last.
    pub(in crate::task) io: ThreadIo,
    /// Whether the thread's waits for requests count as I/O wait.
    pub(in crate::task) io_wait: bool,
    /// Whether the requests are the page cache's: the end of one takes no time of the thread unless the thread sleeps for it.
    pub(in crate::task) uses_page_cache: bool,
    /// When the flush in progress began, in ns; `None`: none is.
    pub(in crate::task) flush_began: Option<u64>,
    /// Number of the next block to write: a thread writes block after block, for ever.
    next_block: u64,
}

/// A thread's request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadIo {
    pub(in crate::task) direction: Direction,
    pub(in crate::task) bytes: u64,
    /// First byte on the volume; `None`: behind the thread's last write.
    pub(in crate::task) offset: Option<u64>,
    /// Whether the thread waits for the request at once.
    pub(in crate::task) waits: bool,
    pub(in crate::task) kind: ThreadIoKind,
}

/// Kind of a thread's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadIoKind {
    /// A read or write.
    Plain,
    /// A write that ends once the data are on the media.
    Forced,
    /// A flush of the drives' caches.
    Flush,
}

impl ThreadIo {
    /// A write behind the thread's last one, for which the thread waits.
    pub(super) fn for_rtapp_write(bytes: u64) -> Self {
        Self {
            direction: Direction::Write,
            bytes,
            offset: None,
            waits: true,
            kind: ThreadIoKind::Plain,
        }
    }

    /// A flush, for which the thread does not wait at once.
    pub(super) fn for_flush() -> Self {
        Self {
            kind: ThreadIoKind::Flush,
            waits: false,
            ..Self::for_rtapp_write(0)
        }
    }
}

impl ThreadTask {
    pub(super) fn new(thread: ThreadId, program: usize, rules: Option<StepRules>) -> Self {
        Self {
            thread,
            program,
            io: ThreadIo::for_rtapp_write(0),
            io_wait: rules.is_none_or(|rules| rules.io_wait),
            uses_page_cache: rules.is_some_and(|rules| rules.uses_page_cache),
            flush_began: None,
            next_block: 0,
        }
    }

    /// Byte on the volume where the thread's next request of `bytes` begins.
    pub(in crate::task) fn offset_of_next_request(&mut self, bytes: u64) -> u64 {
        if let Some(offset) = self.io.offset {
            return offset;
        }
        let block = self.next_block;
        self.next_block = (block + 1) % (u64::MAX / bytes);
        block * bytes
    }
}

/// Decimal digits of precision in the histograms of rt-app tasks.
const FIGURES: u8 = 2;

/// Highest number of steps of all threads together at one instant.
const MAX_STEPS_AT_ONCE: u32 = 1_000_000;

/// What another thread has to do before a thread can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    /// Nothing: the thread can go on by itself.
    No,
    Mutex(usize),
    Condition(usize),
    /// As a condition, whose thread has no mutex.
    Suspended(usize),
    Barrier(usize),
    Semaphore(usize),
    /// Another thread has to sync the log with this number; with the step that ends the waiting thread's own sync.
    Sync {
        log: usize,
        end: usize,
    },
}

/// State of an rt-app thread.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(in crate::task) task: TaskId,
    pub(in crate::task) program: usize,
    pub(in crate::task) copy: usize,
    stage: usize,
    op: usize,
    /// Loops left of the program, and of the stage, including the present loop; `None`: for ever.
    loops: Option<u64>,
    stage_loops: Option<u64>,
    /// Whether the scheduling of the present stage is in force.
    entered: bool,
    /// Time in ns when the present loop of the program began.
    loop_began: u64,
    /// Whether the present step has been taken, so that the thread only has to go on to the next.
    pub(in crate::task) done: bool,
    /// Whether the present step's work has been done, or is in progress.
    pub(in crate::task) worked: bool,
    /// Time in ns when a `runtime` step in progress ends.
    pub(in crate::task) run_until: Option<u64>,
    /// Time in ns for which a task of given steps set its last timer.
    pub(in crate::task) last_timer: u64,
    /// Bytes that the next write of a sync has beside the thread's own.
    pub(in crate::task) bytes_of_others: u64,
    /// Times in ns when each of the thread's own timers expires next.
    timers: Vec<Option<u64>>,
    pub(in crate::task) blocked: Blocked,
    /// Whether the thread had the mutex of the present `sync` before it.
    keeps_mutex: bool,
    /// The wake-up of a thread that has not run since; otherwise `None`.
    pub(in crate::task) woken: Option<WakeUp>,
    pub(in crate::task) ended: bool,
}

/// A thread's wake-up, from its cause until the thread runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeUp {
    /// Time in ns of the wake-up's cause: the waker's call, or the time that a timer was set for.
    pub(in crate::task) since: u64,
    /// Time in ns up to which the wake-up's latency is attributed to parts.
    pub(in crate::task) cut: u64,
    /// Delay in ns of the inter-processor interrupt that tells the CPU.
    pub(in crate::task) ipi: u64,
    pub(in crate::task) parts: WakeParts,
}

/// A wake-up's latency by part, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WakeParts {
    /// How much later than asked for the timer expired.
    pub(in crate::task) slack: u64,
    /// Time of the inter-processor interrupt.
    pub(in crate::task) delivery: u64,
    /// Time in which CPUs left idle states.
    pub(in crate::task) idle_exit: u64,
    /// Time in which the CPU did something else.
    pub(in crate::task) waiting: u64,
}

/// Counts of one rt-app task over all its threads.
#[derive(Clone, Debug)]
pub(crate) struct TaskStats {
    /// Time in ns before which loops and wake-ups are not counted.
    from: u64,
    /// Whether any thread of the task has worked, or completed a loop.
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

    pub(crate) fn record_wake_up(&mut self, wake: &WakeUp) {
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
        // A histogram that grows as needed cannot refuse a value.
        let _ = self.wake_times.record(latency);
        for (sum, part) in self
            .wake_parts
            .iter_mut()
            .zip([slack, delivery, idle_exit, waiting])
        {
            *sum += u128::from(part);
        }
    }

    fn record_finished_loop(&mut self, began: u64, now: u64) {
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

/// A thread that waits for a condition, and the mutex that it wants back.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    thread: ThreadId,
    mutex: Option<usize>,
}

/// State of all rt-app threads of a run, and of what they wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    pub(in crate::task) all: Vec<Thread>,
    /// Requests by the network that tasks of given steps wait for.
    pub(super) arrivals: Arrivals,
    pub(super) stats: Vec<TaskStats>,
    mutexes: Vec<Mutex>,
    conditions: Vec<VecDeque<Waiter>>,
    barriers: Vec<Vec<ThreadId>>,
    semaphores: Vec<Semaphore>,
    /// Logs whose syncs are shared.
    pub(super) logs: Vec<GroupCommit>,
    timers: Vec<Option<u64>>,
    /// Number of threads that have not ended, and of those that wait for another thread.
    pub(in crate::task) running: usize,
    waiting: usize,
    steps: u32,
    steps_at: u64,
    /// When every thread not ended began to wait for another one, and for what.
    pub(super) halt: Option<Halt>,
}

/// A halt: every thread that has not ended waits for another thread.
#[derive(Clone, Debug)]
pub(crate) struct Halt {
    pub(in crate::task) at: u64,
    /// Which thread waits for what.
    pub(in crate::task) waits: String,
}

/// Totals of a run's rt-app threads.
#[derive(Debug)]
pub(crate) struct ThreadTotals {
    /// Counts by rt-app task.
    pub(super) stats: Vec<TaskStats>,
    /// By rt-app task, why no thread of it has done anything; `None` if one has.
    pub(super) never_ran: Vec<Option<String>>,
    /// The run ended before the threads did, or before the file's duration was over.
    pub(super) time_capped: bool,
    /// The halt, if the threads came to one before the run's end.
    pub(super) halt: Option<Halt>,
    /// How often a task changed its CPU, over the whole run.
    pub(super) migrations: u64,
}

impl Threads {
    /// Totals of all threads; the arguments are facts that the threads do not know themselves.
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
            all: Vec::with_capacity(programs.thread_count()),
            stats: vec![TaskStats::new(programs.warm_up); programs.tasks.len()],
            mutexes: vec![Mutex::default(); programs.mutexes.len() * copies],
            conditions: vec![VecDeque::new(); programs.conditions.len() * copies],
            barriers: vec![Vec::new(); programs.barriers.len() * copies],
            semaphores: vec![Semaphore::default(); programs.semaphores.len() * copies],
            logs: vec![GroupCommit::default(); programs.logs],
            timers: vec![None; programs.shared_timers * copies],
            ..Self::default()
        }
    }

    pub(crate) fn add_thread(
        &mut self,
        programs: &Programs,
        program: usize,
        copy: usize,
        task: TaskId,
    ) {
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
            last_timer: task_program.delay,
            bytes_of_others: 0,
            timers: vec![None; task_program.own_timers],
            blocked: Blocked::No,
            keeps_mutex: false,
            woken: None,
            ended: false,
        });
        self.running += 1;
    }

    /// Counts a step at `now`. Returns false if too many steps were taken at this instant.
    pub(crate) fn count_step_at(&mut self, now: u64) -> bool {
        if self.steps_at != now {
            self.steps_at = now;
            self.steps = 0;
        }
        self.steps += 1;
        self.steps < MAX_STEPS_AT_ONCE
    }

    /// Whether every thread that has not ended waits for another one.
    pub(crate) fn all_wait_for_each_other(&self) -> bool {
        self.running > 0 && self.waiting == self.running
    }

    fn mark_blocked(&mut self, thread: ThreadId, on: Blocked) {
        self.all[thread].blocked = on;
        self.waiting += 1;
    }

    pub(super) fn mark_waiting_for_sync(&mut self, thread: ThreadId, log: usize, end: usize) {
        self.mark_blocked(thread, Blocked::Sync { log, end });
    }

    pub(super) fn mark_unblocked(&mut self, thread: ThreadId) {
        self.all[thread].blocked = Blocked::No;
        self.waiting -= 1;
    }

    pub(crate) fn mark_ended(&mut self, thread: ThreadId) {
        self.all[thread].ended = true;
        self.running -= 1;
    }

    /// Takes a mutex for a thread, or makes the thread wait for it. Returns whether the thread has the mutex.
    pub(crate) fn lock_mutex_or_wait(&mut self, thread: ThreadId, mutex: usize) -> bool {
        let lock = &mut self.mutexes[mutex];
        if lock.owner.is_none() {
            lock.owner = Some(thread);
            return true;
        }
        lock.waiters.push_back(thread);
        self.mark_blocked(thread, Blocked::Mutex(mutex));
        false
    }

    /// Gives a mutex back if the thread owns it. Returns its next owner, to be woken up.
    pub(crate) fn unlock_mutex(&mut self, thread: ThreadId, mutex: usize) -> Option<ThreadId> {
        let lock = &mut self.mutexes[mutex];
        if lock.owner != Some(thread) {
            return None;
        }
        lock.owner = lock.waiters.pop_front();
        let next = lock.owner?;
        self.mark_unblocked(next);
        Some(next)
    }

    /// Takes the mutex of a `sync`, unless the thread owns it. Returns whether the thread has the mutex now.
    pub(crate) fn begin_sync(&mut self, thread: ThreadId, mutex: usize) -> bool {
        let has_it = self.mutexes[mutex].owner == Some(thread);
        self.all[thread].keeps_mutex = has_it;
        has_it || self.lock_mutex_or_wait(thread, mutex)
    }

    /// Gives the mutex of a `sync` back, unless the thread owned it before. Returns the next owner, to be woken up.
    pub(crate) fn end_sync(&mut self, thread: ThreadId, mutex: usize) -> Option<ThreadId> {
        if std::mem::take(&mut self.all[thread].keeps_mutex) {
            return None;
        }
        self.unlock_mutex(thread, mutex)
    }

    /// Counts a semaphore up, or if a thread waits for it, returns that thread, to be woken up.
    pub(crate) fn post_semaphore(&mut self, semaphore: usize) -> Option<ThreadId> {
        let semaphore = &mut self.semaphores[semaphore];
        let Some(first) = semaphore.waiters.pop_front() else {
            semaphore.count += 1;
            return None;
        };
        self.mark_unblocked(first);
        Some(first)
    }

    /// Counts a semaphore down, or makes the thread wait for it. Returns whether the thread can go on.
    pub(crate) fn pend_semaphore_or_wait(&mut self, thread: ThreadId, semaphore: usize) -> bool {
        let counter = &mut self.semaphores[semaphore];
        if counter.count > 0 {
            counter.count -= 1;
            return true;
        }
        counter.waiters.push_back(thread);
        self.mark_blocked(thread, Blocked::Semaphore(semaphore));
        false
    }

    /// Notes that a thread works, so that its task counts as active.
    pub(crate) fn mark_task_active(&mut self, thread: ThreadId) {
        let program = self.all[thread].program;
        self.stats[program].active = true;
    }

    /// Whether any thread has worked, or completed a loop.
    pub(crate) fn any_task_was_active(&self) -> bool {
        self.stats.iter().any(|stats| stats.active)
    }

    /// Makes a thread wait for a condition, and gives its mutex back. Returns the mutex's next owner, to be woken up.
    pub(crate) fn wait_for_condition(
        &mut self,
        thread: ThreadId,
        condition: usize,
        mutex: Option<usize>,
    ) -> Option<ThreadId> {
        self.conditions[condition].push_back(Waiter { thread, mutex });
        let blocked = match mutex {
            Some(_) => Blocked::Condition(condition),
            None => Blocked::Suspended(condition),
        };
        self.mark_blocked(thread, blocked);
        mutex.and_then(|mutex| self.unlock_mutex(thread, mutex))
    }

    /// Ends the wait of the first thread that waits for a condition. That thread is to be woken if its mutex is free.
    pub(crate) fn signal_condition(&mut self, condition: usize) -> Signalled {
        let Some(Waiter { thread, mutex }) = self.conditions[condition].pop_front() else {
            return Signalled::Nobody;
        };
        self.mark_unblocked(thread);
        match mutex {
            Some(mutex) if !self.lock_mutex_or_wait(thread, mutex) => Signalled::WaitsForMutex,
            _ => Signalled::Wakes(thread),
        }
    }

    /// Brings a thread to a barrier for `users` threads. The last thread gets the others, to be woken up; `None`: the thread waits.
    pub(crate) fn meet_at_barrier(
        &mut self,
        thread: ThreadId,
        barrier: usize,
        users: u32,
    ) -> Option<Vec<ThreadId>> {
        if self.barriers[barrier].len() + 1 < users as usize {
            self.barriers[barrier].push(thread);
            self.mark_blocked(thread, Blocked::Barrier(barrier));
            return None;
        }
        let all = std::mem::take(&mut self.barriers[barrier]);
        for waiter in &all {
            self.mark_unblocked(*waiter);
        }
        Some(all)
    }

    /// Advances a timer by its period. Returns the expiry to sleep until, or `None` if it is over already.
    pub(crate) fn next_timer_expiry(
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
        // A timer runs from the start of the loop in which it is first used.
        let at = next.unwrap_or(own.loop_began) + period;
        let missed = at <= now;
        *next = Some(if missed && !absolute { now } else { at });
        (!missed).then_some(at)
    }
}

/// What a signal to a condition does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signalled {
    Nobody,
    WaitsForMutex,
    Wakes(ThreadId),
}

/// The step that a thread is to take.
pub(crate) enum NextStep {
    /// A step, and the index of its stage if the thread enters the stage with it.
    Op(Op, Option<usize>),
    End,
}

impl Thread {
    /// The step that the thread is to take now; marks its stage as entered.
    pub(crate) fn enter_and_return_step(&mut self, program: &Program) -> NextStep {
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

    /// Makes the end of the sync that the thread waits for its present step, which is over.
    pub(super) fn skip_to_end_of_awaited_sync(&mut self) {
        if let Blocked::Sync { end, .. } = self.blocked {
            self.op = end;
            self.done = true;
        }
    }

    /// Makes the thread enter its present stage again, on another CPU.
    pub(crate) fn enter_stage_again(&mut self) {
        self.entered = false;
    }

    /// Whether the step after the present step is a wait, sleep or timer, which blocks the thread.
    pub(crate) fn next_step_blocks(&self, program: &Program) -> bool {
        let stage = &program.stages[self.stage];
        let next = if self.op + 1 < stage.ops.len() {
            stage.ops.get(self.op + 1)
        } else if self.stage_loops == Some(1) {
            let next = (self.stage + 1) % program.stages.len();
            program.stages[next].ops.first()
        } else {
            stage.ops.first()
        };
        // How a task of given steps woke others is not known; most calls wake without a hint (`WF_SYNC`).
        program.step_rules.is_none()
            && matches!(
                next,
                Some(Op::Wait { .. } | Op::Sleep(_) | Op::Timer { .. })
            )
    }

    /// Goes on to the step after the present step, over stages and loops. Records a completed program loop.
    pub(crate) fn pass_step(&mut self, program: &Program, now: u64, stats: &mut TaskStats) {
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
            stats.record_finished_loop(self.loop_began, now);
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
