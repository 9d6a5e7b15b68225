//! A CPU's totals.

/// Totals of one idle state on one CPU, with the kernel's counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateTotals {
    /// Time in the idle state from entry to exit, exit latency included, in ns.
    pub(super) time: u64,
    /// Part of `time` in which the CPU slept, without polling and without leaving the state.
    pub(super) asleep: u64,
    /// Part of `asleep` spent entering the state.
    pub(super) entering: u64,
    /// Part of `asleep` in which the whole cluster was down, for a cluster state.
    pub(super) down: u64,
    pub(super) entries: u64,
    /// Idle periods left before the target residency although a shallower state was enabled, as the kernel measures.
    pub(super) above: u64,
    /// Idle periods at least as long as a deeper enabled state wants, as the kernel measures.
    pub(super) below: u64,
}

impl StateTotals {
    /// Time that the CPU slept in the state, in ns.
    pub(crate) fn time_asleep(&self) -> u64 {
        self.asleep
    }

    /// Part of the sleep spent entering the state, in ns.
    pub(crate) fn time_entering_state(&self) -> u64 {
        self.entering
    }

    /// Part of the sleep in which the whole cluster was down, in ns.
    pub(crate) fn time_with_cluster_down(&self) -> u64 {
        self.down
    }

    fn subtract_earlier(&mut self, before: &Self) {
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
    /// Summed time from entry until the event that ended the idle period, in ns.
    pub(super) idle: u64,
    /// Summed time from the wake-up event until the CPU was ready to work, in ns.
    pub(super) wake: u64,
}

/// A CPU's totals by some time.
#[derive(Clone, Debug)]
pub(crate) struct CpuTotals {
    /// Totals by idle state.
    pub(super) states: Vec<StateTotals>,
    /// Idle periods by entered and by fitting state, in rows by entered state.
    pub(super) fits: Vec<Fit>,
    /// Time spent with tasks and interrupts, in ns.
    pub(super) busy: u64,
    /// Governor decisions, and decisions to stop a running tick.
    pub(super) selections: u64,
    pub(super) tick_stops: u64,
    /// Idle periods that began with a stopped tick.
    pub(super) tickless: u64,
    /// Ticks that came in the idle loop.
    pub(super) idle_ticks: u64,
    /// The CPU's powered time in ns, by operating point.
    pub(super) powered: Vec<u64>,
    /// Part of `powered` spent polling, by operating point, in rows by idle state.
    pub(super) polled: Vec<u64>,
    /// Part of `powered` spent leaving an idle state, by operating point, in rows by idle state.
    pub(super) left: Vec<u64>,
    /// Deep states that the hardware demoted, and demotions that ended in the chosen state after all.
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

    /// Number of idle periods in the state `entered` that would have fitted one of `fitting`.
    pub(super) fn count_idle_periods(
        &self,
        entered: usize,
        fitting: std::ops::Range<usize>,
    ) -> u64 {
        let row = &self.fits[entered * self.states.len()..][fitting];
        row.iter().map(|fit| fit.periods).sum()
    }

    /// Totals of each idle state, shallowest first.
    pub(crate) fn states(&self) -> &[StateTotals] {
        &self.states
    }

    /// The CPU's powered time in ns, by operating point.
    pub(crate) fn powered_time_by_opp(&self) -> &[u64] {
        &self.powered
    }

    /// How long the CPU polled in a state, in ns, by operating point.
    pub(crate) fn polling_time_by_opp(&self, state: usize) -> &[u64] {
        let points = self.powered.len();
        &self.polled[state * points..][..points]
    }

    /// How long the CPU was leaving a state, in ns, by operating point.
    pub(crate) fn leaving_time_by_opp(&self, state: usize) -> &[u64] {
        let points = self.powered.len();
        &self.left[state * points..][..points]
    }

    /// Subtracts the totals noted at an earlier time, such as the warm-up's end.
    pub(crate) fn subtract_earlier(&mut self, before: &Self) {
        for (state, before) in self.states.iter_mut().zip(&before.states) {
            state.subtract_earlier(before);
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
