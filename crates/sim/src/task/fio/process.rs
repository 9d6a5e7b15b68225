//! A job's process: progress, pauses, and unflushed writes.

use wakepath_workloads::fio::{Batching, NextIo, ReadBack, Walk};

use crate::block::request::{Request, RequestKind};
use crate::core::basics::{Direction, HeldByBatch, RequestId};
use crate::task::fio::helpers::Helpers;
use crate::task::fio::replay::Replay;
use crate::task::fio::setup::{JobSetup, PauseRule};
use crate::task::fio::steering::Steering;

/// A process's pauses (think time).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    /// Time in ns when the pause in progress is over.
    until: u64,
    /// Whether a pause is due, which begins as soon as nothing is in flight.
    due: bool,
    /// Number of requests finished when the last pause was due.
    finished: u64,
    /// Number of requests submitted when the last pause began.
    submitted: u64,
    /// Begin in ns of the pause in progress.
    began: Option<u64>,
    /// Time in ns that a pause has taken for which the job's rates have not accounted yet.
    pub(super) unaccounted: Option<u64>,
    /// Time in ns when the last pause was due.
    last: u64,
}

/// State of a fio job's process, beyond that of any task.
#[derive(Debug)]
pub(crate) struct FioProcess {
    /// Index of the job.
    pub(in crate::task) job: usize,
    /// Times in ns when the process started, and when its job's time is over.
    pub(super) started: u64,
    pub(super) ends: u64,
    pub(in crate::task) submitted: u64,
    /// Bytes of all submitted requests.
    pub(super) bytes: u64,
    /// Number of submitted reads and writes, or their bytes where block sizes vary.
    pub(super) issued: [u64; 2],
    /// Number of submitted writes, and whether a flush followed the last write.
    written: u64,
    flushed: bool,
    /// Whether a flush is being submitted or waited for.
    pub(in crate::task) flushing: bool,
    /// When the fsync call in progress began, in ns; `None`: no such call, or the flush belongs to a write's own call.
    fsync_began: Option<u64>,
    /// Kind of request that the job's writes are.
    writes_as: RequestKind,
    /// A write whose system call still flushes the drive before returning.
    unreturned: Option<Box<Request>>,
    /// Index of the kernel thread that submits for the process, if there is one.
    pub(in crate::task) submitter: Option<usize>,
    /// Direction of the process's next request, once settled.
    pub(in crate::task) direction: Option<Direction>,
    /// The walk through the file, where the job's limits do not determine it.
    pub(super) walk: Option<Box<Walk>>,
    /// Whether the present walk through the file has come to its end.
    pub(super) pass_is_over: bool,
    /// The block trace that the process replays, if it does.
    pub(super) replay: Option<Box<Replay>>,
    /// What a verifying process reads back, and whether its next request does so.
    pub(super) read_back: Option<Box<ReadBack>>,
    pub(super) reads_back_next: bool,
    /// Whether the flush before the second pass is done, begin of the last second pass in ns, and how long all took.
    pub(super) synced_for_second_pass: bool,
    pub(super) second_pass_began: u64,
    pub(super) second_passes_took: u64,
    /// Threads beside the process, and what the ends of its requests decide.
    pub(in crate::task) helpers: Option<Box<Helpers>>,
    pub(super) steering: Steering,
    /// Place of the next request, once settled by `walk` or for the page cache.
    pub(super) next: Option<NextIo>,
    /// Place of the last request, if `next` had settled it.
    pub(super) offset: Option<u64>,
    /// The block that an uneven job comes to most often, once drawn.
    pub(super) first_rank: Option<u64>,
    /// Next block to read, and to write, in sequential jobs.
    pub(super) next_block: [u64; 2],
    /// Direction of the last request.
    pub(super) last: Direction,
    /// When the next read and the next write are due, in ns after the start: the drawn arrivals of a Poisson process, else
    /// the pauses that a rate forgives.
    pub(super) due: [u64; 2],
    /// Whether the buffer for the next request has been filled or checked already.
    pub(super) filled: bool,
    /// Whether requests are submitted in batches, and the requests of the next batch with their bytes.
    gathers: bool,
    pub(super) gathered: Vec<(RequestId, u64)>,
    /// Whether requests are taken back before more are submitted, since the queue was full.
    reaps: bool,
    /// Number of requests submitted when think cycles were last spent.
    pub(super) thought_cycles: u64,
    pub(super) pause: Pause,
}

impl FioProcess {
    /// A new process of the job with this index that runs from `started` to `ends`.
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
            fsync_began: None,
            writes_as: job.writes_as,
            unreturned: None,
            submitter: None,
            direction: None,
            walk: job.walk.clone().map(Box::new),
            pass_is_over: false,
            replay: None,
            read_back: job.read_back.clone().map(Box::new),
            reads_back_next: false,
            synced_for_second_pass: false,
            second_pass_began: 0,
            second_passes_took: 0,
            helpers: None,
            steering: Steering::new(job, started),
            next: None,
            offset: None,
            first_rank: None,
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

    /// Counts a submitted request. Returns its kind, and whether it waits for the rest of a batch.
    #[inline(always)]
    pub(in crate::task) fn count_submitted_request(
        &mut self,
        direction: Direction,
        bytes: u64,
    ) -> (RequestKind, HeldByBatch) {
        self.submitted += 1;
        self.flushed = false;
        // Trims are writes without data, which fio does not count here.
        if direction == Direction::Write && bytes > 0 {
            self.written += 1;
            return (self.writes_as, self.gathers);
        }
        (RequestKind::Plain, self.gathers)
    }

    /// Notes that the last write is flushed, unless the flush belongs to a write's own system call.
    pub(in crate::task) fn count_submitted_flush(&mut self) {
        self.flushed = self.unreturned.is_none();
    }

    /// Counts a read or write that the page cache has taken.
    pub(in crate::task) fn count_cached_request(&mut self, is_write: bool) {
        self.submitted += 1;
        self.written += u64::from(is_write);
        self.flushed &= !is_write;
    }

    /// Whether a write is on the media while its system call still has to flush the drive.
    pub(super) fn has_unreturned_write(&self) -> bool {
        self.unreturned.is_some()
    }

    /// Notes that a fsync call begins now.
    pub(super) fn begin_fsync(&mut self, now: u64) {
        self.flushing = true;
        self.fsync_began = Some(now);
    }

    /// When the fsync call that is over now began, in ns; `None` if none was in progress.
    pub(in crate::task) fn take_start_of_fsync(&mut self) -> Option<u64> {
        self.fsync_began.take()
    }

    /// Ends a fsync call that wrote back and flushed. Returns whether such a call was in progress.
    pub(in crate::task) fn end_fsync_in_progress(&mut self) -> bool {
        let flushing = std::mem::take(&mut self.flushing);
        self.flushed |= flushing;
        flushing
    }

    /// A flush has ended, or a write before a flush. Returns the write whose system call is over now.
    pub(in crate::task) fn end_flush_or_write_before_flush(
        &mut self,
        request: &Request,
    ) -> Option<Box<Request>> {
        if request.kind != RequestKind::Flush {
            self.unreturned = Some(Box::new(*request));
            return None;
        }
        self.flushing = false;
        let mut write = self.unreturned.take()?;
        write.append_parts_of_flush(request);
        Some(write)
    }

    /// Whether requests are taken back before more are submitted: as fio (`wait_for_completions()`), from a full queue
    /// down to the batch's low mark.
    pub(super) fn reaps_before_submitting(
        &mut self,
        full: bool,
        batch: &Batching,
        in_flight: u32,
    ) -> bool {
        self.reaps = full || (self.reaps && in_flight > batch.low);
        self.reaps
    }

    /// Whether a pause comes before the next request, with this many in flight.
    ///
    /// As fio 3.33 (`handle_thinktime()`, `backend.c`): after each issued request, fio counts completions since the
    /// last due pause, and then waits for all in flight before the pause begins.
    pub(super) fn pause_is_due(&mut self, rule: PauseRule, in_flight: u32, now: u64) -> bool {
        if self.is_in_second_pass() {
            return false;
        }
        let finished = if rule.by_issue {
            self.submitted
        } else {
            // While a flush is in flight, no other request is.
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

    /// Begins the pause that was due, to be over at `until`.
    pub(super) fn begin_pause(&mut self, now: u64, until: u64) {
        self.pause.due = false;
        self.pause.began = Some(now);
        self.pause.submitted = self.submitted;
        self.pause.until = until;
    }

    /// Notes that the pause in progress, if any, is over.
    pub(super) fn end_pause(&mut self, now: u64) {
        if let Some(began) = self.pause.began.take() {
            self.pause.unaccounted = Some(now - began);
        }
    }

    /// Time in ns when the pause in progress is over.
    pub(super) fn end_of_pause(&self) -> u64 {
        self.pause.until
    }

    /// Whether a flush comes before the next request: as fio (`get_next_ddir()`), once after so many writes.
    #[inline(never)]
    pub(super) fn flush_is_due(&self, every: [u64; 2]) -> bool {
        let mut every = every.into_iter().filter(|every| *every > 0);
        !self.reads_back_next
            && !self.flushed
            && self.written > 0
            && every.any(|every| self.written.is_multiple_of(every))
    }

    /// Whether the flush that is due is an fdatasync; fio asks for an fsync first.
    pub(super) fn fdatasync_is_due(&self, every: [u64; 2]) -> bool {
        !self.flush_is_due([every[0], 0]) && self.flush_is_due([0, every[1]])
    }

    /// Whether the process has written and its last write has not been flushed.
    pub(super) fn last_write_is_unflushed(&self) -> bool {
        !self.flushed && self.written > 0
    }

    /// Begins another walk through the file if the present walk is over and the job goes on. Returns whether it does.
    pub(super) fn starts_file_once_more(&mut self) -> bool {
        self.pass_is_over
            && self.walk.as_mut().is_some_and(|walk| {
                self.pass_is_over = false;
                walk.start_over_unless_finished_or_stuck()
            })
    }
}
