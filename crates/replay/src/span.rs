//! Idle spans: from when a CPU runs out of work until something else than its own idle loop wakes it.
//!
//! Where the tick runs on, or polling reaches its limit, the CPU wakes, asks its governor again and goes
//! back to idle. Under another governor this would not have happened. So consecutive idle periods of that
//! kind make one idle span.

use std::hint::select_unpredictable;
use std::ops::Range;

use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_policies::psd::LeaseView;
use wakepath_trace::recording::{Before, PackedIdlePeriod};

use crate::cost::{Best, Judge};

/// Events this soon after the end of an idle period are what ended it, in ns.
pub const CAUSE_WITHIN: u64 = 50_000;
/// Idle periods above this are left out, because the clock or the recording is wrong, in ns.
pub const MAX_IDLE_PERIOD: u64 = 600_000_000_000;
/// Idle spans of a CPU that go through the governors together, which is quicker than one by one.
const BATCH: usize = 32;

/// A recorded idle period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// The state entered.
    pub state: u8,
    /// How long, in ns.
    pub duration: u64,
}

/// An idle span, with what governors can be told about it. All times in ns.
#[derive(Clone, Debug)]
pub struct IdleSpan {
    /// When it began and ended.
    pub start: u64,
    /// See [`IdleSpan::start`].
    pub end: u64,
    /// When the next timer expires, if the tick is stopped.
    pub timer: i64,
    /// Assumed distance of the next timer once that time has passed without a wake-up.
    pub unknown: i64,
    /// When the tick comes next.
    pub tick: u64,
    /// Longest tolerated exit latency.
    pub latency_request: i64,
    /// Tasks that wait for I/O.
    pub iowaiters: u32,
    /// The CPU was in its idle loop before, too: no task ran that would have got the tick back.
    pub in_loop: bool,
    /// An I/O completion ended it.
    pub woken_by_io: bool,
    /// The PSD lease that the CPU found.
    pub lease: LeaseView,
    /// The times in it in which every CPU is idle, among all of them.
    pub windows: Range<usize>,
    /// What the package saves if this CPU sleeps as deeply as it can, in fJ.
    pub package_saving: i64,
    /// What the oracle does with it.
    pub best: Best,
    /// The block of time that it belongs to.
    pub block: usize,
}

/// The tick of an idle span while it is not known. No tick comes at the start of the clock.
const NO_TICK: u64 = 0;

impl IdleSpan {
    /// A span that begins at `start` with the idle period `first` and is still open. `unknown`: see [`IdleSpan::unknown`].
    #[inline(always)]
    fn begin(start: u64, first: &PackedIdlePeriod, unknown: i64) -> Self {
        let asked = start - u64::from(first.select_lead().unwrap_or(0)).min(start);
        let sleep = first.sleep_length().unwrap_or(unknown);
        let tick = match (first.tick_stopped(), first.delta_tick()) {
            (Some(false), Some(delta)) if delta > 0 && delta < sleep => asked + delta as u64,
            _ => NO_TICK,
        };
        Self {
            start,
            end: start,
            timer: sleep.saturating_add_unsigned(asked),
            unknown,
            tick,
            latency_request: first.latency_request().unwrap_or(NO_LATENCY_REQUEST),
            iowaiters: first.iowaiters().unwrap_or(0),
            in_loop: first.before() == Before::IdleLoop,
            woken_by_io: false,
            lease: LeaseView::default(),
            windows: 0..0,
            package_saving: 0,
            best: Best::default(),
            block: 0,
        }
    }

    /// Finds out what the oracle does with it.
    #[inline(always)]
    pub fn judge(&mut self, judge: &Judge) {
        let length = self.end - self.start;
        self.best = judge.best(length, self.package_saving, self.latency_request);
    }

    /// It ended at `end`. `phase`: a time at which its CPU had a tick; `period`: the tick's.
    #[inline(always)]
    fn close(&mut self, end: u64, period: u64, phase: u64) {
        let since = self.start.abs_diff(phase) % period;
        let by_phase = if self.start >= phase {
            self.start - since + period
        } else {
            self.start + since
        };
        // Which one it is cannot be foreseen.
        self.tick = select_unpredictable(self.tick == NO_TICK, by_phase, self.tick);
        self.end = end;
    }
}

/// The idle spans of a CPU that have not gone through the governors yet. The last one always is among them, and may
/// still get longer.
#[derive(Clone, Debug)]
pub struct IdleSpans {
    list: Vec<IdleSpan>,
    /// The last one can get longer.
    open: bool,
    /// The tick or the polling limit ended its last idle period.
    self_ended: bool,
    /// When that period ended, in ns.
    end: u64,
    /// The recorded idle periods of the open span: the last one, and those before it.
    last: Residency,
    earlier: Vec<Residency>,
    /// The longest idle span so far.
    longest: u64,
}

impl Default for IdleSpans {
    fn default() -> Self {
        Self {
            list: Vec::with_capacity(BATCH),
            open: false,
            self_ended: false,
            end: 0,
            last: Residency::default(),
            earlier: Vec::new(),
            longest: 0,
        }
    }
}

impl IdleSpans {
    /// The longest idle span so far.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The tick ran at `time`.
    pub fn tick(&mut self, time: u64) {
        if self.open && time.saturating_sub(self.end) <= CAUSE_WITHIN {
            self.self_ended = true;
        }
    }

    /// Whether an idle period belongs to the last idle span.
    #[inline(always)]
    pub fn continues_with(&self, period: &PackedIdlePeriod) -> bool {
        self.open && self.self_ended && period.before() == Before::IdleLoop
    }

    /// The last idle span goes on with another idle period, which [`IdleSpans::add`] takes next.
    pub fn extend(&mut self) {
        self.earlier.push(self.last);
    }

    /// An idle span begins at `start` with the idle period `first`, which [`IdleSpans::add`] takes next. `period`: the
    /// tick's, in ns.
    #[inline(always)]
    pub fn begin(&mut self, start: u64, first: &PackedIdlePeriod, period: u64) {
        // Without timers: no timer is known to be nearer than the longest idle span there has been.
        let unknown = self.longest.max(period) as i64;
        self.list.push(IdleSpan::begin(start, first, unknown));
        self.earlier.clear();
        self.open = true;
    }

    /// Adds the idle period that ended at `end`. `self_ended`: the tick or the polling limit ended it.
    #[inline(always)]
    pub fn add(&mut self, end: u64, period: &PackedIdlePeriod, self_ended: bool) {
        self.self_ended = self_ended;
        self.end = end;
        self.last = Residency {
            state: period.state(),
            duration: period.duration(),
        };
    }

    /// Something else happened on this CPU, which ends an open idle span. Returns that span, its idle periods but the
    /// last, and the last. `phase`: a time at which the CPU had a tick; `period`: the tick's, in ns.
    #[inline(always)]
    pub fn close(
        &mut self,
        period: u64,
        phase: u64,
    ) -> Option<(&mut IdleSpan, &[Residency], Residency)> {
        if !std::mem::take(&mut self.open) {
            return None;
        }
        let span = self.list.last_mut()?;
        span.close(self.end, period, phase);
        self.longest = self.longest.max(self.end - span.start);
        Some((span, &self.earlier, self.last))
    }

    /// Drops an open idle span, because what happened in it is not known.
    pub fn forget(&mut self) {
        if std::mem::take(&mut self.open) {
            self.list.pop();
        }
    }

    /// When the last idle period ended, in ns.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// No idle span can get longer.
    pub fn are_closed(&self) -> bool {
        !self.open
    }

    /// The last idle span.
    pub fn last_mut(&mut self) -> Option<&mut IdleSpan> {
        self.list.last_mut()
    }

    /// Enough idle spans for the governors to go through, all of them over.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.list.len() >= BATCH
    }

    /// The idle spans, all of them over.
    pub fn closed(&self) -> &[IdleSpan] {
        debug_assert!(!self.open);
        &self.list
    }

    /// They have gone through the governors.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}
