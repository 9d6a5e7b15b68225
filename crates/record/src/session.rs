//! Records a machine into a file, from start to end.

use std::path::Path;
use std::time::{Duration, Instant};

use thiserror::Error;
use wakepath_system::{CgroupPaths, System};
use wakepath_trace::recording::{DataQuality, Event, EventKind, Overwrite, RecordingError, Writer};

use crate::Overhead;
use crate::events::EventAssembler;
use crate::facts::{self, TickClock};
use crate::recording::{LiveRecording, RecordBatch};
use crate::residency::ResidencyMeter;
use crate::stream::keep_fact_for_metadata;
use crate::wire::{RecordKind, WireError};

/// How often the file is flushed, so that it is readable if nothing follows.
const FLUSH: Duration = Duration::from_secs(1);

/// Why a recording could not be made.
#[derive(Debug, Error)]
pub enum SessionError {
    /// The file of the recording could not be written.
    #[error(transparent)]
    File(#[from] RecordingError),
    /// An eBPF program wrote something else than this library reads; a fault of wakepath's.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// A recording in progress.
pub struct RecordSession {
    recording: LiveRecording,
    sink: Sink,
    system: System,
    ticks: Option<TickClock>,
    residency: ResidencyMeter,
    started: Instant,
    flushed: Instant,
}

/// Where records go.
struct Sink {
    writer: Writer,
    assembler: EventAssembler,
    /// When recording began.
    begun_ns: u64,
    summary: RecordSummary,
    events: Vec<Event>,
    cgroups: CgroupPaths,
    iowaiters_seen: bool,
    /// CPUs whose idle periods no governor chose a state for.
    without_states: Vec<u32>,
}

/// What a recording has, with its cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordSummary {
    /// How long.
    pub duration: Duration,
    /// Number of CPUs online at the start.
    pub cpus: u32,
    /// Idle periods.
    pub idle_periods: u64,
    /// Completed block requests.
    pub block_completions: u64,
    /// Number of wake-ups of tasks.
    pub wakes: u64,
    /// Number of wake-ups for tasks that waited for I/O.
    pub iowait_wakes: u64,
    /// Expired timers.
    pub timers: u64,
    /// Frequency changes.
    pub frequency_changes: u64,
    /// Number of events in the file.
    pub events: u64,
    /// Number of records from the eBPF programs; several records make an idle period.
    pub records: u64,
    /// Number of records lost because a buffer was full.
    pub lost: u64,
    /// Number of times that a task ran for which the kernel runs no eBPF programs: each lacks one event or more.
    pub unseen_switches: u64,
    /// Run time of the eBPF programs; `None` where the kernel does not count it.
    pub overhead: Option<Overhead>,
}

impl RecordSession {
    /// Records this machine into the file `path`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn start_into_file(
        recording: LiveRecording,
        system: System,
        path: &Path,
        overwrite: Overwrite,
    ) -> Result<Self, SessionError> {
        let mut metadata = facts::read_metadata(&system);
        metadata.recorded = recording.recorded_data();
        let summary = RecordSummary {
            cpus: metadata.cpus,
            ..RecordSummary::default()
        };
        let without_states =
            facts::find_cpus_without_states_among_others(&system, &metadata.idle_states);
        let sink = Sink {
            without_states,
            writer: Writer::create(path, overwrite, metadata)?,
            assembler: EventAssembler::new(recording.sees_idle_outcomes()),
            begun_ns: recording.begun_ns(),
            summary,
            events: Vec::new(),
            cgroups: CgroupPaths::find_mount_and_cgroups(system.root()),
            iowaiters_seen: false,
        };
        let now = Instant::now();
        Ok(Self {
            recording,
            sink,
            ticks: TickClock::read_now(system.root()),
            residency: ResidencyMeter::start(system.clone()),
            system,
            started: now,
            flushed: now,
        })
    }

    /// Number of events written so far, and of records lost.
    pub fn events_written_and_lost(&self) -> (u64, u64) {
        (self.sink.summary.events, self.sink.summary.lost)
    }

    /// Writes what has happened since the last call to the file; to be called a few times a second.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_new_events(&mut self) -> Result<(), SessionError> {
        let batch = self.recording.take_batch()?;
        self.sink.write_events_of_batch(&batch)?;
        if self.flushed.elapsed() >= FLUSH {
            self.sink.writer.flush()?;
            self.flushed = Instant::now();
        }
        Ok(())
    }

    /// Ends the recording, and completes its file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish_file(mut self) -> Result<RecordSummary, SessionError> {
        let residency = self.residency.take_since_last_call();
        let mut sink = self.sink;
        let sees_iowaiters = self.recording.recorded_data().iowaiters != DataQuality::Missing;
        let (batch, overhead) = self.recording.detach_and_take_rest()?;
        sink.summary.duration = self.started.elapsed();
        sink.summary.overhead = overhead;
        sink.write_events_of_batch(&batch)?;
        sink.assembler.release_waiting_events(&mut sink.events);
        sink.count_and_write_governed_events()?;

        let ended = TickClock::read_now(self.system.root());
        let measured = self
            .ticks
            .zip(ended)
            .and_then(|(first, last)| last.usual_tick_rate_since(first));
        let metadata = sink.writer.metadata_mut();
        metadata.hz = metadata.hz.or(measured);
        metadata.residency = residency;
        metadata.idle_at_end = Some(sink.assembler.open_idle_periods());
        if sees_iowaiters && !sink.iowaiters_seen {
            // A governor's input counts as recorded only if this governor asks for it, though the hook exists.
            metadata.recorded.iowaiters = DataQuality::Missing;
        }
        sink.writer.finish_and_count_events()?;
        Ok(sink.summary)
    }
}

impl Sink {
    fn write_events_of_batch(&mut self, batch: &RecordBatch) -> Result<(), SessionError> {
        self.summary.records += batch.records.len() as u64;
        for record in &batch.records {
            keep_fact_for_metadata(self.writer.metadata_mut(), &mut self.cgroups, record);
            let is_unseen = matches!(record.kind, RecordKind::UnseenSwitch { .. });
            self.summary.unseen_switches += u64::from(is_unseen);
            self.assembler.take_record(record, &mut self.events);
        }
        for (cpu, count) in &batch.lost {
            self.summary.lost += count;
            self.writer.metadata_mut().add_or_count_warning("lost-events", || {
                format!(
                    "the buffer of CPU {cpu} was full before {} ns; its idle periods at such places are left out. \
                     A bigger buffer (--buffer) helps",
                    batch.until_ns
                )
            });
            self.assembler.forget_cpu_after_lost_records(
                *cpu,
                batch.until_ns,
                *count,
                &mut self.events,
            );
        }
        let metadata = self.writer.metadata_mut();
        metadata.lost_events = self.summary.lost;
        // The recording's span is noted, because a machine may rest at both ends without any event.
        metadata.span_ns = Some([self.begun_ns, batch.until_ns.max(self.begun_ns)]);
        self.count_and_write_governed_events()
    }

    fn count_and_write_governed_events(&mut self) -> Result<(), SessionError> {
        for event in self.events.drain(..) {
            if matches!(event.kind, EventKind::Idle(_)) && self.without_states.contains(&event.cpu)
            {
                continue;
            }
            self.summary.count_event(&event);
            match event.kind {
                EventKind::Idle(period) => self.iowaiters_seen |= period.inputs.iowaiters.is_some(),
                EventKind::Hotplug { online } => {
                    let metadata = self.writer.metadata_mut();
                    metadata.warn_of_hotplug(event.cpu, event.time, online);
                }
                _ => {}
            }
            self.writer.add_event(&event)?;
        }
        Ok(())
    }
}

impl RecordSummary {
    fn count_event(&mut self, event: &Event) {
        self.events += 1;
        match event.kind {
            EventKind::Idle(_) => self.idle_periods += 1,
            EventKind::BlockComplete(_) => self.block_completions += 1,
            EventKind::Wake { iowait, .. } => {
                self.wakes += 1;
                self.iowait_wakes += u64::from(iowait == Some(true));
            }
            EventKind::Timer(_) => self.timers += 1,
            EventKind::Frequency(_) => self.frequency_changes += 1,
            EventKind::BlockIssue(_)
            | EventKind::Queueing(_)
            | EventKind::Interrupt(_)
            | EventKind::Task { .. }
            | EventKind::Clock(_)
            | EventKind::Lost { .. }
            | EventKind::Hotplug { .. } => {}
        }
    }

    /// eBPF run time per record, in ns; `None` where the kernel does not count it, or nothing was recorded.
    pub fn ebpf_ns_per_record(&self) -> Option<f64> {
        let run_time = self.overhead?.run_time;
        (self.records > 0).then(|| run_time.as_nanos() as f64 / self.records as f64)
    }

    /// eBPF run time in per cent of all CPUs' time.
    pub fn ebpf_percent_of_cpu_time(&self) -> Option<f64> {
        let all = self.duration.as_secs_f64() * f64::from(self.cpus);
        let run_time = self.overhead?.run_time;
        (all > 0.0).then(|| 100.0 * run_time.as_secs_f64() / all)
    }
}
