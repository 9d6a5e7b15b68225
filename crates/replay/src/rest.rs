//! Rests: from when a CPU runs out of work until something else than its own idle loop wakes it.
//!
//! A governor that leaves the tick running, or polls up to its limit, is woken by that, looks anew and
//! goes back to idle. Under another governor this would not have happened, so stays that follow each
//! other for such a reason are one rest.

use std::hint::select_unpredictable;
use std::ops::Range;

use wakepath_policies::idle::stay::NO_LATENCY_REQUEST;
use wakepath_policies::psd::LeaseView;
use wakepath_trace::recording::{Before, PackedIdlePeriod};

use crate::cost::{Best, Judge};

/// Events this soon after the end of a stay are what ended it, in ns.
pub const CAUSE_WITHIN: u64 = 50_000;
/// A longer rest is none: something is wrong with the clock or the recording, in ns.
pub const LONGEST: u64 = 600_000_000_000;
/// So many rests of a CPU go through the governors at a time, which is quicker than one by one.
const TOGETHER: usize = 32;

/// A stay of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// The state entered.
    pub state: u8,
    /// How long, in ns.
    pub duration: u64,
}

/// A rest, with what governors can be told about it. All times in ns.
#[derive(Clone, Debug)]
pub struct IdleSpan {
    /// When it began and ended.
    pub start: u64,
    /// See [`IdleSpan::start`].
    pub end: u64,
    /// When the next timer expires, if the tick is stopped.
    pub timer: i64,
    /// How far the next timer is taken to be away once that time is over and nothing woke the CPU.
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

/// The tick of a rest while it is not known. No tick comes at the start of the clock.
const NO_TICK: u64 = 0;

impl IdleSpan {
    /// One that begins at `start` with the stay `first`, and whose end is to be seen. `unknown`: see
    /// [`IdleSpan::unknown`].
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

/// The rests of a CPU that have not gone through the governors yet. The last one always is among them, and may
/// still get longer.
#[derive(Clone, Debug)]
pub struct IdleSpans {
    list: Vec<IdleSpan>,
    /// The last one can get longer.
    open: bool,
    /// Its last stay ended because of the tick or the polling limit.
    by_itself: bool,
    /// When that was.
    end: u64,
    /// What was chosen when it happened: the last stay, and those before it.
    last: Residency,
    earlier: Vec<Residency>,
    /// The longest rest so far.
    longest: u64,
}

impl Default for IdleSpans {
    fn default() -> Self {
        Self {
            list: Vec::with_capacity(TOGETHER),
            open: false,
            by_itself: false,
            end: 0,
            last: Residency::default(),
            earlier: Vec::new(),
            longest: 0,
        }
    }
}

impl IdleSpans {
    /// The longest rest so far.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The tick ran at `time`.
    pub fn tick(&mut self, time: u64) {
        if self.open && time.saturating_sub(self.end) <= CAUSE_WITHIN {
            self.by_itself = true;
        }
    }

    /// Whether a stay goes on with the last rest.
    #[inline(always)]
    pub fn continues_with(&self, period: &PackedIdlePeriod) -> bool {
        self.open && self.by_itself && period.before() == Before::IdleLoop
    }

    /// Another stay is to be added to the last rest.
    pub fn extend(&mut self) {
        self.earlier.push(self.last);
    }

    /// A new rest begins at `start`, with a stay that is to be added. `period`: the tick's, in ns.
    #[inline(always)]
    pub fn begin(&mut self, start: u64, first: &PackedIdlePeriod, period: u64) {
        // Without timers: no timer is known to be nearer than the longest rest there has been.
        let unknown = self.longest.max(period) as i64;
        self.list.push(IdleSpan::begin(start, first, unknown));
        self.earlier.clear();
        self.open = true;
    }

    /// Adds the stay that ended at `end`. `by_itself`: the tick or the polling limit ended it.
    #[inline(always)]
    pub fn stay(&mut self, end: u64, period: &PackedIdlePeriod, by_itself: bool) {
        self.by_itself = by_itself;
        self.end = end;
        self.last = Residency {
            state: period.state(),
            duration: period.duration(),
        };
    }

    /// The last rest is over: something else happened on this CPU. Where one was open, returns it with the stays
    /// before the last one, and the last one. `phase`: a time at which the CPU had a tick; `period`: the tick's, in ns.
    #[inline(always)]
    pub fn close(
        &mut self,
        period: u64,
        phase: u64,
    ) -> Option<(&mut IdleSpan, &[Residency], Residency)> {
        if !std::mem::take(&mut self.open) {
            return None;
        }
        let rest = self.list.last_mut()?;
        rest.close(self.end, period, phase);
        self.longest = self.longest.max(self.end - rest.start);
        Some((rest, &self.earlier, self.last))
    }

    /// What was going on is not known: a rest that was open is none.
    pub fn forget(&mut self) {
        if std::mem::take(&mut self.open) {
            self.list.pop();
        }
    }

    /// When the last stay ended, in ns.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// No rest can get longer.
    pub fn are_closed(&self) -> bool {
        !self.open
    }

    /// The last rest.
    pub fn last_mut(&mut self) -> Option<&mut IdleSpan> {
        self.list.last_mut()
    }

    /// Enough rests for the governors to go through, all of them over.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.list.len() >= TOGETHER
    }

    /// The rests, all of them over.
    pub fn closed(&self) -> &[IdleSpan] {
        debug_assert!(!self.open);
        &self.list
    }

    /// They have gone through the governors.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}
