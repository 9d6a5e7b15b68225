//! Follows all tasks through a recording's events in order of time: who runs where, and for how long.

use std::collections::{BTreeMap, BTreeSet};

use super::exits::ExitLatencies;
use super::idle_spans::{IdleSpan, IdleSpans};
use super::interruption::Interruption;
use super::kept_ticks::KeptTicks;
use super::loops::{FollowedTask, make_loops};
use super::observed::{MAX_OBSERVED_STEPS, MAX_OBSERVED_TASKS, ObservedRun, ObservedTasks};
use super::requests_in_flight::RequestsInFlight;
use super::submissions::Submissions;
use super::task_state::TaskState;
use super::write_pools::WritePools;
use crate::flushes_in_flight::FlushesInFlight;
use crate::recording::{Event, EventKind, Metadata, QueueStep, TaskStep};

/// Names of RCU's grace-period thread, on preemptible kernels and others.
const GRACE_PERIOD_THREADS: [&str; 2] = ["rcu_preempt", "rcu_sched"];

/// State of a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuState {
    /// The task that runs, and since when in ns.
    pub(super) running: Option<(u32, u64)>,
    pub(super) khz: Option<u32>,
    /// The last interrupt that explains no wake-up so far, with its time in ns.
    pub(super) interruption: Option<(u64, Interruption)>,
    /// The task whose wake-up was seen last.
    pub(super) woken: Option<u32>,
}

/// Follows tasks through the events of a recording.
pub(super) struct TaskFollower<'a> {
    pub(super) idle: &'a IdleSpans,
    pub(super) cpus: BTreeMap<u32, CpuState>,
    pub(super) tasks: BTreeMap<u32, TaskState>,
    pub(super) in_flight: RequestsInFlight,
    pub(super) flushes: FlushesInFlight,
    submissions: Submissions,
    pub(super) devices: BTreeSet<u32>,
    kept_ticks: KeptTicks,
    /// Whether number 0 is a task, as in simulated recordings, and no idle task.
    has_task_zero: bool,
    pub(super) exits: ExitLatencies,
    pub(super) pools: WritePools,
    /// Number of CPUs in the machine; 0 if unknown.
    machine_cpus: u32,
    pub(super) steps: usize,
    /// End of the part that is used, in ns.
    end: u64,
    pub(super) observed: ObservedTasks,
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
    pub(super) fn stop_task_if_cpu_went_idle(&mut self, cpu: u32, now: u64) {
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
    pub(super) fn cut_burst(&mut self, cpu: u32, time: u64) {
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
    pub(super) fn task_state(&mut self, task: u32) -> Option<&mut TaskState> {
        if !self.tasks.contains_key(&task) && self.tasks.len() >= MAX_OBSERVED_TASKS {
            return None;
        }
        Some(self.tasks.entry(task).or_default())
    }

    /// Notes that a CPU begins to run a task.
    pub(super) fn switch_to_task(&mut self, time: u64, cpu: u32, task: u32) {
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
        let mut grace_period_cpu = None;
        for (number, state) in self.tasks {
            if is_grace_period_thread(names.get(&number)) && !state.items.is_empty() {
                grace_period_cpu = grace_period_cpu.or(Some(state.items.first_cpu));
            }
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
            grace_period_cpu,
            submission: self.submissions.into_median(),
            ..self.observed
        }
    }
}

fn is_grace_period_thread(name: Option<&String>) -> bool {
    name.is_some_and(|name| GRACE_PERIOD_THREADS.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use wakepath_units::Nanoseconds;

    use super::super::observed::ObservedStep;
    use super::*;
    use crate::recording::{Block, Durability};

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
