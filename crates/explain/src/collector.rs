//! Requests followed through the events of a recording.

use std::collections::{HashMap, VecDeque};

use wakepath_trace::recording::{
    Block, DataQuality, Event, EventKind, IdlePeriod, Interrupt, Metadata, TaskStep,
};

use crate::lateness::{LatenessTotals, TimerLateness};
use crate::order::Sorter;
use crate::queueing::{Origin, Queues};
use crate::requests::{
    Coverage, MAX_REQUESTS, MetState, Notification, RemoteCompletion, Sibling, TaskWake,
    TracedRequest,
};

/// Requests without a completion that are remembered; a truncated recording may have any number.
const MAX_OUTSTANDING: usize = 1 << 20;
/// CPUs from this number on, and devices beyond so many, are damage: Linux has at most 8,192 CPUs (`NR_CPUS` of x86).
const MAX_NUMBER: u32 = 1 << 16;
/// Idle periods remembered per CPU. A request that saw more keeps no first state.
const PERIODS: usize = 64;
/// Idle states from this index on are damage (`CPUIDLE_STATE_MAX`).
const MAX_STATES: u8 = 10;
/// Completions per CPU that wait for the idle period around them.
const MAX_PENDING: usize = 1024;
/// Longest way from the end of an idle period to the completion behind it, from an interrupt to its first completion or the
/// next, and from a completion to its wake-up. Assumed: handlers of NVMe drives take 1 to 10 us.
const HANDLER_NS: u64 = 50_000;
/// Longest way from the notification of another CPU to its answer: the CPU may leave a deep state, or have interrupts off.
const NOTIFICATION_NS: u64 = 10_000_000;
/// Idle periods that end later after a timer have missed it.
const LATEST_TIMER_NS: u64 = 2_000_000;
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

#[derive(Clone, Copy)]
struct Period {
    entry: u64,
    exit: u64,
    state: u8,
}

impl Period {
    /// Whether the CPU was idle at this time, in this period.
    fn contains(&self, time: u64) -> bool {
        self.entry < time && time <= self.exit
    }
}

/// A device's handler, or the arrival of an IPI, that may complete requests.
#[derive(Clone, Copy)]
struct Handler {
    began: u64,
    /// The last time that it completed something, or it began.
    active: u64,
    irq: Option<u32>,
    /// The CPU's last disturbance before.
    disturbed: Option<u64>,
}

/// A CPU that told another one to complete requests.
#[derive(Clone, Copy)]
struct Sender {
    cpu: u32,
    sent: u64,
    notification: Notification,
    /// The device's handler that ran there.
    handler: Option<Handler>,
}

/// A completion whose idle period on the interrupted CPU may still come.
#[derive(Clone, Copy)]
struct Pending {
    request: usize,
    issued: u64,
    /// When the handler began; at completion where no event shows the handler.
    signal: u64,
    /// When the interrupted CPU was done: at completion, or when it told another CPU.
    handled: u64,
    /// The CPU's last event of another kind, or a wake-up from elsewhere.
    disturbed: Option<u64>,
    /// The CPU's completion before this one.
    previous: Option<u64>,
}

/// A completion on another CPU than the interrupted one, whose idle period may still come.
#[derive(Clone, Copy)]
struct PendingRemote {
    request: usize,
    sent: u64,
    /// When its first event says that it runs.
    runs: u64,
}

#[derive(Default)]
struct Cpu {
    periods: VecDeque<Period>,
    pending: VecDeque<Pending>,
    remotes: Vec<PendingRemote>,
    /// Requests of a sibling CPU, with the time of their interrupt.
    sibling_requests: Vec<(usize, u64)>,
    /// The last idle period, if it ended after a timer was due; until a timer expires.
    late: Option<LateExit>,
    /// Requests whose wake-up went to this CPU, with its time; only where no event shows when tasks run.
    woken: Vec<(usize, u64)>,
    /// The last completion, until its wake-up comes.
    last_request: Option<(usize, u64)>,
    disturbed: Option<u64>,
    completed: Option<u64>,
    /// The last device's handler, or IPI, that may complete requests.
    handler: Option<Handler>,
    /// Who sent the IPI that began it.
    sender: Option<Sender>,
    /// The last notification from another CPU.
    notified: Option<Sender>,
    /// The last one sent by a device's handler, until this CPU answers.
    completion_sender: Option<Sender>,
    khz: u32,
}

#[derive(Default)]
struct Device {
    in_flight: u32,
    completed: Option<u64>,
}

/// A task on its way from a completion to a CPU.
#[derive(Clone, Copy)]
struct Waking {
    request: usize,
    time: u64,
    waker: u32,
}

/// Follows requests through events, which come nearly in the order of time.
#[derive(Default)]
pub struct Collector {
    sorter: Sorter,
    cpus: HashMap<u32, Cpu>,
    devices: HashMap<u32, Device>,
    outstanding: HashMap<(u32, u64, bool), Issue>,
    queues: Queues,
    waking: HashMap<u32, Waking>,
    /// The other CPUs of each CPU's core.
    siblings: HashMap<u32, Vec<u32>>,
    lateness: LatenessTotals,
    /// Steps of tasks are recorded, so that plain wake-ups tell nothing more.
    tasks_known: bool,
    requests: Vec<TracedRequest>,
    coverage: Coverage,
}

impl Collector {
    /// For a recording of this machine and with these kinds of events. The default is for one of schema 1.
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
        Self {
            siblings,
            tasks_known: metadata.recorded.tasks != DataQuality::Missing,
            ..Self::default()
        }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        self.sorter.push(event);
        while let Some(settled) = self.sorter.pop_settled() {
            self.follow(&settled);
        }
    }

    /// All requests in the order of their completions, what was used, and lateness of timers that ended idle periods, by
    /// state.
    pub fn finish(mut self) -> (Vec<TracedRequest>, Coverage, Vec<TimerLateness>) {
        while let Some(event) = self.sorter.pop() {
            self.follow(&event);
        }
        for cpu in self.cpus.values_mut() {
            while let Some(pending) = cpu.pending.pop_front() {
                resolve(&mut self.requests, &cpu.periods, pending, None);
            }
        }
        self.coverage.without_completion += self.outstanding.len() as u64;
        (self.requests, self.coverage, self.lateness.summarize())
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
                let late = late_exit(idle, period);
                self.cpus.entry(event.cpu).or_default().late = late;
                self.end_idle(event.cpu, period);
            }
            EventKind::Idle(_) => {}
            EventKind::Queueing(step) => self.queues.step(time, step),
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
            latency,
            out: latency - remote.map_or(0, |remote| remote.exit + remote.handling),
            interrupt: 0,
            remote,
            cpu: interrupted,
            irq: handler.and_then(|handler| handler.irq),
            gap: issue.gap,
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
            // It follows the handler that raised it.
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
                let waker = self.cpus.entry(on).or_default();
                let Some((request, completed)) = waker.last_request.take() else {
                    self.waking.remove(&task);
                    return;
                };
                let hand_over = time.checked_sub(completed).filter(|ns| *ns <= HANDLER_NS);
                let Some(hand_over) = hand_over else {
                    self.waking.remove(&task);
                    return;
                };
                if let Some(request) = self.requests.get_mut(request) {
                    request.wake = Some(TaskWake {
                        task: Some(task),
                        hand_over,
                        exit: 0,
                        run_queue: None,
                        notification: Notification::Unknown,
                    });
                }
                if self.waking.len() < MAX_OUTSTANDING {
                    let waker = on;
                    let waking = Waking {
                        request,
                        time,
                        waker,
                    };
                    self.waking.insert(task, waking);
                }
            }
            TaskStep::Woken { .. } => {}
            TaskStep::Running => self.run_task(time, on, task),
        }
    }

    /// A task runs, perhaps after a wait for a request.
    fn run_task(&mut self, time: u64, on: u32, task: u32) {
        let Some(waking) = self.waking.remove(&task) else {
            return;
        };
        let cpu = self.cpus.entry(on).or_default();
        let mut periods = cpu.periods.iter();
        let slept = periods.rfind(|period| period.contains(waking.time));
        let exit = slept.map_or(0, |period| {
            period.exit.min(time).saturating_sub(waking.time)
        });
        let told = cpu.notified.filter(|sender| {
            sender.cpu == waking.waker && (waking.time..=time).contains(&sender.sent)
        });
        let request = self.requests.get_mut(waking.request);
        if let Some(wake) = request.and_then(|request| request.wake.as_mut()) {
            wake.exit = exit;
            wake.run_queue = time.checked_sub(waking.time.saturating_add(exit));
            wake.notification = match told {
                _ if waking.waker == on => Notification::SameCpu,
                Some(sender) => sender.notification,
                None => Notification::Unknown,
            };
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
        if let Some(request) = self.requests.get_mut(request) {
            request.wake = Some(TaskWake {
                task: None,
                hand_over,
                exit: 0,
                run_queue: None,
                notification: Notification::Unknown,
            });
        }
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
        if cpu.periods.len() >= PERIODS {
            cpu.periods.pop_front();
        }
        cpu.periods.push_back(period);
    }

    /// Events of a CPU are missing: any request may have completed meanwhile.
    fn lose(&mut self, cpu: u32) {
        self.coverage.gaps += 1;
        self.coverage.without_completion += self.outstanding.len() as u64;
        self.outstanding.clear();
        self.devices.clear();
        self.queues.clear();
        self.waking.clear();
        self.forget(cpu);
    }

    /// What the CPU did before says nothing of what it does now.
    fn forget(&mut self, cpu: u32) {
        let khz = self.cpus.get(&cpu).map_or(0, |cpu| cpu.khz);
        let fresh = Cpu {
            khz,
            ..Cpu::default()
        };
        self.cpus.insert(cpu, fresh);
    }
}

/// An idle period that ended after a timer was due.
#[derive(Clone, Copy)]
struct LateExit {
    exit: u64,
    state: u8,
    lateness: u64,
}

/// Whether the idle period ended soon after the timer that its governor was told of.
fn late_exit(idle: &IdlePeriod, period: Period) -> Option<LateExit> {
    let inputs = &idle.inputs;
    let stopped = idle.stop_tick == Some(true) || inputs.tick_stopped == Some(true);
    let wait = if stopped {
        inputs.sleep_length
    } else {
        inputs.delta_tick
    };
    let asked = period
        .entry
        .checked_sub(inputs.select_lead.unwrap_or(0).into())?;
    let due = asked.checked_add_signed(wait?)?;
    let lateness = period
        .exit
        .checked_sub(due)
        .filter(|ns| *ns <= LATEST_TIMER_NS)?;
    Some(LateExit {
        exit: period.exit,
        state: period.state,
        lateness,
    })
}

impl Handler {
    /// It may still run at this time, or the softirq that it raised.
    fn may_run(&self, time: u64) -> bool {
        time.saturating_sub(self.active) <= HANDLER_NS
    }

    /// A device's handler runs at this time.
    fn serves_device(&self, time: u64) -> bool {
        self.irq.is_some() && self.may_run(time)
    }
}

impl Cpu {
    /// Something else than the drive's interrupt wakes the CPU.
    fn disturb(&mut self, time: u64) {
        self.disturbed = self.disturbed.max(Some(time));
    }

    /// A handler begins that may complete requests.
    fn enter_handler(&mut self, time: u64, irq: Option<u32>) {
        let asked = match irq {
            Some(_) => None,
            None => self.completion_sender.take(),
        };
        let sender = asked.filter(|sender| time.saturating_sub(sender.sent) <= NOTIFICATION_NS);
        let device_runs = self
            .handler
            .is_some_and(|handler| handler.serves_device(time));
        // An IPI for something else may interrupt the softirq of a device.
        if irq.is_some() || sender.is_some() || !device_runs {
            self.handler = Some(self.begin_handler(time, irq));
            self.sender = sender;
        }
        // To other requests, this handler is a disturbance.
        self.disturb(time);
    }

    /// The handler that completes a request now, and the CPU that asked for it.
    fn take_handler(&mut self, time: u64) -> (Option<Handler>, Option<Sender>) {
        let stored = self.completion_sender.filter(|sender| {
            sender.notification == Notification::Store
                && time.saturating_sub(sender.sent) <= NOTIFICATION_NS
                && self
                    .handler
                    .is_none_or(|handler| handler.began < sender.sent)
        });
        if stored.is_some() {
            return (Some(self.begin_handler(time, None)), stored);
        }
        let running = self
            .handler
            .as_mut()
            .filter(|handler| handler.may_run(time));
        let Some(handler) = running else {
            return (None, None);
        };
        handler.active = time;
        (Some(*handler), self.sender)
    }

    fn begin_handler(&self, began: u64, irq: Option<u32>) -> Handler {
        Handler {
            began,
            active: began,
            irq,
            disturbed: self.disturbed,
        }
    }

    /// Begins to cut the time of a completion that another CPU asked for.
    fn await_remote(
        &mut self,
        pending: PendingRemote,
        completed: u64,
        notification: Notification,
    ) -> RemoteCompletion {
        let known = self
            .periods
            .iter()
            .rfind(|period| period.contains(pending.sent));
        let exit = known.map_or(0, |period| period.exit.min(pending.runs) - pending.sent);
        if known.is_none() && self.remotes.len() < MAX_PENDING {
            self.remotes.push(pending);
        }
        RemoteCompletion {
            exit,
            handling: completed - pending.sent - exit,
            notification,
        }
    }
}

/// Finds the state that a request met, once the idle period around its interrupt is known or known to be missing.
fn resolve(
    requests: &mut [TracedRequest],
    periods: &VecDeque<Period>,
    pending: Pending,
    around: Option<Period>,
) {
    let Some(request) = requests.get_mut(pending.request) else {
        return;
    };
    request.out = pending.signal - pending.issued;
    request.interrupt = pending.handled - pending.signal;
    let full = periods.len() >= PERIODS;
    if full && periods.front().is_some_and(|p| p.exit > pending.issued) {
        return;
    }
    let since_issue = |p: &&Period| {
        p.exit > pending.issued && (p.exit <= pending.signal || p.contains(pending.signal))
    };
    let mut seen = periods.iter().filter(since_issue).chain(&around);
    request.first = seen.next().map(|period| period.state);
    request.periods = u32::from(request.first.is_some()) + seen.count() as u32;
    let last = around.or_else(|| periods.iter().rfind(since_issue).copied());
    let Some(period) = last.filter(|p| p.exit.saturating_add(HANDLER_NS) >= pending.signal) else {
        request.met = MetState::Awake;
        return;
    };
    if period.exit <= pending.signal {
        request.out = period.exit - pending.issued;
        request.interrupt = pending.handled - period.exit;
    }
    let within = |time: Option<u64>| time.is_some_and(|time| time > period.entry);
    request.met = if within(pending.previous) {
        MetState::Behind
    } else if within(pending.disturbed) {
        MetState::Leaving
    } else {
        MetState::State(period.state)
    };
}
