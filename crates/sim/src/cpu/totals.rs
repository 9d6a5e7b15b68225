//! A CPU's totals.

/// Time in an idle state, with the kernel's counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateTotals {
    /// Entry to exit, exit latency included, in ns.
    pub(super) time: u64,
    /// The part of `time` asleep: without polling and without leaving the state.
    pub(super) asleep: u64,
    /// The part of `asleep` until the state was reached.
    pub(super) entering: u64,
    /// Part of `asleep` with the whole cluster down, in a cluster state.
    pub(super) down: u64,
    pub(super) entries: u64,
    /// Left before the target residency, although a shallower state was enabled, as the kernel measures.
    pub(super) above: u64,
    /// Stayed as long as a deeper enabled state wanted, likewise.
    pub(super) below: u64,
}

impl StateTotals {
    /// Time asleep, in ns.
    pub(crate) fn asleep(&self) -> u64 {
        self.asleep
    }

    /// The part of the sleep until the state was reached, in ns.
    pub(crate) fn entering(&self) -> u64 {
        self.entering
    }

    /// Part of the sleep with the whole cluster down, in ns.
    pub(crate) fn down(&self) -> u64 {
        self.down
    }

    fn leave_out(&mut self, before: &Self) {
        self.time -= before.time;
        self.asleep -= before.asleep;
        self.entering -= before.entering;
        self.down -= before.down;
        self.entries -= before.entries;
        self.above -= before.above;
        self.below -= before.below;
    }
}

/// Idle periods in one idle state, by the state that would have fitted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fit {
    pub(super) periods: u64,
    /// From entry until the event that ended the idle period, in ns.
    pub(super) idle: u64,
    /// From the wake-up event until the CPU was ready to work, in ns.
    pub(super) wake: u64,
}

/// A CPU's totals by some time.
#[derive(Clone, Debug)]
pub(crate) struct CpuTotals {
    /// By idle state.
    pub(super) states: Vec<StateTotals>,
    /// By entered and by fitting state, in rows by entered state.
    pub(super) fits: Vec<Fit>,
    /// Time spent with tasks and interrupts, in ns.
    pub(super) busy: u64,
    /// Governor decisions, and decisions to stop a running tick.
    pub(super) selections: u64,
    pub(super) tick_stops: u64,
    /// Idle periods that began without a tick.
    pub(super) tickless: u64,
    /// Ticks in the idle loop.
    pub(super) idle_ticks: u64,
    /// Time powered, in ns, by operating point.
    pub(super) powered: Vec<u64>,
    /// Part of `powered` with polling, in rows by polling state.
    pub(super) polled: Vec<u64>,
    /// Part of `powered` with leaving an idle state, in rows by state.
    pub(super) left: Vec<u64>,
    /// Deep states demoted by the hardware, and demotions that ended in the state asked for.
    pub(super) demotions: u64,
    pub(super) undemotions: u64,
}

impl CpuTotals {
    pub(super) fn new(states: usize, operating_points: usize) -> Self {
        Self {
            states: vec![StateTotals::default(); states],
            fits: vec![Fit::default(); states * states],
            busy: 0,
            selections: 0,
            tick_stops: 0,
            tickless: 0,
            idle_ticks: 0,
            powered: vec![0; operating_points],
            polled: vec![0; states * operating_points],
            left: vec![0; states * operating_points],
            demotions: 0,
            undemotions: 0,
        }
    }

    /// Idle periods in the state `entered` with a better fit among `fitting`.
    pub(super) fn periods(&self, entered: usize, fitting: std::ops::Range<usize>) -> u64 {
        let row = &self.fits[entered * self.states.len()..][fitting];
        row.iter().map(|fit| fit.periods).sum()
    }

    /// Each idle state, shallowest first.
    pub(crate) fn states(&self) -> &[StateTotals] {
        &self.states
    }

    /// Time powered, in ns, by operating point.
    pub(crate) fn powered(&self) -> &[u64] {
        &self.powered
    }

    /// How long the CPU polled in a state, in ns, by operating point.
    pub(crate) fn polled_in(&self, state: usize) -> &[u64] {
        let points = self.powered.len();
        &self.polled[state * points..][..points]
    }

    /// How long the CPU was leaving a state, in ns, by operating point.
    pub(crate) fn leaving_of(&self, state: usize) -> &[u64] {
        let points = self.powered.len();
        &self.left[state * points..][..points]
    }

    /// Subtracts an earlier time's totals.
    pub(crate) fn leave_out(&mut self, before: &Self) {
        for (state, before) in self.states.iter_mut().zip(&before.states) {
            state.leave_out(before);
        }
        for (fit, before) in self.fits.iter_mut().zip(&before.fits) {
            fit.periods -= before.periods;
            fit.idle -= before.idle;
            fit.wake -= before.wake;
        }
        self.busy -= before.busy;
        self.selections -= before.selections;
        self.tick_stops -= before.tick_stops;
        self.tickless -= before.tickless;
        self.idle_ticks -= before.idle_ticks;
        self.demotions -= before.demotions;
        self.undemotions -= before.undemotions;
        let times = [
            (&mut self.powered, &before.powered),
            (&mut self.polled, &before.polled),
            (&mut self.left, &before.left),
        ];
        for (times, before) in times {
            for (time, before) in times.iter_mut().zip(before) {
                *time -= before;
            }
        }
    }
}
