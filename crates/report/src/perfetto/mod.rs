//! A run's timeline as a trace for [Perfetto](https://ui.perfetto.dev), written while it runs.
//!
//! [`Timeline`] watches a simulation. What its tracks mean is in `docs/timelines.md`.

mod proto;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::io::{self, Write};

use wakepath_hardware::Machine;
use wakepath_hardware::machine::Cluster;
use wakepath_sim::observer::{Activity, InterruptKind, Observer, RequestStep, Work};
use wakepath_units::{Kilohertz, Nanoseconds};
use wakepath_workloads::Workload;

use self::writer::{TraceWriter, Track};

/// Writes what it sees to `W`, until a given time. Memory does not grow with time.
pub struct Timeline<W> {
    trace: TraceWriter<W>,
    /// Nothing from this time on is drawn.
    end: Nanoseconds,
    over: bool,
    idle_states: Vec<String>,
    jobs: Vec<String>,
    clocks: Vec<Track>,
    cpus: Vec<CpuTracks>,
    drive: DriveTracks,
}

/// The name of the clock whose first CPU this is.
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

struct CpuTracks {
    slices: Track,
    runnable: Track,
    now: Option<Activity>,
    /// Slices that are open, one in the other.
    depth: usize,
    tasks: usize,
}

/// The drive's tracks, and one for each request that is on its way at the same time.
struct DriveTracks {
    group: Track,
    /// Requests that the drive has got and not finished.
    in_flight: usize,
    counter: Track,
    /// Track and present power state of each drive that has told one.
    power: BTreeMap<usize, (Track, usize)>,
    slots: Vec<Slot>,
    /// Slot of each request by its number.
    by_request: Vec<usize>,
}

struct Slot {
    track: Track,
    /// The task whose request it is, while that is on its way.
    task: Option<usize>,
    /// That request has no number yet.
    submitting: bool,
}

impl<W: Write> Timeline<W> {
    /// Begins a timeline of `workload` on `machine` that ends after `span`.
    pub fn new(out: W, machine: &Machine, workload: &Workload, span: Nanoseconds) -> Self {
        let mut trace = TraceWriter::new(out);
        let process = trace.process(1, &machine.title);
        let mut cpus = Vec::with_capacity(machine.cpus());
        let mut clocks = Vec::with_capacity(machine.cluster.len());
        for cluster in &machine.cluster {
            for index in 0..cluster.cpus {
                let cpu = cpus.len();
                if index % cluster.cpus_per_clock() == 0 {
                    let name = clock_name(cluster, cpu);
                    clocks.push(trace.counter(process, &name, "MHz"));
                }
                cpus.push(CpuTracks {
                    slices: trace.slices(process, &format!("CPU {cpu}")),
                    runnable: trace.counter(process, &format!("CPU {cpu} runnable"), "tasks"),
                    now: None,
                    depth: 0,
                    tasks: 0,
                });
            }
        }
        let group = trace.slices(process, "drive");
        let drive = DriveTracks {
            group,
            in_flight: 0,
            counter: trace.counter(group, "requests at the drive", "requests"),
            power: BTreeMap::new(),
            slots: Vec::new(),
            by_request: Vec::new(),
        };
        let start = Nanoseconds::ZERO;
        for cpu in &cpus {
            trace.count(start, cpu.runnable, 0);
        }
        trace.count(start, drive.counter, 0);
        Self {
            trace,
            end: span,
            over: false,
            idle_states: machine.idle_state.iter().map(|s| s.name.clone()).collect(),
            jobs: workload.names().into_iter().map(str::to_owned).collect(),
            clocks,
            cpus,
            drive,
        }
    }

    /// Completes the trace.
    ///
    /// # Errors
    /// The first error of `out`, then or before.
    pub fn finish(self) -> io::Result<W> {
        self.trace.finish()
    }

    /// Whether what happens now is still drawn. Closes the timeline when it is not.
    fn draws(&mut self, now: Nanoseconds) -> bool {
        if now >= self.end {
            self.close(self.end);
        }
        !self.over
    }

    /// Ends all slices.
    fn close(&mut self, now: Nanoseconds) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        for cpu in &mut self.cpus {
            cpu.end(&mut self.trace, now);
        }
        for slot in self.drive.slots.iter().filter(|s| s.task.is_some()) {
            self.trace.end(now, slot.track);
            self.trace.end(now, slot.track);
        }
        for (track, _) in self.drive.power.values() {
            self.trace.end(now, *track);
        }
    }
}

impl<W: Write> Observer for Timeline<W> {
    fn cpu(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        if !self.draws(now) {
            return;
        }
        let tracks = &mut self.cpus[cpu];
        if tracks.now == Some(activity) {
            return;
        }
        // Leaving an idle state is part of the stay in it, as in the figures of a run.
        if activity != Activity::Waking {
            tracks.end(&mut self.trace, now);
        }
        tracks.now = Some(activity);
        tracks.depth += 1;
        let track = tracks.slices;
        match activity {
            Activity::Idle(state) => self.trace.begin(now, track, &self.idle_states[state]),
            Activity::Waking => self.trace.begin(now, track, "waking"),
            Activity::Interrupt(kind) => self.trace.begin(now, track, interrupt_name(kind)),
            Activity::Task { job, work, .. } => {
                let of = job.and_then(|job| self.jobs.get(job));
                let name = match (of, work) {
                    (Some(job), Work::Submit) => &format!("{job}: submit"),
                    (Some(job), Work::Resume) => &format!("{job}: resume"),
                    (Some(job), Work::Think | Work::Background) => &format!("{job}: think"),
                    (None, _) => "kernel worker",
                };
                self.trace.begin(now, track, name);
            }
        }
    }

    fn runnable(&mut self, now: Nanoseconds, cpu: usize, tasks: usize) {
        if self.draws(now) {
            let tracks = &mut self.cpus[cpu];
            if std::mem::replace(&mut tracks.tasks, tasks) != tasks {
                self.trace.count(now, tracks.runnable, tasks as i64);
            }
        }
    }

    fn frequency(&mut self, now: Nanoseconds, clock: usize, frequency: Kilohertz) {
        if self.draws(now) {
            let mhz = f64::from(frequency.0) / 1e3;
            self.trace.measure(now, self.clocks[clock], mhz);
        }
    }

    fn request(&mut self, now: Nanoseconds, step: RequestStep) {
        if self.draws(now) {
            self.drive.request(&mut self.trace, now, step);
        }
    }

    fn drive_power(&mut self, now: Nanoseconds, drive: usize, state: usize) {
        if self.draws(now) {
            self.drive.power(&mut self.trace, now, drive, state);
        }
    }

    fn finished(&mut self, now: Nanoseconds) {
        self.close(now.min(self.end));
    }

    fn has_enough(&self) -> bool {
        self.over || self.trace.has_failed()
    }
}

fn interrupt_name(kind: InterruptKind) -> &'static str {
    match kind {
        InterruptKind::Completion(_) => "irq: completion",
        InterruptKind::Tick => "irq: tick",
        InterruptKind::Timer => "irq: timer",
        InterruptKind::Reschedule => "irq: reschedule",
    }
}

impl CpuTracks {
    fn end<W: Write>(&mut self, trace: &mut TraceWriter<W>, now: Nanoseconds) {
        for _ in 0..std::mem::take(&mut self.depth) {
            trace.end(now, self.slices);
        }
    }
}

impl DriveTracks {
    fn request<W: Write>(
        &mut self,
        trace: &mut TraceWriter<W>,
        now: Nanoseconds,
        step: RequestStep,
    ) {
        match step {
            RequestStep::Begun { task } => {
                let slot = self.free_slot(trace);
                self.slots[slot].task = Some(task);
                self.slots[slot].submitting = true;
                trace.begin(now, self.slots[slot].track, "request");
                trace.begin(now, self.slots[slot].track, "submission");
            }
            RequestStep::Issued {
                task,
                request,
                read,
            } => {
                let Some(slot) = self
                    .slots
                    .iter()
                    .position(|s| s.submitting && s.task == Some(task))
                else {
                    return;
                };
                self.slots[slot].submitting = false;
                if self.by_request.len() <= request {
                    self.by_request.resize(request + 1, usize::MAX);
                }
                self.by_request[request] = slot;
                let at_the_drive = if read { "drive: read" } else { "drive: write" };
                self.step(trace, now, request, at_the_drive);
                self.in_flight += 1;
                trace.count(now, self.counter, self.in_flight as i64);
            }
            RequestStep::Served { request } => {
                self.step(trace, now, request, "interrupt");
                self.in_flight = self.in_flight.saturating_sub(1);
                trace.count(now, self.counter, self.in_flight as i64);
            }
            RequestStep::Delivered { request, .. } => {
                self.step(trace, now, request, "wake-up of the task");
            }
            RequestStep::Completed { request } => {
                let Some(slot) = self.slot(request) else {
                    return;
                };
                slot.task = None;
                let track = slot.track;
                trace.end(now, track);
                trace.end(now, track);
            }
        }
    }

    /// The lowest slot that is free, a new one if none is.
    fn free_slot<W: Write>(&mut self, trace: &mut TraceWriter<W>) -> usize {
        let free = self.slots.iter().position(|s| s.task.is_none());
        free.unwrap_or_else(|| {
            let slot = self.slots.len();
            self.slots.push(Slot {
                track: trace.slices(self.group, &format!("request slot {slot}")),
                task: None,
                submitting: false,
            });
            slot
        })
    }

    fn slot(&mut self, request: usize) -> Option<&mut Slot> {
        self.slots.get_mut(*self.by_request.get(request)?)
    }

    /// Ends the present step of a request and begins the next.
    fn step<W: Write>(
        &mut self,
        trace: &mut TraceWriter<W>,
        now: Nanoseconds,
        request: usize,
        name: &str,
    ) {
        if let Some(slot) = self.slot(request) {
            let track = slot.track;
            trace.end(now, track);
            trace.begin(now, track, name);
        }
    }

    fn power<W: Write>(
        &mut self,
        trace: &mut TraceWriter<W>,
        now: Nanoseconds,
        drive: usize,
        state: usize,
    ) {
        let track = match self.power.get(&drive) {
            Some((_, before)) if *before == state => return,
            Some((track, _)) => {
                trace.end(now, *track);
                *track
            }
            None => trace.slices(self.group, &format!("power state of drive {drive}")),
        };
        trace.begin(now, track, &format!("PS{state}"));
        self.power.insert(drive, (track, state));
    }
}
