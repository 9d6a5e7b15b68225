//! Requests followed through the events of a recording.

use std::collections::{BTreeMap, HashMap};

use wakepath_trace::recording::{
    Block, DataQuality, Event, EventKind, Interrupt, Metadata, QueueStep, TaskStep,
};

use crate::cpu::{Cpu, HANDLER_NS, MAX_PENDING, Pending, PendingRemote, Sender, resolve};
use crate::lateness::LatenessTotals;
use crate::order::Sorter;
use crate::period::{Period, find_late_exit};
use crate::queueing::{Origin, Queues};
use crate::requests::{
    Collected, Coverage, MAX_REQUESTS, MetState, Notification, Sibling, TracedRequest,
};
use crate::wakeups::{WakeUps, start_wake};

/// Requests without a completion that are remembered; a truncated recording may have any number.
const MAX_OUTSTANDING: usize = 1 << 20;
/// CPUs from this number on, and devices beyond so many, are damage: Linux has at most 8,192 CPUs (`NR_CPUS` of x86).
const MAX_NUMBER: u32 = 1 << 16;
/// Idle states from this index on are damage (`CPUIDLE_STATE_MAX`).
const MAX_STATES: u8 = 10;
/// Other CPUs of a core at most: Power has eight in all.
const MAX_SIBLINGS: usize = 7;

#[derive(Clone, Copy)]
struct Issue {
    time: u64,
    gap: Option<u64>,
    in_flight: u32,
    bytes: u32,
    origin: Option<Origin>,
}

#[derive(Default)]
struct Device {
    in_flight: u32,
    completed: Option<u64>,
}

/// Follows requests through events, which come nearly in the order of time.
#[derive(Default)]
pub struct Collector {
    sorter: Sorter,
    cpus: HashMap<u32, Cpu>,
    devices: HashMap<u32, Device>,
    outstanding: HashMap<(u32, u64, bool), Issue>,
    queues: Queues,
    wake_ups: WakeUps,
    /// The other CPUs of each CPU's core.
    siblings: HashMap<u32, Vec<u32>>,
    lateness: LatenessTotals,
    /// Steps of tasks are recorded, so that plain wake-ups tell nothing more.
    tasks_known: bool,
    requests: Vec<TracedRequest>,
    coverage: Coverage,
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
        let mut collector = Self {
            siblings,
            tasks_known: metadata.recorded.tasks != DataQuality::Missing,
            ..Self::default()
        };
        collector.learn_names(&metadata.tasks);
        collector
    }

    /// Learns task names; kernel threads do I/O for others. Live, names come with events.
    pub fn learn_names(&mut self, tasks: &BTreeMap<u32, String>) {
        self.wake_ups.learn_names(tasks);
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        self.sorter.push(event);
        while let Some(settled) = self.sorter.pop_settled() {
            self.follow(&settled);
        }
    }

    /// Ends the recording.
    pub fn finish(mut self) -> Collected {
        while let Some(event) = self.sorter.pop() {
            self.follow(&event);
        }
        for cpu in self.cpus.values_mut() {
            while let Some(pending) = cpu.pending.pop_front() {
                resolve(&mut self.requests, &cpu.periods, pending, None);
            }
        }
        self.coverage.without_completion += self.outstanding.len() as u64;
        Collected {
            requests: self.requests,
            coverage: self.coverage,
            timers: self.lateness.summarize(),
            hops: self.wake_ups.hops,
        }
    }

    fn follow(&mut self, event: &Event) {
        let time = event.time.0;
        if event.cpu >= MAX_NUMBER {
            return;
        }
        match &event.kind {
            EventKind::Idle(idle) if idle.duration.0 > 0 && idle.state < MAX_STATES => {
                let period = Period {
                    entry: time.saturating_sub(idle.duration.0),
                    exit: time,
                    state: idle.state,
                };
                let late = find_late_exit(idle, period);
                self.cpus.entry(event.cpu).or_default().late = late;
                self.wake_ups.enter_idle(event.cpu, period.entry);
                self.end_idle(event.cpu, period);
            }
            EventKind::Idle(_) => {}
            EventKind::Queueing(step) => {
                if let QueueStep::Queued {
                    task: Some(task), ..
                } = step
                {
                    self.wake_ups.submit(event.cpu, *task);
                }
                self.queues.step(time, step);
            }
            EventKind::BlockIssue(block) => self.issue(time, block),
            EventKind::BlockComplete(block) => self.complete(time, event.cpu, block),
            EventKind::Interrupt(interrupt) => self.interrupt(time, event.cpu, *interrupt),
            EventKind::Task { task, step } => self.step_task(time, event.cpu, *task, *step),
            EventKind::Wake { target, .. } if *target >= MAX_NUMBER => {}
            EventKind::Wake { target, .. } => self.wake(time, event.cpu, *target),
            EventKind::Frequency(khz) => self.cpus.entry(event.cpu).or_default().khz = khz.0,
            EventKind::Timer(_) => {
                let cpu = self.cpus.entry(event.cpu).or_default();
                if let Some(late) = cpu
                    .late
                    .take()
                    .filter(|late| time.saturating_sub(late.exit) <= HANDLER_NS)
                {
                    self.lateness.add(late.state, late.lateness);
                }
                cpu.disturb(time);
                cpu.last_request = None;
            }
            EventKind::Lost { .. } => self.lose(event.cpu),
            EventKind::Hotplug { .. } => self.forget(event.cpu),
        }
    }

    fn issue(&mut self, time: u64, block: &Block) {
        let origin = self.queues.issue(time, block);
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
        let key = (block.device, block.sector, block.write);
        if self.outstanding.insert(key, issue).is_some() {
            self.coverage.without_completion += 1;
        } else {
            device.in_flight = device.in_flight.saturating_add(1);
        }
    }

    fn complete(&mut self, time: u64, on: u32, block: &Block) {
        let cpu = self.cpus.entry(on).or_default();
        cpu.last_request = None;
        let (running, sender) = cpu.take_handler(time);
        let key = (block.device, block.sector, block.write);
        let Some(issue) = self.outstanding.remove(&key) else {
            cpu.completed = cpu.completed.max(Some(time));
            self.coverage.without_issue += 1;
            return;
        };
        let device = self.devices.entry(block.device).or_default();
        device.in_flight = device.in_flight.saturating_sub(1);
        device.completed = device.completed.max(Some(time));
        let Some(latency) = time.checked_sub(issue.time) else {
            cpu.completed = cpu.completed.max(Some(time));
            self.coverage.backwards += 1;
            return;
        };
        self.coverage.requests += 1;
        if self.requests.len() >= MAX_REQUESTS {
            cpu.completed = cpu.completed.max(Some(time));
            self.coverage.beyond_limit += 1;
            return;
        }
        let request = self.requests.len();
        cpu.last_request = Some((request, time));

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
            cpu.await_remote(pending, time, sender.notification)
        });
        let (interrupted, handler) = match remote_sender {
            Some(sender) => (sender.cpu, sender.handler),
            None => (on, running),
        };
        self.requests.push(TracedRequest {
            device: block.device,
            bytes: issue.bytes,
            write: block.write,
            background: issue.origin.is_some_and(|origin| origin.background),
            task: issue.origin.and_then(|origin| origin.task),
            queued: issue.origin.map(|origin| origin.parts),
            completed: time,
            latency,
            out: latency - remote.map_or(0, |remote| remote.exit + remote.handling),
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
            met: MetState::Unknown,
            sibling: Sibling::None,
            wake: None,
        });
        let handled = remote_sender.map_or(time, |sender| sender.sent);
        let began = handler.map_or(handled, |handler| handler.began);
        let known = self.cpus.entry(interrupted).or_default();
        let pending = Pending {
            request,
            issued: issue.time,
            signal: began.clamp(issue.time, handled),
            handled,
            disturbed: handler.map_or(known.disturbed, |handler| handler.disturbed),
            previous: known.completed,
        };
        self.await_period(interrupted, pending);
    }

    /// Waits for the idle period of the interrupted CPU.
    fn await_period(&mut self, on: u32, pending: Pending) {
        let cpu = self.cpus.entry(on).or_default();
        if let Some(request) = self.requests.get_mut(pending.request) {
            request.khz = cpu.khz;
            let completed = pending.previous;
            request.cpu_gap = completed.map(|end| pending.issued.saturating_sub(end));
        }
        cpu.completed = cpu.completed.max(Some(pending.handled));
        for sibling in self.siblings.get(&on).into_iter().flatten() {
            let other = self.cpus.entry(*sibling).or_default();
            let slept = other
                .periods
                .iter()
                .find(|period| period.contains(pending.signal));
            let known = slept.map(|period| Sibling::Idle(period.state));
            if known.is_none() && other.sibling_requests.len() < MAX_PENDING {
                other
                    .sibling_requests
                    .push((pending.request, pending.signal));
            }
            if let Some(request) = self.requests.get_mut(pending.request) {
                request.see_sibling(known.unwrap_or(Sibling::Unknown));
            }
        }
        let cpu = self.cpus.entry(on).or_default();
        // Of another CPU, the period may be known already.
        if cpu
            .periods
            .iter()
            .any(|period| period.contains(pending.signal))
        {
            resolve(&mut self.requests, &cpu.periods, pending, None);
            return;
        }
        cpu.pending.push_back(pending);
        if cpu.pending.len() > MAX_PENDING
            && let Some(oldest) = cpu.pending.pop_front()
        {
            resolve(&mut self.requests, &cpu.periods, oldest, None);
        }
    }

    fn interrupt(&mut self, time: u64, on: u32, interrupt: Interrupt) {
        let cpu = self.cpus.entry(on).or_default();
        match interrupt {
            Interrupt::Device { irq } => cpu.enter_handler(time, Some(irq)),
            Interrupt::CallFunction => cpu.enter_handler(time, None),
            Interrupt::Reschedule => cpu.disturb(time),
            // A softirq follows the handler that raised this softirq.
            Interrupt::BlockSoftirq => {
                if let Some(handler) = &mut cpu.handler
                    && handler.may_run(time)
                {
                    handler.active = time;
                }
            }
            Interrupt::Sent { target } => self.notify(time, on, target, Notification::Ipi),
            Interrupt::Stored { target } => self.notify(time, on, target, Notification::Store),
        }
    }

    /// A CPU tells another one that there is something to do.
    fn notify(&mut self, time: u64, from: u32, target: u32, notification: Notification) {
        if target >= MAX_NUMBER || target == from {
            return;
        }
        let handler = self.cpus.get(&from).and_then(|cpu| cpu.handler);
        let sender = Sender {
            cpu: from,
            sent: time,
            notification,
            handler: handler.filter(|handler| handler.serves_device(time)),
        };
        let notified = self.cpus.entry(target).or_default();
        notified.notified = Some(sender);
        if sender.handler.is_some() {
            notified.completion_sender = Some(sender);
        }
    }

    fn step_task(&mut self, time: u64, on: u32, task: u32, step: TaskStep) {
        match step {
            TaskStep::Waking => {
                let last_request = self.cpus.entry(on).or_default().last_request.take();
                self.wake_ups
                    .begin(time, on, task, last_request, &mut self.requests);
            }
            TaskStep::Woken { .. } => {}
            TaskStep::Running => {
                let cpu = self.cpus.entry(on).or_default();
                self.wake_ups
                    .run_task(time, on, task, cpu, &mut self.requests);
            }
        }
    }

    /// A wake-up of any task.
    fn wake(&mut self, time: u64, on: u32, target: u32) {
        let waker = self.cpus.entry(on).or_default();
        let last_request = if self.tasks_known {
            None
        } else {
            waker.last_request.take()
        };
        waker.disturb(time);
        let woken = self.cpus.entry(target).or_default();
        woken.disturb(time);
        let Some((request, completed)) = last_request else {
            return;
        };
        let hand_over = time.checked_sub(completed);
        let Some(hand_over) = hand_over.filter(|time| *time <= HANDLER_NS) else {
            return;
        };
        start_wake(&mut self.requests, request, None, hand_over);
        if woken.woken.len() < MAX_PENDING {
            woken.woken.push((request, time));
        }
    }

    fn end_idle(&mut self, on: u32, period: Period) {
        let cpu = self.cpus.entry(on).or_default();
        for (request, wake) in cpu.woken.drain(..) {
            let wake_up = self.requests.get_mut(request).and_then(|r| r.wake.as_mut());
            if let Some(wake_up) = wake_up.filter(|_| period.contains(wake)) {
                wake_up.exit = period.exit - wake;
            }
        }
        for (request, signal) in cpu.sibling_requests.drain(..) {
            if let Some(request) = self.requests.get_mut(request) {
                let idle = period
                    .contains(signal)
                    .then_some(Sibling::Idle(period.state));
                request.see_sibling(idle.unwrap_or(Sibling::Running));
            }
        }
        for pending in cpu.remotes.drain(..) {
            if period.contains(pending.sent)
                && let Some(request) = self.requests.get_mut(pending.request)
                && let Some(remote) = &mut request.remote
            {
                let total = remote.exit + remote.handling;
                remote.exit = (period.exit.min(pending.runs) - pending.sent).min(total);
                remote.handling = total - remote.exit;
            }
        }
        while let Some(pending) = cpu.pending.pop_front() {
            let around = period.contains(pending.signal).then_some(period);
            resolve(&mut self.requests, &cpu.periods, pending, around);
        }
        cpu.remember_period(period);
    }

    /// Events of a CPU are missing: any request may have completed meanwhile.
    fn lose(&mut self, cpu: u32) {
        self.coverage.gaps += 1;
        self.coverage.without_completion += self.outstanding.len() as u64;
        self.outstanding.clear();
        self.devices.clear();
        self.queues.clear();
        self.wake_ups.clear();
        self.forget(cpu);
    }

    /// Forgets a CPU's past, which says nothing about the present.
    fn forget(&mut self, cpu: u32) {
        let khz = self.cpus.get(&cpu).map_or(0, |cpu| cpu.khz);
        let fresh = Cpu {
            khz,
            ..Cpu::default()
        };
        self.cpus.insert(cpu, fresh);
    }
}
