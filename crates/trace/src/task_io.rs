//! I/O of tasks in a recording: sizes, order, requests in flight, pauses and CPU bursts between requests.
//!
//! A pause starts when a task runs again after its last completion, so that neither the drive nor the wake-up is part of
//! the pause. Within a pause, the task sleeps while its CPU is idle, and until the timer that the governor was told of expires. How
//! late the next request then comes is kept apart: the idle state's exit is in there. CPU time is told apart by whether the task had
//! slept, and is not counted if another task with I/O was seen on the CPU.

use std::collections::{BTreeMap, HashMap};

use wakepath_units::Nanoseconds;

use crate::flushes_in_flight::FlushesInFlight;
use crate::recording::{
    Block, Durability, Event, EventKind, IdlePeriod, QueueStep, Reader, RecordingError, TaskStep,
};

/// Limits on the tasks, and on the requests in flight, that are followed: a damaged recording may have any number.
const MAX_FOLLOWED: usize = 1 << 16;
/// Limit on the request sizes, and on the numbers of writes between flushes, that are counted apart for a task.
const MAX_SIZES: usize = 256;

/// Limit on the pauses of a task whose lateness is kept.
pub const MAX_LATENESSES: usize = 4096;

/// The I/O in a recording, by task.
#[derive(Clone, Debug, Default)]
pub struct TaskIoProfile {
    /// Length of the recording in ns.
    pub duration_ns: u64,
    /// Tasks that waited for their requests, by thread number.
    pub tasks: BTreeMap<u32, TaskIo>,
    /// Requests without a waiting task, as from write-back and read-ahead.
    pub background: u64,
    /// Number of requests whose submitting task is not recorded.
    pub unknown_submitter: u64,
    /// Number of requests left out because too many tasks, or too many requests in flight, were being followed.
    pub not_followed: u64,
    /// CPU bursts left out, because another task with I/O ran on the CPU meanwhile.
    pub shared_bursts: u64,
}

impl TaskIoProfile {
    /// Whether the recording has any block request.
    pub fn has_requests(&self) -> bool {
        !self.tasks.is_empty() || self.background + self.unknown_submitter + self.not_followed > 0
    }
}

/// One task's I/O.
#[derive(Clone, Debug, Default)]
pub struct TaskIo {
    /// The task's name, if recorded.
    pub name: Option<String>,
    /// Number of requests by direction and size.
    pub sizes: BTreeMap<RequestSize, u64>,
    /// Number of requests that begin where the task's last request of the same direction ended.
    pub sequential: u64,
    /// First sector of the task's request with the lowest address.
    pub first_sector: u64,
    /// Sector behind the task's request with the highest address.
    pub end_sector: u64,
    /// Largest number of the task's requests in flight at a time.
    pub most_in_flight: u32,
    /// Number of flushes of the drive's cache, those before a write (`REQ_PREFLUSH`) included.
    pub flushes: u64,
    /// How often so many writes came before a flush, since the flush before.
    pub writes_before_flushes: BTreeMap<u64, u64>,
    /// Number of writes that end only once their data are on the media (`REQ_FUA`).
    pub forced_writes: u64,
    /// Number of pauses in which the task's CPU slept.
    pub pauses: u64,
    /// Total time in ns that the task slept in pauses, up to the timers that woke it.
    pub asleep_ns: u64,
    /// Times in ns from these timers to the next request, of the first [`MAX_LATENESSES`] pauses.
    pub lateness_ns: Vec<u64>,
    /// Total CPU time between running again and the next request, in ns, without that after a sleep.
    pub burst_ns: u64,
    /// Total CPU time between a sleep in a pause and the next request, in ns.
    pub after_sleep_ns: u64,
    /// Number of requests preceded by a CPU burst of known length.
    pub bursts: u64,
    /// Number of wake-ups by a completion in which the task had not waited for I/O by the kernel's count, and in which it had.
    pub io_waits: [u64; 2],
    /// Times between the beginnings of successive requests.
    pub intervals: Moments,
    /// Times from running again after a completion to the next request.
    pub pause_lengths: Moments,
}

/// Number, mean and variance of times in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// Number of times.
    pub count: u64,
    /// Mean in ns.
    pub mean: f64,
    /// Sum of the squared deviations from the mean.
    squares: f64,
}

impl Moments {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        let before = ns as f64 - self.mean;
        self.mean += before / self.count as f64;
        self.squares += before * (ns as f64 - self.mean);
    }

    /// Variance; 0 of a single time.
    pub fn variance(&self) -> f64 {
        self.squares / self.count.saturating_sub(1).max(1) as f64
    }
}

/// Direction and size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestSize {
    /// Whether the request writes.
    pub write: bool,
    /// Size in bytes.
    pub bytes: u32,
}

impl TaskIo {
    /// Number of requests that read, or that write.
    pub fn count_requests_in_direction(&self, writes: bool) -> u64 {
        let sizes = self.sizes.iter().filter(|(size, _)| size.write == writes);
        sizes.map(|(_, count)| count).sum()
    }

    /// Time in ns by which the next request comes after a timer at least, but for a fiftieth of the pauses: what the task itself does
    /// after a wake-up from a shallow state.
    pub fn least_usual_lateness_ns(&self) -> u64 {
        let mut sorted = self.lateness_ns.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 50).copied().unwrap_or(0)
    }

    /// Whether the task keeps a rate: its pauses make up for what requests take, so that requests begin evenly.
    pub fn keeps_rate(&self) -> bool {
        const FEWEST: u64 = 32;
        self.pause_lengths.count >= FEWEST
            && 10.0 * self.intervals.variance() < self.pause_lengths.variance()
    }
}

/// Reads a recording to its end, and collects the I/O of its tasks.
///
/// # Errors
/// The recording cannot be read.
pub fn collect_task_io(reader: &mut Reader) -> Result<TaskIoProfile, RecordingError> {
    let extent = reader.time_range_and_rewind()?;
    let mut collector = TaskIoCollector::default();
    reader.for_each_event(|event| {
        collector.collect_event(&event);
        Ok::<(), RecordingError>(())
    })?;
    let mut profile = collector.profile;
    profile.duration_ns = extent.map_or(0, |(first, last)| last.0.saturating_sub(first.0));
    for (task, io) in &mut profile.tasks {
        io.name = reader.metadata().tasks.get(task).cloned();
    }
    Ok(profile)
}

/// A sector on a block device.
type DeviceSector = (u32, u64);

/// State of a task between its requests.
#[derive(Clone, Copy, Debug, Default)]
struct TaskState {
    in_flight: u32,
    /// Sector behind the task's last request by direction: reads, writes.
    next_sector: [Option<u64>; 2],
    /// Number of writes since the task's last flush.
    writes_since_flush: u64,
    /// When the task's last request began, in ns.
    last_request: Option<u64>,
    /// The task's pause since its last completion, if it is in one.
    pause: Option<TaskPause>,
}

/// A task's pause up to now, and the stretch of it that still lasts.
#[derive(Clone, Copy, Debug)]
struct TaskPause {
    /// When the task ran again, and the pause began, in ns.
    begun: u64,
    /// When the present stretch of the pause began, in ns.
    time: u64,
    /// The CPU on which the present stretch of the pause began.
    cpu: u32,
    /// Idle time of that CPU when the stretch began, in ns.
    idle_ns: u64,
    /// Whether the task was seen to run after its last completion.
    ran: bool,
    /// When a wake-up of the task began, if the task has not run since.
    waking: Option<u64>,
    /// Sleep in earlier stretches of the pause, with the wake-ups that ended them, in ns.
    asleep_ns: u64,
    /// CPU time in earlier stretches of the pause up to the first sleep, in ns.
    burst_ns: u64,
    /// CPU time in earlier stretches of the pause after the first sleep, in ns.
    after_sleep_ns: u64,
    /// When the timer expired that ended the last sleep, in ns.
    timer: u64,
    /// Whether another task with I/O ran on the CPU in some stretch of the pause.
    shared: bool,
}

/// Idle time of a CPU so far, in ns.
#[derive(Clone, Copy, Debug, Default)]
struct CpuIdleTime {
    total: u64,
    /// Start and end of the last idle period.
    last: (u64, u64),
    /// When the timer expired that ended the last idle period, as far as is known, else the period's end.
    timer: u64,
}

/// Collects the I/O of tasks from a recording's events in order of time.
#[derive(Default)]
struct TaskIoCollector {
    profile: TaskIoProfile,
    states: HashMap<u32, TaskState>,
    /// Submitter of each request in flight.
    in_flight: BTreeMap<DeviceSector, u32>,
    flushes: FlushesInFlight,
    idle: HashMap<u32, CpuIdleTime>,
    /// The last task seen to run on each CPU, and since when, in ns.
    last_runs: HashMap<u32, (u32, u64)>,
    /// By CPU, the task whose wake-up by a completion was seen last.
    woken: HashMap<u32, u32>,
}

impl TaskIoCollector {
    fn collect_event(&mut self, event: &Event) {
        match &event.kind {
            EventKind::Idle(period) => {
                self.add_idle_period_ending_at(event.time.0, event.cpu, period);
            }
            EventKind::Queueing(QueueStep::Queued {
                block,
                task,
                background,
                durability,
            }) => self.count_submitted_bio_and_end_pause(
                (event.time, event.cpu),
                block,
                *task,
                *background,
                *durability,
            ),
            EventKind::Queueing(QueueStep::Remapped {
                block,
                from_device,
                from_sector,
            }) => {
                if let Some(task) = self.in_flight.remove(&(*from_device, *from_sector)) {
                    self.in_flight.insert((block.device, block.sector), task);
                }
            }
            EventKind::BlockComplete(block) => {
                self.complete_bios_and_begin_pause(event.time, event.cpu, block);
            }
            EventKind::Task {
                task,
                step: TaskStep::Waking,
            } => {
                self.woken.insert(event.cpu, *task);
                self.note_wake_up_of_pausing_task(event.time, *task);
            }
            EventKind::Wake {
                iowait: Some(iowait),
                ..
            } => self.count_io_wait_of_last_wake_up(event.cpu, *iowait),
            EventKind::Task {
                task,
                step: TaskStep::Running,
            } => self.restart_pause_stretch_when_task_runs(event.time, event.cpu, *task),
            EventKind::Lost { .. } => {
                self.in_flight.clear();
                self.flushes.clear();
                self.states.clear();
            }
            _ => {}
        }
    }

    /// Adds an idle period that ends at `time`.
    fn add_idle_period_ending_at(&mut self, time: u64, cpu: u32, period: &IdlePeriod) {
        let idle = self.idle.entry(cpu).or_default();
        idle.total = idle.total.saturating_add(period.duration.0);
        let start = time.saturating_sub(period.duration.0);
        idle.last = (start, time);
        let asked = start.saturating_sub(period.inputs.select_lead.unwrap_or(0).into());
        let told = period.inputs.sleep_length.and_then(|length| {
            let length = u64::try_from(length).ok()?;
            Some(asked.saturating_add(length))
        });
        idle.timer = told
            .filter(|told| (start..=time).contains(told))
            .unwrap_or(time);
    }

    /// Notes a bio that a task submits at a time on a CPU, which ends the task's pause. One without data is a flush.
    fn count_submitted_bio_and_end_pause(
        &mut self,
        (time, cpu): (Nanoseconds, u32),
        block: &Block,
        task: Option<u32>,
        background: bool,
        durability: Durability,
    ) {
        let has_data = block.bytes > 0;
        if background && has_data {
            self.profile.background += 1;
            return;
        }
        let Some(task) = task else {
            self.profile.unknown_submitter += 1;
            return;
        };
        let place = (block.device, block.sector);
        let is_known = self.profile.tasks.contains_key(&task);
        if (!is_known && self.profile.tasks.len() >= MAX_FOLLOWED)
            || self.in_flight.len() >= MAX_FOLLOWED
        {
            self.profile.not_followed += 1;
            return;
        }
        // A bio on a stacked device, such as LVM, is submitted a second time to the device below.
        let is_known = if has_data {
            self.in_flight.insert(place, task).is_some()
        } else {
            !self.flushes.begin_flush(block, task)
        };
        if is_known {
            return;
        }
        let state = self.states.entry(task).or_default();
        let io = self.profile.tasks.entry(task).or_default();
        state.in_flight += 1;
        if !has_data || (block.write && durability.flushes_first) {
            io.count_flush(std::mem::take(&mut state.writes_since_flush));
        }
        if has_data {
            if let Some(last) = state.last_request.replace(time.0) {
                io.intervals.add(time.0.saturating_sub(last));
            }
            io.most_in_flight = io.most_in_flight.max(state.in_flight);
            io.count_request_and_sequence(block, &mut state.next_sector);
            state.writes_since_flush += u64::from(block.write);
            io.forced_writes += u64::from(block.write && durability.is_forced);
        }
        if let Some(mut pause) = state.pause.take() {
            let idle = self.idle.get(&cpu).copied().unwrap_or_default();
            let last_run = self.last_runs.get(&pause.cpu).copied();
            pause.split_stretch_into_sleep_and_burst(task, time.0, cpu, idle, last_run);
            io.add_ended_pause(&pause, time.0, has_data);
            self.profile.shared_bursts += u64::from(pause.shared);
        }
    }

    /// Notes the completion of a request, perhaps with several bios inside; its task's pause may begin.
    fn complete_bios_and_begin_pause(&mut self, time: Nanoseconds, cpu: u32, block: &Block) {
        if block.bytes == 0
            && let Some(task) = self.flushes.end_flush(block)
        {
            self.count_ended_request(task, time, cpu);
            return;
        }
        let sectors = u64::from(block.bytes.div_ceil(512)).max(1);
        let first = (block.device, block.sector);
        let end = (block.device, block.sector.saturating_add(sectors));
        while let Some((&place, &task)) = self.in_flight.range(first..end).next() {
            self.in_flight.remove(&place);
            self.count_ended_request(task, time, cpu);
        }
    }

    /// Counts a task's request that completed on a CPU. The last one in flight begins the task's pause.
    fn count_ended_request(&mut self, task: u32, time: Nanoseconds, cpu: u32) {
        let Some(state) = self.states.get_mut(&task) else {
            return;
        };
        state.in_flight = state.in_flight.saturating_sub(1);
        if state.in_flight == 0 {
            // A polling task never sleeps, so its pause counts from the completion until the task is seen to run again.
            let idle_ns = self.idle.get(&cpu).map_or(0, |idle| idle.total);
            state.pause = Some(TaskPause::begin(time.0, cpu, idle_ns));
        }
    }

    /// Counts a wake-up of the task woken last on a CPU, if the task has not run since a completion.
    fn count_io_wait_of_last_wake_up(&mut self, cpu: u32, iowait: bool) {
        let Some(task) = self.woken.remove(&cpu) else {
            return;
        };
        let pause = self.states.get(&task).and_then(|state| state.pause);
        if let Some(io) = self.profile.tasks.get_mut(&task)
            && pause.is_some_and(|pause| !pause.ran)
        {
            io.io_waits[usize::from(iowait)] += 1;
        }
    }

    /// Notes that a wake-up of a task begins.
    fn note_wake_up_of_pausing_task(&mut self, time: Nanoseconds, task: u32) {
        let state = self.states.get_mut(&task);
        if let Some(pause) = state.and_then(|state| state.pause.as_mut()) {
            pause.waking = Some(time.0);
        }
    }

    /// Notes that a task runs again, after waiting for I/O or within its pause.
    fn restart_pause_stretch_when_task_runs(&mut self, time: Nanoseconds, cpu: u32, task: u32) {
        let idle = self.idle.get(&cpu).copied().unwrap_or_default();
        let state = self.states.get_mut(&task);
        if let Some(pause) = state.and_then(|state| state.pause.as_mut()) {
            let mut next = TaskPause::begin(time.0, cpu, idle.total);
            if pause.ran {
                let last_run = self.last_runs.get(&pause.cpu).copied();
                let until = pause.waking.unwrap_or(time.0);
                pause.split_stretch_into_sleep_and_burst(task, until, cpu, idle, last_run);
                let woken_up_ns = time.0.saturating_sub(until);
                next.asleep_ns = pause.asleep_ns.saturating_add(woken_up_ns);
                next.burst_ns = pause.burst_ns;
                next.after_sleep_ns = pause.after_sleep_ns;
                next.begun = pause.begun;
                next.timer = pause.timer;
                next.shared = pause.shared;
            }
            next.ran = true;
            *pause = next;
        }
        self.last_runs.insert(cpu, (task, time.0));
    }
}

impl TaskPause {
    fn begin(time: u64, cpu: u32, cpu_idle_ns_so_far: u64) -> Self {
        Self {
            begun: time,
            time,
            cpu,
            idle_ns: cpu_idle_ns_so_far,
            ran: false,
            waking: None,
            asleep_ns: 0,
            burst_ns: 0,
            after_sleep_ns: 0,
            timer: 0,
            shared: false,
        }
    }

    /// Divides the stretch of a pause up to `until` into sleep and CPU time.
    ///
    /// The task is on `cpu` now, whose idle time is `idle`. `last_run`: the last task seen on the CPU where the stretch
    /// began, and since when.
    fn split_stretch_into_sleep_and_burst(
        &mut self,
        task: u32,
        until: u64,
        cpu: u32,
        idle: CpuIdleTime,
        last_run: Option<(u32, u64)>,
    ) {
        let stretch = until.saturating_sub(self.time);
        let (start, end) = idle.last;
        let overlap = end.min(until).saturating_sub(start.max(self.time));
        let idle_ns = if cpu == self.cpu {
            let whole = idle.total.saturating_sub(self.idle_ns);
            whole.saturating_sub(end - start).saturating_add(overlap)
        } else {
            // The task came to another CPU, whose last idle period stands for the sleep.
            overlap
        };
        let idle_in_stretch = idle_ns.min(stretch);
        let cpu_ns = stretch - idle_in_stretch;
        if overlap > 0 {
            self.timer = idle.timer.clamp(self.time, until);
        }
        let after_idle_ns = if overlap > 0 {
            until.saturating_sub(end).min(cpu_ns)
        } else {
            0
        };
        if self.asleep_ns > 0 {
            self.after_sleep_ns = self.after_sleep_ns.saturating_add(cpu_ns);
        } else {
            self.after_sleep_ns = self.after_sleep_ns.saturating_add(after_idle_ns);
            self.burst_ns = self.burst_ns.saturating_add(cpu_ns - after_idle_ns);
        }
        self.asleep_ns = self.asleep_ns.saturating_add(idle_in_stretch);
        self.shared |= last_run
            .is_some_and(|(other, since)| other != task && (self.time..until).contains(&since));
    }
}

impl TaskIo {
    fn count_request_and_sequence(&mut self, block: &Block, next_sector: &mut [Option<u64>; 2]) {
        let size = RequestSize {
            write: block.write,
            bytes: block.bytes,
        };
        if self.sizes.len() < MAX_SIZES || self.sizes.contains_key(&size) {
            *self.sizes.entry(size).or_default() += 1;
        }
        let end = block
            .sector
            .saturating_add(u64::from(block.bytes.div_ceil(512)));
        let expected = next_sector[usize::from(block.write)].replace(end);
        if expected.is_none() && self.end_sector == 0 {
            self.first_sector = block.sector;
        }
        self.sequential += u64::from(expected == Some(block.sector));
        self.first_sector = self.first_sector.min(block.sector);
        self.end_sector = self.end_sector.max(end);
    }

    /// Counts a flush that comes after so many writes since the one before.
    fn count_flush(&mut self, writes: u64) {
        self.flushes += 1;
        let numbers = &mut self.writes_before_flushes;
        if numbers.len() < MAX_SIZES || numbers.contains_key(&writes) {
            *numbers.entry(writes).or_default() += 1;
        }
    }

    /// Adds a pause that is over at `now` to the task's totals. A CPU burst in which another task ran there counts as unknown.
    /// `before_data`: a request with data ended the pause, and no flush, whose burst belongs to that before the next request.
    fn add_ended_pause(&mut self, pause: &TaskPause, now: u64, before_data: bool) {
        self.pause_lengths.add(now.saturating_sub(pause.begun));
        if pause.asleep_ns > 0 {
            let since_asleep = pause.asleep_ns.saturating_add(pause.after_sleep_ns);
            let late = now.saturating_sub(pause.timer).min(since_asleep);
            self.pauses += 1;
            self.asleep_ns = self.asleep_ns.saturating_add(since_asleep - late);
            if self.lateness_ns.len() < MAX_LATENESSES {
                self.lateness_ns.push(late);
            }
        }
        if !pause.shared {
            self.burst_ns = self.burst_ns.saturating_add(pause.burst_ns);
            self.after_sleep_ns = self.after_sleep_ns.saturating_add(pause.after_sleep_ns);
            self.bursts += u64::from(before_data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::IdleInputs;

    const US: u64 = 1_000;

    fn read(sector: u64, bytes: u32) -> Block {
        Block {
            device: 1,
            sector,
            bytes,
            write: false,
        }
    }

    fn queued(block: Block, task: Option<u32>, background: bool) -> EventKind {
        EventKind::Queueing(QueueStep::Queued {
            block,
            task,
            background,
            durability: Durability::default(),
        })
    }

    fn idle(us: u64) -> EventKind {
        EventKind::Idle(IdlePeriod {
            duration: Nanoseconds(us * US),
            ..IdlePeriod::default()
        })
    }

    /// Collects events on CPU 0, given with their times in us.
    fn collect(events: &[(u64, EventKind)]) -> TaskIoProfile {
        let on_cpu_0: Vec<_> = events
            .iter()
            .map(|(time, kind)| (*time, 0, *kind))
            .collect();
        collect_on_cpus(&on_cpu_0)
    }

    /// Collects events with their times in us and their CPUs.
    fn collect_on_cpus(events: &[(u64, u32, EventKind)]) -> TaskIoProfile {
        let mut collector = TaskIoCollector::default();
        for (time, cpu, kind) in events {
            collector.collect_event(&Event {
                time: Nanoseconds(time * US),
                cpu: *cpu,
                kind: *kind,
            });
        }
        collector.profile
    }

    #[test]
    fn a_pause_is_sleep_and_cpu_time_before_and_after() {
        let task = 7;
        let step = TaskStep::Running;
        let profile = collect(&[
            (0, queued(read(0, 4096), Some(task), false)),
            (80, idle(70)),
            (82, EventKind::BlockComplete(read(0, 4096))),
            (85, EventKind::Task { task, step }),
            (400, idle(310)),
            (420, queued(read(8, 4096), Some(task), false)),
        ]);
        let io = &profile.tasks[&task];
        assert_eq!((io.pauses, io.asleep_ns), (1, 310 * US));
        let cpu_time = (io.bursts, io.burst_ns, io.after_sleep_ns);
        assert_eq!(cpu_time, (1, 5 * US, 20 * US));
        assert_eq!(
            (io.count_requests_in_direction(false), io.sequential),
            (2, 1)
        );
    }

    fn step(task: u32, step: TaskStep) -> EventKind {
        EventKind::Task { task, step }
    }

    #[test]
    fn a_wake_up_of_its_own_ends_a_stretch_of_the_pause() {
        let profile = collect(&[
            (0, queued(read(0, 4096), Some(7), false)),
            (82, EventKind::BlockComplete(read(0, 4096))),
            (85, step(7, TaskStep::Running)),
            // The task works for 15 us, and sleeps until another CPU wakes it at 400.
            (400, step(7, TaskStep::Waking)),
            (430, idle(330)),
            (440, step(7, TaskStep::Running)),
            (460, queued(read(8, 4096), Some(7), false)),
        ]);
        let io = &profile.tasks[&7];
        // The wake-up itself is no CPU time of the task.
        assert_eq!((io.pauses, io.asleep_ns), (1, 300 * US));
        assert_eq!(io.lateness_ns, [60 * US]);
        let cpu_time = (io.bursts, io.burst_ns, io.after_sleep_ns);
        assert_eq!(cpu_time, (1, 15 * US, 20 * US));
    }

    #[test]
    fn on_another_cpu_only_idle_time_within_the_pause_is_sleep() {
        let profile = collect_on_cpus(&[
            (0, 0, queued(read(0, 4096), Some(7), false)),
            (82, 0, EventKind::BlockComplete(read(0, 4096))),
            (85, 0, step(7, TaskStep::Running)),
            // CPU 1 was idle from 0 on, 75 us of that before the task ran.
            (135, 1, idle(135)),
            (150, 1, queued(read(8, 4096), Some(7), false)),
        ]);
        let io = &profile.tasks[&7];
        assert_eq!((io.pauses, io.asleep_ns), (1, 50 * US));
        assert_eq!((io.burst_ns, io.after_sleep_ns), (0, 15 * US));
    }

    #[test]
    fn a_sleep_ends_with_the_timer_and_not_with_the_exit() {
        let slept = EventKind::Idle(IdlePeriod {
            duration: Nanoseconds(310 * US),
            inputs: IdleInputs {
                sleep_length: Some(250 * US as i64),
                ..IdleInputs::default()
            },
            ..IdlePeriod::default()
        });
        let profile = collect(&[
            (0, queued(read(0, 4096), Some(7), false)),
            (82, EventKind::BlockComplete(read(0, 4096))),
            (85, step(7, TaskStep::Running)),
            (400, slept),
            (420, queued(read(8, 4096), Some(7), false)),
        ]);
        let io = &profile.tasks[&7];
        assert_eq!(
            (io.asleep_ns, &io.lateness_ns[..]),
            (250 * US, &[80 * US][..])
        );
        assert_eq!(io.least_usual_lateness_ns(), 80 * US);
    }

    #[test]
    fn a_task_whose_pauses_make_up_for_its_requests_keeps_a_rate() {
        let keeps = |next: fn(u64, u64) -> u64| {
            let (mut events, mut at) = (Vec::new(), 0);
            for number in 0..100 {
                let block = read(number * 8, 4096);
                let latency = 50 + number * 37 % 90;
                events.extend([
                    (at, queued(block, Some(7), false)),
                    (at + latency, EventKind::BlockComplete(block)),
                    (at + latency, step(7, TaskStep::Running)),
                ]);
                at = next(at, latency);
            }
            collect(&events).tasks[&7].keeps_rate()
        };
        assert!(keeps(|begun, _| begun + 1000));
        assert!(!keeps(|begun, latency| begun + latency + 500));
        assert!(!keeps(|begun, latency| begun + 2 * latency));
    }

    #[test]
    fn wake_ups_by_completions_tell_whether_the_task_waited_for_io() {
        let woken = |iowait| EventKind::Wake {
            target: 0,
            iowait: Some(iowait),
        };
        let profile = collect(&[
            (0, queued(read(0, 4096), Some(7), false)),
            (82, EventKind::BlockComplete(read(0, 4096))),
            (83, step(7, TaskStep::Waking)),
            (84, woken(false)),
            (85, step(7, TaskStep::Running)),
            // A timer's wake-up is none.
            (400, step(7, TaskStep::Waking)),
            (401, woken(true)),
            (402, step(7, TaskStep::Running)),
            (420, queued(read(8, 4096), Some(7), false)),
        ]);
        assert_eq!(profile.tasks[&7].io_waits, [1, 0]);
    }

    #[test]
    fn another_tasks_time_on_the_cpu_is_no_burst() {
        let profile = collect(&[
            (0, queued(read(0, 4096), Some(7), false)),
            (82, EventKind::BlockComplete(read(0, 4096))),
            (85, step(7, TaskStep::Running)),
            (100, step(8, TaskStep::Running)),
            (900, queued(read(8, 4096), Some(7), false)),
        ]);
        let io = &profile.tasks[&7];
        assert_eq!((io.bursts, io.burst_ns, profile.shared_bursts), (0, 0, 1));
    }

    #[test]
    fn tasks_beyond_the_most_are_counted() {
        let mut events: Vec<(u64, EventKind)> = Vec::new();
        for task in 0..=MAX_FOLLOWED as u32 {
            let block = read(u64::from(task) * 8, 4096);
            events.push((0, queued(block, Some(task), false)));
            events.push((0, EventKind::Lost { count: 1 }));
        }
        let profile = collect(&events);
        assert_eq!(
            (profile.tasks.len(), profile.not_followed),
            (MAX_FOLLOWED, 1)
        );
    }

    #[test]
    fn bios_that_were_merged_complete_together() {
        let bios = [0, 8, 16].map(|sector| (0, queued(read(sector, 4096), Some(1), false)));
        let complete = (50, EventKind::BlockComplete(read(0, 3 * 4096)));
        let next = (60, queued(read(24, 4096), Some(1), false));
        let profile = collect(&[&bios[..], &[complete, next]].concat());
        let io = &profile.tasks[&1];
        assert_eq!((io.most_in_flight, io.bursts), (3, 1));
    }

    #[test]
    fn requests_without_a_waiting_task_are_counted_apart() {
        let profile = collect(&[
            (0, queued(read(0, 4096), Some(1), true)),
            (1, queued(read(8, 4096), None, false)),
        ]);
        assert!(profile.tasks.is_empty());
        let counts = [profile.background, profile.unknown_submitter];
        assert_eq!(counts, [1, 1]);
    }

    #[test]
    fn flushes_are_requests_and_no_pauses() {
        let write = |sector| Block {
            write: true,
            ..read(sector, 4096)
        };
        let flush = Block {
            write: true,
            ..read(0, 0)
        };
        let mut events = Vec::new();
        for round in 0..3 {
            let (at, sector) = (round * 1000, round * 8);
            events.extend([
                (at, queued(write(sector), Some(7), false)),
                (at + 80, idle(70)),
                (at + 82, EventKind::BlockComplete(write(sector))),
                (at + 85, step(7, TaskStep::Running)),
                (at + 90, queued(flush, Some(7), false)),
                (at + 700, idle(600)),
                (at + 702, EventKind::BlockComplete(flush)),
                (at + 705, step(7, TaskStep::Running)),
            ]);
        }
        let profile = collect(&events);
        let io = &profile.tasks[&7];
        assert_eq!((io.flushes, io.forced_writes, io.pauses), (3, 0, 0));
        assert_eq!(io.writes_before_flushes, BTreeMap::from([(1, 3)]));
        // 5 us before each flush, and 295 before each write but the first.
        assert_eq!((io.bursts, io.burst_ns), (2, (3 * 5 + 2 * 295) * US));
    }

    #[test]
    fn a_write_may_flush_first_and_be_forced() {
        let commit = QueueStep::Queued {
            block: Block {
                write: true,
                ..read(8, 4096)
            },
            task: Some(7),
            background: false,
            durability: Durability {
                flushes_first: true,
                is_forced: true,
            },
        };
        let profile = collect(&[(0, EventKind::Queueing(commit))]);
        let io = &profile.tasks[&7];
        let counts = (
            io.flushes,
            io.forced_writes,
            io.count_requests_in_direction(true),
        );
        assert_eq!(counts, (1, 1, 1));
    }
}
