//! Follows all tasks through a recording's events in order of time.

use std::collections::{BTreeMap, BTreeSet};

use super::exits::ExitLatencies;
use super::idle_spans::{IdleSpan, IdleSpans};
use super::interruption::{INTERRUPT_NS, Interruption, longest_interrupt};
use super::item::{Item, Wait};
use super::kept_ticks::KeptTicks;
use super::loops::{FollowedTask, TaskItems, make_loops};
use super::observed::{
    MAX_OBSERVED_STEPS, MAX_OBSERVED_TASKS, ObservedIo, ObservedRun, ObservedTasks,
};
use super::requests_in_flight::{DataRequest, RequestsInFlight};
use super::submissions::Submissions;
use super::wake_ups::{PendingWake, WakeCause};
use super::write_pools::WritePools;
use crate::flushes_in_flight::FlushesInFlight;
use crate::recording::{Block, Durability, Event, EventKind, Metadata, QueueStep, TaskStep};

/// Most requests in flight that are followed.
const MAX_IN_FLIGHT: usize = 1 << 16;

/// State of a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct CpuState {
    /// The task that runs, and since when in ns.
    running: Option<(u32, u64)>,
    khz: Option<u32>,
    /// The last interrupt that explains no wake-up so far, with its time in ns.
    interruption: Option<(u64, Interruption)>,
    /// The task whose wake-up was seen last.
    woken: Option<u32>,
}

/// State of a task.
#[derive(Clone, Debug, Default)]
struct TaskState {
    items: TaskItems,
    /// The CPU on which the task runs, the begin of its present burst in ns, and interrupts since.
    burst: Option<(u32, u64, u32)>,
    /// When the task stopped running, in ns; `None`: it was not seen to run.
    stopped: Option<u64>,
    wake: Option<PendingWake>,
    in_flight: u32,
    /// When a request of the task completed last, in ns.
    completed: Option<u64>,
    /// Wake-ups from waits for requests, without and with iowait.
    io_waits: [u64; 2],
    /// Sleeps that something outside ended.
    outside_wake_ups: u64,
    /// The last request; `None` before the first one.
    last_request: Option<RequestKind>,
    /// Whether the steps have a request since the last wait for all requests.
    has_unawaited_request: bool,
}

/// What a request asks of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    Read,
    Write,
    Flush,
}

/// Follows tasks through the events of a recording.
pub(super) struct TaskFollower<'a> {
    idle: &'a IdleSpans,
    cpus: BTreeMap<u32, CpuState>,
    tasks: BTreeMap<u32, TaskState>,
    in_flight: RequestsInFlight,
    flushes: FlushesInFlight,
    submissions: Submissions,
    devices: BTreeSet<u32>,
    kept_ticks: KeptTicks,
    /// Whether number 0 is a task, as in simulated recordings, and no idle task.
    has_task_zero: bool,
    exits: ExitLatencies,
    pools: WritePools,
    /// Number of CPUs in the machine; 0 if unknown.
    machine_cpus: u32,
    steps: usize,
    /// End of the part that is used, in ns.
    end: u64,
    observed: ObservedTasks,
}

impl<'a> TaskFollower<'a> {
    pub(super) fn new(metadata: &Metadata, idle: &'a IdleSpans) -> Self {
        Self {
            idle,
            cpus: BTreeMap::new(),
            tasks: BTreeMap::new(),
            in_flight: RequestsInFlight::default(),
            flushes: FlushesInFlight::default(),
            submissions: Submissions::default(),
            machine_cpus: metadata.cpus,
            devices: BTreeSet::new(),
            kept_ticks: KeptTicks::default(),
            has_task_zero: (metadata.tasks.get(&0))
                .is_some_and(|name| !name.starts_with("swapper")),
            exits: ExitLatencies::new(metadata, idle),
            pools: WritePools::new(&metadata.tasks),
            steps: 0,
            end: idle.window.1,
            observed: ObservedTasks::default(),
        }
    }

    pub(super) fn follow_event(&mut self, event: &Event) {
        let (time, cpu) = (event.time.0, event.cpu);
        if time < self.idle.window.0 || time > self.end {
            // A clock that was set before the part used holds in the part.
            if let EventKind::Frequency(clock) = event.kind
                && time <= self.end
            {
                self.cpus.entry(cpu).or_default().khz = Some(clock.0);
            }
            return;
        }
        if self.steps >= MAX_OBSERVED_STEPS {
            self.end = time;
            return;
        }
        match event.kind {
            EventKind::Task {
                task,
                step: TaskStep::Waking,
            } if self.is_task(task) => self.note_wake_up(time, cpu, task),
            EventKind::Task {
                task,
                step: TaskStep::Woken { .. },
            } => self.cpus.entry(cpu).or_default().woken = Some(task),
            EventKind::Task {
                task,
                step: TaskStep::Running,
            } if self.is_task(task) => self.switch_to_task(time, cpu, task),
            EventKind::Wake {
                iowait: Some(iowait),
                ..
            } => self.note_iowait_of_last_wake_up(cpu, iowait),
            EventKind::Idle(period) => self.kept_ticks.note_idle_period(cpu, &period),
            EventKind::Timer(kind) => {
                self.kept_ticks.note_timer(cpu, kind);
                self.note_interruption(time, cpu, Interruption::Timer);
            }
            EventKind::Interrupt(interrupt) => {
                if let Some(what) = Interruption::from_interrupt(interrupt) {
                    self.note_interruption(time, cpu, what);
                }
            }
            EventKind::Queueing(QueueStep::Queued {
                block,
                task,
                background,
                durability,
            }) => {
                self.submissions.note_queued(time, cpu, &block);
                self.add_request((time, cpu), &block, task, background, durability);
            }
            EventKind::BlockIssue(block) => {
                let khz = self.cpus.get(&cpu).and_then(|state| state.khz);
                self.submissions.note_issued(time, cpu, khz, &block);
            }
            EventKind::Queueing(QueueStep::Remapped {
                block,
                from_device,
                from_sector,
            }) => {
                let place = (block.device, block.sector);
                (self.in_flight).move_request((from_device, from_sector), place);
            }
            EventKind::BlockComplete(block) => self.complete_requests(time, cpu, &block),
            EventKind::Frequency(clock) => {
                self.submissions.forget_submission_on(cpu);
                self.stop_task_if_cpu_went_idle(cpu, time);
                self.cut_burst(cpu, time);
                self.cpus.entry(cpu).or_default().khz = Some(clock.0);
            }
            _ => {}
        }
    }

    /// Whether a number belongs to a task, and to no idle task.
    fn is_task(&self, task: u32) -> bool {
        task != 0 || self.has_task_zero
    }

    /// Ends the burst of a CPU's task where the CPU went idle, if it has before `now`: a task may act and sleep at the same instant.
    fn stop_task_if_cpu_went_idle(&mut self, cpu: u32, now: u64) {
        let Some((task, since)) = self.cpus.get(&cpu).and_then(|state| state.running) else {
            return;
        };
        let spans = self.idle.spans_of_cpu(cpu);
        let next = spans.partition_point(|span| span.start < since);
        if let Some(IdleSpan { start, .. }) = spans.get(next)
            && *start < now
        {
            let start = *start;
            self.stop_task(cpu, task, start);
        }
    }

    /// Ends the burst of the task that runs on a CPU.
    fn stop_task(&mut self, cpu: u32, task: u32, time: u64) {
        self.cut_burst(cpu, time);
        self.cpus.entry(cpu).or_default().running = None;
        if let Some(state) = self.tasks.get_mut(&task) {
            state.burst = None;
            state.stopped = Some(time);
        }
    }

    /// Adds the present burst of the task on a CPU to the task's steps, and begins another one.
    fn cut_burst(&mut self, cpu: u32, time: u64) {
        let Some(CpuState {
            running: Some((task, _)),
            khz,
            ..
        }) = self.cpus.get(&cpu).copied()
        else {
            return;
        };
        let Some(state) = self.tasks.get_mut(&task) else {
            return;
        };
        if let Some((cpu, since, interrupts)) = state.burst.replace((cpu, time, 0)) {
            let run = ObservedRun {
                time_ns: time.saturating_sub(since),
                cpu,
                khz,
                interrupts,
            };
            self.steps += state.items.add_run(run);
        }
    }

    fn note_interruption(&mut self, time: u64, cpu: u32, what: Interruption) {
        self.submissions.forget_submission_on(cpu);
        self.cpus.entry(cpu).or_default().interruption = Some((time, what));
    }

    /// The state of a task; `None` beyond the most tasks that are followed.
    fn task_state(&mut self, task: u32) -> Option<&mut TaskState> {
        if !self.tasks.contains_key(&task) && self.tasks.len() >= MAX_OBSERVED_TASKS {
            return None;
        }
        Some(self.tasks.entry(task).or_default())
    }

    fn note_wake_up(&mut self, time: u64, cpu: u32, task: u32) {
        self.stop_task_if_cpu_went_idle(cpu, time);
        let Some(state) = self.task_state(task) else {
            return;
        };
        if let Some((on, ..)) = state.burst {
            self.stop_task_if_cpu_went_idle(on, time);
        }
        let Some(state) = self.tasks.get(&task) else {
            return;
        };
        if state.burst.is_some() || state.wake.is_some() {
            // The task was about to sleep, and did not.
            return;
        }
        if self.flushes.end_flush_of_woken_task(task) {
            self.pools.note_ended(task);
            self.count_ended_request(task, time);
        }
        let Some(state) = self.tasks.get(&task) else {
            return;
        };
        let slept_beside_request = state.slept_beside_request();
        let has_completed =
            (state.completed.zip(state.stopped)).is_some_and(|(completed, stopped)| {
                completed >= stopped && time.saturating_sub(completed) <= INTERRUPT_NS
            });
        let own = has_completed.then_some(state.in_flight);
        let (inferred, raised) = match own {
            Some(in_flight) => (WakeCause::Io(in_flight), time),
            None => self.infer_cause(time, cpu),
        };
        let cause = match inferred {
            // The drive's interrupt, perhaps.
            WakeCause::Arrival(_) if slept_beside_request => WakeCause::Outside,
            other => other,
        };
        if let WakeCause::Task(number) = cause {
            self.cut_burst(cpu, time);
            if let Some(waker) = self.tasks.get_mut(&number) {
                waker.items.add(Item::Wake(task));
                self.steps += self.pools.most_steps_of_wake_up(number, task);
            }
        }
        let waited_until = match cause {
            WakeCause::Outside | WakeCause::Arrival(_) => {
                self.begin_of_idle_exit(time, cpu).unwrap_or(raised)
            }
            _ => time,
        };
        if let Some(state) = self.tasks.get_mut(&task) {
            if state.last_request == Some(RequestKind::Read) {
                match cause {
                    WakeCause::Io(_) => state.items.note_wait_for_read(),
                    _ if slept_beside_request => state.items.reads_ahead = true,
                    _ => {}
                }
            }
            state.wake = Some(PendingWake {
                cause,
                time: waited_until,
            });
            state.completed = None;
        }
        self.cpus.entry(cpu).or_default().woken = Some(task);
    }

    /// What wakes a task at `time` on a CPU, if the task's own requests do not, and when its interrupt was raised if the CPU was busy.
    ///
    /// An idle CPU may show no interrupt: then a timer has woken the CPU if the governor was told of one that was due.
    fn infer_cause(&mut self, time: u64, cpu: u32) -> (WakeCause, u64) {
        let state = self.cpus.entry(cpu).or_default();
        let Some((waker, _)) = state.running else {
            // A CPU may go idle again at the same instant.
            let span = self.idle.last_span_before(cpu, time.saturating_sub(1));
            let since = span.map_or(0, |span| span.start);
            let told = span.and_then(|span| span.next_timer);
            let cause = match state.interruption.filter(|(at, _)| *at >= since) {
                Some((at, Interruption::Timer)) => WakeCause::Timer(self.expiry_of_timer(at, cpu)),
                Some((_, Interruption::Device)) => WakeCause::Arrival(cpu),
                Some((_, Interruption::Call)) => WakeCause::Outside,
                None => match told.filter(|told| (since..=time).contains(told)) {
                    Some(told) => WakeCause::Timer(told),
                    None => WakeCause::Outside,
                },
            };
            return (cause, time);
        };
        let longest = longest_interrupt(state.khz);
        let due = time.saturating_sub(INTERRUPT_NS)..=time;
        let span = self.idle.last_span_before(cpu, time);
        let told = span.and_then(|span| span.next_timer);
        let has_told_timer = told.is_some_and(|told| due.contains(&told));
        // On a busy CPU, one interrupt wakes one task: the next wake-up is the running task's.
        let interruption = state.interruption.take();
        let recent = interruption.filter(|(at, what)| {
            let is_device = *what == Interruption::Device;
            let most = if is_device { longest } else { INTERRUPT_NS };
            time.saturating_sub(*at) <= most
        });
        let cause = match recent {
            Some((at, Interruption::Timer)) => WakeCause::Timer(at),
            Some((_, Interruption::Device)) => WakeCause::Arrival(cpu),
            Some((_, Interruption::Call)) => WakeCause::Outside,
            None if has_told_timer => WakeCause::Timer(told.unwrap_or(time)),
            None => WakeCause::Task(waker),
        };
        (cause, recent.map_or(time, |(at, _)| at))
    }

    /// The time that a timer was set for whose interrupt was seen at `time` on an idle CPU.
    fn expiry_of_timer(&self, time: u64, cpu: u32) -> u64 {
        let Some(span) = self.idle.last_span_before(cpu, time) else {
            return time;
        };
        let told = span.next_timer;
        if let Some(told) = told.filter(|told| (span.start..=time).contains(told)) {
            return told;
        }
        self.begin_of_exit(span, cpu, time)
    }

    /// When what woke a CPU that is idle until `time` came: before the idle state's exit. `None`: the CPU was busy.
    fn begin_of_idle_exit(&self, time: u64, cpu: u32) -> Option<u64> {
        let is_busy = (self.cpus.get(&cpu)).is_some_and(|state| state.running.is_some());
        let span = self.idle.last_span_before(cpu, time.saturating_sub(1))?;
        (!is_busy).then(|| self.begin_of_exit(span, cpu, time))
    }

    /// When a CPU began to leave the idle state of a span, which it had left at `time`.
    fn begin_of_exit(&self, span: &IdleSpan, cpu: u32, time: u64) -> u64 {
        let exit = self.exits.exit_latency(cpu, span.state);
        let begun = span.end.min(time).saturating_sub(exit);
        begun.max(span.start)
    }

    fn note_iowait_of_last_wake_up(&mut self, cpu: u32, iowait: bool) {
        let woken = self.cpus.get_mut(&cpu).and_then(|state| state.woken.take());
        let state = woken.and_then(|task| self.tasks.get_mut(&task));
        if let Some(state) = state
            && let Some(PendingWake {
                cause: WakeCause::Io(_),
                ..
            }) = state.wake
        {
            state.io_waits[usize::from(iowait)] += 1;
        }
    }

    /// Notes that a CPU begins to run a task.
    fn switch_to_task(&mut self, time: u64, cpu: u32, task: u32) {
        self.stop_task_if_cpu_went_idle(cpu, time);
        let running = self.cpus.entry(cpu).or_default().running;
        if let Some((before, _)) = running {
            self.stop_task(cpu, before, time);
        }
        let Some(state) = self.task_state(task) else {
            return;
        };
        if let Some((elsewhere, ..)) = state.burst {
            self.stop_task_if_cpu_went_idle(elsewhere, time);
            if self
                .tasks
                .get(&task)
                .is_some_and(|state| state.burst.is_some())
            {
                self.stop_task(elsewhere, task, time);
            }
        }
        self.kept_ticks.note_running(cpu, task);
        let start = self.idle.window.0;
        let mut outside = 0;
        if let Some(state) = self.tasks.get_mut(&task) {
            if state.stopped.is_none() && state.items.is_empty() {
                state.items.first_cpu = cpu;
            }
            outside = state.end_wait(time, start);
            state.outside_wake_ups += outside;
            state.items.note_turn(cpu);
            state.burst = Some((cpu, time, 0));
        }
        self.observed.outside_wake_ups += outside;
        let cpu_state = self.cpus.entry(cpu).or_default();
        cpu_state.running = Some((task, time));
        cpu_state.interruption = None;
    }

    /// Notes a request that a task submits at a time on a CPU; one without data is a flush.
    fn add_request(
        &mut self,
        (time, cpu): (u64, u32),
        block: &Block,
        task: Option<u32>,
        background: bool,
        durability: Durability,
    ) {
        let place = (block.device, block.sector);
        let has_data = block.bytes > 0;
        // A bio on a stacked device, such as LVM, is submitted a second time to the device below.
        if has_data && self.in_flight.has_request_at(place) {
            return;
        }
        self.stop_task_if_cpu_went_idle(cpu, time);
        let Some(task) = task.filter(|_| self.in_flight.len() < MAX_IN_FLIGHT) else {
            self.observed.without_task += 1;
            return;
        };
        if !has_data && !self.flushes.begin_flush(block, task) {
            return;
        }
        let is_running = self
            .tasks
            .get(&task)
            .is_some_and(|state| state.burst.is_some());
        if !is_running {
            // The recording began while the task ran.
            self.switch_to_task(time, cpu, task);
        }
        self.cut_burst(cpu, time);
        let Some(state) = self.tasks.get_mut(&task) else {
            self.observed.without_task += 1;
            return;
        };
        self.steps += state.add_request_items(block, durability);
        state.in_flight += 1;
        state
            .items
            .note_request(state.in_flight, has_data && background);
        if has_data {
            let kind = match (block.write, background) {
                (true, _) => DataRequest::Write,
                (false, true) => DataRequest::CachedRead,
                (false, false) => DataRequest::Read,
            };
            self.in_flight.add_request(place, task, kind);
        }
        if block.write || !has_data {
            self.pools.note_submitted(task);
        }
        self.devices.insert(block.device);
        self.cpus.entry(cpu).or_default().interruption = None;
    }

    /// Notes the completion of a request, perhaps with several bios inside.
    fn complete_requests(&mut self, time: u64, cpu: u32, block: &Block) {
        self.stop_task_if_cpu_went_idle(cpu, time);
        let running = self.cpus.get(&cpu).and_then(|state| state.running);
        if let Some((task, _)) = running
            && let Some(TaskState {
                burst: Some((_, _, interrupts)),
                ..
            }) = self.tasks.get_mut(&task)
        {
            *interrupts += 1;
        }
        if block.bytes == 0
            && let Some(task) = self.flushes.end_flush(block)
        {
            self.pools.note_ended(task);
            self.count_ended_request(task, time);
            return;
        }
        let sectors = u64::from(block.bytes.div_ceil(512)).max(1);
        let first = (block.device, block.sector);
        let end = (block.device, block.sector.saturating_add(sectors));
        while let Some(ended) = self.in_flight.end_request_between(first, end) {
            match ended.kind {
                DataRequest::Write => self.pools.note_ended(ended.task),
                DataRequest::CachedRead => self.note_end_of_cached_read(ended.task, time),
                DataRequest::Read => {}
            }
            self.count_ended_request(ended.task, time);
            if let Some(lost) = self.in_flight.forget_lost_request(ended.task) {
                if lost.kind == DataRequest::Write {
                    self.pools.note_ended(lost.task);
                }
                if let Some(state) = self.tasks.get_mut(&lost.task) {
                    state.in_flight = state.in_flight.saturating_sub(1);
                }
            }
        }
    }

    /// A task that runs while its read into the page cache ends did not wait for the read.
    fn note_end_of_cached_read(&mut self, task: u32, time: u64) {
        if let Some((on, ..)) = self.tasks.get(&task).and_then(|state| state.burst) {
            self.stop_task_if_cpu_went_idle(on, time);
        }
        if let Some(state) = self.tasks.get_mut(&task)
            && state.burst.is_some()
        {
            state.items.reads_ahead = true;
        }
    }

    fn count_ended_request(&mut self, task: u32, time: u64) {
        if let Some(state) = self.tasks.get_mut(&task) {
            state.in_flight = state.in_flight.saturating_sub(1);
            state.completed = Some(time);
        }
    }

    /// The steps of all tasks, from a recording of this length in ns with these names of tasks.
    pub(super) fn finish(
        mut self,
        recorded_ns: u64,
        names: &BTreeMap<u32, String>,
    ) -> ObservedTasks {
        let cpus: Vec<u32> = self.cpus.keys().copied().collect();
        for cpu in cpus {
            self.stop_task_if_cpu_went_idle(cpu, self.end);
            self.cut_burst(cpu, self.end);
        }
        let used_ns = self.end.saturating_sub(self.idle.window.0);
        let mut all = Vec::with_capacity(self.tasks.len());
        for (number, state) in self.tasks {
            let asleep_ns = state.time_asleep_at_end(self.end);
            let mut items = state.items;
            if let Some(asleep_ns) = asleep_ns {
                items.add_sleep_at_end(asleep_ns);
            }
            items.io_wait = state.io_waits[1] >= state.io_waits[0];
            items.is_running_at_end = state.burst.is_some();
            items.leaves_callbacks = self.kept_ticks.leaves_callbacks(number);
            all.push(FollowedTask {
                number,
                name: names.get(&number).cloned(),
                outside_wake_ups: state.outside_wake_ups,
                items,
            });
        }
        let exclusive = self.pools.into_exclusive_names();
        ObservedTasks {
            tasks: make_loops(all, &exclusive, (self.idle.window.0, used_ns)),
            used_ns,
            recorded_ns,
            has_losses: self.idle.has_losses,
            devices: self.devices.len(),
            cpus: self.machine_cpus,
            submission: self.submissions.into_median(),
            ..self.observed
        }
    }
}

impl TaskState {
    /// Adds a request to what the task did: a flush if it has no data, and a flush before it if the drive empties its cache first.
    /// Returns the number of items added.
    fn add_request_items(&mut self, block: &Block, durability: Durability) -> usize {
        let kind = match block {
            Block { bytes: 0, .. } => RequestKind::Flush,
            Block { write: true, .. } => RequestKind::Write,
            Block { write: false, .. } => RequestKind::Read,
        };
        let awaited = self.await_requests_around_flush(kind);
        self.last_request = Some(kind);
        self.has_unawaited_request = true;
        if kind == RequestKind::Flush {
            self.items.add(Item::Flush);
            return awaited + 1;
        }
        let is_after_flush = block.write && durability.flushes_first;
        if is_after_flush {
            self.items.add(Item::Flush);
            self.items.add(Item::Wait(Wait::Io(self.in_flight)));
        }
        self.items.add(Item::Io(ObservedIo {
            write: block.write,
            bytes: block.bytes,
            sector: block.sector,
            is_forced: block.write && durability.is_forced,
        }));
        awaited + if is_after_flush { 3 } else { 1 }
    }

    /// Adds the wait for all requests that comes before a flush, as in `fsync()`, and after one. The recording shows no sleep where
    /// the requests were over in time. Returns the number of items added.
    fn await_requests_around_flush(&mut self, next: RequestKind) -> usize {
        let is_beside_flush =
            next == RequestKind::Flush || self.last_request == Some(RequestKind::Flush);
        if !is_beside_flush || self.in_flight > 0 || !self.has_unawaited_request {
            return 0;
        }
        self.has_unawaited_request = false;
        self.items.add(Item::Pass(0));
        1
    }

    /// Whether a request was in flight when the task went to sleep.
    fn slept_beside_request(&self) -> bool {
        let ended_in_sleep = (self.completed.zip(self.stopped))
            .is_some_and(|(completed, stopped)| completed >= stopped);
        self.in_flight > 0 || ended_in_sleep
    }

    /// How long the task has slept at the recording's end, in ns; `None`: it runs, is about to, or waits for its requests.
    fn time_asleep_at_end(&self, end: u64) -> Option<u64> {
        let is_asleep = self.burst.is_none() && self.wake.is_none() && self.in_flight == 0;
        let asleep_ns = end.saturating_sub(self.stopped.filter(|_| is_asleep)?);
        (asleep_ns > 0).then_some(asleep_ns)
    }

    /// Ends the task's wait, if it was woken, as it runs at `time`. Returns the number of waits that keep their recorded length.
    fn end_wait(&mut self, time: u64, start: u64) -> u64 {
        let wake = self.wake.take();
        let Some(stopped) = self.stopped else {
            // The task is seen for the first time.
            let first = match wake {
                Some(PendingWake {
                    cause: WakeCause::Task(waker),
                    time,
                }) => {
                    let slept_ns = time.saturating_sub(start);
                    self.items.add(Item::Wait(Wait::Task { waker, slept_ns }));
                    return 0;
                }
                Some(PendingWake {
                    cause: WakeCause::Timer(expiry),
                    ..
                }) => expiry,
                Some(wake) => wake.time,
                None => time,
            };
            self.items.delay_ns = first.saturating_sub(start);
            return 0;
        };
        let Some(PendingWake { cause, time }) = wake else {
            // Another task had the CPU meanwhile.
            return 0;
        };
        let slept_ns = time.saturating_sub(stopped);
        let wait = match cause {
            WakeCause::Io(in_flight) => Wait::Io(in_flight),
            WakeCause::Timer(expiry) => Wait::Timer {
                begun: stopped,
                expiry: expiry.max(stopped),
            },
            WakeCause::Task(waker) => Wait::Task { waker, slept_ns },
            WakeCause::Arrival(cpu) => Wait::Arrival {
                begun: stopped,
                at: time.max(stopped),
                cpu,
            },
            WakeCause::Outside => Wait::Outside(slept_ns),
        };
        self.items.add(Item::Wait(wait));
        self.has_unawaited_request &= wait != Wait::Io(0);
        u64::from(matches!(wait, Wait::Outside(_)))
    }
}

#[cfg(test)]
mod tests {
    use wakepath_units::Nanoseconds;

    use super::super::observed::ObservedStep;
    use super::*;

    const NAME: &str = "committer";

    fn event(time: u64, kind: EventKind) -> Event {
        Event {
            time: Nanoseconds(time),
            cpu: 0,
            kind,
        }
    }

    fn task_event(time: u64, task: u32, step: TaskStep) -> Event {
        event(time, EventKind::Task { task, step })
    }

    fn queued(time: u64, task: u32, block: Block, background: bool) -> Event {
        let step = QueueStep::Queued {
            block,
            task: Some(task),
            background,
            durability: Durability::default(),
        };
        event(time, EventKind::Queueing(step))
    }

    /// Whether two tasks that write by turns are found to, in a recording that lacks the third completion. `bytes` 0: they flush.
    fn are_exclusive_with_lost_completion(bytes: u32) -> bool {
        let metadata = Metadata {
            tasks: [1, 2].map(|task| (task, NAME.to_owned())).into(),
            ..Metadata::default()
        };
        let mut idle = IdleSpans::default();
        idle.window = (0, u64::MAX);
        let mut follower = TaskFollower::new(&metadata, &idle);
        for number in 0..1000 {
            let block = Block {
                device: 1,
                sector: if bytes > 0 { number * 8 } else { 0 },
                bytes,
                write: true,
            };
            let (time, task) = (number * 100_000, 1 + number as u32 % 2);
            follower.follow_event(&task_event(time, task, TaskStep::Running));
            follower.follow_event(&queued(time + 1000, task, block, false));
            follower.follow_event(&task_event(time + 2000, 9, TaskStep::Running));
            if number != 2 {
                let ended = EventKind::BlockComplete(block);
                follower.follow_event(&event(time + 50_000, ended));
            }
            follower.follow_event(&task_event(time + 51_000, task, TaskStep::Waking));
        }
        follower.pools.into_exclusive_names().contains(NAME)
    }

    /// A task spins between reads in sequence. It waits for the first one, and runs on while others end.
    #[test]
    fn a_task_that_never_sleeps_again_keeps_what_it_did() {
        let names = [(1, NAME.to_owned())].into();
        let metadata = Metadata {
            tasks: names,
            ..Metadata::default()
        };
        let mut idle = IdleSpans::default();
        idle.window = (0, 20_000_000);
        let mut follower = TaskFollower::new(&metadata, &idle);
        follower.follow_event(&task_event(0, 1, TaskStep::Running));
        for number in 0..20 {
            let block = Block {
                device: 1,
                sector: number * 512,
                bytes: 262_144,
                write: false,
            };
            let time = number * 1_000_000;
            follower.follow_event(&queued(time + 1000, 1, block, true));
            if number == 0 {
                follower.follow_event(&task_event(2000, 9, TaskStep::Running));
            }
            let ended = EventKind::BlockComplete(block);
            follower.follow_event(&event(time + 200_000, ended));
            if number == 0 {
                follower.follow_event(&task_event(200_000, 1, TaskStep::Waking));
                follower.follow_event(&task_event(201_000, 1, TaskStep::Running));
            }
        }
        let observed = follower.finish(20_000_000, &metadata.tasks);
        let mut tasks = observed.tasks.iter();
        let reader = tasks.find(|task| task.name.as_deref() == Some(NAME));
        let steps = &reader.unwrap().steps;
        let reads = steps
            .iter()
            .filter(|step| matches!(step, ObservedStep::Io(_)));
        assert_eq!(reads.count(), 20, "{steps:?}");
        let waits = steps
            .iter()
            .filter(|step| matches!(step, ObservedStep::AwaitIo(_)));
        // The other wait ends the round.
        assert_eq!(waits.count(), 2, "{steps:?}");
    }

    #[test]
    fn a_lost_completion_ends_no_search_for_pools() {
        assert!(are_exclusive_with_lost_completion(4096));
        assert!(are_exclusive_with_lost_completion(0));
    }
}
