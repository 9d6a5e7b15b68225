//! Answers to a call log, scored: each idle period as long as it was, in the state that the answer chose.

use wakepath_policies::idle::IdleDecision;
use wakepath_policies::input::Call;
use wakepath_units::TickRate;

use crate::cost::{Judge, Totals};
use crate::setup::States;

/// What a CPU was asked, to score answers to.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its idle states.
    pub states: States,
    /// The tick rate.
    pub tick: TickRate,
    /// The calls, in their order.
    pub calls: Vec<Call>,
}

/// An answer that is no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("answer {number} is idle state {state}, and the CPU has {states}, counted from 0")]
pub struct AnswerOutOfRange {
    /// Which answer, from 1.
    pub number: usize,
    /// What it is.
    pub state: usize,
    /// How many there are.
    pub states: usize,
}

impl Asked {
    /// What answers come to, by state. A call whose state the driver refused counts for nothing. Where there are more calls than
    /// answers, or the other way round, what follows is left out.
    ///
    /// # Errors
    /// An answer is no state.
    pub fn score(&self, answers: &[IdleDecision]) -> Result<Vec<Totals>, AnswerOutOfRange> {
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
                let best = judge.best(residency, 0, call.query.latency_request);
                // Its own tick did not wake anything.
                let last = !call.outcome.got_tick;
                judge.account(&mut totals, answer.state, residency, last, best);
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

    #[test]
    fn answers_are_judged_by_how_long_the_cpu_stayed() {
        let state = |(name, us): (&str, u64)| IdleState {
            name: name.to_owned(),
            exit_latency: Nanoseconds(us * 100),
            target_residency: Nanoseconds(us * 1000),
            polling: false,
            disabled: false,
        };
        let list = [("C1", 0), ("C6", 100)].map(state).to_vec();
        let call = |residency: u64, got_tick: bool| Call {
            query: IdleQuery {
                latency_request: NO_LATENCY_REQUEST,
                ..IdleQuery::default()
            },
            outcome: IdleOutcome {
                residency,
                got_tick,
                ..IdleOutcome::default()
            },
        };
        let asked = Asked {
            states: States::declared(Vec::new(), IdleStates::new(list).unwrap()),
            tick: TickRate::HZ_250,
            calls: vec![
                call(50_000, false),
                call(500_000, false),
                call(0, false),
                call(50_000, true),
            ],
        };
        let all = |state: usize| {
            let answer = IdleDecision {
                state,
                stop_tick: false,
            };
            asked.score(&[answer; 4])
        };
        let deep = all(1).unwrap()[1];
        assert_eq!((deep.count, deep.too_deep, deep.too_shallow), (3, 2, 0));
        assert_eq!((deep.slower, deep.added_latency), (1, 10_000));
        let shallow = all(0).unwrap()[0];
        assert_eq!(
            (shallow.count, shallow.too_deep, shallow.too_shallow),
            (3, 0, 1)
        );
        assert_eq!(shallow.added_latency, 0);
        let error = all(2).unwrap_err().to_string();
        assert_eq!(
            error,
            "answer 1 is idle state 2, and the CPU has 2, counted from 0"
        );
    }
}
