//! The engine's core alone, to be timed against other simulators.
//!
//! Two closed loops with requests going round submission, drive, interrupt and resume, as fio jobs make events,
//! without governors and accounting. `bench/` runs the same loops in NeXosim and SimPy. All participants may do
//! simultaneous events in any order and still end at the same time.

use std::collections::VecDeque;

use crate::core::queue::EventQueue;

/// Stages that a token passes in each round: submission, drive, interrupt, resume.
pub const STAGES: usize = 4;

/// How many requests a stage serves at a time: the drive several, a CPU one.
pub const SERVERS: [usize; STAGES] = [1, 8, 1, 1];

/// The drive's stage.
pub const DRIVE: usize = 1;

/// Outcome of a timed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopOutcome {
    /// Number of stages that all tokens have finished.
    pub events: u64,
    /// Simulated time of the loop's last event, in ns.
    pub end_ns: u64,
}

/// How long, in ns, a stage takes. Only the drive's time differs: `of` and `number` are any two numbers
/// that all implementations agree on.
pub const fn stage_time_ns(stage: usize, token: u64, number: u64) -> u64 {
    match stage {
        0 => 5_000,
        DRIVE => 80_000 + ((token * 2_654_435_761 + number * 40_503) >> 7 & 0x3fff),
        2 => 3_000,
        _ => 4_000,
    }
}

/// A loop without queues: `tokens` go round until each has done `rounds`, and never wait for one
/// another.
pub fn run_loop_without_queues(tokens: usize, rounds: u64) -> LoopOutcome {
    let mut queue = EventQueue::new(tokens);
    // Each token's present round and stage.
    let mut at = vec![(0, 0); tokens];
    for token in 0..tokens {
        queue.schedule(token, stage_time_ns(0, token as u64, 0));
    }
    let mut looped = LoopOutcome {
        events: 0,
        end_ns: 0,
    };
    while let Some((now, next)) = queue.pop_next() {
        let token = if next < tokens { next } else { next - tokens };
        looped.events += 1;
        looped.end_ns = now;
        let (round, stage) = &mut at[token];
        *stage += 1;
        if *stage == STAGES {
            *stage = 0;
            *round += 1;
        }
        if *round == rounds {
            continue;
        }
        let due = now + stage_time_ns(*stage, token as u64, *round);
        if *stage == DRIVE {
            queue.push_without_slot(due, token);
        } else {
            queue.schedule(token, due);
        }
    }
    looped
}

/// A loop with queues: `tokens` go round [`SERVERS`], first come, first served, until `rounds` rounds are made
/// together. A CPU's next step has a slot in the event queue, and requests in the drive wait among the other events,
/// as in the engine.
pub fn run_loop_with_queues(tokens: usize, rounds: u64) -> LoopOutcome {
    Queueing {
        queue: EventQueue::new(STAGES),
        stages: SERVERS.map(|free| Stage {
            free,
            ..Stage::default()
        }),
        now: 0,
    }
    .run(tokens, rounds)
}

#[derive(Default)]
struct Stage {
    /// Number of the stage's servers with nothing to do.
    free: usize,
    /// Requests that the stage has served, or is serving.
    begun: u64,
    waiting: VecDeque<usize>,
}

struct Queueing {
    queue: EventQueue,
    stages: [Stage; STAGES],
    now: u64,
}

impl Queueing {
    fn run(mut self, tokens: usize, rounds: u64) -> LoopOutcome {
        let mut to_begin = rounds;
        for token in 0..tokens.min(usize::try_from(rounds).unwrap_or(tokens)) {
            to_begin -= 1;
            self.arrive_at_stage(0, token);
        }
        let mut events = 0;
        // A stage with one server keeps the served token at the head of its queue.
        while let Some((now, next)) = self.queue.pop_next() {
            self.now = now;
            events += 1;
            let (stage, token) = match self.stages.get_mut(next) {
                Some(stage) => (next, stage.waiting.pop_front()),
                None => (DRIVE, Some(next - STAGES)),
            };
            let Some(token) = token else { break };
            self.leave_stage(stage);
            let after = (stage + 1) % STAGES;
            if after > 0 {
                self.arrive_at_stage(after, token);
            } else if to_begin > 0 {
                to_begin -= 1;
                self.arrive_at_stage(0, token);
            }
        }
        LoopOutcome {
            events,
            end_ns: self.now,
        }
    }

    fn arrive_at_stage(&mut self, stage: usize, token: usize) {
        let at = &mut self.stages[stage];
        at.waiting.push_back(token);
        if at.free > 0 {
            at.free -= 1;
            self.serve_first_waiting(stage);
        }
    }

    fn leave_stage(&mut self, stage: usize) {
        let at = &mut self.stages[stage];
        if at.waiting.is_empty() {
            at.free += 1;
        } else {
            self.serve_first_waiting(stage);
        }
    }

    /// Serves the first waiting token. On a CPU the token stays at the queue's head meanwhile.
    fn serve_first_waiting(&mut self, stage: usize) {
        let at = &mut self.stages[stage];
        let due = self.now + stage_time_ns(stage, 0, at.begun);
        at.begun += 1;
        if stage != DRIVE {
            self.queue.schedule(stage, due);
        } else if let Some(token) = at.waiting.pop_front() {
            self.queue.push_without_slot(due, token);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum over all delays of a token.
    fn total_delay(token: u64, rounds: u64) -> u64 {
        let stages = (0..rounds).flat_map(|round| (0..STAGES).map(move |stage| (stage, round)));
        stages
            .map(|(stage, round)| stage_time_ns(stage, token, round))
            .sum()
    }

    #[test]
    fn the_loop_without_queues_ends_when_its_slowest_token_does() {
        let (tokens, rounds) = (7, 50);
        assert_eq!(
            run_loop_without_queues(tokens as usize, rounds),
            LoopOutcome {
                events: tokens * rounds * STAGES as u64,
                end_ns: (0..tokens)
                    .map(|token| total_delay(token, rounds))
                    .max()
                    .unwrap(),
            }
        );
    }

    #[test]
    fn one_token_never_waits_and_many_are_as_fast_as_the_drive() {
        let rounds = 400;
        let drive: u64 = (0..rounds)
            .map(|number| stage_time_ns(DRIVE, 0, number))
            .sum();
        let alone = run_loop_with_queues(1, rounds);
        assert_eq!(
            (alone.events, alone.end_ns),
            (4 * rounds, drive + rounds * 12_000)
        );
        let many = run_loop_with_queues(64, rounds);
        assert_eq!(many.events, 4 * rounds);
        let busy = many.end_ns as f64 / (drive as f64 / SERVERS[DRIVE] as f64);
        assert!((1.0..1.05).contains(&busy), "{busy}");
        // No more rounds than asked for, even with more tokens.
        assert_eq!(run_loop_with_queues(64, 3).events, 12);
    }
}
