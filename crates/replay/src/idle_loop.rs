//! The kernel's idle loop around a governor, over one rest (`do_idle()` and `cpuidle_idle_call()`,
//! `kernel/sched/idle.c`, Linux 6.1 and 6.12).

use wakepath_hardware::IdleStates;
use wakepath_policies::idle::stay::NO_LATENCY_REQUEST;
use wakepath_policies::idle::{
    Governor, IdleDecision, IdleGovernor, IdleOutcome, IdleQuery, WithGovernor,
};
use wakepath_policies::psd::{Lease, PsdPolicy};
use wakepath_trace::recording::Before;
use wakepath_units::Nanoseconds;

use crate::cost::{Best, Judge, Totals};
use crate::rest::Rest;

/// What governors can be told about a rest. All times in ns.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// When the next timer expires, if the tick is stopped.
    pub timer: i64,
    /// How far the next timer is taken to be away once that time is over and nothing woke the CPU.
    pub unknown: i64,
    /// When the tick comes next, and its period.
    pub tick: u64,
    /// See [`Known::tick`].
    pub period: u64,
    /// Longest tolerated exit latency.
    pub latency_request: i64,
    /// Tasks that wait for I/O.
    pub iowaiters: u32,
}

/// A governor on one CPU, and what came of it.
#[derive(Clone, Debug)]
pub struct IdleLoop {
    governor: Governor,
    lease: Option<(Lease, PsdPolicy)>,
    poll_limit: u64,
    tick_stopped: bool,
    /// What came of it.
    pub counts: Counts,
}

/// What came of a governor on one CPU.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Per state.
    pub totals: Vec<Totals>,
    /// How often the governor was asked.
    pub selections: u64,
    /// How often it stopped a running tick.
    pub tick_stops: u64,
    /// How often polling ended at its limit.
    pub poll_limit_hits: u64,
    /// The state that the last rest ended in, and how much slower than the oracle's that was.
    last: (usize, u64),
}

impl IdleLoop {
    /// A CPU that has never been idle. `poll_limit`: how long the polling state polls, in ns, unless the
    /// governor has a limit of its own.
    pub fn new(
        governor: Governor,
        psd: Option<(Lease, PsdPolicy)>,
        poll_limit: u64,
        states: usize,
    ) -> Self {
        Self {
            governor,
            lease: psd,
            poll_limit,
            tick_stopped: false,
            counts: Counts {
                totals: vec![Totals::default(); states],
                selections: 0,
                tick_stops: 0,
                poll_limit_hits: 0,
                last: (0, 0),
            },
        }
    }

    /// The CPU comes back online with governors that know nothing; what came of it so far stays.
    pub fn restart(&mut self, fresh: Self) {
        self.governor = fresh.governor;
        self.lease = fresh.lease;
        self.tick_stopped = false;
        self.counts.last = (0, 0);
    }

    /// A block request was issued by this CPU, or completed on it.
    pub fn block(&mut self, time: u64, completed: bool) {
        if let Some((lease, policy)) = &mut self.lease {
            let grants = if completed {
                policy.grant.on_completion()
            } else {
                policy.grant.on_issue()
            };
            if grants {
                lease.grant(Nanoseconds(time));
            }
        }
    }

    /// The last rest was ended by an I/O completion.
    pub fn woken_by_io(&mut self) {
        let (state, added) = self.counts.last;
        if let Some(totals) = self.counts.totals.get_mut(state) {
            totals.slower_io += u64::from(added > 0);
            totals.added_io_latency += added;
        }
    }

    /// Goes through one rest.
    #[inline]
    pub fn rest(
        &mut self,
        states: &IdleStates,
        judge: &Judge,
        rest: &Rest,
        known: &Known,
        best: Best,
    ) {
        self.governor.with(Passage {
            states,
            judge,
            rest,
            known,
            best,
            lease: self.lease.as_ref(),
            poll_limit: self.poll_limit,
            tick_stopped: &mut self.tick_stopped,
            counts: &mut self.counts,
        });
    }
}

/// One rest, with whichever governor.
struct Passage<'a> {
    states: &'a IdleStates,
    judge: &'a Judge,
    rest: &'a Rest,
    known: &'a Known,
    best: Best,
    lease: Option<&'a (Lease, PsdPolicy)>,
    poll_limit: u64,
    tick_stopped: &'a mut bool,
    counts: &'a mut Counts,
}

impl WithGovernor for Passage<'_> {
    fn run<G: IdleGovernor>(self, governor: &mut G) {
        let Self {
            states,
            judge,
            rest,
            known,
            best,
            counts,
            ..
        } = self;
        // A task gets the tick back; where nothing is recorded of tasks, one is taken to have run.
        let mut tick_stopped = *self.tick_stopped && rest.first.before() == Before::IdleLoop;
        let mut now = rest.start;
        let mut tick = known.tick;
        loop {
            while tick <= now {
                tick += known.period;
            }
            let sleep_length = if now > rest.start && known.timer <= now as i64 {
                known.unknown
            } else {
                known.timer.saturating_sub_unsigned(now)
            };
            let delta_tick = if tick_stopped {
                sleep_length
            } else {
                sleep_length.min((tick - now) as i64)
            };
            let query = IdleQuery {
                sleep_length,
                delta_tick,
                tick_stopped,
                latency_request: known.latency_request,
                nr_iowait: known.iowaiters,
                clock: now,
                true_idle: rest.end - now,
            };
            let IdleDecision { state, stop_tick } = match self.lease {
                Some((lease, policy)) if lease.holds(Nanoseconds(now)) => {
                    policy.ceiling.select(states, governor, &query)
                }
                _ => governor.select(&query),
            };
            let state = state.min(states.len() - 1);
            counts.selections += 1;
            if stop_tick && !tick_stopped {
                tick_stopped = true;
                counts.tick_stops += 1;
            }
            let polls_until = if states[state].polling {
                let own = governor.poll_limit().map(|limit| limit.0);
                now.saturating_add(own.unwrap_or(self.poll_limit).max(1))
            } else {
                u64::MAX
            };
            let ticks_at = if tick_stopped { u64::MAX } else { tick };
            let end = rest.end.min(polls_until).min(ticks_at);
            let last = end == rest.end;
            let added = judge.account(&mut counts.totals, state, end - now, last, best);
            let poll_limit_hit = !last && polls_until <= ticks_at;
            counts.poll_limit_hits += u64::from(poll_limit_hit);
            let outcome = IdleOutcome {
                clock: end,
                // 0 would mean that the driver refused the state.
                residency: (end - now).max(1),
                got_tick: end == ticks_at,
                poll_limit_hit,
            };
            governor.reflect(state, &outcome);
            if last {
                *self.tick_stopped = tick_stopped;
                counts.last = (state, added);
                return;
            }
            now = end;
        }
    }
}

impl Known {
    /// What was recorded of a rest, with what stands in for it where it was not: `longest` is the
    /// CPU's longest rest so far, `phase` a time at which it had a tick.
    #[inline]
    pub fn of(rest: &Rest, period: u64, phase: u64, longest: u64) -> Self {
        let first = &rest.first;
        let asked = rest.start - u64::from(first.select_lead().unwrap_or(0)).min(rest.start);
        // Without timers: no timer is known to be nearer than the longest rest there has been.
        let unknown = longest.max(period) as i64;
        let sleep = first.sleep_length().unwrap_or(unknown);
        let timer = sleep.saturating_add_unsigned(asked);
        let recorded_tick = match (first.tick_stopped(), first.delta_tick()) {
            (Some(false), Some(delta)) if delta > 0 && delta < sleep => Some(asked + delta as u64),
            _ => None,
        };
        let next = || {
            let since = rest.start.abs_diff(phase) % period;
            if rest.start >= phase {
                rest.start - since + period
            } else {
                rest.start + since
            }
        };
        Self {
            timer,
            unknown,
            tick: recorded_tick.unwrap_or_else(next),
            period,
            latency_request: first.latency_request().unwrap_or(NO_LATENCY_REQUEST),
            iowaiters: first.iowaiters().unwrap_or(0),
        }
    }
}
