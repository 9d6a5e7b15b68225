//! A few representative milliseconds of a run: what CPUs, clocks, the drive and requests did around a request of about
//! the median latency, and around one of about the 99th percentile.

use std::collections::BTreeMap;

use wakepath_hardware::Machine;
use wakepath_sim::observer::{Activity, InterruptKind, Observer, RequestStep, Work};
use wakepath_units::{Kilohertz, Nanoseconds};

/// The run has settled by then.
const FROM: u64 = 100_000_000;
/// What is looked at, if there are enough requests in it.
const ENOUGH_TIME: u64 = 300_000_000;
const ENOUGH_REQUESTS: usize = 300;
/// No longer than this, whatever there is.
const LONGEST: u64 = 20_000_000_000;
const MOST_STRETCHES: usize = 400_000;
/// Shown around the request: about so much.
const SHOWN: u64 = 3_000_000;

/// Where something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    Cpu(usize),
    Clock(usize),
    Drive(usize),
    Request(usize),
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Activity(Activity),
    Khz(u32),
    PowerState(usize),
    Part(&'static str),
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    track: Track,
    what: What,
    start: u64,
    end: u64,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
struct OnItsWay {
    begun: u64,
    /// The part of the way that it is on, and since when.
    part: &'static str,
    since: u64,
}

/// Sees a run until it has seen enough.
pub(super) struct Recording<F> {
    states: Vec<String>,
    cpus: Vec<String>,
    clocks: Vec<String>,
    cancelled: F,
    now: u64,
    open: BTreeMap<Track, (What, u64)>,
    stretches: Vec<Stretch>,
    submitting: BTreeMap<usize, u64>,
    requests: BTreeMap<usize, OnItsWay>,
    /// Begin and end of those that are done.
    done: Vec<(u64, u64)>,
}

impl<F: Fn() -> bool> Recording<F> {
    pub(super) fn new(machine: &Machine, cancelled: F) -> Self {
        let (mut cpus, mut clocks) = (Vec::new(), Vec::new());
        for cluster in &machine.cluster {
            for cpu in 0..cluster.cpus {
                if cpu % cluster.cpus_per_clock() == 0 {
                    clocks.push(format!("clock {} ({})", clocks.len(), cluster.name));
                }
                cpus.push(format!("CPU {} ({})", cpus.len(), cluster.name));
            }
        }
        Self {
            states: machine.idle_state.iter().map(|s| s.name.clone()).collect(),
            cpus,
            clocks,
            cancelled,
            now: 0,
            open: BTreeMap::new(),
            stretches: Vec::new(),
            submitting: BTreeMap::new(),
            requests: BTreeMap::new(),
            done: Vec::new(),
        }
    }

    /// Something else from now on.
    fn change(&mut self, now: Nanoseconds, track: Track, what: What) {
        self.now = now.0;
        if let Some((before, start)) = self.open.get(&track).copied() {
            if before == what {
                return;
            }
            self.add(Stretch {
                track,
                what: before,
                start,
                end: now.0,
            });
        }
        self.open.insert(track, (what, now.0));
    }

    fn add(&mut self, stretch: Stretch) {
        if stretch.end >= FROM && stretch.end > stretch.start {
            self.stretches.push(stretch);
        }
    }

    /// A request goes on to the next part of its way, or is done.
    fn next_part(&mut self, now: u64, request: usize, part: Option<&'static str>) {
        let Some(way) = self.requests.get_mut(&request) else {
            return;
        };
        let stretch = Stretch {
            track: Track::Request(request),
            what: What::Part(way.part),
            start: way.since,
            end: now,
        };
        if let Some(part) = part {
            (way.part, way.since) = (part, now);
        } else {
            if way.begun >= FROM {
                self.done.push((way.begun, now));
            }
            self.requests.remove(&request);
        }
        self.add(stretch);
    }

    fn name(&self, track: Track) -> String {
        match track {
            Track::Cpu(cpu) => self.cpus[cpu].clone(),
            Track::Clock(clock) => self.clocks[clock].clone(),
            Track::Drive(drive) => format!("drive {drive}"),
            Track::Request(request) => format!("request {request}"),
        }
    }

    fn what(&self, what: What) -> String {
        match what {
            What::Khz(khz) => format!("{} MHz", khz / 1000),
            What::PowerState(state) => format!("PS{state}"),
            What::Part(part) => part.to_owned(),
            What::Activity(activity) => match activity {
                Activity::Idle(state) => self.states.get(state).cloned().unwrap_or_default(),
                Activity::Waking => "leaving idle".to_owned(),
                Activity::Task { work, .. } => match work {
                    Work::Submit => "submission",
                    Work::Resume => "completion",
                    Work::Think => "think time",
                    Work::Run => "task",
                    Work::Background => "background",
                }
                .to_owned(),
                Activity::Interrupt(kind) => match kind {
                    InterruptKind::Completion(_) => "completion interrupt",
                    InterruptKind::Tick => "tick",
                    InterruptKind::Timer => "timer",
                    InterruptKind::Reschedule => "reschedule interrupt",
                }
                .to_owned(),
            },
        }
    }

    /// The rows `(at, track, name, start_ns, end_ns)` of what was seen, by track and time.
    pub(super) fn rows(mut self) -> Vec<(String, String, String, u64, u64)> {
        for (track, (what, start)) in std::mem::take(&mut self.open) {
            let end = self.now;
            self.add(Stretch {
                track,
                what,
                start,
                end,
            });
        }
        self.stretches.sort_by_key(|s| (s.track, s.start));
        self.done.sort_by_key(|(begun, end)| end - begun);
        let at = |quantile: f64| {
            let rank = (self.done.len() as f64 * quantile) as usize;
            self.done
                .get(rank.min(self.done.len().saturating_sub(1)))
                .copied()
        };
        let whole = (FROM, FROM + SHOWN / 2);
        let windows = match (at(0.5), at(0.99)) {
            (Some(p50), Some(p99)) => vec![("p50", p50), ("p99", p99)],
            _ => vec![("p50", whole)],
        };
        let mut rows = Vec::new();
        for (at, (begun, end)) in windows {
            let around = (SHOWN.saturating_sub(end - begun) / 2).max((end - begun) / 10);
            let (from, to) = (begun.saturating_sub(around), end + around);
            let seen = self
                .stretches
                .iter()
                .filter(|s| s.start < to && s.end > from);
            rows.extend(seen.map(|s| {
                let times = (s.start.max(from), s.end.min(to));
                (
                    at.to_owned(),
                    self.name(s.track),
                    self.what(s.what),
                    times.0,
                    times.1,
                )
            }));
        }
        rows
    }
}

impl<F: Fn() -> bool> Observer for Recording<F> {
    fn cpu(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        self.change(now, Track::Cpu(cpu), What::Activity(activity));
    }

    fn frequency(&mut self, now: Nanoseconds, clock: usize, frequency: Kilohertz) {
        self.change(now, Track::Clock(clock), What::Khz(frequency.0));
    }

    fn drive_power(&mut self, now: Nanoseconds, drive: usize, state: usize) {
        self.change(now, Track::Drive(drive), What::PowerState(state));
    }

    fn request(&mut self, now: Nanoseconds, step: RequestStep) {
        self.now = now.0;
        match step {
            RequestStep::Begun { task } => {
                self.submitting.insert(task, now.0);
            }
            RequestStep::Issued { task, request, .. } => {
                let begun = self.submitting.remove(&task).unwrap_or(now.0);
                let way = OnItsWay {
                    begun,
                    part: "submission",
                    since: begun,
                };
                self.requests.insert(request, way);
                self.next_part(now.0, request, Some("drive"));
            }
            RequestStep::Served { request } => {
                self.next_part(now.0, request, Some("waking up for the interrupt"));
            }
            RequestStep::Delivered { request, .. } => {
                self.next_part(now.0, request, Some("back to the task"));
            }
            RequestStep::Completed { request } => self.next_part(now.0, request, None),
        }
    }

    fn finished(&mut self, now: Nanoseconds) {
        self.now = now.0;
    }

    fn has_enough(&self) -> bool {
        let seen = self.now.saturating_sub(FROM);
        (seen >= ENOUGH_TIME && (self.done.len() >= ENOUGH_REQUESTS || self.requests.is_empty()))
            || self.now >= LONGEST
            || self.stretches.len() >= MOST_STRETCHES
            || (self.cancelled)()
    }
}
