//! Tasks: the processes of fio jobs, the threads of rt-app, and kernel workers.

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Cycles, Direction, NEVER, RequestId};
use crate::core::queue::fifo::Fifo;
use crate::page_cache::state::Caller;
use crate::scheduler::state::{Class, Entity};
use crate::task::rtapp::state::ThreadId;
use wakepath_workloads::fio::{Next, Walk};

/// What a task is, and who knows what it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// A kernel worker, bound to its CPU.
    Worker,
    /// A process of a job.
    Job,
    /// A thread of an rt-app task.
    Thread(ThreadId),
    /// The kernel's thread that writes back dirty pages.
    Flusher,
    /// schedutil's thread, which changes the clock of this number.
    Sugov(usize),
}

/// What a task's present segment of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// From user space to the drive's doorbell.
    Submit,
    /// From the drive's doorbell to sleep.
    Deactivate,
    /// From the context switch after a completion back to user space.
    Resume,
    /// Nothing: it waits for its requests, or has not begun.
    Wait,
    /// Think time that keeps the CPU busy.
    Think,
    /// Think time, or an rt-app thread's `runtime`, that it spends looking at the clock, until [`Task::spin_until`].
    Spin,
    /// Work of an rt-app thread.
    Thread,
    /// Background work.
    Worker,
    /// A part of a call of the page cache: see [`Caller::stage`].
    Call,
}

/// After what a job pauses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseRule {
    /// Requests between two pauses, if they count.
    pub(super) requests: Option<u64>,
    /// They count when they are submitted, not when they are done.
    pub(super) by_issue: bool,
    /// Time from one pause to the next in ns, if it counts.
    pub(super) every: Option<u64>,
}

/// When a task thinks.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    /// When the one in progress is over.
    until: u64,
    /// One is due as soon as nothing is in flight.
    due: bool,
    /// Requests finished when the last one was due.
    finished: u64,
    /// Requests submitted when the last one began.
    submitted: u64,
    /// When the last one began that the rates of the job do not know of.
    began: Option<u64>,
    /// When the last one was due.
    last: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The CPU it runs on, or ran on last.
    pub(crate) cpu: CpuId,
    /// It runs nowhere else.
    bound: bool,
    pub(crate) program: Program,
    /// As the scheduler sees it.
    pub(crate) entity: Entity,
    /// Index of its job or rt-app task; unused for a worker.
    pub(crate) job: usize,
    pub(crate) step: Step,
    /// Work left of the present step.
    pub(crate) work: Cycles,
    /// Time that the present step has had a CPU, and cold-start work that it found there.
    pub(crate) executed: u64,
    pub(crate) cold: Cycles,
    /// What it has to refill of the caches of the core that it has moved to.
    pub(crate) refill: Cycles,
    pub(crate) runnable: bool,
    pub(super) in_iowait: bool,
    /// When it started, when its time is over, and from when its requests count.
    pub(crate) started: u64,
    pub(super) ends: u64,
    pub(super) counts_from: u64,
    /// When the submission in progress began.
    pub(crate) begun: u64,
    pub(crate) submitted: u64,
    /// Bytes of the requests submitted.
    pub(crate) bytes: u64,
    /// Bytes of the request that a thread has under way.
    pub(super) writes: u64,
    /// Writes submitted, and whether a flush followed the last one.
    pub(crate) written: u64,
    pub(crate) flushed: bool,
    /// The submission in progress is that of a flush, or it waits for one.
    pub(crate) flushing: bool,
    /// What is special about its writes.
    pub(crate) writes_as: RequestKind,
    /// If it uses the page cache.
    pub(crate) caller: Option<Box<Caller>>,
    /// A write that is done, but for the flush before its system call returns.
    pub(crate) unreturned: Option<Box<Request>>,
    /// The direction of its next request, once it is settled.
    pub(crate) direction: Option<Direction>,
    /// How it goes through its file, where the limits of its job do not say that.
    pub(crate) walk: Option<Box<Walk>>,
    /// The present way through its file has come to its end.
    pub(super) pass_is_over: bool,
    /// Where its next request lies, once `walk` has settled it.
    pub(crate) next: Option<Next>,
    /// Where its last request lies, likewise.
    pub(crate) offset: Option<u64>,
    /// Work of the submission in progress.
    pub(crate) submission: Cycles,
    /// What it writes next is in its buffer.
    pub(crate) filled: bool,
    /// Reads and writes submitted, or their bytes where these vary.
    pub(crate) issued: [u64; 2],
    /// The direction of its last request.
    pub(crate) last: Direction,
    /// When the next read and the next write are due, after its start: of a Poisson process all of it, else what pauses
    /// add to it.
    pub(crate) due: [u64; 2],
    /// The next block to read and to write, where they follow each other.
    pub(crate) next_block: [u64; 2],
    pub(crate) in_flight: u32,
    /// Requests that the drive has finished and the task has not seen.
    pub(crate) completed: Fifo<RequestId>,
    /// It submits several requests together: those of the next batch, with their bytes.
    pub(crate) gathers: bool,
    pub(super) gathered: Vec<(RequestId, u64)>,
    /// It had as many requests in flight as it may, and takes them back.
    pub(super) reaps: bool,
    /// How many completed requests it waits for, and takes back together at most.
    pub(super) wanted: usize,
    pub(super) most: usize,
    /// It has done what it does before it sleeps.
    pub(super) deactivated: bool,
    /// It has slept since it last went on with completed requests.
    pub(super) slept: bool,
    /// How many completed requests it goes on with, and the work of that.
    pub(super) taking: usize,
    pub(super) resumption: Cycles,
    /// Requests submitted when it last burnt its think cycles.
    pub(super) thought_cycles: u64,
    /// When the clock ends its spinning.
    pub(crate) spin_until: u64,
    pause: Pause,
}

impl Task {
    /// A process of a job, about to make its first request.
    pub(crate) fn job(job: usize, cpu: CpuId) -> Self {
        Self {
            program: Program::Job,
            job,
            step: Step::Wait,
            ..Self::worker(cpu, false)
        }
    }

    /// The kernel's thread that writes back dirty pages, asleep.
    pub(crate) fn flusher() -> Self {
        Self {
            program: Program::Flusher,
            step: Step::Call,
            caller: Some(Box::new(Caller::new(usize::MAX, 0))),
            ..Self::worker(0, false)
        }
    }

    /// schedutil's thread for a clock, asleep. It comes before all other tasks, and stays on the CPU where it ran last.
    pub(crate) fn sugov(clock: usize, cpu: CpuId) -> Self {
        let mut task = Self {
            program: Program::Sugov(clock),
            ..Self::worker(cpu, true)
        };
        task.entity.set_class(Class::Realtime {
            priority: u8::MAX,
            round_robin: false,
        });
        task
    }

    /// A thread of an rt-app task, about to take its first step. Where it begins is not settled.
    pub(crate) fn thread(thread: ThreadId, of: usize, class: Class) -> Self {
        let mut task = Self {
            program: Program::Thread(thread),
            job: of,
            step: Step::Wait,
            ..Self::worker(0, false)
        };
        task.entity.set_class(class);
        task
    }

    /// A kernel worker, which may be bound to its CPU.
    pub(crate) fn worker(cpu: CpuId, bound: bool) -> Self {
        Self {
            cpu,
            bound,
            program: Program::Worker,
            entity: Entity::default(),
            job: usize::MAX,
            step: Step::Worker,
            work: 0,
            executed: 0,
            cold: 0,
            refill: 0,
            runnable: false,
            in_iowait: false,
            started: 0,
            ends: NEVER,
            counts_from: 0,
            begun: 0,
            submitted: 0,
            bytes: 0,
            writes: 0,
            written: 0,
            flushed: true,
            flushing: false,
            writes_as: RequestKind::Plain,
            caller: None,
            unreturned: None,
            direction: None,
            walk: None,
            pass_is_over: false,
            next: None,
            offset: None,
            submission: 0,
            filled: false,
            issued: [0; 2],
            last: Direction::Read,
            due: [0; 2],
            next_block: [0; 2],
            in_flight: 0,
            completed: Fifo::new(),
            gathers: false,
            gathered: Vec::new(),
            reaps: false,
            wanted: 1,
            most: usize::MAX,
            deactivated: false,
            slept: true,
            taking: 0,
            resumption: 0,
            thought_cycles: 0,
            spin_until: 0,
            pause: Pause::default(),
        }
    }

    /// Goes over to a step with this much work.
    pub(crate) fn begin(&mut self, step: Step, work: Cycles) {
        self.step = step;
        self.work = work;
        self.executed = 0;
        self.cold = 0;
    }

    /// Whether the task has to pause before its next request.
    ///
    /// As fio 3.33 does it (`handle_thinktime()`, `backend.c`): after each request that it issues it
    /// counts those completed since it last found a pause due, and then waits for all in flight
    /// before the pause begins.
    pub(crate) fn pause_is_due(&mut self, rule: PauseRule, now: u64) -> bool {
        let finished = if rule.by_issue {
            self.submitted
        } else {
            // A flush is in flight, and no request.
            self.submitted.saturating_sub(u64::from(self.in_flight))
        };
        let started = self.started;
        let p = &mut self.pause;
        if p.due || self.submitted <= p.submitted {
            return p.due;
        }
        if let Some(blocks) = rule.requests
            && finished >= p.finished + blocks
        {
            p.due = true;
            // fio takes completions one at a time, so it finds what it looks for exactly, unless
            // those that it waited for before the last pause were more.
            p.finished = (p.finished + blocks).max(p.submitted);
        }
        if let Some(every) = rule.every
            && now >= p.last.max(started) + every
        {
            p.due = true;
            p.finished = p.finished.max(finished);
        }
        if p.due {
            p.last = now;
        }
        p.due
    }

    /// Whether it flushes the drive before its next request: as fio (`get_next_ddir()`), once after so many writes.
    #[inline(never)]
    pub(crate) fn flush_is_due(&self, every: [u64; 2]) -> bool {
        let due = |every: u64| every > 0 && self.written.is_multiple_of(every);
        !self.flushed && self.written > 0 && every.into_iter().any(due)
    }

    /// Whether a flush has not followed its last write.
    pub(crate) fn last_flush_is_due(&self) -> bool {
        !self.flushed && self.written > 0
    }

    /// Whether it goes through its file once more.
    pub(crate) fn starts_over(&mut self) -> bool {
        self.pass_is_over
            && self.walk.as_mut().is_some_and(|walk| {
                self.pass_is_over = false;
                walk.starts_over()
            })
    }

    /// The pause that was due begins, and is over at `until`.
    pub(crate) fn begin_pause(&mut self, now: u64, until: u64) {
        self.pause.due = false;
        self.pause.began = Some(now);
        self.pause.submitted = self.submitted;
        self.pause.until = until;
    }

    /// How long the pause before the submission in progress was, if there was one.
    pub(crate) fn paused_for(&mut self) -> Option<u64> {
        let began = self.pause.began.take()?;
        Some(self.begun - began)
    }

    /// When the pause in progress is over.
    pub(crate) fn pauses_until(&self) -> u64 {
        self.pause.until
    }

    /// Whether it runs nowhere but on its CPU.
    pub(crate) fn is_bound(&self) -> bool {
        self.bound
    }

    /// Whether it sleeps, and the next completion wakes it.
    pub(crate) fn wakes_with_next(&self) -> bool {
        !self.runnable && self.step == Step::Wait && self.completed.len() + 1 >= self.wanted
    }

    /// Whether a completion wakes it.
    pub(crate) fn waits_for_io(&self) -> bool {
        !self.runnable
            && self.step == Step::Wait
            && self.in_flight > 0
            && self.completed.len() >= self.wanted
    }
}
