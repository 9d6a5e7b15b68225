//! Requests followed through the events of a recording.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;
use wakepath_trace::recording::{Block, Event, EventKind};

/// Requests kept in memory. Later ones are counted only.
pub const MAX_REQUESTS: usize = 4_000_000;
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
/// Longest way from the end of an idle period to the completion behind it, and from a completion to its wake-up.
/// Assumed: handlers of NVMe drives take 1 to 10 us.
const HANDLER_NS: u64 = 50_000;

/// The idle state of the completing CPU that the drive's interrupt found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetState {
    /// None: the CPU was running.
    Awake,
    /// This state, and the interrupt was the first to end it.
    State(u8),
    /// A timer or a wake-up had ended the idle period before.
    Leaving,
    /// Another request completed first.
    Behind,
    /// Events are missing.
    Unknown,
}

/// A completed request. All times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// Device number as in [`Block::device`].
    pub device: u32,
    /// Bytes to transfer.
    pub bytes: u32,
    /// It writes or discards.
    pub write: bool,
    /// From issue to completion: `out` and `interrupt` together.
    pub latency: u64,
    /// From issue to the end of the CPU's idle period, or to completion where the interrupt came inside of the period.
    pub out: u64,
    /// From the end of the idle period to completion; 0 where it is not visible.
    pub interrupt: u64,
    /// From the device's last completion to this issue; 0 while other requests were in flight.
    pub gap: Option<u64>,
    /// Other requests at the device when this one was issued.
    pub in_flight: u32,
    /// Frequency of the completing CPU in kHz; 0 where no event says it.
    pub khz: u32,
    /// The state that the completing CPU was in at issue, or chose first afterwards.
    pub first: Option<u8>,
    /// Idle periods of that CPU between issue and completion.
    pub periods: u32,
    /// What the interrupt found.
    pub met: MetState,
    /// From completion to the wake-up that followed on the same CPU, before another completion or a timer.
    pub hand_over: Option<u64>,
    /// From that wake-up until the woken CPU left its idle state; 0 if it ran.
    pub task_exit: u64,
}

/// What of a recording was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Requests with issue and completion.
    pub requests: u64,
    /// Completions without an issue.
    pub without_issue: u64,
    /// Issues without a completion, or issued again.
    pub without_completion: u64,
    /// Completions before their issue: the clocks of CPUs differ.
    pub backwards: u64,
    /// Requests beyond [`MAX_REQUESTS`].
    pub beyond_limit: u64,
    /// Places where the recording lacks events.
    pub gaps: u64,
}

#[derive(Clone, Copy)]
struct Issue {
    time: u64,
    gap: Option<u64>,
    in_flight: u32,
    bytes: u32,
}

#[derive(Clone, Copy)]
struct Period {
    entry: u64,
    exit: u64,
    state: u8,
}

/// A completion whose idle period may still come.
#[derive(Clone, Copy)]
struct Pending {
    request: usize,
    issued: u64,
    completed: u64,
    /// The CPU's last event of another kind, or a wake-up from elsewhere.
    disturbed: Option<u64>,
    /// The CPU's completion before this one.
    previous: Option<u64>,
}

#[derive(Default)]
struct Cpu {
    periods: VecDeque<Period>,
    pending: VecDeque<Pending>,
    /// Requests whose wake-up went to this CPU, with its time.
    woken: Vec<(usize, u64)>,
    /// The last completion, until its wake-up comes.
    last_request: Option<(usize, u64)>,
    disturbed: Option<u64>,
    completed: Option<u64>,
    khz: u32,
}

#[derive(Default)]
struct Device {
    in_flight: u32,
    completed: Option<u64>,
}

/// Follows requests through events, which come in the order of the recording.
#[derive(Default)]
pub struct Collector {
    cpus: HashMap<u32, Cpu>,
    devices: HashMap<u32, Device>,
    outstanding: HashMap<(u32, u64, bool), Issue>,
    requests: Vec<TracedRequest>,
    coverage: Coverage,
}

impl Collector {
    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        let time = event.time.0;
        if event.cpu >= MAX_NUMBER {
            return;
        }
        match &event.kind {
            EventKind::Idle(period) if period.duration.0 > 0 && period.state < MAX_STATES => {
                let period = Period {
                    entry: time.saturating_sub(period.duration.0),
                    exit: time,
                    state: period.state,
                };
                self.end_idle(event.cpu, period);
            }
            EventKind::Idle(_) => {}
            EventKind::BlockIssue(block) => self.issue(time, block),
            EventKind::BlockComplete(block) => self.complete(time, event.cpu, block),
            EventKind::Wake { target, .. } if *target >= MAX_NUMBER => {}
            EventKind::Wake { target, .. } => self.wake(time, event.cpu, *target),
            EventKind::Frequency(khz) => self.cpus.entry(event.cpu).or_default().khz = khz.0,
            EventKind::Timer(_) => {
                let cpu = self.cpus.entry(event.cpu).or_default();
                cpu.disturbed = cpu.disturbed.max(Some(time));
                cpu.last_request = None;
            }
            EventKind::Queueing(_) | EventKind::Interrupt(_) | EventKind::Task { .. } => {}
            EventKind::Lost { .. } => self.lose(event.cpu),
            EventKind::Hotplug { .. } => self.forget(event.cpu),
        }
    }

    /// All requests in the order of their completions, and what was used.
    pub fn finish(mut self) -> (Vec<TracedRequest>, Coverage) {
        for cpu in self.cpus.values_mut() {
            while let Some(pending) = cpu.pending.pop_front() {
                resolve(&mut self.requests, &cpu.periods, pending, None);
            }
        }
        self.coverage.without_completion += self.outstanding.len() as u64;
        (self.requests, self.coverage)
    }

    fn issue(&mut self, time: u64, block: &Block) {
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
        let previous = cpu.completed;
        let disturbed = cpu.disturbed;
        cpu.completed = cpu.completed.max(Some(time));
        cpu.last_request = None;
        let key = (block.device, block.sector, block.write);
        let Some(issue) = self.outstanding.remove(&key) else {
            self.coverage.without_issue += 1;
            return;
        };
        let device = self.devices.entry(block.device).or_default();
        device.in_flight = device.in_flight.saturating_sub(1);
        device.completed = device.completed.max(Some(time));
        let Some(latency) = time.checked_sub(issue.time) else {
            self.coverage.backwards += 1;
            return;
        };
        self.coverage.requests += 1;
        if self.requests.len() >= MAX_REQUESTS {
            self.coverage.beyond_limit += 1;
            return;
        }
        let request = self.requests.len();
        self.requests.push(TracedRequest {
            device: block.device,
            bytes: issue.bytes,
            write: block.write,
            latency,
            out: latency,
            interrupt: 0,
            gap: issue.gap,
            in_flight: issue.in_flight,
            khz: cpu.khz,
            first: None,
            periods: 0,
            met: MetState::Unknown,
            hand_over: None,
            task_exit: 0,
        });
        cpu.last_request = Some((request, time));
        cpu.pending.push_back(Pending {
            request,
            issued: issue.time,
            completed: time,
            disturbed,
            previous,
        });
        if cpu.pending.len() > MAX_PENDING
            && let Some(oldest) = cpu.pending.pop_front()
        {
            resolve(&mut self.requests, &cpu.periods, oldest, None);
        }
    }

    fn wake(&mut self, time: u64, on: u32, target: u32) {
        let waker = self.cpus.entry(on).or_default();
        let request = waker.last_request.take();
        waker.disturbed = waker.disturbed.max(Some(time));
        let woken = self.cpus.entry(target).or_default();
        woken.disturbed = woken.disturbed.max(Some(time));
        let Some((request, completed)) = request else {
            return;
        };
        let hand_over = time.checked_sub(completed);
        let Some(hand_over) = hand_over.filter(|time| *time <= HANDLER_NS) else {
            return;
        };
        // Events of different CPUs may be a little out of order: the period that this wake-up ended may be known already.
        let mut known = woken.periods.iter();
        let ended = known.rfind(|period| period.entry < time && time <= period.exit);
        let task_exit = ended.map(|period| period.exit - time);
        if let Some(request) = self.requests.get_mut(request) {
            request.hand_over = Some(hand_over);
            request.task_exit = task_exit.unwrap_or(0);
        }
        if task_exit.is_none() && woken.woken.len() < MAX_PENDING {
            woken.woken.push((request, time));
        }
    }

    fn end_idle(&mut self, on: u32, period: Period) {
        let cpu = self.cpus.entry(on).or_default();
        for (request, wake) in cpu.woken.drain(..) {
            if let Some(request) = self.requests.get_mut(request)
                && period.entry < wake
            {
                request.task_exit = period.exit.saturating_sub(wake);
            }
        }
        while let Some(pending) = cpu.pending.pop_front() {
            let inside = period.entry < pending.completed && pending.completed <= period.exit;
            let around = inside.then_some(period);
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

/// Finds the state that a request met, once the idle period around its completion is known or known to be missing.
fn resolve(
    requests: &mut [TracedRequest],
    periods: &VecDeque<Period>,
    pending: Pending,
    around: Option<Period>,
) {
    let Some(request) = requests.get_mut(pending.request) else {
        return;
    };
    let full = periods.len() >= PERIODS;
    if full && periods.front().is_some_and(|p| p.exit > pending.issued) {
        return;
    }
    let since_issue = |p: &&Period| p.exit > pending.issued && p.exit <= pending.completed;
    let mut seen = periods.iter().filter(since_issue).chain(&around);
    request.first = seen.next().map(|period| period.state);
    request.periods = u32::from(request.first.is_some()) + seen.count() as u32;
    let last = around.or_else(|| periods.iter().rfind(since_issue).copied());
    let Some(period) = last.filter(|p| p.exit.saturating_add(HANDLER_NS) >= pending.completed)
    else {
        request.met = MetState::Awake;
        return;
    };
    if around.is_none() {
        request.out = period.exit - pending.issued;
        request.interrupt = pending.completed - period.exit;
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
