//! Requests followed through the events of a recording.

mod behind_flush;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use wakepath_trace::recording::{
    Block, ClockCycles, DataQuality, Event, EventKind, Interrupt, Metadata, OpenIdlePeriod,
    QueueStep, Reader, RecordingError, TaskStep,
};

use crate::clock::ClockMeter;
use crate::cpu::{
    CompletingInterrupts, Cpu, HANDLER_NS, MAX_PENDING, Pending, PendingRemote, Sender,
    resolve_met_state,
};
use crate::cpu_interrupts::CpuInterrupts;
use crate::flushes::key_in_flight;
use crate::groups::{CpuGroups, GroupKind};
use crate::in_flight::{CompletedFlush, Completion, Device, Issue};
use crate::lateness::LatenessTotals;
use crate::order::Sorter;
use crate::period::{Period, find_late_timer_exit};
use crate::queueing::{Queues, is_flush_bio};
use crate::requests::{
    Collected, Coverage, Hop, MAX_REQUESTS, MetState, NeighbourState, Notification, RequestLog,
    TracedRequest,
};
use crate::wakeups::{WakeUps, start_way_to_task};

/// Requests without a completion that are remembered; a truncated recording may have any number.
const MAX_OUTSTANDING: usize = 1 << 20;
/// CPUs from this number on, and devices beyond so many, are damage: Linux has at most 8,192 CPUs (`NR_CPUS` of x86).
const MAX_NUMBER: u32 = 1 << 16;
/// Idle states from this index on are damage (`CPUIDLE_STATE_MAX`).
const MAX_STATES: u8 = 10;
/// How long after its completion a request may still gain parts, such as the wait of its task in a run queue. Assumed.
const SETTLE_NS: u64 = 500_000_000;
/// Other CPUs of a core at most: Power has eight in all.
const MAX_SIBLINGS: usize = 7;

/// Follows requests through events, which come nearly in the order of time.
#[derive(Default)]
pub struct Collector {
    sorter: Sorter,
    cpus: HashMap<u32, Cpu>,
    interrupts: CompletingInterrupts,
    devices: HashMap<u32, Device>,
    outstanding: HashMap<(u32, u64, bool), Issue>,
    queues: Queues,
    wake_ups: WakeUps,
    /// By CPU: the other CPUs of the same core (SMT siblings).
    siblings: HashMap<u32, Vec<u32>>,
    /// The idle periods in which CPUs are, or were at the end; entries into states are noted for all CPUs.
    entries_are_known: bool,
    clusters: CpuGroups,
    packages: CpuGroups,
    /// Indices of idle states in which the CPU spins, and so runs.
    polling: BTreeSet<u8>,
    /// Interrupts that no device raises.
    cpu_interrupts: CpuInterrupts,
    lateness: LatenessTotals,
    /// Indices of idle states in which the CPU's own timer stops: their lateness has another CPU's part.
    timer_stops: BTreeSet<u8>,
    clocks: ClockMeter,
    /// The recording has the steps of waiting tasks, so that plain wake-up events add nothing.
    tasks_known: bool,
    requests: RequestLog,
    coverage: Coverage,
    /// Time of the latest event.
    latest: u64,
}

impl Collector {
    /// A collector for a recording with this description. The default fits schema 1.
    pub fn new(metadata: &Metadata) -> Self {
        let mut siblings: HashMap<u32, Vec<u32>> = HashMap::new();
        for core in &metadata.siblings {
            for cpu in core {
                let others = core.iter().copied().filter(|other| other != cpu);
                siblings
                    .entry(*cpu)
                    .or_default()
                    .extend(others.take(MAX_SIBLINGS));
            }
        }
        let groups = metadata.idle_states.iter();
        let states = groups.flat_map(|group| (0..MAX_STATES).zip(&group.states));
        let polling = states.clone().filter(|(_, state)| state.polling);
        let stops = states.filter(|(_, state)| metadata.timer_stops.contains(&state.name));
        let mut collector = Self {
            siblings,
            clusters: CpuGroups::new(GroupKind::Cluster, &metadata.clusters),
            packages: CpuGroups::new(GroupKind::Package, &metadata.packages),
            polling: polling.map(|(index, _)| index).collect(),
            cpu_interrupts: CpuInterrupts::from_names(&metadata.interrupts),
            timer_stops: stops.map(|(index, _)| index).collect(),
            tasks_known: metadata.recorded.tasks != DataQuality::Missing,
            interrupts: CompletingInterrupts::new(metadata.recorded.wakes == DataQuality::Exact),
            ..Self::default()
        };
        collector.learn_task_names(&metadata.tasks);
        if let Some(open) = &metadata.idle_at_end {
            collector.note_open_idle_periods(open);
        }
        collector
    }

    /// Notes all idle periods that CPUs have entered and not left. A recording has those at its end; live they come before
    /// requests are taken. Without them, CPUs without events are not known to sleep.
    pub fn note_open_idle_periods(&mut self, open: &[OpenIdlePeriod]) {
        let asleep = open.iter().filter(|period| {
            let damaged = period.cpu >= MAX_NUMBER || period.state >= MAX_STATES;
            !damaged && !self.polling.contains(&period.state)
        });
        let open: HashMap<u32, OpenIdlePeriod> =
            asleep.map(|period| (period.cpu, *period)).collect();
        self.entries_are_known = true;
        for groups in [&mut self.clusters, &mut self.packages] {
            groups.note_open_idle_periods(&open);
        }
        for (cpu, known) in &mut self.cpus {
            known.activity.set_open_period(open.get(cpu));
        }
        for (cpu, period) in &open {
            let cpu = self.cpus.entry(*cpu).or_default();
            cpu.activity.set_open_period(Some(period));
        }
    }

    /// Learns names of tasks by thread number: kernel threads do I/O for others. Live, names come with events.
    pub fn learn_task_names(&mut self, tasks: &BTreeMap<u32, String>) {
        self.wake_ups.learn_kernel_threads(tasks);
    }

    /// Takes the next event of a recording; events of different CPUs may be some milliseconds out of order.
    pub fn push_event(&mut self, event: &Event) {
        self.sorter.hold_event(event);
        while let Some(settled) = self.sorter.pop_settled_event() {
            self.follow_event_in_order(&settled);
        }
    }

    /// Takes all events of a recording.
    ///
    /// # Errors
    /// The recording cannot be read, or is damaged.
    pub fn collect_recording(&mut self, reader: &mut Reader) -> Result<(), RecordingError> {
        reader.for_each_event(|event| {
            self.push_event(&event);
            Ok(())
        })
    }

    /// Takes the requests that completed long enough ago to have all their parts, and the gaps since the last call. Requests in
    /// flight stay: a slow one is not lost at the end of an interval.
    pub fn take_settled_requests(&mut self) -> Collected {
        self.take_requests_completed_until(self.latest.saturating_sub(SETTLE_NS))
    }

    /// Threads that submitted requests which were not taken: those in flight, and those that may still gain parts.
    pub fn list_tasks_of_requests_to_come(&self) -> impl Iterator<Item = u32> {
        let in_flight = self.outstanding.values().filter_map(|issue| issue.origin);
        let tasks = in_flight.filter_map(|origin| origin.task);
        tasks.chain(self.requests.list_tasks())
    }

    /// Ends the recording, and returns all requests that completed and were not taken before.
    pub fn finish(mut self) -> Collected {
        while let Some(event) = self.sorter.pop_earliest_event() {
            self.follow_event_in_order(&event);
        }
        for cpu in self.cpus.values_mut() {
            while let Some(pending) = cpu.pending.pop_front() {
                resolve_met_state(
                    &mut self.requests,
                    &mut self.interrupts,
                    &cpu.periods,
                    pending,
                    None,
                );
            }
        }
        self.coverage.without_completion += self.outstanding.len() as u64;
        self.take_requests_completed_until(u64::MAX)
    }

    fn take_requests_completed_until(&mut self, until_ns: u64) -> Collected {
        for groups in [&mut self.clusters, &mut self.packages] {
            groups.settle_requests_until(until_ns, &mut self.requests);
        }
        for cpu in self.cpus.values_mut() {
            let known = self.entries_are_known;
            cpu.settle_requests_of_siblings(until_ns, known, &mut self.requests);
        }
        let (first, requests) = self.requests.take_completed_until(until_ns);
        let beyond = first + requests.len();
        let (mut hops, later): (Vec<Hop>, Vec<Hop>) = std::mem::take(&mut self.wake_ups.hops)
            .into_iter()
            .partition(|hop| hop.request < beyond);
        self.wake_ups.hops = later;
        // A thread may pass on a request that was taken before.
        hops.retain_mut(|hop| match hop.request.checked_sub(first) {
            Some(index) => {
                hop.request = index;
                true
            }
            None => false,
        });
        self.coverage.flushes_without_end += self.queues.take_flushes_without_end();
        let mut coverage = std::mem::take(&mut self.coverage);
        // Requests that stay here count when they are taken.
        self.coverage.requests = self.requests.count() as u64;
        coverage.requests -= self.coverage.requests;
        Collected {
            requests,
            coverage,
            timers: std::mem::take(&mut self.lateness).median_by_state(),
            hops,
        }
    }

    fn follow_event_in_order(&mut self, event: &Event) {
        let time = event.time.0;
        if event.cpu >= MAX_NUMBER {
            return;
        }
        self.latest = self.latest.max(time);
        let from = match &event.kind {
            EventKind::Idle(idle) => time.saturating_sub(idle.duration.0),
            _ => time,
        };
        let cpu = self.cpus.entry(event.cpu).or_default();
        cpu.activity.note_event(from, time);
        self.clusters.note_event(event.cpu, from, time);
        self.packages.note_event(event.cpu, from, time);
        match &event.kind {
            EventKind::Idle(idle) if idle.duration.0 > 0 && idle.state < MAX_STATES => {
                let period = Period {
                    entry: time.saturating_sub(idle.duration.0),
                    exit: time,
                    state: idle.state,
                };
                let late = find_late_timer_exit(idle, period);
                self.cpus.entry(event.cpu).or_default().late = late;
                self.wake_ups.note_idle_entry(event.cpu, period.entry);
                self.end_idle_period(event.cpu, period);
            }
            EventKind::Idle(_) => {}
            EventKind::Queueing(step) => {
                if let QueueStep::Queued {
                    task: Some(task), ..
                } = step
                {
                    self.wake_ups.note_submission(event.cpu, *task);
                }
                self.queues.follow_step(time, step);
            }
            EventKind::BlockIssue(block) => {
                self.cpus
                    .entry(event.cpu)
                    .or_default()
                    .note_task_that_ran(time);
                self.begin_request(time, block);
            }
            EventKind::BlockComplete(block) => self.complete_request(time, event.cpu, block),
            EventKind::Interrupt(interrupt) => self.note_interrupt(time, event.cpu, *interrupt),
            EventKind::Task { task, step } => self.note_task_step(time, event.cpu, *task, *step),
            EventKind::Wake { target, .. } if *target >= MAX_NUMBER => {}
            EventKind::Wake { target, .. } => self.note_wake_up(time, event.cpu, *target),
            EventKind::Frequency(khz) => {
                let cpu = self.cpus.entry(event.cpu).or_default();
                // What was asked for counts only where nobody counts cycles.
                if !cpu.clock_measured {
                    cpu.khz = khz.0;
                }
            }
            EventKind::Clock(clock) => self.measure_clock(event.cpu, clock),
            EventKind::Timer(_) => {
                let cpu = self.cpus.entry(event.cpu).or_default();
                if let Some(late) = cpu
                    .late
                    .take()
                    .filter(|late| time.saturating_sub(late.exit) <= HANDLER_NS)
                    .filter(|late| !self.timer_stops.contains(&late.state))
                {
                    self.lateness.add_timer(late.state, late.lateness);
                }
                cpu.note_disturbance(time);
                cpu.last_request = None;
            }
            EventKind::Lost { .. } => self.drop_state_after_lost_events(event.cpu),
            EventKind::Hotplug { online } => {
                self.forget_cpu_but_frequency(event.cpu, (!online).then_some(time));
            }
        }
    }

    fn begin_request(&mut self, time: u64, block: &Block) {
        if block.bytes == 0 && !block.write {
            self.queues.note_flush_issue(time);
        }
        let key = key_in_flight(block);
        let origin = self.queues.take_bios_of_request(time, block);
        if origin.is_none()
            && let Some(issue) = self.outstanding.get_mut(&key)
            && issue.was_put_back(block)
        {
            issue.note_issue_after_put_back(time);
            return;
        }
        let known = self.devices.contains_key(&block.device);
        let too_many_devices = !known && self.devices.len() >= MAX_NUMBER as usize;
        if self.outstanding.len() >= MAX_OUTSTANDING || too_many_devices {
            self.coverage.without_completion += 1;
            return;
        }
        let device = self.devices.entry(block.device).or_default();
        let gap = match device.in_flight {
            0 => device.completed.map(|end| time.saturating_sub(end)),
            _ => Some(0),
        };
        let issue = Issue {
            time,
            gap,
            in_flight: device.in_flight,
            bytes: block.bytes,
            origin,
        };
        if self.outstanding.insert(key, issue).is_some() {
            self.coverage.without_completion += 1;
        } else {
            device.in_flight = device.in_flight.saturating_add(1);
        }
    }

    fn complete_request(&mut self, time: u64, on: u32, block: &Block) {
        let cpu = self.cpus.entry(on).or_default();
        cpu.last_request = None;
        let (running, sender) = cpu.attribute_completion_to_handler(time);
        let Some(issue) = self.outstanding.remove(&key_in_flight(block)) else {
            if is_flush_bio(block) {
                self.end_request_behind_flush(time, on, block);
                return;
            }
            cpu.completed = cpu.completed.max(Some(time));
            self.coverage.without_issue += 1;
            return;
        };
        let device = self.devices.entry(block.device).or_default();
        device.in_flight = device.in_flight.saturating_sub(1);
        device.completed = device.completed.max(Some(time));
        if time < issue.time {
            cpu.completed = cpu.completed.max(Some(time));
            self.coverage.backwards += 1;
            return;
        }
        let completion = Completion {
            issue,
            block: *block,
            time,
            cpu: on,
            running,
            sender,
        };
        let request = self.push_completed_request(&completion);
        let device = self.devices.entry(block.device).or_default();
        match request {
            Some(request) if block.write => device.writes.remember_write(block, request),
            Some(request) if block.bytes == 0 => {
                let before = device.flush;
                device.flush = Some(CompletedFlush {
                    request,
                    completion,
                    ended_two_before: before.and_then(|flush| flush.ended_before),
                    ended_before: before.map(|flush| flush.completion.time),
                    has_bio: false,
                });
            }
            _ => {}
        }
    }

    /// Adds a completed request, and returns its index; `None` beyond the most requests that are kept.
    fn push_completed_request(&mut self, completion: &Completion) -> Option<usize> {
        let Completion {
            issue,
            block,
            time,
            cpu: on,
            running,
            sender,
        } = *completion;
        let cpu = self.cpus.entry(on).or_default();
        self.coverage.requests += 1;
        if self.requests.count() >= MAX_REQUESTS {
            cpu.completed = cpu.completed.max(Some(time));
            self.coverage.beyond_limit += 1;
            return None;
        }
        let request = self.requests.next_index();
        cpu.last_request = Some((request, time));
        let latency = time.saturating_sub(issue.time);

        let remote_sender = sender.filter(|sender| {
            // The device's handler may serve a request that was issued meanwhile.
            sender.handler.is_some() && sender.sent >= issue.time && sender.sent <= time
        });
        let remote = remote_sender.map(|sender| {
            let runs = running.map_or(time, |handler| handler.began);
            let runs = runs.clamp(sender.sent, time);
            let pending = PendingRemote {
                request,
                sent: sender.sent,
                runs,
            };
            cpu.begin_remote_completion(pending, time, sender.notification)
        });
        let (interrupted, handler) = match remote_sender {
            Some(sender) => (sender.cpu, sender.handler),
            None => (on, running),
        };
        self.requests.push_request(TracedRequest {
            device: block.device,
            bytes: issue.bytes,
            write: block.write,
            background: issue.origin.is_some_and(|origin| origin.background),
            task: issue.origin.and_then(|origin| origin.task),
            queued: issue.origin.map(|origin| origin.parts),
            completed: time,
            latency,
            out: latency - remote.map_or(0, |remote| remote.exit + remote.handling),
            slept: 0,
            interrupt: 0,
            remote,
            cpu: interrupted,
            irq: handler.and_then(|handler| handler.irq),
            gap: issue.gap,
            cpu_gap: None,
            in_flight: issue.in_flight,
            khz: 0,
            first: None,
            periods: 0,
            overtaken: false,
            met: MetState::Unknown,
            sibling: NeighbourState::None,
            cluster: NeighbourState::None,
            package: NeighbourState::None,
            wake: None,
        });
        let handled = remote_sender.map_or(time, |sender| sender.sent);
        let is_long = handler.is_some_and(|handler| !handler.may_still_run_at(handled));
        // A handler from before the issue serves a request only if it works without a long pause.
        let handler = handler.filter(|handler| !is_long || handler.began >= issue.time);
        let began = handler.map_or(handled, |handler| handler.began);
        let known = self.cpus.entry(interrupted).or_default();
        let pending = Pending {
            request,
            issued: issue.time,
            signal: began.clamp(issue.time, handled),
            handled,
            disturbed: handler.map_or(known.disturbed, |handler| handler.disturbed),
            task_before: handler.map_or(known.last_sign_of_task(), |handler| handler.task_before),
            irq: handler.and_then(|handler| handler.irq),
            is_long,
            previous: known.completed,
        };
        self.await_idle_period(interrupted, pending);
        Some(request)
    }

    /// Holds a completed request until the interrupted CPU's idle period is known, which recordings write when it ends.
    fn await_idle_period(&mut self, on: u32, pending: Pending) {
        let cpu = self.cpus.entry(on).or_default();
        if let Some(request) = self.requests.get_mut(pending.request) {
            request.khz = cpu.khz;
            let completed = pending.previous;
            request.cpu_gap = completed.map(|end| pending.issued.saturating_sub(end));
        }
        cpu.completed = cpu.completed.max(Some(pending.handled));
        for sibling in self.siblings.get(&on).into_iter().flatten() {
            let other = self.cpus.entry(*sibling).or_default();
            let requests = &mut self.requests;
            other.add_request_of_sibling(pending.request, pending.signal, requests);
        }
        for groups in [&mut self.clusters, &mut self.packages] {
            groups.add_request(on, pending.request, pending.signal, &mut self.requests);
        }
        let cpu = self.cpus.entry(on).or_default();
        // Of another CPU, the period may be known already.
        if cpu
            .periods
            .iter()
            .any(|period| period.contains_time(pending.signal))
        {
            resolve_met_state(
                &mut self.requests,
                &mut self.interrupts,
                &cpu.periods,
                pending,
                None,
            );
            return;
        }
        cpu.pending.push_back(pending);
        if cpu.pending.len() > MAX_PENDING
            && let Some(oldest) = cpu.pending.pop_front()
        {
            resolve_met_state(
                &mut self.requests,
                &mut self.interrupts,
                &cpu.periods,
                oldest,
                None,
            );
        }
    }

    fn note_interrupt(&mut self, time: u64, on: u32, interrupt: Interrupt) {
        let cpu = self.cpus.entry(on).or_default();
        let Some(told) = self.cpu_interrupts.tell_from_devices(interrupt) else {
            cpu.note_disturbance(time);
            return;
        };
        match told {
            Interrupt::Device { irq } => cpu.enter_interrupt_handler(time, Some(irq)),
            Interrupt::CallFunction => cpu.enter_interrupt_handler(time, None),
            Interrupt::Reschedule => cpu.note_disturbance(time),
            // A softirq follows the handler that raised this softirq.
            Interrupt::BlockSoftirq => {
                if let Some(handler) = &mut cpu.handler
                    && handler.may_still_run_at(time)
                {
                    handler.active = time;
                }
            }
            Interrupt::Sent { target } => {
                self.note_notification(time, on, target, Notification::Ipi);
            }
            Interrupt::Stored { target } => {
                self.note_notification(time, on, target, Notification::Store);
            }
        }
    }

    /// Takes the clock at which a CPU ran until it completed its last request.
    fn measure_clock(&mut self, on: u32, clock: &ClockCycles) {
        let cpu = self.cpus.entry(on).or_default();
        let Some(khz) = self.clocks.measure_khz(clock) else {
            return;
        };
        cpu.clock_measured = true;
        cpu.khz = khz;
        if let Some((request, _)) = cpu.last_request
            && let Some(request) = self.requests.get_mut(request)
            && request.cpu == on
        {
            request.khz = khz;
        }
    }

    /// A CPU tells another one that there is something to do.
    fn note_notification(&mut self, time: u64, from: u32, target: u32, notification: Notification) {
        if target >= MAX_NUMBER || target == from {
            return;
        }
        let handler = self.cpus.get(&from).and_then(|cpu| cpu.handler);
        let sender = Sender {
            cpu: from,
            sent: time,
            notification,
            handler: handler.filter(|handler| handler.may_serve_device_at(time)),
        };
        let notified = self.cpus.entry(target).or_default();
        notified.notified = Some(sender);
        if sender.handler.is_some() {
            notified.completion_sender = Some(sender);
        }
    }

    fn note_task_step(&mut self, time: u64, on: u32, task: u32, step: TaskStep) {
        if let Some(irq) = self.wake_ups.interrupt_of_thread(task) {
            if step == TaskStep::Running {
                let cpu = self.cpus.entry(on).or_default();
                cpu.continue_handler_in_thread(time, irq);
            }
            return;
        }
        match step {
            TaskStep::Waking => {
                let last_request = self.cpus.entry(on).or_default().last_request.take();
                self.wake_ups
                    .begin_wake_up(time, on, task, last_request, &mut self.requests);
            }
            TaskStep::Woken { .. } => {}
            TaskStep::Running => {
                let cpu = self.cpus.entry(on).or_default();
                cpu.note_task_that_ran(time);
                self.wake_ups
                    .note_running_task(time, on, task, cpu, &mut self.requests);
            }
        }
    }

    /// Notes that a CPU woke some task: the wake-up may be the way to the task of the CPU's last completed request.
    fn note_wake_up(&mut self, time: u64, on: u32, target: u32) {
        let waker = self.cpus.entry(on).or_default();
        let last_request = if self.tasks_known {
            None
        } else {
            waker.last_request.take()
        };
        waker.note_disturbance(time);
        let woken = self.cpus.entry(target).or_default();
        woken.note_disturbance(time);
        woken.task_woken = woken.task_woken.max(Some(time));
        let Some((request, completed)) = last_request else {
            return;
        };
        if time.checked_sub(completed).is_none_or(|ns| ns > HANDLER_NS) {
            return;
        }
        start_way_to_task(&mut self.requests, request, None, time);
        if woken.woken.len() < MAX_PENDING {
            woken.woken.push((request, time));
        }
    }

    fn end_idle_period(&mut self, on: u32, period: Period) {
        if !self.polling.contains(&period.state) {
            for groups in [&mut self.clusters, &mut self.packages] {
                groups.end_idle_period(on, period, &mut self.requests);
            }
        }
        let cpu = self.cpus.entry(on).or_default();
        for (request, wake) in cpu.woken.drain(..) {
            let wake_up = self.requests.get_mut(request).and_then(|r| r.wake.as_mut());
            if let Some(wake_up) = wake_up.filter(|_| period.contains_time(wake)) {
                wake_up.exit = period.exit - wake;
            }
        }
        cpu.resolve_requests_of_siblings(period, &mut self.requests);
        for pending in cpu.remotes.drain(..) {
            if period.contains_time(pending.sent)
                && let Some(request) = self.requests.get_mut(pending.request)
                && let Some(remote) = &mut request.remote
            {
                let total = remote.exit + remote.handling;
                remote.exit = (period.exit.min(pending.runs) - pending.sent).min(total);
                remote.handling = total - remote.exit;
            }
        }
        while let Some(pending) = cpu.pending.pop_front() {
            let around = period.contains_time(pending.signal).then_some(period);
            resolve_met_state(
                &mut self.requests,
                &mut self.interrupts,
                &cpu.periods,
                pending,
                around,
            );
        }
        cpu.remember_idle_period(period);
    }

    /// Events of a CPU are missing: any request may have completed meanwhile.
    fn drop_state_after_lost_events(&mut self, cpu: u32) {
        self.coverage.gaps += 1;
        self.coverage.without_completion += self.outstanding.len() as u64;
        self.outstanding.clear();
        self.devices.clear();
        self.queues.forget_all_bios();
        self.wake_ups.forget_tasks();
        self.clusters.forget_requests();
        self.packages.forget_requests();
        self.forget_cpu_but_frequency(cpu, None);
    }

    /// Forgets a CPU's past, which says nothing about the present.
    fn forget_cpu_but_frequency(&mut self, cpu: u32, offline_since: Option<u64>) {
        for groups in [&mut self.clusters, &mut self.packages] {
            groups.forget_cpu(cpu, offline_since);
        }
        let known = self.cpus.entry(cpu).or_default();
        known.activity.restart(offline_since);
        *known = Cpu {
            activity: known.activity,
            khz: known.khz,
            clock_measured: known.clock_measured,
            ..Cpu::default()
        };
    }
}
