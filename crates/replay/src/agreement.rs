//! Whether a governor, asked what it was asked when the recording was made, answers the same.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_policies::idle::{
    Governor, IdleDecision, IdleGovernor, IdleOutcome, IdlePolicy, IdleQuery,
};
use wakepath_policies::input::Call;
use wakepath_trace::recording::{Before, IdlePeriod};

use crate::setup::RecordedGovernor;
use crate::span::CAUSE_WITHIN;

/// Number of idle periods after which a governor's history from before the recording no longer
/// counts for much: menu looks at the last 8 intervals, and correction factors and bins forget an
/// eighth at each period.
const WARM_UP: u32 = 64;

/// Counts of how often a governor answers as recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Idle periods compared.
    pub periods: u64,
    /// Number of compared periods with the same idle state.
    pub same_state: u64,
    /// Number of periods for which the recording says whether to stop the tick.
    pub tick_known: u64,
    /// Number of periods with the same answer about the tick, among [`Agreement::tick_known`].
    pub same_tick: u64,
    /// Number of periods with another state, by the likely reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl Agreement {
    /// Share of compared periods with the same state, 0 to 1; `None` if nothing was compared.
    pub fn same_state_share(&self) -> Option<f64> {
        (self.periods > 0).then(|| self.same_state as f64 / self.periods as f64)
    }

    /// Adds the counts from another CPU or block.
    pub fn add_counts(&mut self, other: &Self) {
        self.periods += other.periods;
        self.same_state += other.same_state;
        self.tick_known += other.tick_known;
        self.same_tick += other.same_tick;
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }
}

/// Why a governor may answer otherwise than in the recording, apart from missing inputs.
#[derive(Clone, Copy, Debug, Default)]
struct Uncertainty {
    /// Whether the governor's parameters are unknown, because the recording lacks them.
    parameters: bool,
    /// Whether the governor asks for the next timer or the tick, as ladder and haltpoll do not.
    asks_for_timers: bool,
}

impl Uncertainty {
    fn for_governor(ran: &RecordedGovernor) -> Self {
        Self {
            parameters: !ran.parameters_known,
            asks_for_timers: !matches!(
                ran.policy,
                IdlePolicy::Ladder(_) | IdlePolicy::Haltpoll(..)
            ),
        }
    }
}

/// A copy of the governor that ran, on one CPU, which is asked again. The copy learns what really
/// happened, so one different answer does not lead to the next.
#[derive(Debug)]
pub struct ShadowGovernor {
    governor: Option<Governor>,
    /// Number of idle periods since the governor started without history.
    periods: u32,
    /// Query, state and outcome of the last period, whose end the governor does not know yet: a
    /// tick that ended the period comes later in the recording.
    open: Option<(IdleQuery, u8, IdleOutcome)>,
    /// Whether the tick ended the previous period.
    ticked: bool,
    uncertainty: Uncertainty,
    /// End of the last call in the exported log, in ns.
    exported_to: u64,
    /// Agreement with the recording, by block of time.
    pub agreements: Vec<Agreement>,
}

impl ShadowGovernor {
    /// Makes a shadow of the recorded governor without history. Without a known governor, calls are
    /// only exported.
    pub fn new(
        governor: Option<Governor>,
        recorded: Option<&RecordedGovernor>,
        blocks: usize,
    ) -> Self {
        Self {
            governor,
            uncertainty: recorded.map(Uncertainty::for_governor).unwrap_or_default(),
            periods: 0,
            open: None,
            ticked: false,
            exported_to: 0,
            agreements: vec![Agreement::default(); blocks],
        }
    }

    /// Why a user's own governor no longer answers; `None` while it answers.
    pub fn failure_reason(&self) -> Option<&str> {
        self.governor.as_ref()?.failure_reason()
    }

    /// Notes that the tick ran at `time`: perhaps the tick ended the last idle period.
    pub fn note_tick(&mut self, time: u64) {
        if let Some((_, _, outcome)) = &mut self.open
            && time.saturating_sub(outcome.clock) <= CAUSE_WITHIN
        {
            outcome.got_tick = true;
        }
    }

    /// Tells the governor how the last idle period ended, and writes the call as a line of the call
    /// log to `calls`.
    pub fn finish_last_call(&mut self, calls: Option<&mut dyn Write>) -> io::Result<()> {
        let Some((query, state, outcome)) = self.open.take() else {
            return Ok(());
        };
        self.ticked = outcome.got_tick;
        if let Some(governor) = &mut self.governor {
            // The governor also learns of a refused state, which menu remembers at the next
            // decision.
            governor.reflect(usize::from(state), &outcome);
        }
        match calls {
            // For a driver with one state the kernel asked no governor, so no call is exported.
            Some(_) if matches!(self.governor, Some(Governor::OnlyState(_))) => Ok(()),
            // A call that was aborted before the last exported one is left out to keep the log in
            // order.
            Some(_) if query.clock < self.exported_to => Ok(()),
            Some(calls) => {
                self.exported_to = outcome.clock;
                writeln!(calls, "{}", Call { query, outcome })
            }
            None => Ok(()),
        }
    }

    /// Asks the governor about the next idle period, given with its end in ns and the block of time
    /// for which the period counts. `tick_period` and `longest`, the longest idle span so far,
    /// stand in for inputs that were not recorded.
    pub fn ask_about_period(
        &mut self,
        (end, block): (u64, usize),
        period: &IdlePeriod,
        tick_period: u64,
        longest: u64,
    ) {
        let inputs = &period.inputs;
        let start = end.saturating_sub(period.duration.0);
        let clock = start.saturating_sub(u64::from(inputs.select_lead.unwrap_or(0)));
        let sleep_length = inputs
            .sleep_length
            .unwrap_or_else(|| i64::try_from(longest.max(tick_period)).unwrap_or(i64::MAX));
        let query = IdleQuery {
            sleep_length,
            delta_tick: inputs
                .delta_tick
                .unwrap_or_else(|| sleep_length.min(tick_period as i64)),
            tick_stopped: inputs.tick_stopped.unwrap_or(false),
            after_tick: self.ticked && period.before == Before::IdleLoop,
            latency_request: inputs.latency_request.unwrap_or(NO_LATENCY_REQUEST),
            nr_iowait: inputs.iowaiters.unwrap_or(0),
            clock,
            true_idle: period.duration.0,
            package_saving: 0,
        };
        if let Some(governor) = &mut self.governor {
            let decision = governor.select(&query);
            self.compare_with_recording(block, decision, period);
        }
        let outcome = IdleOutcome {
            clock: end,
            residency: period.duration.0,
            got_tick: period.got_tick.unwrap_or(false),
            poll_limit_hit: period.poll_limit_hit.unwrap_or(false),
        };
        self.periods = self.periods.saturating_add(1);
        self.open = Some((query, period.state, outcome));
    }

    /// Compares the governor's decision with the recorded one, and counts the result in a block.
    fn compare_with_recording(
        &mut self,
        block: usize,
        decision: IdleDecision,
        period: &IdlePeriod,
    ) {
        let reason = self.likely_reason_to_differ(period);
        let Some(agreement) = self.agreements.get_mut(block) else {
            return;
        };
        agreement.periods += 1;
        if let Some(stop) = period.stop_tick {
            agreement.tick_known += 1;
            agreement.same_tick += u64::from(stop == decision.stop_tick);
        }
        if decision.state == usize::from(period.state) {
            agreement.same_state += 1;
        } else {
            *agreement.reasons.entry(reason).or_default() += 1;
        }
    }

    /// Likeliest reason why another state may be chosen for a period than was recorded.
    fn likely_reason_to_differ(&self, period: &IdlePeriod) -> &'static str {
        let inputs = &period.inputs;
        let timers = self.uncertainty.asks_for_timers;
        if period.duration.0 == 0 {
            "the driver refused the state"
        } else if self.uncertainty.parameters {
            "the governor's parameters not recorded; --ran can give them"
        } else if self.periods < WARM_UP {
            "history from before the recording"
        } else if !timers && inputs.latency_request.is_none() {
            "latency request not recorded"
        } else if !timers {
            "none known"
        } else if inputs.inferred {
            "sleep length inferred"
        } else if inputs.sleep_length.is_none() {
            "sleep length not recorded"
        } else if inputs.delta_tick.is_none() || inputs.tick_stopped.is_none() {
            "tick not recorded"
        } else if inputs.latency_request.is_none() {
            "latency request not recorded"
        } else {
            "none known"
        }
    }

    /// Restarts the shadow without history, because events of the recording are missing.
    pub fn restart_without_history(&mut self, governor: Option<Governor>) {
        self.governor = governor;
        self.open = None;
        self.ticked = false;
        self.periods = 0;
    }
}
