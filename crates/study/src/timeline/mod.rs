//! A simulated run's timeline: the observer that records everything.

pub(crate) mod representative;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use wakepath_hardware::Machine;
use wakepath_hardware::machine::Cluster;
use wakepath_results::timeline::{Span, SpanValue, Timeline, Track, TrackKind};
use wakepath_sim::observer::{Activity, InterruptKind, Observer, RequestStep, Work};
use wakepath_units::{Kilohertz, Nanoseconds};
use wakepath_workloads::Workload;

/// End time for an open span.
const OPEN: u64 = u64::MAX;

/// Watches a run until enough is seen. Then the run ends, or goes on unobserved.
pub struct Observed<'a, F> {
    timeline: Timeline,
    numbers: BTreeMap<String, usize>,
    /// Earlier spans are dropped.
    from: u64,
    /// Later spans are dropped.
    until: u64,
    over: bool,
    enough: F,
    /// If the run goes on unobserved: whether it is cancelled.
    cancelled: Option<&'a AtomicBool>,
    seen: RunProgress,
    /// Open spans per track, outer ones first.
    open: Vec<Vec<usize>>,
    idle_states: Vec<String>,
    jobs: Vec<String>,
    clocks: Vec<usize>,
    cpus: Vec<CpuTracks>,
    drive: DriveTracks,
}

/// How far a run is.
#[derive(Clone, Debug, Default)]
pub struct RunProgress {
    now: u64,
    /// Number of kept spans.
    spans: usize,
    /// Begin and end in ns for finished requests that began within the kept time.
    done: Vec<(u64, u64)>,
    /// Requests under way.
    on_the_way: usize,
}

struct CpuTracks {
    slices: usize,
    runnable: usize,
    now: Option<Activity>,
}

struct DriveTracks {
    group: usize,
    /// Requests at the drive.
    in_flight: usize,
    counter: usize,
    /// Tracks for drives with known power states.
    power: BTreeMap<usize, usize>,
    slots: Vec<Slot>,
    /// Each request's slot by number.
    by_request: Vec<usize>,
}

/// A track for consecutive requests.
struct Slot {
    track: usize,
    /// The current request's task.
    task: Option<usize>,
    /// Whether the current request lacks a number yet.
    submitting: bool,
    begun: u64,
}

impl<F: Fn(&RunProgress) -> bool> Observed<'_, F> {
    /// Watches `workload` on `machine` from the run's start for `span`, or until `enough`.
    pub fn new(machine: &Machine, workload: &Workload, span: Nanoseconds, enough: F) -> Self {
        let mut timeline = Timeline {
            title: machine.title.clone(),
            ..Timeline::default()
        };
        let CpuLayout { cpus, clocks } = add_cpu_tracks(&mut timeline, machine);
        let drive = DriveTracks::add_to(&mut timeline);
        let mut observed = Self {
            open: vec![Vec::new(); timeline.tracks.len()],
            timeline,
            numbers: BTreeMap::new(),
            from: 0,
            until: span.0,
            over: false,
            enough,
            cancelled: None,
            seen: RunProgress::default(),
            idle_states: machine.idle_state.iter().map(|s| s.name.clone()).collect(),
            jobs: workload.names().into_iter().map(str::to_owned).collect(),
            clocks,
            cpus,
            drive,
        };
        let counters: Vec<usize> = observed
            .cpus
            .iter()
            .map(|cpu| cpu.runnable)
            .chain([observed.drive.counter])
            .collect();
        for counter in counters {
            observed.record_value(0, counter, 0.0);
        }
        observed
    }

    /// The timeline seen.
    pub fn timeline(self) -> Timeline {
        self.finish().0
    }

    fn finish(mut self) -> (Timeline, RunProgress) {
        self.end_timeline(self.seen.now.min(self.until));
        (self.timeline, self.seen)
    }

    /// Whether the present is still kept. Ends the timeline otherwise.
    fn keeps_time(&mut self, now: Nanoseconds) -> bool {
        if now.0 >= self.until {
            self.end_timeline(self.until);
        } else if self.seen.now < self.from && now.0 >= self.from {
            self.drop_ended_spans();
        }
        self.seen.now = now.0;
        !self.over
    }

    /// Ends all spans.
    fn end_timeline(&mut self, now: u64) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        for track in 0..self.open.len() {
            self.end_spans(now, track);
        }
    }

    /// Drops ended spans.
    fn drop_ended_spans(&mut self) {
        let spans = std::mem::take(&mut self.timeline.spans);
        let kept = spans.into_iter().filter(|span| span.end_ns == OPEN);
        self.timeline.spans = kept.collect();
        self.open.iter_mut().for_each(Vec::clear);
        for (index, span) in self.timeline.spans.iter().enumerate() {
            self.open[span.track].push(index);
        }
    }

    fn add_track(&mut self, name: String) -> usize {
        self.timeline.tracks.push(Track {
            name,
            group: Some(self.drive.group),
            kind: TrackKind::Slices,
        });
        self.open.push(Vec::new());
        self.open.len() - 1
    }

    fn begin_span(&mut self, now: u64, track: usize, name: &str) {
        let name = self.numbers.get(name).copied().unwrap_or_else(|| {
            let number = self.timeline.names.len();
            self.timeline.names.push(name.to_owned());
            self.numbers.insert(name.to_owned(), number);
            number
        });
        self.add_span(now, track, SpanValue::Name(name));
    }

    fn add_span(&mut self, now: u64, track: usize, what: SpanValue) {
        self.open[track].push(self.timeline.spans.len());
        self.timeline.spans.push(Span {
            track,
            what,
            start_ns: now,
            end_ns: OPEN,
        });
        self.seen.spans = self.timeline.spans.len();
    }

    /// Ends a track's innermost span.
    fn end_span(&mut self, now: u64, track: usize) {
        if let Some(span) = self.open[track].pop() {
            self.timeline.spans[span].end_ns = now;
        }
    }

    fn end_spans(&mut self, now: u64, track: usize) {
        while !self.open[track].is_empty() {
            self.end_span(now, track);
        }
    }

    /// Records a track's new value.
    fn record_value(&mut self, now: u64, track: usize, value: f64) {
        let before = self.open[track]
            .last()
            .map(|span| self.timeline.spans[*span].what);
        if before != Some(SpanValue::Value(value)) {
            self.end_span(now, track);
            self.add_span(now, track, SpanValue::Value(value));
        }
    }

    /// The lowest free slot, or a new one.
    fn free_slot(&mut self) -> usize {
        let free = self.drive.slots.iter().position(|s| s.task.is_none());
        free.unwrap_or_else(|| {
            let slot = self.drive.slots.len();
            let track = self.add_track(format!("request slot {slot}"));
            self.drive.slots.push(Slot {
                track,
                task: None,
                submitting: false,
                begun: 0,
            });
            slot
        })
    }

    fn find_slot(&mut self, request: usize) -> Option<&mut Slot> {
        let slot = self.drive.by_request.get(request)?;
        self.drive.slots.get_mut(*slot)
    }

    /// Ends the present step of a request and begins the next.
    fn begin_step(&mut self, now: u64, request: usize, name: &str) {
        if let Some(track) = self.find_slot(request).map(|slot| slot.track) {
            self.end_span(now, track);
            self.begin_span(now, track, name);
        }
    }

    fn place_request(&mut self, now: u64, task: usize, request: usize, read: bool) {
        let drive = &mut self.drive;
        let Some(slot) = drive
            .slots
            .iter()
            .position(|s: &Slot| s.submitting && s.task == Some(task))
        else {
            return;
        };
        drive.slots[slot].submitting = false;
        if drive.by_request.len() <= request {
            drive.by_request.resize(request + 1, usize::MAX);
        }
        drive.by_request[request] = slot;
        self.begin_step(
            now,
            request,
            if read { "drive: read" } else { "drive: write" },
        );
        self.record_in_flight(now, 1);
    }

    fn record_in_flight(&mut self, now: u64, more: isize) {
        self.drive.in_flight = self.drive.in_flight.saturating_add_signed(more);
        self.record_value(now, self.drive.counter, self.drive.in_flight as f64);
    }

    /// A CPU's activity in words.
    fn activity_name(&self, activity: Activity) -> String {
        match activity {
            Activity::Idle(state) => self.idle_states.get(state).cloned().unwrap_or_default(),
            Activity::Waking => "idle exit".to_owned(),
            Activity::Interrupt(kind) => match kind {
                InterruptKind::Completion(_) => "irq: completion",
                InterruptKind::Tick => "irq: tick",
                InterruptKind::Timer => "irq: timer",
                InterruptKind::Reschedule => "irq: reschedule",
            }
            .to_owned(),
            Activity::Task { job, work, .. } => {
                let name = job.and_then(|job| self.jobs.get(job));
                match (name, work) {
                    (Some(job), Work::Submit) => format!("{job}: submission"),
                    (Some(job), Work::Resume) => format!("{job}: completion"),
                    (Some(task), Work::Run) => task.clone(),
                    (Some(job), Work::Think | Work::Background) => format!("{job}: think time"),
                    (None, _) => "kernel worker".to_owned(),
                }
            }
        }
    }
}

/// Tracks for CPUs and their clocks.
struct CpuLayout {
    cpus: Vec<CpuTracks>,
    clocks: Vec<usize>,
}

/// Adds tracks for each CPU, and one for each clock before its first CPU.
fn add_cpu_tracks(timeline: &mut Timeline, machine: &Machine) -> CpuLayout {
    let mut cpus: Vec<CpuTracks> = Vec::with_capacity(machine.cpus());
    let mut clocks = Vec::with_capacity(machine.cluster.len());
    for cluster in &machine.cluster {
        let cluster_name = if machine.cluster.len() > 1 {
            format!(" ({})", cluster.name)
        } else {
            String::new()
        };
        for index in 0..cluster.cpus {
            let cpu = cpus.len();
            if index % cluster.cpus_per_clock() == 0 {
                let name = clock_name(cluster, cpu);
                clocks.push(add_track(timeline, name, TrackKind::Frequency, None));
            }
            let name = format!("CPU {cpu}{cluster_name}");
            let slices = add_track(timeline, name, TrackKind::Slices, None);
            let tasks = TrackKind::Count("tasks");
            cpus.push(CpuTracks {
                slices,
                runnable: add_track(timeline, format!("CPU {cpu} runnable"), tasks, None),
                now: None,
            });
        }
    }
    CpuLayout { cpus, clocks }
}

impl DriveTracks {
    /// Adds a track for the drive, and a counter of requests below.
    fn add_to(timeline: &mut Timeline) -> Self {
        let group = add_track(timeline, "drive".to_owned(), TrackKind::Slices, None);
        let requests = TrackKind::Count("requests");
        let name = "requests at the drive".to_owned();
        Self {
            group,
            in_flight: 0,
            counter: add_track(timeline, name, requests, Some(group)),
            power: BTreeMap::new(),
            slots: Vec::new(),
            by_request: Vec::new(),
        }
    }
}

/// Adds a track; its index.
fn add_track(
    timeline: &mut Timeline,
    name: String,
    kind: TrackKind,
    group: Option<usize>,
) -> usize {
    timeline.tracks.push(Track { name, group, kind });
    timeline.tracks.len() - 1
}

/// A clock's name by its first CPU.
fn clock_name(cluster: &Cluster, first_cpu: usize) -> String {
    let name = &cluster.name;
    match cluster.cpus_per_clock() {
        all if all == cluster.cpus => format!("frequency of cluster {name}"),
        1 => format!("frequency of CPU {first_cpu} ({name})"),
        n => format!(
            "frequency of CPUs {first_cpu}-{} ({name})",
            first_cpu + n - 1
        ),
    }
}

impl<F: Fn(&RunProgress) -> bool> Observer for Observed<'_, F> {
    fn cpu_activity_changed(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        if !self.keeps_time(now) || self.cpus[cpu].now == Some(activity) {
            return;
        }
        self.cpus[cpu].now = Some(activity);
        let track = self.cpus[cpu].slices;
        // Leaving an idle state counts as idle, as in a run's figures.
        if activity != Activity::Waking {
            self.end_spans(now.0, track);
        }
        let name = self.activity_name(activity);
        self.begin_span(now.0, track, &name);
    }

    fn runnable_task_count_changed(&mut self, now: Nanoseconds, cpu: usize, tasks: usize) {
        if self.keeps_time(now) {
            self.record_value(now.0, self.cpus[cpu].runnable, tasks as f64);
        }
    }

    fn clock_frequency_changed(&mut self, now: Nanoseconds, clock: usize, frequency: Kilohertz) {
        if self.keeps_time(now) {
            let mhz = f64::from(frequency.0) / 1e3;
            self.record_value(now.0, self.clocks[clock], mhz);
        }
    }

    fn request_step_reached(&mut self, now: Nanoseconds, step: RequestStep) {
        if !self.keeps_time(now) {
            return;
        }
        let now = now.0;
        match step {
            RequestStep::Begun { task } => {
                let free = self.free_slot();
                let slot = &mut self.drive.slots[free];
                (slot.task, slot.submitting, slot.begun) = (Some(task), true, now);
                let track = slot.track;
                self.begin_span(now, track, "request");
                self.begin_span(now, track, "submission");
                self.seen.on_the_way += 1;
            }
            RequestStep::Issued {
                task,
                request,
                read,
                ..
            } => self.place_request(now, task, request, read),
            RequestStep::Served { request } => {
                self.begin_step(now, request, "interrupt");
                self.record_in_flight(now, -1);
            }
            RequestStep::Delivered { request, .. } => {
                self.begin_step(now, request, "wake-up of the task");
            }
            RequestStep::Completed { request } => {
                let Some(slot) = self.find_slot(request) else {
                    return;
                };
                slot.task = None;
                let (track, begun) = (slot.track, slot.begun);
                self.end_spans(now, track);
                self.seen.on_the_way -= 1;
                if begun >= self.from {
                    self.seen.done.push((begun, now));
                }
            }
        }
    }

    fn drive_power_state_changed(&mut self, now: Nanoseconds, drive: usize, state: usize) {
        if !self.keeps_time(now) {
            return;
        }
        let known = self.drive.power.get(&drive).copied();
        let track = known.unwrap_or_else(|| {
            let track = self.add_track(format!("power state of drive {drive}"));
            self.drive.power.insert(drive, track);
            track
        });
        let name = format!("PS{state}");
        let open = self.open[track].last();
        if open.is_some_and(|span| self.timeline.span_text(&self.timeline.spans[*span]) == name) {
            return;
        }
        self.end_span(now.0, track);
        self.begin_span(now.0, track, &name);
    }

    fn observation_ended(&mut self, now: Nanoseconds) {
        self.seen.now = now.0;
        self.end_timeline(now.0.min(self.until));
    }

    fn wants_more_calls(&self) -> bool {
        !self.over && !(self.enough)(&self.seen)
    }

    fn lets_run_stop(&self) -> bool {
        match self.cancelled {
            Some(cancelled) => cancelled.load(Ordering::Relaxed),
            None => !self.wants_more_calls(),
        }
    }
}

#[cfg(test)]
mod tests;
