//! A task: the state that all kinds have in common, and the state of its kind.

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{CpuId, Cycles, Direction, HeldByBatch, RequestId};
use crate::core::parts::Work;
use crate::core::queue::fifo::Fifo;
use crate::core::speed::Speed;
use crate::page_cache::caller::Caller;
use crate::scheduler::state::{Class, Entity};
use crate::task::fio::helpers::FioHelper;
use crate::task::fio::process::FioProcess;
use crate::task::kernel_thread::KernelThread;
use crate::task::rtapp::state::{ThreadIoKind, ThreadTask};
use crate::task::server::state::ServerTask;

/// A task's kind, with the state that only that kind has.
#[derive(Debug)]
pub(super) enum Kind {
    FioProcess(Box<FioProcess>),
    FioHelper(FioHelper),
    Thread(ThreadTask),
    Server(ServerTask),
    KernelThread(KernelThread),
}

/// Kinds of a task's present segment of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Submission: from user space to the drive's doorbell.
    Submit,
    /// Leaving the run queue: from the drive's doorbell to sleep.
    Deactivate,
    /// Resumption: from the context switch after a completion back to user space.
    Resume,
    /// No work: the task waits for its requests, or has not begun.
    Wait,
    /// Think time that keeps the CPU busy.
    Think,
    /// Think time, or an rt-app thread's `runtime`, that it spends looking at the clock: see [`Task::spins_until`].
    Spin,
    /// Polling for completions or submissions, up to [`Task::spins_until`] or until some have come.
    Poll,
    /// Work of an rt-app thread, or of a server's worker for a request.
    Thread,
    /// Background work.
    Worker,
    /// A part of a call of the page cache: see [`Caller`].
    Call,
}

/// A task of any kind, so that a run queue holds all of them.
#[derive(Debug)]
pub(crate) struct Task {
    /// The CPU on which the task runs, or ran last.
    pub(crate) cpu: CpuId,
    /// Whether the task runs or waits for a CPU, and does not sleep.
    pub(crate) runnable: bool,
    /// The scheduler's part of the task.
    pub(crate) entity: Entity,
    /// The page cache's part of the task: its call in progress.
    pub(crate) caller: Option<Box<Caller>>,
    /// Whether the task is bound to `cpu`.
    bound: bool,
    in_iowait: bool,
    pub(super) step: Step,
    /// Work in cycles left of the present step.
    work: Cycles,
    /// Time in ns for which the present step has had a CPU, and cold-start work in cycles done on the way.
    executed: u64,
    cold: Cycles,
    /// Work in cycles to refill the caches of another core after a migration.
    refill: Cycles,
    /// Time in ns when spinning ends.
    spin_until: u64,
    pub(super) requests: OwnRequests,
    pub(super) kind: Kind,
}

/// A task's requests in flight, and how they are submitted and taken back.
#[derive(Clone, Debug)]
pub(super) struct OwnRequests {
    /// Begin and work of the submission in progress.
    pub(super) begun: u64,
    pub(super) submission: Cycles,
    /// Time in ns from which on finished requests count for the figures.
    pub(super) counts_from: u64,
    pub(super) in_flight: u32,
    /// Completed requests that the task has not taken back yet.
    pub(super) completed: Fifo<RequestId>,
    /// Number of completed requests that ends a wait, and highest number taken back together.
    pub(super) wanted: usize,
    pub(super) most: usize,
    /// Whether the task's job wants to know of each request's end.
    pub(super) reports_ends: bool,
    /// How many requests may be in flight.
    pub(super) depth: u32,
    /// Whether the task waits until a helper has done its work.
    pub(super) awaits_helper: bool,
    /// The work before a sleep is done.
    pub(super) deactivated: bool,
    /// Whether the task has slept since it last took requests back.
    pub(super) slept: bool,
    /// Whether the task's requests go to polled queues, which interrupt nobody.
    pub(super) polled: bool,
    /// Number of completed requests being taken back, and the work of that in cycles.
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
            reports_ends: false,
            depth: u32::MAX,
            awaits_helper: false,
            deactivated: false,
            slept: true,
            polled: false,
            taking: 0,
            resumption: 0,
        }
    }
}

impl OwnRequests {
    /// Whether too few requests have completed to end a wait.
    pub(super) fn lack_completions(&self) -> bool {
        self.completed.len() < self.wanted
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

    /// A new flusher, the kernel's thread that writes back dirty pages, asleep.
    pub(crate) fn new_flusher() -> Self {
        let kind = Kind::KernelThread(KernelThread::Flusher);
        Self {
            caller: Some(Box::new(Caller::for_flusher())),
            ..Self::new(0, false, Step::Call, kind)
        }
    }

    /// A new thread that begins a file system's commits, asleep.
    pub(crate) fn new_journal_thread() -> Self {
        let kind = Kind::KernelThread(KernelThread::Journal);
        Self::new(0, false, Step::Call, kind)
    }

    /// A new kernel worker of a CPU that goes on with commits after interrupts, asleep.
    pub(crate) fn new_journal_worker(cpu: CpuId) -> Self {
        let kind = Kind::KernelThread(KernelThread::JournalWorker);
        Self::new(cpu, true, Step::Worker, kind)
    }

    /// schedutil's thread for a clock, asleep. It comes before all other tasks, and stays on the CPU where it ran last.
    pub(crate) fn new_sugov_thread(clock: usize, cpu: CpuId) -> Self {
        let kind = Kind::KernelThread(KernelThread::Sugov(clock));
        let mut task = Self::new(cpu, true, Step::Worker, kind);
        task.entity.set_class(Class::Realtime {
            priority: u8::MAX,
            round_robin: false,
        });
        task
    }

    /// A new kernel thread that submits for a process, asleep, bound to its CPU or not.
    pub(super) fn new_submitter(index: usize, cpu: CpuId, bound: bool) -> Self {
        let kind = Kind::KernelThread(KernelThread::Submitter(index));
        Self::new(cpu, bound, Step::Worker, kind)
    }

    /// A new kernel worker, asleep, bound to its CPU or not.
    pub(crate) fn new_kernel_worker(cpu: CpuId, bound: bool) -> Self {
        let kind = Kind::KernelThread(KernelThread::Worker);
        Self::new(cpu, bound, Step::Worker, kind)
    }

    /// Whether the task runs only on its CPU.
    pub(crate) fn is_bound(&self) -> bool {
        self.bound
    }

    /// Whether the task is a worker of the kernel that does the work of one CPU.
    pub(crate) fn is_worker_of_one_cpu(&self) -> bool {
        use KernelThread::{JournalWorker, Worker};
        self.bound && matches!(self.kind, Kind::KernelThread(JournalWorker | Worker))
    }

    /// Whether the task is a kernel thread.
    pub(crate) fn is_kernel_thread(&self) -> bool {
        matches!(self.kind, Kind::KernelThread(_))
    }

    /// Whether the task is a thread of an rt-app file.
    pub(crate) fn is_rtapp_thread(&self) -> bool {
        matches!(self.kind, Kind::Thread(_))
    }

    /// Whether the task is one of schedutil's threads.
    #[inline(always)]
    pub(crate) fn is_sugov(&self) -> bool {
        matches!(self.kind, Kind::KernelThread(KernelThread::Sugov(_)))
    }

    /// Notes that the task falls asleep, in I/O wait or not.
    #[inline(always)]
    pub(crate) fn note_asleep(&mut self, iowait: bool) {
        self.runnable = false;
        self.requests.slept = true;
        self.in_iowait = iowait;
    }

    /// Ends the task's I/O wait. Returns whether the task was in I/O wait.
    #[inline(always)]
    pub(crate) fn end_io_wait(&mut self) -> bool {
        std::mem::take(&mut self.in_iowait)
    }

    /// Index of the task's fio job or rt-app task, 0 for a server's threads; `None` for a kernel thread.
    pub(crate) fn index_of_job_or_program(&self) -> Option<usize> {
        match &self.kind {
            Kind::FioProcess(process) => Some(process.job),
            Kind::FioHelper(helper) => Some(helper.job),
            Kind::Thread(thread) => Some(thread.program),
            Kind::Server(_) => Some(0),
            Kind::KernelThread(_) => None,
        }
    }

    /// Kind of the task's present segment of work.
    pub(crate) fn present_step(&self) -> Step {
        self.step
    }

    /// Begins a step with this much work in cycles.
    #[inline(always)]
    pub(crate) fn begin_step(&mut self, step: Step, work: Cycles) {
        self.step = step;
        self.work = work;
        self.executed = 0;
        self.cold = 0;
    }

    /// Begins a spinning step, [`Step::Spin`] or [`Step::Poll`], which lasts until a time at most.
    pub(super) fn begin_spin_step(&mut self, step: Step, until: u64) {
        self.begin_step(step, 0);
        self.spin_until = until;
    }

    /// Ends the spinning of a spinning task at `time`, or when it would have ended.
    pub(crate) fn end_spin_step_at(&mut self, time: u64) {
        self.spin_until = self.spin_until.min(time);
    }

    /// Time in ns when the task's spinning ends; `None` if it does not spin.
    #[inline(always)]
    pub(crate) fn spins_until(&self) -> Option<u64> {
        matches!(self.step, Step::Spin | Step::Poll).then_some(self.spin_until)
    }

    /// Work in cycles left of the present step.
    #[inline(always)]
    pub(super) fn work_left(&self) -> Cycles {
        self.work
    }

    /// Sets the work in cycles of the present step.
    pub(crate) fn set_work_of_step(&mut self, work: Cycles) {
        self.work = work;
    }

    /// Notes that the present step was interrupted with so much work left.
    #[inline(always)]
    pub(crate) fn set_work_left(&mut self, left: Cycles) {
        self.work = left;
    }

    /// Adds time in ns for which the present step had a CPU.
    #[inline(always)]
    pub(crate) fn add_executed_time(&mut self, time: u64) {
        self.executed += time;
    }

    /// Adds cold-start work that the present step did because its CPU had slept.
    #[inline(always)]
    pub(crate) fn add_cold_start_work(&mut self, cold: Cycles) {
        self.cold += cold;
    }

    /// Time in ns that the present step has had a CPU, and its work: the step's own, and cold-start work.
    #[inline(always)]
    pub(crate) fn executed_time_and_work(
        &self,
        step_work: Cycles,
        full_speed: Speed,
    ) -> (u64, Work) {
        (self.executed, Work::new(step_work, self.cold, full_speed))
    }

    /// Sets the task's CPU. `refill`: work to refill the caches of another core, done before the next step.
    pub(crate) fn move_to_cpu(&mut self, cpu: CpuId, refill: Option<Cycles>) {
        self.cpu = cpu;
        self.refill = refill.unwrap_or(self.refill);
    }

    /// Removes and returns the work to refill caches after a migration, which the task's CPU does next.
    #[inline(always)]
    pub(crate) fn take_cache_refill_work(&mut self) -> Cycles {
        std::mem::take(&mut self.refill)
    }

    /// Counts a submitted request as in flight. Returns its kind, and whether it waits for the rest of a batch.
    #[inline(always)]
    pub(crate) fn count_submitted_request(
        &mut self,
        direction: Direction,
        bytes: u64,
    ) -> (RequestKind, HeldByBatch) {
        self.requests.in_flight += 1;
        match &mut self.kind {
            Kind::FioProcess(process) => process.count_submitted_request(direction, bytes),
            Kind::FioHelper(helper) => (helper.request_kind(), false),
            Kind::Thread(thread) if thread.io.kind == ThreadIoKind::Forced => {
                (RequestKind::Through, false)
            }
            _ => (RequestKind::Plain, false),
        }
    }

    /// Counts a submitted flush as in flight.
    pub(crate) fn count_submitted_flush(&mut self) {
        self.requests.in_flight += 1;
        if let Kind::FioProcess(process) = &mut self.kind {
            process.count_submitted_flush();
        }
    }

    /// Begin of the submission in progress in ns, the time it has had a CPU, and its work.
    #[inline(always)]
    pub(crate) fn submission_begin_time_and_work(&self, full_speed: Speed) -> (u64, u64, Work) {
        let (executed, work) = self.executed_time_and_work(self.requests.submission, full_speed);
        (self.requests.begun, executed, work)
    }

    /// Adds a completed request, to be taken back when the task runs.
    #[inline(always)]
    pub(crate) fn add_completed_request(&mut self, request: RequestId) {
        self.requests.completed.push_back(request);
    }

    /// Adds a request that the page cache has completed in the system call itself.
    pub(crate) fn add_request_done_by_cache(&mut self, request: RequestId) {
        self.requests.in_flight += 1;
        self.add_completed_request(request);
    }

    /// Counts a read as in flight that waits for a page beside the task.
    pub(crate) fn count_deferred_read(&mut self) {
        self.requests.in_flight += 1;
    }

    /// Begins to go on with a read that has waited beside the task, which is no longer in flight until it is done. Returns whether
    /// the task has slept since it last went on with one or took requests back.
    pub(crate) fn begin_deferred_read(&mut self) -> bool {
        let own = &mut self.requests;
        own.in_flight -= 1;
        own.deactivated = false;
        std::mem::replace(&mut own.slept, false)
    }

    /// Whether the task sleeps until its requests complete.
    pub(crate) fn sleeps_for_requests(&self) -> bool {
        !self.runnable && self.step == Step::Wait && self.requests.in_flight > 0
    }

    /// Whether the next completion will wake the sleeping task.
    pub(crate) fn next_completion_wakes_task(&self) -> bool {
        let requests = &self.requests;
        !self.runnable && self.step == Step::Wait && requests.completed.len() + 1 >= requests.wanted
    }

    /// Whether the task sleeps and its completions so far are enough to wake it.
    #[inline(always)]
    pub(crate) fn completions_so_far_wake_task(&self) -> bool {
        let requests = &self.requests;
        !self.runnable
            && self.step == Step::Wait
            && requests.in_flight > 0
            && requests.completed.len() >= requests.wanted
    }

    /// When the fsync call that is over now began, in ns; `None` if none was in progress.
    #[cold]
    pub(crate) fn take_start_of_fsync(&mut self) -> Option<u64> {
        match &mut self.kind {
            Kind::FioProcess(process) => process.take_start_of_fsync(),
            Kind::Thread(thread) => thread.flush_began.take(),
            _ => None,
        }
    }

    /// Time in ns from which on the task's requests and fsync calls count.
    pub(crate) fn counts_from(&self) -> u64 {
        self.requests.counts_from
    }

    /// Whether the task's requests go to polled queues.
    #[inline(always)]
    pub(crate) fn is_polled(&self) -> bool {
        self.requests.polled
    }

    /// Whether the task spins in a loop with `pause`: a fio process in its pause (`usec_spin()` of fio 3.33), or in the kernel for
    /// requests in a polled queue (`poll()` of rig/drive), or a kernel thread for submissions (rig/spin). A process whose requests such
    /// a thread submits looks at its ring without.
    pub(crate) fn spins_with_pauses(&self) -> bool {
        let process = match &self.kind {
            Kind::FioProcess(process) => process,
            Kind::KernelThread(KernelThread::Submitter(_)) => return self.step == Step::Poll,
            _ => return false,
        };
        match self.step {
            Step::Spin => true,
            Step::Poll => self.requests.polled && process.submitter.is_none(),
            _ => false,
        }
    }

    /// Whether the task spins for completions, and those so far are enough.
    pub(crate) fn completions_so_far_end_spin(&self) -> bool {
        let requests = &self.requests;
        self.step == Step::Poll
            && requests.in_flight > 0
            && requests.completed.len() >= requests.wanted
    }

    /// Ends a fsync call that wrote back and flushed. Returns whether such a call was in progress.
    pub(crate) fn end_fsync_in_progress(&mut self) -> bool {
        match &mut self.kind {
            Kind::FioProcess(process) => process.end_fsync_in_progress(),
            _ => false,
        }
    }

    /// A flush has ended, or a write before its flush. Returns the write whose system call is over with that: both are in its
    /// latency.
    #[cold]
    pub(super) fn end_flush_or_write_before_flush(
        &mut self,
        request: &Request,
    ) -> Option<Box<Request>> {
        match &mut self.kind {
            Kind::FioProcess(process) => process.end_flush_or_write_before_flush(request),
            _ => None,
        }
    }
}
