//! A job's process: progress, pauses, and unflushed writes.

use wakepath_workloads::fio::{Batching, NextIo, Walk};

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{Direction, RequestId};
use crate::task::fio::setup::{JobSetup, PauseRule};

/// When a process thinks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    /// When the pause in progress is over.
    until: u64,
    /// A pause begins as soon as nothing is in flight.
    due: bool,
    /// Requests finished when the last pause was due.
    finished: u64,
    /// Requests submitted when the last pause began.
    submitted: u64,
    /// Begin of a pause that the rates of the job have not accounted for.
    pub(super) began: Option<u64>,
    /// When the last pause was due.
    last: u64,
}

/// The state that only a job's process has.
#[derive(Clone, Debug)]
pub(crate) struct FioProcess {
    /// Index of the job.
    pub(in crate::task) job: usize,
    /// When the process started, and when the time of the job is over.
    pub(super) started: u64,
    pub(super) ends: u64,
    pub(super) submitted: u64,
    /// Bytes of the requests submitted.
    pub(super) bytes: u64,
    /// Reads and writes submitted, or their bytes where block sizes vary.
    pub(super) issued: [u64; 2],
    /// Writes submitted, and whether a flush followed the last one.
    written: u64,
    flushed: bool,
    /// A flush is being submitted, or waited for.
    pub(in crate::task) flushing: bool,
    /// Kind of a write of the job.
    writes_as: RequestKind,
    /// A write whose system call still flushes the drive before returning.
    unreturned: Option<Box<Request>>,
    /// Direction of the next request, once settled.
    pub(in crate::task) direction: Option<Direction>,
    /// The way through the file, where the job's limits do not tell.
    pub(super) walk: Option<Box<Walk>>,
    /// The present way through the file has come to an end.
    pub(super) pass_is_over: bool,
    /// Place of the next request, once settled by `walk` or by the page cache.
    pub(super) next: Option<NextIo>,
    /// Place of the last request, if `next` had settled it.
    pub(super) offset: Option<u64>,
    /// Next block to read and to write, in sequential jobs.
    pub(super) next_block: [u64; 2],
    /// Direction of the last request.
    pub(super) last: Direction,
    /// When the next read and the next write are due, in ns after the start: the drawn arrivals of a Poisson process, else
    /// the pauses that a rate forgives.
    pub(super) due: [u64; 2],
    /// The data of the next write are in the buffer.
    pub(super) filled: bool,
    /// Requests are submitted in batches: the requests of the next batch, with bytes.
    gathers: bool,
    pub(super) gathered: Vec<(RequestId, u64)>,
    /// The queue was full, and requests are taken back before more are submitted.
    reaps: bool,
    /// Requests submitted when think cycles were last burnt.
    pub(super) thought_cycles: u64,
    pub(super) pause: Pause,
}

impl FioProcess {
    /// A process of the job with this index that runs from one time to another.
    pub(super) fn new(index: usize, job: &JobSetup, (started, ends): (u64, u64)) -> Self {
        Self {
            job: index,
            started,
            ends,
            submitted: 0,
            bytes: 0,
            issued: [0; 2],
            written: 0,
            flushed: true,
            flushing: false,
            writes_as: job.writes_as,
            unreturned: None,
            direction: None,
            walk: job.walk.clone().map(Box::new),
            pass_is_over: false,
            next: None,
            offset: None,
            next_block: [0; 2],
            last: Direction::Read,
            due: [0; 2],
            filled: false,
            gathers: job.batch.is_some(),
            gathered: Vec::new(),
            reaps: false,
            thought_cycles: 0,
            pause: Pause::default(),
        }
    }

    /// Counts a request of so many bytes. Returns its kind, and whether a batch holds it back.
    #[inline(always)]
    pub(in crate::task) fn note_submission(
        &mut self,
        direction: Direction,
        bytes: u64,
    ) -> (RequestKind, bool) {
        self.submitted += 1;
        self.flushed = false;
        // Trims are writes without data, which fio does not count here.
        if direction == Direction::Write && bytes > 0 {
            self.written += 1;
            return (self.writes_as, self.gathers);
        }
        (RequestKind::Plain, self.gathers)
    }

    /// Counts a flush, unless a write's own system call does the flush.
    pub(in crate::task) fn note_flush(&mut self) {
        self.flushed = self.unreturned.is_none();
    }

    /// Counts a write or read that the page cache takes.
    pub(in crate::task) fn note_cached(&mut self, writes: bool) {
        self.submitted += 1;
        self.written += u64::from(writes);
        self.flushed &= !writes;
    }

    /// Whether a write is on the media, and its system call goes on to flush the drive.
    pub(super) fn has_unreturned_write(&self) -> bool {
        self.unreturned.is_some()
    }

    /// Ends a call that writes back and flushes. Returns whether such a call was in progress.
    pub(in crate::task) fn end_fsync(&mut self) -> bool {
        let flushing = std::mem::take(&mut self.flushing);
        self.flushed |= flushing;
        flushing
    }

    /// A flush has ended, or a write before a flush. Returns the write whose system call is over now.
    pub(in crate::task) fn end_stretch(&mut self, request: &Request) -> Option<Box<Request>> {
        if request.kind != RequestKind::Flush {
            self.unreturned = Some(Box::new(*request));
            return None;
        }
        self.flushing = false;
        let mut write = self.unreturned.take()?;
        write.append_flush(request);
        Some(write)
    }

    /// Whether requests are taken back before more are submitted: as fio (`wait_for_completions()`), from a full queue
    /// down to the batch's low mark.
    pub(super) fn reaps_batch(&mut self, full: bool, batch: &Batching, in_flight: u32) -> bool {
        self.reaps = full || (self.reaps && in_flight > batch.low);
        self.reaps
    }

    /// Whether a pause comes before the next request, with this many in flight.
    ///
    /// As fio 3.33 (`handle_thinktime()`, `backend.c`): after each issued request, fio counts completions since the
    /// last due pause, and then waits for all in flight before the pause begins.
    pub(super) fn pause_is_due(&mut self, rule: PauseRule, in_flight: u32, now: u64) -> bool {
        let finished = if rule.by_issue {
            self.submitted
        } else {
            // A flush is in flight, and no request.
            self.submitted.saturating_sub(u64::from(in_flight))
        };
        let pause = &mut self.pause;
        if pause.due || self.submitted <= pause.submitted {
            return pause.due;
        }
        if let Some(blocks) = rule.requests
            && finished >= pause.finished + blocks
        {
            pause.due = true;
            // fio takes completions singly, so the count is found exactly, unless the wait before the last pause
            // completed more.
            pause.finished = (pause.finished + blocks).max(pause.submitted);
        }
        if let Some(every) = rule.every
            && now >= pause.last.max(self.started) + every
        {
            pause.due = true;
            pause.finished = pause.finished.max(finished);
        }
        if pause.due {
            pause.last = now;
        }
        pause.due
    }

    /// The pause that was due begins, and is over at `until`.
    pub(super) fn begin_pause(&mut self, now: u64, until: u64) {
        self.pause.due = false;
        self.pause.began = Some(now);
        self.pause.submitted = self.submitted;
        self.pause.until = until;
    }

    /// When the pause in progress is over.
    pub(super) fn pauses_until(&self) -> u64 {
        self.pause.until
    }

    /// Whether a flush comes before the next request: as fio (`get_next_ddir()`), once after so many writes.
    #[inline(never)]
    pub(super) fn flush_is_due(&self, every: [u64; 2]) -> bool {
        let mut every = every.into_iter().filter(|every| *every > 0);
        !self.flushed && self.written > 0 && every.any(|every| self.written.is_multiple_of(every))
    }

    /// Whether the last write has not been flushed.
    pub(super) fn last_flush_is_due(&self) -> bool {
        !self.flushed && self.written > 0
    }

    /// Whether the job goes through the file once more.
    pub(super) fn starts_over(&mut self) -> bool {
        self.pass_is_over
            && self.walk.as_mut().is_some_and(|walk| {
                self.pass_is_over = false;
                walk.start_over_if_unfinished()
            })
    }
}
