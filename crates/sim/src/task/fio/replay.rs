//! A process that replays a block trace or a log of fio: which request comes next, and when.
//!
//! One process submits as libaio does: a request begins at its time in the trace, whatever is in flight. Completions are
//! taken back between submissions. A dependent replay keeps think times instead: a request waits for all that had ended
//! before it in the trace, and then for the time that had passed since the last of their ends.
//!
//! A log (`read_iolog`) is replayed as fio does, with the engine and depth of its job: see [`LogClock`].

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use serde::Serialize;
use wakepath_hardware::machine::{DriveModel, Origin};
use wakepath_workloads::block_trace::{
    BlockTrace, BlockTraceError, BlockTraceRequests, JobLog, JobLogRequests, JobLogStart, TraceIo,
};
use wakepath_workloads::fio::FioJob;

use crate::core::basics::{CpuId, RequestId};
use crate::task::fio::log_clock::LogClock;

/// Where the requests of a replay come from.
#[derive(Clone, Debug)]
enum ReplaySource {
    Trace(Box<BlockTrace>),
    Log(Box<JobLog>),
}

/// A job's trace or log, compiled.
#[derive(Clone, Debug)]
pub(crate) struct ReplaySetup {
    source: ReplaySource,
    /// Whether the drive gets flushes: the kernel sends none to a drive without a volatile cache.
    sends_flushes: bool,
}

impl ReplaySetup {
    /// The replay of a job on a drive; `None`: the job replays nothing.
    ///
    /// # Errors
    /// A request reaches beyond the drive.
    pub(super) fn for_job(
        job: &FioJob,
        drive: &DriveModel,
    ) -> Result<Option<Self>, BlockTraceError> {
        let (source, origin) = match (&job.replay, &job.io_log.log) {
            (Some(trace), _) => (ReplaySource::Trace(trace.clone()), &trace.origin),
            (None, Some(log)) => (ReplaySource::Log(log.clone()), &log.origin),
            (None, None) => return Ok(None),
        };
        let capacity = drive.capacity_in_bytes();
        let beyond = (job.replayed_totals())
            .filter(|totals| drive.capacity_gb.is_given() && totals.end_byte > capacity);
        if let Some(totals) = beyond {
            return Err(BlockTraceError {
                origin: origin.clone(),
                line: Some(totals.end_line),
                message: format!(
                    "the request ends at byte {}, and {} has {capacity}{}; take a larger drive (--drive, or drive.capacity_gb in \
                     the machine's file)",
                    totals.end_byte,
                    drive.name,
                    match &drive.capacity_gb.origin {
                        Origin::Assumed(why) => format!(" (assumed: {why})"),
                        _ => String::new(),
                    }
                ),
            });
        }
        Ok(Some(Self {
            source,
            sends_flushes: drive.flush_us.micros_to_time().0 > 0,
        }))
    }

    /// Whether requests wait for the ends of others.
    pub(super) fn is_dependent(&self) -> bool {
        matches!(&self.source, ReplaySource::Trace(trace) if trace.is_dependent)
    }

    /// Whether the longest simulated time, `end` in ns, may cut the replay off. `given`: whether a user has set a time.
    pub(super) fn may_be_cut_off_at(&self, end: u64, given: bool) -> bool {
        match &self.source {
            ReplaySource::Trace(trace) => !given && trace.duration().0 > end,
            // Requests take time that is not in the log.
            ReplaySource::Log(_) => !given,
        }
    }
}

/// How late the requests of a replay began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReplayTotals {
    /// Number of requests begun.
    requests: u64,
    /// Times in ns from the begin of the replay when the last request was due, and when it began.
    last_due: u64,
    last_begun: u64,
    /// Longest time in ns from when a request was due to its begin.
    most_late: u64,
}

/// How well a replay kept the times of its trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReplayRun {
    /// Number of the job, from 0.
    pub job: usize,
    /// Requests begun.
    pub requests: u64,
    /// Requests per second of the trace, up to the last request begun.
    pub asked_per_s: f64,
    /// Requests per second of the replay, up to the same request.
    pub done_per_s: f64,
    /// How much later than in the trace the last request began, in seconds.
    pub last_late_s: f64,
    /// How much later than in the trace a request began at most, in seconds.
    pub most_late_s: f64,
}

impl ReplayTotals {
    /// The totals in public units; `None` where times of the trace do not say when requests are due.
    pub(crate) fn describe(&self, job: usize) -> Option<ReplayRun> {
        if self.requests < 2 || self.last_due == 0 {
            return None;
        }
        let requests = self.requests as f64;
        let late = self.last_begun.saturating_sub(self.last_due);
        Some(ReplayRun {
            job,
            requests: self.requests,
            asked_per_s: requests * 1e9 / self.last_due as f64,
            done_per_s: requests * 1e9 / self.last_begun.max(self.last_due) as f64,
            last_late_s: late as f64 / 1e9,
            most_late_s: self.most_late as f64 / 1e9,
        })
    }
}

/// Which requests the next one of a dependent replay waits for.
#[derive(Debug, Default)]
struct Dependencies {
    /// Requests begun that had not ended in the trace before the next one, by their ends in the trace, with their numbers.
    running_in_trace: BinaryHeap<Reverse<(u64, u64)>>,
    /// Numbers of requests in flight in the replay.
    in_flight: HashMap<RequestId, u64>,
    /// Ends in ns of requests that still run in the trace.
    early_ends: HashMap<u64, u64>,
    /// Numbers of requests that the next one waits for.
    awaited: BTreeSet<u64>,
    /// Last end in ns of what the next request waits for: in the trace, and in the replay.
    last_end_in_trace: u64,
    last_end: u64,
}

impl Dependencies {
    /// Settles what a request that began at `begin` in the trace waits for.
    fn prepare_request(&mut self, begin: u64) {
        while let Some(Reverse((end, number))) = self.running_in_trace.peek().copied()
            && end <= begin
        {
            self.running_in_trace.pop();
            self.last_end_in_trace = self.last_end_in_trace.max(end);
            match self.early_ends.remove(&number) {
                Some(ended) => self.last_end = self.last_end.max(ended),
                None => _ = self.awaited.insert(number),
            }
        }
    }

    /// When the request that began at `begin` in the trace is due; `None`: not before another request ends.
    fn due_time(&self, begin: u64) -> Option<u64> {
        let think_time = begin - self.last_end_in_trace;
        (self.awaited.is_empty()).then(|| self.last_end.saturating_add(think_time))
    }

    fn note_begun(&mut self, id: RequestId, number: u64, end_in_trace: Option<u64>) {
        if let Some(end) = end_in_trace {
            self.running_in_trace.push(Reverse((end, number)));
            self.in_flight.insert(id, number);
        }
    }

    fn note_ended(&mut self, id: RequestId, now: u64) {
        let Some(number) = self.in_flight.remove(&id) else {
            return;
        };
        if self.awaited.remove(&number) {
            self.last_end = self.last_end.max(now);
        } else {
            self.early_ends.insert(number, now);
        }
    }
}

/// When a replayed request begins.
#[derive(Clone, Copy, Debug)]
enum RequestStart {
    /// Time in ns from the begin of the replay.
    InTrace(u64),
    InLog(JobLogStart),
}

/// A request to be replayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayedRequest {
    start: RequestStart,
    pub(super) io: TraceIo,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// End in the trace, in ns from the begin of the replay.
    end: Option<u64>,
}

/// The requests of a trace or a log, read one by one.
#[derive(Debug)]
enum RequestSource {
    Trace(BlockTraceRequests),
    Log(JobLogRequests),
}

impl RequestSource {
    fn next_request(&mut self) -> Result<Option<ReplayedRequest>, BlockTraceError> {
        match self {
            Self::Trace(requests) => {
                let next = requests.next().transpose()?;
                Ok(next.map(|request| ReplayedRequest {
                    start: RequestStart::InTrace(request.begin.0),
                    io: request.io,
                    offset: request.offset,
                    bytes: request.bytes,
                    end: request.end.map(|end| end.0),
                }))
            }
            Self::Log(requests) => {
                let next = requests.next().transpose()?;
                Ok(next.map(|request| ReplayedRequest {
                    start: RequestStart::InLog(request.start),
                    io: request.io,
                    offset: request.offset,
                    bytes: request.bytes,
                    end: None,
                }))
            }
        }
    }
}

/// The replay of a process.
#[derive(Debug)]
pub(in crate::task) struct Replay {
    requests: RequestSource,
    sends_flushes: bool,
    /// The next request, once read.
    next: Option<ReplayedRequest>,
    /// End in the trace of the request being submitted.
    end_of_present: Option<u64>,
    is_over: bool,
    started: u64,
    /// CPU of the timer that wakes the process for its next request.
    pub(super) timer: Option<CpuId>,
    dependencies: Option<Dependencies>,
    clock: LogClock,
    totals: ReplayTotals,
}

impl Replay {
    /// A replay that begins at the time `started` in ns.
    ///
    /// # Errors
    /// The trace or log cannot be read again.
    pub(super) fn new(setup: &ReplaySetup, started: u64) -> Result<Self, BlockTraceError> {
        Ok(Self {
            requests: match &setup.source {
                ReplaySource::Trace(trace) => RequestSource::Trace(trace.requests()?),
                ReplaySource::Log(log) => RequestSource::Log(log.requests()?),
            },
            sends_flushes: setup.sends_flushes,
            next: None,
            end_of_present: None,
            is_over: false,
            started,
            timer: None,
            dependencies: setup.is_dependent().then(|| Dependencies {
                last_end: started,
                ..Dependencies::default()
            }),
            clock: LogClock::new(started),
            totals: ReplayTotals::default(),
        })
    }

    /// Whether a log is replayed: completed requests are taken back only when no further request may begin.
    pub(super) fn replays_log(&self) -> bool {
        matches!(self.requests, RequestSource::Log(_))
    }

    /// Reads the next request, unless it is read already. Returns whether there is one.
    ///
    /// # Errors
    /// The trace has changed for the worse.
    pub(super) fn settle_next_request(&mut self) -> Result<bool, BlockTraceError> {
        while self.next.is_none() && !self.is_over {
            let Some(request) = self.requests.next_request()? else {
                self.is_over = true;
                break;
            };
            let is_skipped = request.io == TraceIo::Flush && !self.sends_flushes;
            match (request.start, &mut self.dependencies) {
                (RequestStart::InLog(start), _) if is_skipped => {
                    self.clock.pass_over_request(start);
                }
                (RequestStart::InTrace(begin), Some(dependencies)) if !is_skipped => {
                    dependencies.prepare_request(begin);
                }
                _ => {}
            }
            self.next = (!is_skipped).then_some(request);
        }
        Ok(self.next.is_some())
    }

    /// When the next request is due in ns; `None`: there is none, or not before another request ends. `now`: when the process is
    /// free to begin a request.
    pub(super) fn due_time(&mut self, now: u64) -> Option<u64> {
        match (self.next?.start, &self.dependencies) {
            (RequestStart::InTrace(begin), Some(dependencies)) => dependencies.due_time(begin),
            (RequestStart::InTrace(begin), None) => Some(self.started.saturating_add(begin)),
            (RequestStart::InLog(start), _) => Some(self.clock.due_time(start, now)),
        }
    }

    /// Until when a process that waits for a request due at `due` sleeps at most.
    pub(super) fn end_of_sleep(&self, now: u64, due: u64) -> u64 {
        self.clock.end_of_sleep(now, due)
    }

    /// Takes the next request, which begins now.
    pub(super) fn take_next_request(&mut self, now: u64) -> Option<ReplayedRequest> {
        let due = self.due_time(now)?;
        let request = self.next.take()?;
        let totals = &mut self.totals;
        totals.requests += 1;
        match request.start {
            RequestStart::InLog(_) => self.clock.note_issued_request(now),
            RequestStart::InTrace(_) if self.dependencies.is_none() => {
                totals.last_due = due - self.started;
                totals.last_begun = now - self.started;
                totals.most_late = totals.most_late.max(now.saturating_sub(due));
            }
            RequestStart::InTrace(_) => {}
        }
        self.end_of_present = request.end;
        Some(request)
    }

    /// Notes the number under which the request that began last was submitted.
    pub(super) fn note_submitted_request(&mut self, id: RequestId) {
        if let Some(dependencies) = &mut self.dependencies {
            dependencies.note_begun(id, self.totals.requests, self.end_of_present.take());
        }
    }

    /// Notes that a request has ended.
    pub(super) fn note_ended_request(&mut self, id: RequestId, now: u64) {
        if let Some(dependencies) = &mut self.dependencies {
            dependencies.note_ended(id, now);
        }
    }

    pub(super) fn totals(&self) -> ReplayTotals {
        self.totals
    }
}

#[cfg(test)]
mod tests {
    use wakepath_workloads::block_trace::BlockTraceOptions;

    use super::*;

    fn replay(text: &str, is_dependent: bool) -> Replay {
        let options = BlockTraceOptions {
            is_dependent,
            ..BlockTraceOptions::default()
        };
        let trace = BlockTrace::from_text(text.as_bytes(), "t", &options).unwrap();
        let setup = ReplaySetup {
            source: ReplaySource::Trace(Box::new(trace)),
            sends_flushes: false,
        };
        Replay::new(&setup, 1000).unwrap()
    }

    fn due(replay: &mut Replay) -> Option<u64> {
        assert!(replay.settle_next_request().unwrap());
        replay.due_time(0)
    }

    fn begin(replay: &mut Replay, id: RequestId, now: u64) {
        assert!(replay.take_next_request(now).is_some());
        replay.note_submitted_request(id);
    }

    #[test]
    fn a_request_waits_for_those_that_had_ended_before_it() {
        // In units of 100 ns: 0 to 10, 2 to 30, then one at 15 after the first, and one at 50 after all.
        let text =
            "0,a,0,Read,0,512,10\n2,a,0,Read,0,512,28\n15,a,0,Read,0,512,5\n50,a,0,Read,0,512,1\n";
        let mut replay = replay(text, true);
        assert_eq!(due(&mut replay), Some(1000));
        begin(&mut replay, 1, 1000);
        assert_eq!(due(&mut replay), Some(1200));
        begin(&mut replay, 2, 1200);
        assert_eq!(due(&mut replay), None);
        // The second request may end before the first.
        replay.note_ended_request(2, 4000);
        assert_eq!(due(&mut replay), None);
        replay.note_ended_request(1, 9000);
        assert_eq!(due(&mut replay), Some(9500));
        begin(&mut replay, 1, 9500);
        assert_eq!(due(&mut replay), None);
        replay.note_ended_request(1, 9900);
        assert_eq!(due(&mut replay), Some(9900 + 2000));
        begin(&mut replay, 1, 12_000);
        assert!(!replay.settle_next_request().unwrap());
    }

    #[test]
    fn an_open_loop_waits_for_nothing_and_says_how_late_it_is() {
        let text = "0,a,0,Read,0,512,10\n20,a,0,Read,0,512,28\n40,a,0,Read,0,512,5\n";
        let mut replay = replay(text, false);
        for (id, now) in [(1, 1000), (2, 9000), (3, 9500)] {
            assert_eq!(due(&mut replay), Some(1000 + (id as u64 - 1) * 2000));
            begin(&mut replay, id, now);
        }
        let run = replay.totals().describe(0).unwrap();
        assert_eq!((run.requests, run.last_late_s), (3, 4.5e-6));
        assert!((run.most_late_s - 6e-6).abs() < 1e-12, "{run:?}");
        assert!(run.done_per_s < run.asked_per_s);
    }
}
