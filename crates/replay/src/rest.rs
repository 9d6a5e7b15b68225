//! Rests: from when a CPU runs out of work until something else than its own idle loop wakes it.
//!
//! A governor that leaves the tick running, or polls up to its limit, is woken by that, looks anew and
//! goes back to idle. Under another governor this would not have happened, so stays that follow each
//! other for such a reason are one rest.

use wakepath_trace::recording::{Before, IdleRow};

/// Events this soon after the end of a stay are what ended it, in ns.
pub const CAUSE_WITHIN: u64 = 50_000;
/// A longer rest is none: something is wrong with the clock or the recording, in ns.
pub const LONGEST: u64 = 600_000_000_000;

/// A stay of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// The state entered.
    pub state: u8,
    /// How long, in ns.
    pub duration: u64,
}

/// A rest of a CPU.
#[derive(Clone, Debug, Default)]
pub struct Rest {
    /// When the first stay began and the last one ended, in ns.
    pub start: u64,
    /// See [`Rest::start`].
    pub end: u64,
    /// What was recorded of the first stay.
    pub first: IdleRow,
    /// What was chosen when it happened: the last stay, and those before it.
    pub last: Stay,
    /// See [`Rest::last`].
    pub earlier: Vec<Stay>,
    /// The last stay ended because of the tick or the polling limit.
    by_itself: bool,
    /// The rest can get longer.
    open: bool,
}

impl Rest {
    /// The rest has begun and is not over.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// It is over: something else happened on this CPU.
    pub fn close(&mut self) {
        self.open = false;
    }

    /// The tick ran at `time`.
    pub fn tick(&mut self, time: u64) {
        if self.open && time.saturating_sub(self.end) <= CAUSE_WITHIN {
            self.by_itself = true;
        }
    }

    /// Whether a stay goes on with this rest.
    #[inline(always)]
    pub fn continues_with(&self, period: &IdleRow) -> bool {
        self.open && self.by_itself && period.before() == Before::IdleLoop
    }

    /// Another stay is to be added to this rest.
    pub fn go_on(&mut self) {
        self.earlier.push(self.last);
    }

    /// A new rest begins at `start`, with a stay that is to be added.
    #[inline(always)]
    pub fn begin(&mut self, start: u64, period: &IdleRow) {
        self.earlier.clear();
        self.start = start;
        self.first = *period;
        self.open = true;
    }

    /// Adds the stay that ended at `end`. `by_itself`: the tick or the polling limit ended it.
    #[inline(always)]
    pub fn stay(&mut self, end: u64, period: &IdleRow, by_itself: bool) {
        self.by_itself = by_itself;
        self.end = end;
        self.last = Stay {
            state: period.state(),
            duration: period.duration(),
        };
    }
}
