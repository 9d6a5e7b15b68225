//! Idle spans: from when a CPU runs out of work until something other than the CPU's own idle loop causes a wake-up.
//!
//! Where the tick runs on, or polling reaches the limit, the CPU wakes up, asks the governor again and goes back to
//! idle. Under another governor this would not have happened, so such consecutive idle periods make one idle span.

use std::hint::select_unpredictable;
use std::ops::Range;

use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_policies::psd::IdleDepthLeaseView;
use wakepath_trace::recording::{Before, PackedIdlePeriod};

use crate::cost::{IdlePeriodJudge, OracleChoice};

/// Longest time in ns after the end of an idle period in which an event counts as the cause of the
/// wake-up.
pub const CAUSE_WITHIN: u64 = 50_000;
/// Longest plausible idle period in ns; longer ones are left out, because the clock or the
/// recording is wrong.
pub const MAX_IDLE_PERIOD: u64 = 600_000_000_000;
/// Number of a CPU's idle spans that go through the governors together, for speed.
const BATCH: usize = 32;

/// A recorded idle period: state and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// The state entered.
    pub state: u8,
    /// Time spent in the idle state, in ns.
    pub duration: u64,
}

/// An idle span, with the inputs for governors. All times in ns.
#[derive(Clone, Debug)]
pub struct IdleSpan {
    /// Start of the span.
    pub start: u64,
    /// End of the span.
    pub end: u64,
    /// Expiry of the next timer at the start of the span, if the tick is stopped.
    pub timer: i64,
    /// Assumed distance of the next timer after `timer` has passed without a wake-up.
    pub assumed_sleep: i64,
    /// Time of the first tick after the start of the span.
    pub tick: u64,
    /// Longest tolerated exit latency during the span.
    pub latency_request: i64,
    /// Number of tasks that wait for I/O.
    pub iowaiters: u32,
    /// Whether the CPU was in the idle loop before, so that no task restarted the tick.
    pub in_loop: bool,
    /// Whether an I/O completion ended the span.
    pub woken_by_io: bool,
    /// PSD lease of the CPU at the start of the span.
    pub lease: IdleDepthLeaseView,
    /// Indices of the windows inside the span, in which every CPU is idle.
    pub windows: Range<usize>,
    /// Energy that the package saves if this CPU sleeps in the deepest state, in fJ.
    pub package_saving: i64,
    /// The oracle's choice.
    pub best: OracleChoice,
    /// Block of time in which the span began.
    pub block: usize,
}

/// Time that stands for an unknown tick: none comes at the start of the clock.
const NO_TICK: u64 = 0;

impl IdleSpan {
    /// Begins an idle span at `start` ns with the idle period `first`.
    #[inline(always)]
    fn begin_span(start: u64, first: &PackedIdlePeriod, assumed_sleep: i64) -> Self {
        let asked = start - u64::from(first.select_lead().unwrap_or(0)).min(start);
        let sleep = first.sleep_length().unwrap_or(assumed_sleep);
        let tick = match (first.tick_stopped(), first.delta_tick()) {
            (Some(false), Some(delta)) if delta > 0 && delta < sleep => asked + delta as u64,
            _ => NO_TICK,
        };
        Self {
            start,
            end: start,
            timer: sleep.saturating_add_unsigned(asked),
            assumed_sleep,
            tick,
            latency_request: first.latency_request().unwrap_or(NO_LATENCY_REQUEST),
            iowaiters: first.iowaiters().unwrap_or(0),
            in_loop: first.before() == Before::IdleLoop,
            woken_by_io: false,
            lease: IdleDepthLeaseView::default(),
            windows: 0..0,
            package_saving: 0,
            best: OracleChoice::default(),
            block: 0,
        }
    }

    /// Sets the oracle's choice for the span, and returns the choice: the processor waits if a choice is read right after it
    /// was stored in parts.
    #[inline(always)]
    pub fn set_oracle_choice(&mut self, judge: &IdlePeriodJudge) -> OracleChoice {
        let length = self.end - self.start;
        let best = judge.choose_like_oracle(length, self.package_saving, self.latency_request);
        self.best = best;
        best
    }

    /// Ends the span at `end` ns. `tick_phase`: a time at which the CPU had a tick; `tick_period`: the tick's
    /// period.
    #[inline(always)]
    fn close_span(&mut self, end: u64, tick_period: u64, tick_phase: u64) {
        let since = self.start.abs_diff(tick_phase) % tick_period;
        let by_phase = if self.start >= tick_phase {
            self.start - since + tick_period
        } else {
            self.start + since
        };
        // Both branches are as likely, so that a jump would be slow.
        self.tick = select_unpredictable(self.tick == NO_TICK, by_phase, self.tick);
        self.end = end;
    }
}

/// Idle spans of a CPU that have not gone through the governors yet, the last span included, which
/// may still get longer.
#[derive(Clone, Debug)]
pub struct IdleSpans {
    list: Vec<IdleSpan>,
    /// Whether the last span may get longer.
    open: bool,
    /// Whether the tick or the polling limit ended the last idle period.
    self_ended: bool,
    /// End of the last recorded idle period in ns.
    end: u64,
    /// Last recorded idle period of the open span.
    last: Residency,
    /// Recorded idle periods of the open span before the last.
    earlier: Vec<Residency>,
    /// Length of the longest idle span so far, in ns.
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
    /// Length of the longest idle span so far, in ns.
    pub fn longest_span_ns(&self) -> u64 {
        self.longest
    }

    /// Notes that the tick ran at `time` ns: perhaps the tick ended the last idle period.
    pub fn note_tick_as_possible_end(&mut self, time: u64) {
        if self.open && time.saturating_sub(self.end) <= CAUSE_WITHIN {
            self.self_ended = true;
        }
    }

    /// Whether a new idle period continues the last idle span.
    #[inline(always)]
    pub fn is_continued_by(&self, period: &PackedIdlePeriod) -> bool {
        self.open && self.self_ended && period.before() == Before::IdleLoop
    }

    /// Continues the last idle span; [`IdleSpans::set_last_period`] takes the new idle period next.
    pub fn keep_last_period_as_earlier(&mut self) {
        self.earlier.push(self.last);
    }

    /// Begins an idle span at `start` ns; [`IdleSpans::set_last_period`] takes the idle period
    /// `first` next. `tick_period` in ns.
    #[inline(always)]
    pub fn begin_span(&mut self, start: u64, first: &PackedIdlePeriod, tick_period: u64) {
        // The longest idle span so far stands in for the next timer in recordings without timers.
        let assumed_sleep = self.longest.max(tick_period) as i64;
        self.list
            .push(IdleSpan::begin_span(start, first, assumed_sleep));
        self.earlier.clear();
        self.open = true;
    }

    /// Sets the idle period that ended at `end` ns as the last of the open span. `self_ended`: the
    /// tick or the polling limit ended the period.
    #[inline(always)]
    pub fn set_last_period(&mut self, end: u64, period: &PackedIdlePeriod, self_ended: bool) {
        self.self_ended = self_ended;
        self.end = end;
        self.last = Residency {
            state: period.state(),
            duration: period.duration(),
        };
    }

    /// Ends the open idle span; `None` if none is open. Returns the span, its idle periods before
    /// the last, and the last. `tick_phase`: a time at which the CPU had a tick; `tick_period`: the tick's
    /// period in ns.
    #[inline(always)]
    pub fn close_open_span(
        &mut self,
        tick_period: u64,
        tick_phase: u64,
    ) -> Option<(&mut IdleSpan, &[Residency], Residency)> {
        if !std::mem::take(&mut self.open) {
            return None;
        }
        let span = self.list.last_mut()?;
        span.close_span(self.end, tick_period, tick_phase);
        self.longest = self.longest.max(self.end - span.start);
        Some((span, &self.earlier, self.last))
    }

    /// Drops the open idle span, if any, because events are missing.
    pub fn drop_open_span(&mut self) {
        if std::mem::take(&mut self.open) {
            self.list.pop();
        }
    }

    /// End of the last recorded idle period in ns.
    pub fn end_of_last_period(&self) -> u64 {
        self.end
    }

    /// Whether no idle span is open.
    pub fn has_no_open_span(&self) -> bool {
        !self.open
    }

    /// The last idle span, open or closed.
    pub fn last_span(&mut self) -> Option<&mut IdleSpan> {
        self.list.last_mut()
    }

    /// Whether there are enough idle spans to send through the governors together.
    #[inline(always)]
    pub fn has_full_batch(&self) -> bool {
        self.list.len() >= BATCH
    }

    /// All idle spans that wait for the governors; none is open.
    pub fn closed_spans(&self) -> &[IdleSpan] {
        debug_assert!(!self.open);
        &self.list
    }

    /// Drops all idle spans, after they have gone through the governors.
    pub fn drop_all_spans(&mut self) {
        self.list.clear();
    }
}
