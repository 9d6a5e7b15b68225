//! What the kernel does around a governor when a CPU has nothing to run: `cpuidle_idle_call()` (`kernel/sched/idle.c`) and
//! `tick_nohz_get_sleep_length()` (`kernel/time/tick-sched.c`), Linux 6.1 and 6.12. With one idle state newer kernels ask no governor:
//! [`OnlyState`](super::only_state::OnlyState).
//!
//! Simulator and replay both use [`IdleCall`], so that the query, the use of the answer, and the outcome are handled
//! alike. Callers decide which events end an idle period.

use wakepath_hardware::IdleStates;
use wakepath_units::Nanoseconds;

use super::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery};
use crate::psd::Ceiling;

/// What is known of a CPU that goes idle. All times in ns.
#[derive(Clone, Copy, Debug)]
pub struct IdleCall {
    /// The CPU's clock.
    pub now: u64,
    /// Time to the next timer that is not the tick; negative when it is overdue.
    pub next_timer: i64,
    /// Whether the tick is stopped already.
    pub tick_stopped: bool,
    /// See [`IdleQuery::after_tick`].
    pub after_tick: bool,
    /// Time of the next tick, if the tick is not stopped.
    pub tick: u64,
    /// Whether a timer is too near for the tick to be stopped.
    pub keeps_tick: bool,
    /// See [`IdleQuery::latency_request`].
    pub latency_request: i64,
    /// See [`IdleQuery::nr_iowait`].
    pub nr_iowait: u32,
    /// See [`IdleQuery::true_idle`].
    pub true_idle: u64,
    /// See [`IdleQuery::package_saving`].
    pub package_saving: i64,
}

/// State and tick that a CPU goes idle with, after the governor was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleChoice {
    /// The governor's answer.
    pub decision: IdleDecision,
    /// Index of the state that the CPU enters.
    pub state: usize,
    /// Whether the running tick is stopped before the CPU enters the state.
    pub stops_tick: bool,
}

impl IdleCall {
    /// The governor's input.
    #[inline(always)]
    pub fn governor_query(&self) -> IdleQuery {
        let delta_tick = if self.tick_stopped {
            self.next_timer
        } else {
            let tick = self.tick.saturating_sub(self.now);
            self.next_timer.min(tick.min(i64::MAX as u64) as i64)
        };
        IdleQuery {
            sleep_length: if self.keeps_tick {
                delta_tick
            } else {
                self.next_timer
            },
            delta_tick,
            tick_stopped: self.tick_stopped,
            after_tick: self.after_tick,
            latency_request: self.latency_request,
            nr_iowait: self.nr_iowait,
            clock: self.now,
            true_idle: self.true_idle,
            package_saving: self.package_saving,
        }
    }

    /// Asks the governor for an idle state. While a lease holds, the CPU may sleep no deeper than
    /// `ceiling`.
    #[inline(always)]
    pub fn ask_governor<G: IdleGovernor>(
        &self,
        query: &IdleQuery,
        states: &IdleStates,
        governor: &mut G,
        ceiling: Option<Ceiling>,
    ) -> IdleChoice {
        let decision = match ceiling {
            Some(ceiling) => ceiling.select_below_ceiling(states, governor, query),
            None => governor.select(query),
        };
        IdleChoice {
            decision,
            state: decision.state.min(states.len() - 1),
            stops_tick: decision.stop_tick && !self.keeps_tick && !self.tick_stopped,
        }
    }
}

/// Time for which a polling state polls: the governor's own limit if it has one, or else `limit`.
#[inline(always)]
pub fn own_poll_limit_or<G: IdleGovernor>(governor: &G, limit: Nanoseconds) -> Nanoseconds {
    governor.poll_limit().unwrap_or(limit)
}

impl IdleOutcome {
    /// Outcome of an idle period from `since` to `clock`, in ns.
    #[inline(always)]
    pub fn for_period(since: u64, clock: u64, got_tick: bool, poll_limit_hit: bool) -> Self {
        Self {
            clock,
            residency: Self::nonzero_residency(clock - since),
            got_tick,
            poll_limit_hit,
        }
    }

    /// Residency that a governor is told for an idle period of `length` ns: at least 1, because 0
    /// would mean a refused state.
    #[inline(always)]
    pub fn nonzero_residency(length: u64) -> u64 {
        length.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::make_states;
    use crate::idle::{Governor, IdlePolicy};
    use wakepath_units::TickRate;

    const CALL: IdleCall = IdleCall {
        now: 1_000_000,
        next_timer: 9_000_000,
        tick_stopped: false,
        after_tick: false,
        tick: 4_000_000,
        keeps_tick: false,
        latency_request: i64::MAX,
        nr_iowait: 0,
        true_idle: 0,
        package_saving: 0,
    };

    /// Time to the next event, and to the next timer or tick.
    fn lengths(call: IdleCall) -> (i64, i64) {
        let query = call.governor_query();
        (query.sleep_length, query.delta_tick)
    }

    #[test]
    fn the_next_event_is_the_tick_or_a_timer() {
        assert_eq!(lengths(CALL), (9_000_000, 3_000_000));
        let stopped = IdleCall {
            tick_stopped: true,
            ..CALL
        };
        assert_eq!(lengths(stopped), (9_000_000, 9_000_000));
        let kept = IdleCall {
            keeps_tick: true,
            ..CALL
        };
        assert_eq!(lengths(kept), (3_000_000, 3_000_000));
        let overdue = IdleCall {
            next_timer: -5,
            ..CALL
        };
        assert_eq!(lengths(overdue), (-5, -5));
    }

    #[test]
    fn a_tick_is_stopped_once_and_only_if_no_timer_keeps_it() {
        let list = make_states(&[(0, 0), (2_000, 20_000), (100_000, 600_000)], true);
        let mut governor = Governor::new(&IdlePolicy::Deepest, &list, TickRate::HZ_250);
        let stopped = IdleCall {
            tick_stopped: true,
            ..CALL
        };
        let kept = IdleCall {
            keeps_tick: true,
            ..CALL
        };
        for (call, ceiling, state, stops_tick) in [
            (CALL, None, 2, true),
            (stopped, None, 2, false),
            (kept, None, 2, false),
            (CALL, Some(Ceiling::State(1)), 1, true),
        ] {
            let choice = call.ask_governor(&call.governor_query(), &list, &mut governor, ceiling);
            assert_eq!((choice.state, choice.stops_tick), (state, stops_tick));
        }
        assert_eq!(IdleOutcome::for_period(7, 7, false, false).residency, 1);
    }
}
