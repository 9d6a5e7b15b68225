//! Makes a recording from the decoded events of a foreign trace.

use std::collections::HashMap;

use wakepath_units::{Kilohertz, Nanoseconds, TickRate};

use super::decode::{ShortName, TraceEvent};
use super::options::{ImportOptions, Imported};
use super::problem::{ImportProblem, refuse_cpu_beyond_limit};
use super::seen::SeenEvents;
use super::tick::TickLearner;
use super::timers::TimersOfCpus;
use crate::recording::{
    Block, Event, EventKind, IdleInputs, IdlePairs, Interrupt, Metadata, QueueStep, TaskStep,
    TimerKind, Writer,
};

/// A gap in time this long, without any event, is taken for a jump of the trace's clock.
const LONG_GAP_NS: u64 = 600_000_000_000;
/// Number of events between two reports of progress.
const PROGRESS_EVERY: u64 = 1 << 16;
/// Limit on the events held back until the tick is known. A kernel shows the tick within some milliseconds.
const MAX_HELD: usize = 1 << 16;
/// Limit on the followed tasks: the kernel's largest thread number (`PID_MAX_LIMIT`).
const MAX_TASKS: usize = 1 << 22;
const IDLE_EXIT: u32 = u32::MAX;

pub(super) struct RecordingBuilder<'a> {
    writer: &'a mut Writer,
    /// Description from the current file; earlier files may have given other facts.
    metadata: Metadata,
    options: ImportOptions,
    progress: &'a mut dyn FnMut(u64),
    pub(super) source: String,
    names: HashMap<String, usize>,
    counts: Vec<(String, u64)>,
    events: u64,
    /// Number of trace events that recordings have no use for.
    others: u64,
    tick: TickLearner,
    /// Whether the tick's handler or rate is still being learnt.
    learning: bool,
    /// Events from before the tick is known, held back; `None` once it is known.
    held: Option<Vec<HeldItem>>,
    /// Time from which the tick's handler is known; 0 if known from the start.
    handler_since: Option<u64>,
    /// Time from which the tick's rate is known; 0 if known from the start.
    rate_since: Option<u64>,
    pairs: IdlePairs,
    timers: TimersOfCpus,
    /// The CPU on which each task that is blocked ran last.
    blocked: HashMap<u32, u32>,
    iowaiters: HashMap<u32, u32>,
    /// Tasks that did I/O or were blocked, and whether each was woken and did not run since.
    io_tasks: HashMap<u32, bool>,
    /// The task that runs on each CPU.
    running: HashMap<u32, (u32, ShortName)>,
    last: HashMap<u32, u64>,
    latest: Option<u64>,
    /// Whether each CPU came online (`true`) or went offline in its last hotplug step.
    online: HashMap<u32, bool>,
    highest_cpu: Option<u32>,
    seen: SeenEvents,
}

/// An item held back until the tick is known.
#[derive(Clone, Copy)]
struct HeldItem {
    time: u64,
    cpu: u32,
    item: HeldItemKind,
}

#[derive(Clone, Copy)]
enum HeldItemKind {
    Event(TraceEvent),
    /// A trace event that recordings have no use for.
    Other,
    Lost(Option<u64>),
}

impl<'a> RecordingBuilder<'a> {
    pub(super) fn new(
        writer: &'a mut Writer,
        options: ImportOptions,
        progress: &'a mut dyn FnMut(u64),
    ) -> Self {
        Self {
            writer,
            metadata: Metadata::default(),
            options,
            progress,
            source: String::new(),
            names: HashMap::new(),
            counts: Vec::new(),
            events: 0,
            others: 0,
            tick: TickLearner::default(),
            learning: true,
            held: Some(Vec::new()),
            handler_since: None,
            rate_since: None,
            pairs: IdlePairs::new(false),
            timers: TimersOfCpus::new(options.hz.unwrap_or_default()),
            blocked: HashMap::new(),
            iowaiters: HashMap::new(),
            io_tasks: HashMap::new(),
            running: HashMap::new(),
            last: HashMap::new(),
            latest: None,
            online: HashMap::new(),
            highest_cpu: None,
            seen: SeenEvents::default(),
        }
    }

    pub(super) fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Index of the counter for events with this name.
    pub(super) fn counter_index_or_new(&mut self, name: &str) -> usize {
        if let Some(index) = self.names.get(name) {
            return *index;
        }
        self.counts.push((name.to_owned(), 0));
        self.names.insert(name.to_owned(), self.counts.len() - 1);
        self.counts.len() - 1
    }

    /// Takes an event traced by `cpu`, and counts it. `decoded`: the event, if recordings need it.
    pub(super) fn count_and_add_event(
        &mut self,
        time: u64,
        cpu: u32,
        counter: usize,
        decoded: Option<TraceEvent>,
    ) -> Result<(), ImportProblem> {
        if let Some((_, count)) = self.counts.get_mut(counter) {
            *count += 1;
        }
        self.events += 1;
        if self.events.is_multiple_of(PROGRESS_EVERY) {
            (self.progress)(self.events);
        }
        let item = match decoded {
            Some(event) => HeldItemKind::Event(event),
            None => HeldItemKind::Other,
        };
        self.learn_tick_and_hold_until_known(HeldItem { time, cpu, item })
    }

    /// Notes that the trace lacks `count` events on `cpu` before `time`; `None`: an unknown number.
    pub(super) fn note_lost_events(
        &mut self,
        time: u64,
        cpu: u32,
        count: Option<u64>,
    ) -> Result<(), ImportProblem> {
        let item = HeldItemKind::Lost(count);
        self.learn_tick_and_hold_until_known(HeldItem { time, cpu, item })
    }

    /// Learns the tick from an event, and holds all events back until the tick is known.
    fn learn_tick_and_hold_until_known(&mut self, next: HeldItem) -> Result<(), ImportProblem> {
        if self.learning {
            self.learn_tick_and_note_since_when(next);
            self.learning = !self.tick.has_learnt_enough();
        }
        let Some(held) = &mut self.held else {
            return self.write_item(next);
        };
        held.push(next);
        if !self.learning || held.len() >= MAX_HELD {
            return self.write_held_items();
        }
        Ok(())
    }

    fn learn_tick_and_note_since_when(&mut self, next: HeldItem) {
        match next.item {
            HeldItemKind::Event(what) => self.tick.learn_from_event(next.cpu, what),
            HeldItemKind::Lost(_) => self.tick.forget_cpu(next.cpu),
            HeldItemKind::Other => return,
        }
        if self.held.is_none() {
            if self.handler_since.is_none() && self.tick.knows_handler_function() {
                self.handler_since = Some(next.time);
            }
            if self.rate_since.is_none() && self.tick.rate_of_shortest_frequent_step().is_some() {
                self.rate_since = Some(next.time);
            }
            self.pass_tick_rate_to_timers();
        }
    }

    fn pass_tick_rate_to_timers(&mut self) {
        let rate = self
            .options
            .hz
            .or(self.tick.rate_of_shortest_frequent_step());
        self.timers.set_tick_rate(rate.unwrap_or_default());
    }

    /// Processes all items held back, whether the tick is known or not.
    fn write_held_items(&mut self) -> Result<(), ImportProblem> {
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        self.handler_since = self.tick.knows_handler_function().then_some(0);
        self.rate_since = self.tick.rate_of_shortest_frequent_step().map(|_| 0);
        self.pass_tick_rate_to_timers();
        held.into_iter().try_for_each(|next| self.write_item(next))
    }

    fn write_item(&mut self, next: HeldItem) -> Result<(), ImportProblem> {
        let HeldItem { time, cpu, item } = next;
        if let HeldItemKind::Lost(count) = item {
            return self.write_loss_and_forget_cpu(time, cpu, count);
        }
        self.highest_cpu = self.highest_cpu.max(Some(cpu));
        self.warn_of_clock_jump_or_gap(time, cpu)?;
        let [first, last] = self.metadata.span_ns.unwrap_or([time, time]);
        self.metadata.span_ns = Some([first.min(time), last.max(time)]);
        if let HeldItemKind::Event(what) = item {
            let what = self.tick.mark_tick_handler(what);
            return self.write_as_recording_events(time, cpu, what);
        }
        self.others += 1;
        Ok(())
    }

    fn write_loss_and_forget_cpu(
        &mut self,
        time: u64,
        cpu: u32,
        count: Option<u64>,
    ) -> Result<(), ImportProblem> {
        let metadata = &mut self.metadata;
        metadata.lost_events = metadata.lost_events.saturating_add(count.unwrap_or(0));
        metadata.add_or_count_warning("lost-events", || {
            format!(
                "the trace lacks events of CPU {cpu} from before {time} ns; its idle periods at such \
                 places are left out. A bigger buffer (trace-cmd record -b, perf record -m) helps"
            )
        });
        self.pairs.forget_cpu(cpu);
        let count = count.unwrap_or(0);
        self.write_recording_event(time, cpu, EventKind::Lost { count })
    }

    fn warn_of_clock_jump_or_gap(&mut self, time: u64, cpu: u32) -> Result<(), ImportProblem> {
        let last = self.last.insert(cpu, time);
        if let Some(last) = last
            && time < last
        {
            self.metadata.add_or_count_warning("clock-jump", || {
                format!(
                    "the clock of CPU {cpu} goes back from {last} to {time} ns; the idle period at \
                     that place is left out. The mono clock (trace-cmd record -C mono, perf record -k \
                     mono) does not jump"
                )
            });
            self.pairs.forget_cpu(cpu);
            self.write_recording_event(time, cpu, EventKind::Lost { count: 0 })?;
        }
        if let Some(latest) = self.latest
            && time.saturating_sub(latest) > LONG_GAP_NS
        {
            self.metadata.add_or_count_warning("clock-gap", || {
                format!(
                    "no event for {} s before {time} ns; the machine slept or its clock jumped",
                    (time - latest) / 1_000_000_000
                )
            });
        }
        self.latest = self.latest.max(Some(time));
        Ok(())
    }

    fn write_recording_event(
        &mut self,
        time: u64,
        cpu: u32,
        kind: EventKind,
    ) -> Result<(), ImportProblem> {
        let time = Nanoseconds(time);
        refuse_cpu_beyond_limit(cpu)?;
        Ok(self.writer.add_event(&Event { time, cpu, kind })?)
    }

    /// Writes a trace's event as the events of a recording that it stands for.
    fn write_as_recording_events(
        &mut self,
        time: u64,
        cpu: u32,
        what: TraceEvent,
    ) -> Result<(), ImportProblem> {
        self.timers.update_from_event(time, cpu, what);
        match what {
            TraceEvent::CpuIdle { state, cpu } => self.pair_idle_entry_or_exit(time, cpu, state),
            TraceEvent::Switch {
                previous,
                blocked,
                next,
                next_name,
            } => {
                let blocked_task = (blocked && previous != 0).then_some(previous);
                self.note_task_switch(cpu, blocked_task, (next, next_name));
                self.write_running_step_if_woken(time, cpu, next, next_name)
            }
            TraceEvent::Wake {
                pid,
                target,
                waking,
            } if waking || !self.seen.waking => {
                self.write_first_wake_up_event(time, cpu, pid, target, waking)
            }
            // sched_wakeup follows sched_waking, perhaps on another CPU.
            TraceEvent::Wake { pid, target, .. } => {
                self.write_wake_up_steps_of_io_task(time, cpu, pid, Some(target))
            }
            TraceEvent::Block { complete, block } => {
                self.seen.block = true;
                self.write_recording_event(time, cpu, issue_or_completion_event(block, complete))
            }
            TraceEvent::Queueing { step, background } => {
                self.seen.queueing |= matches!(step, QueueStep::Queued { .. });
                let step = self.add_running_task_to_queued_bio(cpu, step, background);
                self.write_recording_event(time, cpu, EventKind::Queueing(step))
            }
            TraceEvent::DeviceInterrupt { irq, name } => {
                self.keep_interrupt_name(irq, name);
                self.write_recording_event(
                    time,
                    cpu,
                    EventKind::Interrupt(Interrupt::Device { irq }),
                )
            }
            TraceEvent::Interrupt(interrupt) => {
                let sends = matches!(interrupt, Interrupt::Sent { .. } | Interrupt::Stored { .. });
                self.seen.ipis |= sends;
                self.write_recording_event(time, cpu, EventKind::Interrupt(interrupt))
            }
            TraceEvent::Frequency { khz, cpu } => {
                self.seen.frequency = true;
                self.write_recording_event(time, cpu, EventKind::Frequency(Kilohertz(khz)))
            }
            TraceEvent::TimerExpire { function, .. } => {
                self.seen.timers = true;
                self.write_recording_event(time, cpu, EventKind::Timer(function.timer_kind()))
            }
            TraceEvent::WheelExpire { .. } => {
                self.seen.timers = true;
                self.write_recording_event(time, cpu, EventKind::Timer(TimerKind::Wheel))
            }
            TraceEvent::Hotplug { cpu, online } => {
                self.write_hotplug_if_direction_changes(time, cpu, online)
            }
            _ => Ok(()),
        }
    }

    /// Notes that a CPU goes from one task to another. `blocked`: the old task, if waiting for I/O.
    fn note_task_switch(&mut self, cpu: u32, blocked: Option<u32>, next: (u32, ShortName)) {
        self.seen.switches = true;
        self.pairs.expect_note_of_every_task();
        if next.0 != 0 {
            self.pairs.note_task_ran(cpu);
        }
        if let Some(task) = blocked
            && self.blocked.insert(task, cpu).is_none()
        {
            *self.iowaiters.entry(cpu).or_default() += 1;
            self.follow_wake_ups_of_task(task);
        }
        self.running.insert(cpu, next);
    }

    /// Writes a task's wake-up at the first of the kernel's two events for it (`sched_waking`, `sched_wakeup`).
    fn write_first_wake_up_event(
        &mut self,
        time: u64,
        cpu: u32,
        task: u32,
        target: u32,
        waking: bool,
    ) -> Result<(), ImportProblem> {
        self.seen.waking |= waking;
        self.write_wake_up_steps_of_io_task(time, cpu, task, (!waking).then_some(target))?;
        let iowait = self.end_wait_and_tell_if_iowait(task);
        self.write_recording_event(time, cpu, EventKind::Wake { target, iowait })
    }

    /// Ends the waiting of a task that is being woken. Returns whether the task waited for I/O, if known.
    fn end_wait_and_tell_if_iowait(&mut self, task: u32) -> Option<bool> {
        self.seen.wakes = true;
        let waited_on = self.blocked.remove(&task);
        if let Some(waiters) = waited_on.and_then(|cpu| self.iowaiters.get_mut(&cpu)) {
            *waiters = waiters.saturating_sub(1);
        }
        self.seen.switches.then_some(waited_on.is_some())
    }

    /// Keeps the name of a device's interrupt.
    fn keep_interrupt_name(&mut self, irq: u32, name: ShortName) {
        self.seen.interrupts = true;
        if let Some(name) = name.text_if_any() {
            self.metadata.keep_first_interrupt_name(irq, &name);
        }
    }

    /// Follows a task with I/O from now on, so that its wake-ups are written.
    fn follow_wake_ups_of_task(&mut self, task: u32) {
        if task != 0 && self.io_tasks.len() < MAX_TASKS {
            self.io_tasks.entry(task).or_default();
        }
    }

    /// Adds the submitter to a bio's first step: the task that runs on the CPU.
    fn add_running_task_to_queued_bio(
        &mut self,
        cpu: u32,
        mut step: QueueStep,
        background: bool,
    ) -> QueueStep {
        if let QueueStep::Queued {
            task: submitter,
            background: is_background,
            ..
        } = &mut step
        {
            let running = self.running.get(&cpu).copied();
            let running_task = running.filter(|(task, _)| *task != 0);
            if let Some((task, name)) = running_task {
                self.follow_wake_ups_of_task(task);
                if let Some(name) = name.text_if_any() {
                    self.metadata.keep_latest_task_name(task, &name);
                }
            }
            *submitter = running_task.map(|(task, _)| task);
            *is_background = background;
        }
        step
    }

    /// Writes steps in the wake-up of a task known to wait for I/O. `target`: run queue's CPU, from `sched_wakeup`
    /// only.
    fn write_wake_up_steps_of_io_task(
        &mut self,
        time: u64,
        cpu: u32,
        task: u32,
        target: Option<u32>,
    ) -> Result<(), ImportProblem> {
        let Some(woken) = self.io_tasks.get_mut(&task) else {
            return Ok(());
        };
        let begun = std::mem::replace(woken, true);
        if target.is_none() || !begun {
            let step = TaskStep::Waking;
            self.write_recording_event(time, cpu, EventKind::Task { task, step })?;
        }
        let Some(target) = target else {
            return Ok(());
        };
        let step = TaskStep::Woken { target };
        self.write_recording_event(time, cpu, EventKind::Task { task, step })
    }

    /// Notes that a task begins to run, and writes that step if the task waited for I/O.
    fn write_running_step_if_woken(
        &mut self,
        time: u64,
        cpu: u32,
        task: u32,
        name: ShortName,
    ) -> Result<(), ImportProblem> {
        let Some(woken) = self.io_tasks.get_mut(&task) else {
            return Ok(());
        };
        if !std::mem::take(woken) {
            return Ok(());
        }
        if let Some(name) = name.text_if_any() {
            self.metadata.keep_latest_task_name(task, &name);
        }
        let step = TaskStep::Running;
        self.write_recording_event(time, cpu, EventKind::Task { task, step })
    }

    fn pair_idle_entry_or_exit(
        &mut self,
        time: u64,
        cpu: u32,
        state: u32,
    ) -> Result<(), ImportProblem> {
        self.seen.idle = true;
        self.highest_cpu = self.highest_cpu.max(Some(cpu));
        if state == IDLE_EXIT {
            return match self.pairs.end_idle_period(cpu, Nanoseconds(time)) {
                Some(event) => {
                    refuse_cpu_beyond_limit(event.cpu)?;
                    Ok(self.writer.add_event(&event)?)
                }
                None => Ok(()),
            };
        }
        let state = u8::try_from(state)
            .ok()
            .filter(|state| usize::from(*state) < wakepath_hardware::idle::MAX_STATES)
            .ok_or_else(|| {
                format!(
                    "CPU {cpu} enters idle state {state} at {time} ns, and a cpuidle driver has at \
                     most {}; the trace is damaged",
                    wakepath_hardware::idle::MAX_STATES
                )
            })?;
        let seen = self.timers.take_timer_inputs_at_idle_entry(time, cpu);
        let inputs = IdleInputs {
            sleep_length: seen.sleep_length,
            inferred: seen.sleep_length.is_some(),
            delta_tick: seen.delta_tick,
            tick_stopped: seen.tick_stopped,
            iowaiters: self
                .seen
                .switches
                .then(|| self.iowaiters.get(&cpu).copied().unwrap_or(0)),
            ..IdleInputs::default()
        };
        let now = Nanoseconds(time);
        self.pairs
            .note_governor_call(cpu, now, inputs, seen.stop_tick);
        self.pairs.note_idle_entry(cpu, now, state);
        Ok(())
    }

    /// Handles a hotplug step. `cpuhp_enter` comes once per step, and the first step counts.
    fn write_hotplug_if_direction_changes(
        &mut self,
        time: u64,
        cpu: u32,
        online: bool,
    ) -> Result<(), ImportProblem> {
        if self.online.insert(cpu, online) == Some(online) {
            return Ok(());
        }
        self.pairs.forget_cpu(cpu);
        self.metadata_mut()
            .warn_of_hotplug(cpu, Nanoseconds(time), online);
        self.write_recording_event(time, cpu, EventKind::Hotplug { online })
    }

    /// Ends the import of a file: completes the recording's metadata, and returns what was imported.
    pub(super) fn finish_import(mut self) -> Result<Imported, ImportProblem> {
        self.write_held_items()?;
        if !self.seen.idle && !self.seen.block {
            return Err(self.explain_nothing_to_replay().into());
        }
        self.warn_of_unpaired_idle_events();
        self.warn_of_unknown_or_other_tick_rate();
        let any_timer = self.timers.any_timer;
        let recorded = self
            .seen
            .quality_of_recorded_facts(&self.timers, self.metadata.recorded);
        let cpus = self.highest_cpu.map_or(0, |cpu| cpu.saturating_add(1));
        let metadata = &mut self.metadata;
        metadata.source.clone_from(&self.source);
        metadata.hz = self
            .options
            .hz
            .or(self.tick.rate_of_shortest_frequent_step())
            .map(TickRate::hz);
        metadata.cpus = metadata.cpus.max(cpus);
        metadata.recorded = recorded;
        if !self.seen.idle {
            metadata.add_or_count_warning("no-idle", || {
                "no idle events, so that only its drives can be replayed; record with -e power:cpu_idle, too"
                    .to_owned()
            });
        } else if !any_timer {
            metadata.add_or_count_warning("no-timers", || {
                "no timer events, so the sleep lengths that the governor saw are not known, and a \
                 replay is approximate; record with -e timer, see docs/guides/replay.md"
                    .to_owned()
            });
        }
        let mut counts = self.counts;
        counts.sort_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
        metadata.other_events = self.others;
        let so_far = self.writer.metadata_mut();
        self.options
            .refuse_or_warn_of_other_machine(so_far, &self.metadata)?;
        so_far.append_part(self.metadata);
        Ok(Imported {
            source: self.source,
            counts,
        })
    }

    /// Says why a trace with neither idle events nor block requests is refused.
    fn explain_nothing_to_replay(&self) -> String {
        let names: Vec<&str> = self
            .counts
            .iter()
            .map(|(n, _)| n.as_str())
            .take(5)
            .collect();
        let found = if names.is_empty() {
            "no events at all".to_owned()
        } else {
            format!("{} events, such as {}", self.events, names.join(", "))
        };
        format!(
            "no idle events and no block requests, without which nothing can be replayed ({found}); record with -e \
             power:cpu_idle, see docs/guides/replay.md"
        )
    }

    /// Warns if the tick's rate or handler is unknown or was learnt late, and timers depend on it.
    fn warn_of_unknown_or_other_tick_rate(&mut self) {
        let (given, found) = (self.options.hz, self.tick.rate_of_shortest_frequent_step());
        let assumed = TickRate::default().hz();
        let metadata = &mut self.metadata;
        if self.tick.any_address && self.handler_since != Some(0) {
            metadata.add_or_count_warning("unknown-tick", || {
                let since = match self.handler_since {
                    Some(time) => format!("which function is the tick only from {time} ns on. Until then"),
                    None => "which function is the tick. So".to_owned(),
                };
                format!(
                    "the trace has addresses of functions instead of names and does not show {since} each tick \
                     counts as a timer, and sleep lengths are too short. Record with -e timer, or import the \
                     text of perf script made on the recorded machine"
                )
            });
        }
        if !self.timers.any_timer {
            return;
        }
        match (given, found) {
            (None, _) if self.rate_since != Some(0) => metadata.add_or_count_warning("no-hz", || {
                let until = match (self.rate_since, found) {
                    (Some(time), Some(found)) => {
                        format!("before {time} ns, where its tick shows {} Hz", found.hz())
                    }
                    _ => "and sleep lengths are wrong if it had another".to_owned(),
                };
                format!(
                    "the trace does not show the tick rate of its machine; {assumed} Hz are assumed, {until}. \
                     --hz sets it (CONFIG_HZ in /boot/config-* of that machine)"
                )
            }),
            (Some(given), Some(found)) if given != found => metadata.add_or_count_warning("other-hz", || {
                format!(
                    "--hz says {} ticks a second, and the trace shows {}; {} are taken, and sleep lengths are \
                     wrong if that is not so. Without --hz, what the trace shows is taken",
                    given.hz(),
                    found.hz(),
                    given.hz()
                )
            }),
            _ => {}
        }
    }

    fn warn_of_unpaired_idle_events(&mut self) {
        let counts = self.pairs.pair_counts();
        let metadata = &mut self.metadata;
        for (name, count, text) in [
            (
                "missing-entry",
                counts.missing_entries,
                "idle states were left that were not entered; events are missing",
            ),
            (
                "missing-exit",
                counts.missing_exits,
                "idle states were entered twice without being left; events are missing",
            ),
        ] {
            for _ in 0..count.min(1) {
                metadata.add_or_count_warning(name, || text.to_owned());
            }
            if let Some(warning) = metadata.warnings.iter_mut().find(|w| w.name == name) {
                warning.count = count;
            }
        }
    }
}

/// The issue or completion of a block request.
fn issue_or_completion_event(block: Block, complete: bool) -> EventKind {
    if complete {
        EventKind::BlockComplete(block)
    } else {
        EventKind::BlockIssue(block)
    }
}
