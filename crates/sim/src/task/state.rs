//! A task: what all kinds have in common, and the state of its kind.

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Cycles, Direction, RequestId};
use crate::core::parts::Work;
use crate::core::queue::fifo::Fifo;
use crate::core::speed::Speed;
use crate::page_cache::state::Caller;
use crate::scheduler::state::{Class, Entity};
use crate::task::fio::process::FioProcess;
use crate::task::kernel_thread::KernelThread;
use crate::task::rtapp::state::ThreadTask;

/// What a task is, with the state that only its kind has.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    FioProcess(Box<FioProcess>),
    Thread(ThreadTask),
    KernelThread(KernelThread),
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
    /// Think time, or an rt-app thread's `runtime`, that it spends looking at the clock: see [`Task::spins_until`].
    Spin,
    /// Work of an rt-app thread.
    Thread,
    /// Background work.
    Worker,
    /// A part of a call of the page cache: see [`Caller`].
    Call,
}

/// A task of any kind, so that a run queue holds all of them.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The CPU on which the task runs, or ran last.
    pub(crate) cpu: CpuId,
    /// The task runs or waits for a CPU.
    pub(crate) runnable: bool,
    /// The scheduler's part.
    pub(crate) entity: Entity,
    /// The page cache's part: the call in progress.
    pub(crate) caller: Option<Box<Caller>>,
    /// Bound to `cpu`.
    bound: bool,
    in_iowait: bool,
    pub(super) step: Step,
    /// Work left of the present step.
    work: Cycles,
    /// Time for which the present step has had a CPU, and cold-start work on the way.
    executed: u64,
    cold: Cycles,
    /// Work to refill the caches of another core after a migration.
    refill: Cycles,
    /// When spinning ends.
    spin_until: u64,
    pub(super) requests: OwnRequests,
    pub(super) kind: Kind,
}

/// Requests of a task on their way, and how they are submitted and taken back.
#[derive(Clone, Debug)]
pub(super) struct OwnRequests {
    /// Begin and work of the submission in progress.
    pub(super) begun: u64,
    pub(super) submission: Cycles,
    /// Requests that count have ended at this time or later.
    pub(super) counts_from: u64,
    pub(super) in_flight: u32,
    /// Requests that the drive has finished and the task has not seen.
    pub(super) completed: Fifo<RequestId>,
    /// Completed requests that end a wait, and most that are taken back together.
    pub(super) wanted: usize,
    pub(super) most: usize,
    /// The work before a sleep is done.
    pub(super) deactivated: bool,
    /// The task has slept since it last took requests back.
    pub(super) slept: bool,
    /// Completed requests that are being taken back, and the work of that.
    pub(super) taking: usize,
    pub(super) resumption: Cycles,
}

impl Default for OwnRequests {
    fn default() -> Self {
        Self {
            begun: 0,
            submission: 0,
            counts_from: 0,
            in_flight: 0,
            completed: Fifo::new(),
            wanted: 1,
            most: usize::MAX,
            deactivated: false,
            slept: true,
            taking: 0,
            resumption: 0,
        }
    }
}

impl Task {
    pub(super) fn new(cpu: CpuId, bound: bool, step: Step, kind: Kind) -> Self {
        Self {
            cpu,
            runnable: false,
            entity: Entity::default(),
            caller: None,
            bound,
            in_iowait: false,
            step,
            work: 0,
            executed: 0,
            cold: 0,
            refill: 0,
            spin_until: 0,
            requests: OwnRequests::default(),
            kind,
        }
    }

    /// The kernel's thread that writes back dirty pages, asleep.
    pub(crate) fn flusher() -> Self {
        let kind = Kind::KernelThread(KernelThread::Flusher);
        Self {
            caller: Some(Box::new(Caller::flusher())),
            ..Self::new(0, false, Step::Call, kind)
        }
    }

    /// schedutil's thread for a clock, asleep. It comes before all other tasks, and stays on the CPU where it ran last.
    pub(crate) fn sugov(clock: usize, cpu: CpuId) -> Self {
        let kind = Kind::KernelThread(KernelThread::Sugov(clock));
        let mut task = Self::new(cpu, true, Step::Worker, kind);
        task.entity.set_class(Class::Realtime {
            priority: u8::MAX,
            round_robin: false,
        });
        task
    }

    /// A kernel worker, which may be bound to its CPU.
    pub(crate) fn worker(cpu: CpuId, bound: bool) -> Self {
        let kind = Kind::KernelThread(KernelThread::Worker);
        Self::new(cpu, bound, Step::Worker, kind)
    }

    /// Whether it runs nowhere but on its CPU.
    pub(crate) fn is_bound(&self) -> bool {
        self.bound
    }

    /// Whether it is a thread of the kernel.
    pub(crate) fn is_kernel_thread(&self) -> bool {
        matches!(self.kind, Kind::KernelThread(_))
    }

    /// Whether it is a thread of an rt-app task.
    pub(crate) fn is_thread(&self) -> bool {
        matches!(self.kind, Kind::Thread(_))
    }

    /// Whether it is a thread of schedutil.
    #[inline(always)]
    pub(crate) fn is_sugov(&self) -> bool {
        matches!(self.kind, Kind::KernelThread(KernelThread::Sugov(_)))
    }

    /// Falls asleep, waiting for I/O or not.
    #[inline(always)]
    pub(crate) fn fall_asleep(&mut self, iowait: bool) {
        self.runnable = false;
        self.requests.slept = true;
        self.in_iowait = iowait;
    }

    /// Ends a wait for I/O. Returns whether it waited for I/O.
    #[inline(always)]
    pub(crate) fn end_iowait(&mut self) -> bool {
        std::mem::take(&mut self.in_iowait)
    }

    /// The index of its job or rt-app task.
    pub(crate) fn owner(&self) -> Option<usize> {
        match &self.kind {
            Kind::FioProcess(process) => Some(process.job),
            Kind::Thread(thread) => Some(thread.program),
            Kind::KernelThread(_) => None,
        }
    }

    /// What its present segment of work is.
    pub(crate) fn step(&self) -> Step {
        self.step
    }

    /// Goes over to a step with this much work.
    #[inline(always)]
    pub(crate) fn begin(&mut self, step: Step, work: Cycles) {
        self.step = step;
        self.work = work;
        self.executed = 0;
        self.cold = 0;
    }

    /// Goes over to looking at the clock until a time.
    pub(super) fn begin_spin(&mut self, until: u64) {
        self.begin(Step::Spin, 0);
        self.spin_until = until;
    }

    /// When the clock ends its spinning, if it spins.
    #[inline(always)]
    pub(crate) fn spins_until(&self) -> Option<u64> {
        (self.step == Step::Spin).then_some(self.spin_until)
    }

    /// Work left of the present step.
    #[inline(always)]
    pub(super) fn work_left(&self) -> Cycles {
        self.work
    }

    /// Sets the work of the present step.
    pub(crate) fn give_work(&mut self, work: Cycles) {
        self.work = work;
    }

    /// Interrupts the present step, with so much work left.
    #[inline(always)]
    pub(crate) fn interrupt_at(&mut self, left: Cycles) {
        self.work = left;
    }

    /// Adds time for which the present step had a CPU.
    #[inline(always)]
    pub(crate) fn add_executed(&mut self, time: u64) {
        self.executed += time;
    }

    /// Adds work because the CPU of the present step was cold.
    #[inline(always)]
    pub(crate) fn add_cold(&mut self, cold: Cycles) {
        self.cold += cold;
    }

    /// How long the present step, of so much work, has had a CPU, and what that work was for.
    #[inline(always)]
    pub(crate) fn executed(&self, own: Cycles, full_speed: Speed) -> (u64, Work) {
        (self.executed, Work::new(own, self.cold, full_speed))
    }

    /// Migrates the task. `refill`: work to refill the caches of another core.
    pub(crate) fn move_to(&mut self, cpu: CpuId, refill: Option<Cycles>) {
        self.cpu = cpu;
        self.refill = refill.unwrap_or(self.refill);
    }

    /// Takes the work to refill caches, which the next CPU does.
    #[inline(always)]
    pub(crate) fn take_refill(&mut self) -> Cycles {
        std::mem::take(&mut self.refill)
    }

    /// Counts a request of so many bytes in flight. Returns its kind, and whether a batch holds it back.
    #[inline(always)]
    pub(crate) fn note_submission(
        &mut self,
        direction: Direction,
        bytes: u64,
    ) -> (RequestKind, bool) {
        self.requests.in_flight += 1;
        match &mut self.kind {
            Kind::FioProcess(process) => process.note_submission(direction, bytes),
            _ => (RequestKind::Plain, false),
        }
    }

    /// Counts a flush in flight.
    pub(crate) fn note_flush(&mut self) {
        self.requests.in_flight += 1;
        if let Kind::FioProcess(process) = &mut self.kind {
            process.note_flush();
        }
    }

    /// When the submission in progress began, how long it has had a CPU, and what its work was for.
    #[inline(always)]
    pub(crate) fn submission(&self, full_speed: Speed) -> (u64, u64, Work) {
        let (executed, work) = self.executed(self.requests.submission, full_speed);
        (self.requests.begun, executed, work)
    }

    /// Adds a request that is done, to be taken back when the task runs.
    #[inline(always)]
    pub(crate) fn add_completion(&mut self, request: RequestId) {
        self.requests.completed.push_back(request);
    }

    /// Adds a request that the page cache has done in the system call itself.
    pub(crate) fn add_cached(&mut self, request: RequestId) {
        self.requests.in_flight += 1;
        self.add_completion(request);
    }

    /// Whether the next completion wakes the task up.
    pub(crate) fn wakes_with_next(&self) -> bool {
        let requests = &self.requests;
        !self.runnable && self.step == Step::Wait && requests.completed.len() + 1 >= requests.wanted
    }

    /// Whether the completions so far wake the task up.
    #[inline(always)]
    pub(crate) fn waits_for_io(&self) -> bool {
        let requests = &self.requests;
        !self.runnable
            && self.step == Step::Wait
            && requests.in_flight > 0
            && requests.completed.len() >= requests.wanted
    }

    /// Ends a call that writes back and flushes. Returns whether such a call was in progress.
    pub(crate) fn end_fsync(&mut self) -> bool {
        match &mut self.kind {
            Kind::FioProcess(process) => process.end_fsync(),
            _ => false,
        }
    }

    /// A flush has ended, or a write before its flush. Returns the write whose system call is over with that: both are in its
    /// latency.
    #[cold]
    pub(super) fn end_stretch(&mut self, request: &Request) -> Option<Box<Request>> {
        match &mut self.kind {
            Kind::FioProcess(process) => process.end_stretch(request),
            _ => None,
        }
    }
}
