//! Latencies of this machine's block requests as they complete: `explain`'s measurement, handed out once a second.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wakepath_explain::{Collected, Collector, RequestTimes};
use wakepath_record::wire::WireError;
use wakepath_record::{BUFFER_BYTES, EventStream, LiveRecording, RecordedTasks, StartError};
use wakepath_system::System;
use wakepath_trace::recording::Metadata;
use wakepath_watch::guard::LatencySlice;

use crate::latency_parts::{PartCounts, PartsCounter};

/// How often the programs' buffers are emptied: they have room for half a second of a busy machine.
const READ_INTERVAL: Duration = Duration::from_millis(100);
/// Length of a slice.
const SLICE: Duration = Duration::from_secs(1);
/// Slices that wait for a reader that is busy; later ones wait in the thread.
const MOST_WAITING: usize = 16;

/// What a second has shown.
#[derive(Clone, Debug, Default)]
pub struct FeedSlice {
    /// Latencies of requests that somebody waits for, by drive.
    pub latencies: LatencySlice,
    /// All requests since the start, by drive and part; `None` unless asked for.
    pub parts: Option<PartCounts>,
    /// Events that found no room in the buffers since the start. Requests in flight at such a place are left out.
    pub lost_events: u64,
}

/// Why no more slices come.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The programs wrote something else than this library reads; a fault of wakepath's.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The thread that measures has ended without a reason.
    #[error("the measurement has ended")]
    Ended,
}

/// Measures the latencies of this machine's block requests in a thread of its own, until dropped.
#[derive(Debug)]
pub struct LatencyFeed {
    slices: Receiver<Result<FeedSlice, WireError>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    drives: Vec<String>,
}

impl LatencyFeed {
    /// Attaches the programs of `wakepath record`, and begins to measure. `with_parts`: divide latency into parts, too.
    ///
    /// # Errors
    /// This build has no programs, or this machine does not let them run.
    pub fn start(with_parts: bool) -> Result<Self, StartError> {
        let recording = LiveRecording::load_and_attach(BUFFER_BYTES, RecordedTasks::WithIo)?;
        let stream = EventStream::start(recording, &System::live());
        let devices = stream.metadata().devices.iter();
        let drives = devices.map(|drive| drive.name.clone()).collect();
        let (send, slices) = mpsc::sync_channel(MOST_WAITING);
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let mut follower = Follower {
            collector: Collector::new(stream.metadata()),
            parts: with_parts.then(PartsCounter::default),
            stream,
        };
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                let slice = follower.measure_slice(&told);
                let failed = slice.is_err();
                // The reader is gone, or the programs cannot be read.
                if send.send(slice).is_err() || failed {
                    break;
                }
            }
        });
        Ok(Self {
            slices,
            stop,
            thread: Some(thread),
            drives,
        })
    }

    /// Names of this machine's block devices, such as `nvme0n1`.
    pub fn drives(&self) -> &[String] {
        &self.drives
    }

    /// The next slice; `None` if none is complete within `longest`.
    ///
    /// # Errors
    /// No more slices come.
    pub fn next_slice(&self, longest: Duration) -> Result<Option<FeedSlice>, FeedError> {
        match self.slices.recv_timeout(longest) {
            Ok(slice) => Ok(Some(slice?)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(FeedError::Ended),
        }
    }

    /// The next slice, if one is complete.
    ///
    /// # Errors
    /// No more slices come.
    pub fn take_complete_slice(&self) -> Result<Option<FeedSlice>, FeedError> {
        match self.slices.try_recv() {
            Ok(slice) => Ok(Some(slice?)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(FeedError::Ended),
        }
    }
}

impl Drop for LatencyFeed {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that waits to hand a slice over has to be let go first.
        while self.slices.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            // A panic of the measurement changes nothing that would have to be put back.
            let _ = thread.join();
        }
    }
}

/// Follows the requests of this machine.
struct Follower {
    stream: EventStream,
    collector: Collector,
    parts: Option<PartsCounter>,
}

impl Follower {
    /// Follows the requests of a second, or until told to stop.
    fn measure_slice(&mut self, stop: &AtomicBool) -> Result<FeedSlice, WireError> {
        let begun = Instant::now();
        while begun.elapsed() < SLICE && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(READ_INTERVAL);
            let collector = &mut self.collector;
            self.stream
                .visit_new_events(|event| collector.push_event(event))?;
            self.collector
                .learn_task_names(&self.stream.metadata().tasks);
        }
        self.collector
            .note_open_idle_periods(&self.stream.open_idle_periods());
        let collected = self.collector.take_settled_requests();
        let tasks: HashSet<u32> = collected.requests.iter().filter_map(|r| r.task).collect();
        self.stream.forget_unused_task_names_if_half_full(&tasks);
        let metadata = self.stream.metadata();
        let parts = self.parts.as_mut().map(|parts| {
            parts.add_requests(&collected, metadata);
            parts.counts().clone()
        });
        Ok(FeedSlice {
            latencies: count_latencies(&collected, metadata),
            parts,
            lost_events: metadata.lost_events,
        })
    }
}

/// Counts the latencies of requests that somebody waits for, by drive.
fn count_latencies(collected: &Collected, metadata: &Metadata) -> LatencySlice {
    let mut slice = LatencySlice::default();
    for request in &collected.requests {
        if request.background {
            continue;
        }
        let drive = metadata.device_name_or_numbers(request.device);
        let latencies = slice.drives.entry(drive).or_default();
        let latency = RequestTimes::without_exit_estimate(request).latency_ns();
        if request.write {
            latencies.writes.add_latency(latency);
        } else {
            latencies.reads.add_latency(latency);
        }
    }
    slice
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_explain::{MetState, NeighbourState, TracedRequest};
    use wakepath_trace::recording::BlockDevice;

    const REQUEST: TracedRequest = TracedRequest {
        device: 259 << 20,
        bytes: 4096,
        write: false,
        background: false,
        task: None,
        queued: None,
        completed: 5_000_000,
        latency: 80_000,
        out: 80_000,
        slept: 0,
        interrupt: 0,
        remote: None,
        cpu: 0,
        irq: None,
        gap: None,
        cpu_gap: None,
        in_flight: 0,
        khz: 0,
        first: None,
        periods: 0,
        overtaken: false,
        met: MetState::Awake,
        sibling: NeighbourState::None,
        cluster: NeighbourState::None,
        package: NeighbourState::None,
        wake: None,
    };

    #[test]
    fn requests_that_somebody_waits_for_are_counted_by_drive() {
        let metadata = Metadata {
            devices: vec![BlockDevice {
                device: 259 << 20,
                name: "nvme0n1".to_owned(),
                ..BlockDevice::default()
            }],
            ..Metadata::default()
        };
        let collected = Collected {
            requests: vec![
                REQUEST,
                TracedRequest {
                    write: true,
                    ..REQUEST
                },
                TracedRequest {
                    write: true,
                    background: true,
                    ..REQUEST
                },
                TracedRequest {
                    device: 8 << 20 | 16,
                    ..REQUEST
                },
            ],
            ..Collected::default()
        };
        let slice = count_latencies(&collected, &metadata);
        let names: Vec<&String> = slice.drives.keys().collect();
        assert_eq!(names, ["8:16", "nvme0n1"]);
        let drive = &slice.drives["nvme0n1"];
        assert_eq!((drive.reads.requests(), drive.writes.requests()), (1, 1));
        assert_eq!(drive.reads.sum_ns(), 80_000);
    }
}
