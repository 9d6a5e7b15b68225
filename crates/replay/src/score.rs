//! Scores for answers to a governor call log: each idle period keeps the recorded length, in the
//! state of the answer.

use wakepath_policies::idle::IdleDecision;
use wakepath_policies::input::Call;
use wakepath_units::TickRate;

use crate::cost::{Judge, Totals};
use crate::setup::States;

/// Governor call log of a CPU, on which answers are scored.
#[derive(Clone, Debug)]
pub struct CallLog {
    /// The CPU's idle states.
    pub states: States,
    /// The tick rate.
    pub tick: TickRate,
    /// Calls of the governor, in order of time.
    pub calls: Vec<Call>,
}

/// Error: an answer names an idle state that the CPU does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("answer {number} is idle state {state}, and the CPU has {states}, counted from 0")]
pub struct AnswerOutOfRange {
    /// Number of the wrong answer, from 1.
    pub number: usize,
    /// Index of the idle state in the answer.
    pub state: usize,
    /// Number of states.
    pub states: usize,
}

impl CallLog {
    /// Sums over the idle periods in the states of the answers, by state. A call whose state the
    /// driver refused does not count, nor calls without an answer, nor answers without a call.
    ///
    /// # Errors
    ///
    /// An answer names an idle state that the CPU does not have.
    pub fn score_answers(&self, answers: &[IdleDecision]) -> Result<Vec<Totals>, AnswerOutOfRange> {
        let judge = Judge::new(&self.states, self.tick);
        let mut totals = vec![Totals::default(); self.states.declared.len()];
        for (number, (call, answer)) in (1..).zip(self.calls.iter().zip(answers)) {
            let residency = call.outcome.residency;
            if answer.state >= totals.len() {
                return Err(AnswerOutOfRange {
                    number,
                    state: answer.state,
                    states: totals.len(),
                });
            }
            if residency > 0 {
                let best = judge.choose_like_oracle(residency, 0, call.query.latency_request);
                // A wake-up by the CPU's own tick does not end the idle span.
                let last = !call.outcome.got_tick;
                judge.account_idle_period(&mut totals, answer.state, residency, last, best);
            }
        }
        Ok(totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_hardware::{IdleState, IdleStates};
    use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
    use wakepath_policies::idle::{IdleOutcome, IdleQuery};
    use wakepath_units::Nanoseconds;

    fn idle_state(name: &str, us: u64) -> IdleState {
        IdleState {
            name: name.to_owned(),
            exit_latency: Nanoseconds(us * 100),
            target_residency: Nanoseconds(us * 1000),
            polling: false,
            disabled: false,
        }
    }

    fn call(residency: u64, got_tick: bool) -> Call {
        Call {
            query: IdleQuery {
                latency_request: NO_LATENCY_REQUEST,
                ..IdleQuery::default()
            },
            outcome: IdleOutcome {
                residency,
                got_tick,
                ..IdleOutcome::default()
            },
        }
    }

    fn answer(state: usize) -> IdleDecision {
        IdleDecision {
            state,
            stop_tick: false,
        }
    }

    #[test]
    fn answers_are_judged_by_how_long_the_cpu_stayed() {
        let list = vec![idle_state("C1", 0), idle_state("C6", 100)];
        let log = CallLog {
            states: States::from_declared(Vec::new(), IdleStates::new(list).unwrap()),
            tick: TickRate::HZ_250,
            calls: vec![
                call(50_000, false),
                call(500_000, false),
                call(0, false),
                call(50_000, true),
            ],
        };
        let deep = log.score_answers(&[answer(1); 4]).unwrap()[1];
        assert_eq!((deep.count, deep.too_deep, deep.too_shallow), (3, 2, 0));
        assert_eq!((deep.slower, deep.added_latency), (1, 10_000));
        let shallow = log.score_answers(&[answer(0); 4]).unwrap()[0];
        assert_eq!(
            (shallow.count, shallow.too_deep, shallow.too_shallow),
            (3, 0, 1)
        );
        assert_eq!(shallow.added_latency, 0);
        let error = log.score_answers(&[answer(2); 4]).unwrap_err().to_string();
        assert_eq!(
            error,
            "answer 1 is idle state 2, and the CPU has 2, counted from 0"
        );
    }
}
