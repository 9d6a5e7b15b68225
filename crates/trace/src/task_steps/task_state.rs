//! What is known of a task while its events are followed: its burst, its wake-up, and its requests.

use super::item::{Item, Wait};
use super::loops::TaskItems;
use super::observed::ObservedIo;
use super::wake_ups::{PendingWake, WakeCause};
use crate::recording::{Block, Durability};

/// State of a task.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskState {
    pub(super) items: TaskItems,
    /// The CPU on which the task runs, the begin of its present burst in ns, and interrupts since.
    pub(super) burst: Option<(u32, u64, u32)>,
    /// When the task stopped running, in ns; `None`: it was not seen to run.
    pub(super) stopped: Option<u64>,
    pub(super) wake: Option<PendingWake>,
    pub(super) in_flight: u32,
    /// When a request of the task completed last, in ns.
    pub(super) completed: Option<u64>,
    /// Wake-ups from waits for requests, without and with iowait.
    pub(super) io_waits: [u64; 2],
    /// Sleeps that something outside ended.
    pub(super) outside_wake_ups: u64,
    /// The last request; `None` before the first one.
    pub(super) last_request: Option<RequestKind>,
    /// Whether the steps have a request since the last wait for all requests.
    has_unawaited_request: bool,
}

/// What a request asks of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Read,
    Write,
    Flush,
}

impl TaskState {
    /// Adds a request to what the task did: a flush if it has no data, and a flush before it if the drive empties its cache first.
    /// Returns the number of items added.
    pub(super) fn add_request_items(&mut self, block: &Block, durability: Durability) -> usize {
        let kind = match block {
            Block { bytes: 0, .. } => RequestKind::Flush,
            Block { write: true, .. } => RequestKind::Write,
            Block { write: false, .. } => RequestKind::Read,
        };
        let awaited = self.await_requests_around_flush(kind);
        self.last_request = Some(kind);
        self.has_unawaited_request = true;
        if kind == RequestKind::Flush {
            self.items.add(Item::Flush);
            return awaited + 1;
        }
        let is_after_flush = block.write && durability.flushes_first;
        if is_after_flush {
            self.items.add(Item::Flush);
            self.items.add(Item::Wait(Wait::Io(self.in_flight)));
        }
        self.items.add(Item::Io(ObservedIo {
            write: block.write,
            bytes: block.bytes,
            sector: block.sector,
            is_forced: block.write && durability.is_forced,
        }));
        awaited + if is_after_flush { 3 } else { 1 }
    }

    /// Adds the wait for all requests that comes before a flush, as in `fsync()`, and after one. The recording shows no sleep where
    /// the requests were over in time. Returns the number of items added.
    fn await_requests_around_flush(&mut self, next: RequestKind) -> usize {
        let is_beside_flush =
            next == RequestKind::Flush || self.last_request == Some(RequestKind::Flush);
        if !is_beside_flush || self.in_flight > 0 || !self.has_unawaited_request {
            return 0;
        }
        self.has_unawaited_request = false;
        self.items.add(Item::Pass(0));
        1
    }

    /// Whether a request was in flight when the task went to sleep.
    pub(super) fn slept_beside_request(&self) -> bool {
        let ended_in_sleep = (self.completed.zip(self.stopped))
            .is_some_and(|(completed, stopped)| completed >= stopped);
        self.in_flight > 0 || ended_in_sleep
    }

    /// How long the task has slept at the recording's end, in ns; `None`: it runs, is about to, or waits for its requests.
    pub(super) fn time_asleep_at_end(&self, end: u64) -> Option<u64> {
        let is_asleep = self.burst.is_none() && self.wake.is_none() && self.in_flight == 0;
        let asleep_ns = end.saturating_sub(self.stopped.filter(|_| is_asleep)?);
        (asleep_ns > 0).then_some(asleep_ns)
    }

    /// Ends the task's wait, if it was woken, as it runs at `time`. Returns the number of waits that keep their recorded length.
    pub(super) fn end_wait(&mut self, time: u64, start: u64) -> u64 {
        let wake = self.wake.take();
        let Some(stopped) = self.stopped else {
            // The task is seen for the first time.
            let first = match wake {
                Some(PendingWake {
                    cause: WakeCause::Task(waker),
                    time,
                }) => {
                    let slept_ns = time.saturating_sub(start);
                    self.items.add(Item::Wait(Wait::Task { waker, slept_ns }));
                    return 0;
                }
                Some(PendingWake {
                    cause: WakeCause::Timer(expiry),
                    ..
                }) => expiry,
                Some(wake) => wake.time,
                None => time,
            };
            self.items.delay_ns = first.saturating_sub(start);
            return 0;
        };
        let Some(PendingWake { cause, time }) = wake else {
            // Another task had the CPU meanwhile.
            return 0;
        };
        let slept_ns = time.saturating_sub(stopped);
        let wait = match cause {
            WakeCause::Io(in_flight) => Wait::Io(in_flight),
            WakeCause::Timer(expiry) => Wait::Timer {
                begun: stopped,
                expiry: expiry.max(stopped),
            },
            WakeCause::Task(waker) => Wait::Task { waker, slept_ns },
            WakeCause::Arrival(cpu) => Wait::Arrival {
                begun: stopped,
                at: time.max(stopped),
                cpu,
            },
            WakeCause::Outside => Wait::Outside(slept_ns),
        };
        self.items.add(Item::Wait(wait));
        self.has_unawaited_request &= wait != Wait::Io(0);
        u64::from(matches!(wait, Wait::Outside(_)))
    }
}
