//! A simulated run's timeline: the observer that records every span.

pub(crate) mod representative;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use wakepath_hardware::Machine;
use wakepath_hardware::machine::Cluster;
use wakepath_results::timeline::{Span, SpanValue, Timeline, Track, TrackKind};
use wakepath_sim::observer::{Activity, InterruptKind, Observer, RequestStep, Work};
use wakepath_units::{Kilohertz, Nanoseconds};
use wakepath_workloads::Workload;

/// End time that marks a span as still open.
const OPEN: u64 = u64::MAX;

/// Observer that keeps the timeline of a simulated run until enough is seen. Then the run ends, or goes on unobserved.
pub struct Observed<'a, F> {
    timeline: Timeline,
    numbers: BTreeMap<String, usize>,
    /// Spans that end before this time are dropped.
    from: u64,
    /// Spans that begin after this time are not kept.
    until: u64,
    over: bool,
    enough: F,
    /// Set if the run goes on unobserved: the function tells whether it is cancelled.
    cancelled: Option<&'a AtomicBool>,
    seen: RunProgress,
    /// Indices of open spans by track, outer spans first.
    open: Vec<Vec<usize>>,
    idle_states: Vec<String>,
    jobs: Vec<String>,
    clocks: Vec<usize>,
    cpus: Vec<CpuTracks>,
    drive: DriveTracks,
}

/// How far the observed run has come.
#[derive(Clone, Debug, Default)]
pub struct RunProgress {
    now: u64,
    /// Number of spans kept so far.
    spans: usize,
    /// Begin and end in ns for each finished request that began within the kept time.
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
    /// Tracks for requests at the drive.
    in_flight: usize,
    counter: usize,
    /// Tracks for the power states of drives that report them.
    power: BTreeMap<usize, usize>,
    slots: Vec<Slot>,
    /// Index of each request's slot, by the request's number.
    by_request: Vec<usize>,
}

/// A slot: a track that shows requests one after the other.
struct Slot {
    track: usize,
    /// Task that submitted the current request.
    task: Option<usize>,
    /// Whether the current request has no number yet, because it is being submitted.
    submitting: bool,
    begun: u64,
}

impl<F: Fn(&RunProgress) -> bool> Observed<'_, F> {
    /// Observes a run of `workload` on `machine`, from its start for `span`, or until `enough` returns true.
    pub fn new(machine: &Machine, workload: &Workload, span: Nanoseconds, enough: F) -> Self {
        let mut timeline = Timeline {
            title: machine.title.clone(),
            ..Timeline::default()
        };
        let CpuLayout { cpus, clocks } = add_cpu_and_clock_tracks(&mut timeline, machine);
        let drive = DriveTracks::add_drive_tracks(&mut timeline);
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
            jobs: workload
                .job_or_task_names()
                .into_iter()
                .map(str::to_owned)
                .collect(),
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
            observed.replace_shown_value_if_changed(0, counter, 0.0);
        }
        observed
    }

    /// The timeline seen.
    pub fn into_timeline(self) -> Timeline {
        self.into_timeline_and_progress().0
    }

    fn into_timeline_and_progress(mut self) -> (Timeline, RunProgress) {
        self.end_all_spans_once(self.seen.now.min(self.until));
        (self.timeline, self.seen)
    }

    /// Advances to the time `now`. Returns whether spans are still kept; ends the timeline when its time is over.
    fn advance_and_say_if_spans_are_kept(&mut self, now: Nanoseconds) -> bool {
        if now.0 >= self.until {
            self.end_all_spans_once(self.until);
        } else if self.seen.now < self.from && now.0 >= self.from {
            self.drop_ended_spans();
        }
        self.seen.now = now.0;
        !self.over
    }

    /// Ends all spans.
    fn end_all_spans_once(&mut self, now: u64) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        for track in 0..self.open.len() {
            self.end_all_open_spans_of_track(now, track);
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

    fn add_drive_track(&mut self, name: String) -> usize {
        self.timeline.tracks.push(Track {
            name,
            group: Some(self.drive.group),
            kind: TrackKind::Slices,
        });
        self.open.push(Vec::new());
        self.open.len() - 1
    }

    fn begin_named_span(&mut self, now: u64, track: usize, name: &str) {
        let name = self.numbers.get(name).copied().unwrap_or_else(|| {
            let number = self.timeline.names.len();
            self.timeline.names.push(name.to_owned());
            self.numbers.insert(name.to_owned(), number);
            number
        });
        self.open_span_with_name_or_value(now, track, SpanValue::Name(name));
    }

    fn open_span_with_name_or_value(&mut self, now: u64, track: usize, what: SpanValue) {
        self.open[track].push(self.timeline.spans.len());
        self.timeline.spans.push(Span {
            track,
            what,
            start_ns: now,
            end_ns: OPEN,
        });
        self.seen.spans = self.timeline.spans.len();
    }

    /// Ends the innermost open span of a track.
    fn end_innermost_span(&mut self, now: u64, track: usize) {
        if let Some(span) = self.open[track].pop() {
            self.timeline.spans[span].end_ns = now;
        }
    }

    fn end_all_open_spans_of_track(&mut self, now: u64, track: usize) {
        while !self.open[track].is_empty() {
            self.end_innermost_span(now, track);
        }
    }

    /// Ends the value that a track shows, and begins the new value.
    fn replace_shown_value_if_changed(&mut self, now: u64, track: usize, value: f64) {
        let before = self.open[track]
            .last()
            .map(|span| self.timeline.spans[*span].what);
        if before != Some(SpanValue::Value(value)) {
            self.end_innermost_span(now, track);
            self.open_span_with_name_or_value(now, track, SpanValue::Value(value));
        }
    }

    /// Index of the lowest free slot; adds a slot with a track if none is free.
    fn find_or_add_free_slot(&mut self) -> usize {
        let free = self.drive.slots.iter().position(|s| s.task.is_none());
        free.unwrap_or_else(|| {
            let slot = self.drive.slots.len();
            let track = self.add_drive_track(format!("request slot {slot}"));
            self.drive.slots.push(Slot {
                track,
                task: None,
                submitting: false,
                begun: 0,
            });
            slot
        })
    }

    fn find_slot_of_request(&mut self, request: usize) -> Option<&mut Slot> {
        let slot = self.drive.by_request.get(request)?;
        self.drive.slots.get_mut(*slot)
    }

    /// Ends the present step of a request on its track, and begins the step `name`.
    fn begin_request_step(&mut self, now: u64, request: usize, name: &str) {
        if let Some(track) = self.find_slot_of_request(request).map(|slot| slot.track) {
            self.end_innermost_span(now, track);
            self.begin_named_span(now, track, name);
        }
    }

    fn begin_drive_step_of_submitted_request(
        &mut self,
        now: u64,
        task: usize,
        request: usize,
        read: bool,
    ) {
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
        self.begin_request_step(
            now,
            request,
            if read { "drive: read" } else { "drive: write" },
        );
        self.add_to_requests_in_flight(now, 1);
    }

    fn add_to_requests_in_flight(&mut self, now: u64, more: isize) {
        self.drive.in_flight = self.drive.in_flight.saturating_add_signed(more);
        self.replace_shown_value_if_changed(now, self.drive.counter, self.drive.in_flight as f64);
    }

    /// What a CPU does, in words.
    fn describe_activity(&self, activity: Activity) -> String {
        match activity {
            Activity::Idle(state) => self.idle_states.get(state).cloned().unwrap_or_default(),
            Activity::Waking => "idle exit".to_owned(),
            Activity::Stolen => "taken by the host".to_owned(),
            Activity::Interrupt(kind) => match kind {
                InterruptKind::Completion(_) => "irq: completion",
                InterruptKind::Tick => "irq: tick",
                InterruptKind::Timer => "irq: timer",
                InterruptKind::Reschedule => "irq: reschedule",
                InterruptKind::Network => "irq: network",
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

/// Where the tracks for CPUs and clocks are.
struct CpuLayout {
    cpus: Vec<CpuTracks>,
    clocks: Vec<usize>,
}

/// Adds a track for each CPU, and a track for each clock before its first CPU.
fn add_cpu_and_clock_tracks(timeline: &mut Timeline, machine: &Machine) -> CpuLayout {
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
                let name = name_clock(cluster, cpu);
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
    /// Adds a group of tracks for the drive, with a counter of requests in flight.
    fn add_drive_tracks(timeline: &mut Timeline) -> Self {
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

/// Adds a track to a timeline; returns its index.
fn add_track(
    timeline: &mut Timeline,
    name: String,
    kind: TrackKind,
    group: Option<usize>,
) -> usize {
    timeline.tracks.push(Track { name, group, kind });
    timeline.tracks.len() - 1
}

/// Name of a clock, with the CPUs that it drives.
fn name_clock(cluster: &Cluster, first_cpu: usize) -> String {
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
        if !self.advance_and_say_if_spans_are_kept(now) || self.cpus[cpu].now == Some(activity) {
            return;
        }
        self.cpus[cpu].now = Some(activity);
        let track = self.cpus[cpu].slices;
        // A CPU that is leaving an idle state counts as idle, as in a run's figures.
        if activity != Activity::Waking {
            self.end_all_open_spans_of_track(now.0, track);
        }
        let name = self.describe_activity(activity);
        self.begin_named_span(now.0, track, &name);
    }

    fn runnable_task_count_changed(&mut self, now: Nanoseconds, cpu: usize, tasks: usize) {
        if self.advance_and_say_if_spans_are_kept(now) {
            self.replace_shown_value_if_changed(now.0, self.cpus[cpu].runnable, tasks as f64);
        }
    }

    fn clock_frequency_changed(&mut self, now: Nanoseconds, clock: usize, frequency: Kilohertz) {
        if self.advance_and_say_if_spans_are_kept(now) {
            let mhz = f64::from(frequency.0) / 1e3;
            self.replace_shown_value_if_changed(now.0, self.clocks[clock], mhz);
        }
    }

    fn request_step_reached(&mut self, now: Nanoseconds, step: RequestStep) {
        if !self.advance_and_say_if_spans_are_kept(now) {
            return;
        }
        let now = now.0;
        match step {
            RequestStep::Begun { task, .. } => {
                let free = self.find_or_add_free_slot();
                let slot = &mut self.drive.slots[free];
                (slot.task, slot.submitting, slot.begun) = (Some(task), true, now);
                let track = slot.track;
                self.begin_named_span(now, track, "request");
                self.begin_named_span(now, track, "submission");
                self.seen.on_the_way += 1;
            }
            RequestStep::Issued {
                task,
                request,
                read,
                ..
            } => self.begin_drive_step_of_submitted_request(now, task, request, read),
            RequestStep::Served { request } => {
                self.begin_request_step(now, request, "interrupt");
                self.add_to_requests_in_flight(now, -1);
            }
            RequestStep::Delivered { request, .. } => {
                self.begin_request_step(now, request, "wake-up of the task");
            }
            RequestStep::Completed { request } => {
                let Some(slot) = self.find_slot_of_request(request) else {
                    return;
                };
                slot.task = None;
                let (track, begun) = (slot.track, slot.begun);
                self.end_all_open_spans_of_track(now, track);
                self.seen.on_the_way -= 1;
                if begun >= self.from {
                    self.seen.done.push((begun, now));
                }
            }
        }
    }

    fn drive_power_state_changed(&mut self, now: Nanoseconds, drive: usize, state: usize) {
        if !self.advance_and_say_if_spans_are_kept(now) {
            return;
        }
        let known = self.drive.power.get(&drive).copied();
        let track = known.unwrap_or_else(|| {
            let track = self.add_drive_track(format!("power state of drive {drive}"));
            self.drive.power.insert(drive, track);
            track
        });
        let name = format!("PS{state}");
        let open = self.open[track].last();
        if open.is_some_and(|span| self.timeline.describe_span(&self.timeline.spans[*span]) == name)
        {
            return;
        }
        self.end_innermost_span(now.0, track);
        self.begin_named_span(now.0, track, &name);
    }

    fn observation_ended(&mut self, now: Nanoseconds) {
        self.seen.now = now.0;
        self.end_all_spans_once(now.0.min(self.until));
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
