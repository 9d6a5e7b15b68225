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

use crate::setup::Ran;
use crate::span::CAUSE_WITHIN;

/// A governor knows nothing when the recording begins, and the real one did. After so many periods what it has not
/// seen no longer counts for much: menu's last 8 intervals, and correction factors and bins that forget an eighth
/// each time.
const WARM_UP: u32 = 64;

/// How often a governor answers as recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Idle periods compared.
    pub periods: u64,
    /// Those with the same state.
    pub same_state: u64,
    /// Those of which it is known whether the tick was to be stopped, and that agree in it, too.
    pub tick_known: u64,
    /// See [`Agreement::tick_known`].
    pub same_tick: u64,
    /// Why the others may differ.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl Agreement {
    /// The share with the same state, 0 to 1; `None` if nothing was compared.
    pub fn share(&self) -> Option<f64> {
        (self.periods > 0).then(|| self.same_state as f64 / self.periods as f64)
    }

    /// Adds that of another CPU or block.
    pub fn add(&mut self, other: &Self) {
        self.periods += other.periods;
        self.same_state += other.same_state;
        self.tick_known += other.tick_known;
        self.same_tick += other.same_tick;
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason).or_default() += count;
        }
    }
}

/// What can make a governor answer otherwise than it did, beside what it was not told.
#[derive(Clone, Copy, Debug, Default)]
struct Unknown {
    /// Its parameters.
    parameters: bool,
    /// It asks for the time to the next timer, or whether the tick runs: ladder and haltpoll do not.
    asks_for_timers: bool,
}

impl Unknown {
    fn of(ran: &Ran) -> Self {
        Self {
            parameters: !ran.parameters_known,
            asks_for_timers: !matches!(
                ran.policy,
                IdlePolicy::Ladder(_) | IdlePolicy::Haltpoll(..)
            ),
        }
    }
}

/// A governor beside the one that ran, on one CPU. It is told what really happened, so that one
/// different answer does not lead to the next.
#[derive(Debug)]
pub struct Shadow {
    governor: Option<Governor>,
    seen: u32,
    /// A period that the governor was asked about and not told the end of: the tick that may have
    /// ended it comes after it in the recording.
    open: Option<(IdleQuery, u8, IdleOutcome)>,
    /// The tick ended the period before.
    ticked: bool,
    unknown: Unknown,
    /// The end of the last exported call, in ns.
    exported_to: u64,
    /// What came of it, by block of time.
    pub agreements: Vec<Agreement>,
}

impl Shadow {
    /// For so many blocks of time. `None`: the governor that ran is not known; only calls are exported.
    pub fn new(governor: Option<Governor>, ran: Option<&Ran>, blocks: usize) -> Self {
        Self {
            governor,
            unknown: ran.map(Unknown::of).unwrap_or_default(),
            seen: 0,
            open: None,
            ticked: false,
            exported_to: 0,
            agreements: vec![Agreement::default(); blocks],
        }
    }

    /// Why a governor of one's own no longer answers.
    pub fn failure(&self) -> Option<&str> {
        self.governor.as_ref()?.failure()
    }

    /// The tick ran at `time`.
    pub fn tick(&mut self, time: u64) {
        if let Some((_, _, outcome)) = &mut self.open
            && time.saturating_sub(outcome.clock) <= CAUSE_WITHIN
        {
            outcome.got_tick = true;
        }
    }

    /// Tells the governor how the last period ended, and writes that as a line of a call log.
    pub fn settle(&mut self, calls: Option<&mut dyn Write>) -> io::Result<()> {
        let Some((query, state, outcome)) = self.open.take() else {
            return Ok(());
        };
        self.ticked = outcome.got_tick;
        if let Some(governor) = &mut self.governor {
            // After a refusal, too: menu remembers at its next decision that there was one.
            governor.reflect(usize::from(state), &outcome);
        }
        match calls {
            // The kernel asked no governor.
            Some(_) if matches!(self.governor, Some(Governor::OnlyState(_))) => Ok(()),
            // The entry was aborted and has no residency. It is skipped, so that the calls of the log stay in order.
            Some(_) if query.clock < self.exported_to => Ok(()),
            Some(calls) => {
                self.exported_to = outcome.clock;
                writeln!(calls, "{}", Call { query, outcome })
            }
            None => Ok(()),
        }
    }

    /// The next period, which counts for a block. `longest` stands in for a sleep length that was not recorded.
    pub fn period(
        &mut self,
        (end, block): (u64, usize),
        period: &IdlePeriod,
        tick: u64,
        longest: u64,
    ) {
        let inputs = &period.inputs;
        let start = end.saturating_sub(period.duration.0);
        let clock = start.saturating_sub(u64::from(inputs.select_lead.unwrap_or(0)));
        let sleep_length = inputs
            .sleep_length
            .unwrap_or_else(|| i64::try_from(longest.max(tick)).unwrap_or(i64::MAX));
        let query = IdleQuery {
            sleep_length,
            delta_tick: inputs
                .delta_tick
                .unwrap_or_else(|| sleep_length.min(tick as i64)),
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
            self.compare(block, decision, period);
        }
        let outcome = IdleOutcome {
            clock: end,
            residency: period.duration.0,
            got_tick: period.got_tick.unwrap_or(false),
            poll_limit_hit: period.poll_limit_hit.unwrap_or(false),
        };
        self.seen = self.seen.saturating_add(1);
        self.open = Some((query, period.state, outcome));
    }

    fn compare(&mut self, block: usize, decision: IdleDecision, period: &IdlePeriod) {
        let Some(a) = self.agreements.get_mut(block) else {
            return;
        };
        a.periods += 1;
        if let Some(stop) = period.stop_tick {
            a.tick_known += 1;
            a.same_tick += u64::from(stop == decision.stop_tick);
        }
        if decision.state == usize::from(period.state) {
            a.same_state += 1;
            return;
        }
        let inputs = &period.inputs;
        let timers = self.unknown.asks_for_timers;
        let reason = if period.duration.0 == 0 {
            "the driver refused the state"
        } else if self.unknown.parameters {
            "the governor's parameters not recorded; --ran can give them"
        } else if self.seen < WARM_UP {
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
        };
        *a.reasons.entry(reason).or_default() += 1;
    }

    /// Events are missing: the governor begins anew.
    pub fn restart(&mut self, governor: Option<Governor>) {
        self.governor = governor;
        self.open = None;
        self.ticked = false;
        self.seen = 0;
    }
}
