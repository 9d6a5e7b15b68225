//! The engine's core alone, to be timed against other simulators.
//!
//! Two closed loops with requests going round submission, drive, interrupt and resume, as fio jobs make events,
//! without governors and accounting. `bench/` runs the same loops in NeXosim and SimPy. All participants may do
//! simultaneous events in any order and still end at the same time.

use std::collections::VecDeque;

use crate::core::queue::EventQueue;

/// Stages in a round.
pub const STAGES: usize = 4;

/// How many requests a stage serves at a time: the drive several, a CPU one.
pub const SERVERS: [usize; STAGES] = [1, 8, 1, 1];

/// The drive's stage.
pub const DRIVE: usize = 1;

/// A loop's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looped {
    /// Stages finished.
    pub events: u64,
    /// Time of the last event, in ns.
    pub end_ns: u64,
}

/// How long, in ns, a stage takes. Only the drive's time differs: `of` and `number` are any two numbers
/// that all implementations agree on.
pub const fn delay(stage: usize, token: u64, number: u64) -> u64 {
    match stage {
        0 => 5_000,
        DRIVE => 80_000 + ((token * 2_654_435_761 + number * 40_503) >> 7 & 0x3fff),
        2 => 3_000,
        _ => 4_000,
    }
}

/// A loop without queues: `tokens` go round until each has done `rounds`, and never wait for one
/// another.
pub fn delays_only(tokens: usize, rounds: u64) -> Looped {
    let mut queue = EventQueue::new(tokens);
    // Round and stage by token.
    let mut at = vec![(0, 0); tokens];
    for token in 0..tokens {
        queue.schedule(token, delay(0, token as u64, 0));
    }
    let mut looped = Looped {
        events: 0,
        end_ns: 0,
    };
    while let Some((now, next)) = queue.pop() {
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
        let due = now + delay(*stage, token as u64, *round);
        if *stage == DRIVE {
            queue.push(due, token);
        } else {
            queue.schedule(token, due);
        }
    }
    looped
}

/// A loop with queues: `tokens` go round [`SERVERS`], first come, first served, until `rounds` rounds are made
/// together. A CPU's next step has a slot in the event queue, and requests in the drive wait among the other events,
/// as in the engine.
pub fn queueing(tokens: usize, rounds: u64) -> Looped {
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
    /// Servers with nothing to do.
    free: usize,
    /// Requests served so far, or being served.
    begun: u64,
    waiting: VecDeque<usize>,
}

struct Queueing {
    queue: EventQueue,
    stages: [Stage; STAGES],
    now: u64,
}

impl Queueing {
    fn run(mut self, tokens: usize, rounds: u64) -> Looped {
        let mut to_begin = rounds;
        for token in 0..tokens.min(usize::try_from(rounds).unwrap_or(tokens)) {
            to_begin -= 1;
            self.arrive(0, token);
        }
        let mut events = 0;
        // Tokens at a stage with one server.
        while let Some((now, next)) = self.queue.pop() {
            self.now = now;
            events += 1;
            let (stage, token) = match self.stages.get_mut(next) {
                Some(stage) => (next, stage.waiting.pop_front()),
                None => (DRIVE, Some(next - STAGES)),
            };
            let Some(token) = token else { break };
            self.leave(stage);
            let after = (stage + 1) % STAGES;
            if after > 0 {
                self.arrive(after, token);
            } else if to_begin > 0 {
                to_begin -= 1;
                self.arrive(0, token);
            }
        }
        Looped {
            events,
            end_ns: self.now,
        }
    }

    fn arrive(&mut self, stage: usize, token: usize) {
        let at = &mut self.stages[stage];
        at.waiting.push_back(token);
        if at.free > 0 {
            at.free -= 1;
            self.begin(stage);
        }
    }

    fn leave(&mut self, stage: usize) {
        let at = &mut self.stages[stage];
        if at.waiting.is_empty() {
            at.free += 1;
        } else {
            self.begin(stage);
        }
    }

    /// Serves the first waiting token. On a CPU the token stays at the queue's head meanwhile.
    fn begin(&mut self, stage: usize) {
        let at = &mut self.stages[stage];
        let due = self.now + delay(stage, 0, at.begun);
        at.begun += 1;
        if stage != DRIVE {
            self.queue.schedule(stage, due);
        } else if let Some(token) = at.waiting.pop_front() {
            self.queue.push(due, token);
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
            .map(|(stage, round)| delay(stage, token, round))
            .sum()
    }

    #[test]
    fn the_loop_without_queues_ends_when_its_slowest_token_does() {
        let (tokens, rounds) = (7, 50);
        assert_eq!(
            delays_only(tokens as usize, rounds),
            Looped {
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
        let drive: u64 = (0..rounds).map(|number| delay(DRIVE, 0, number)).sum();
        let alone = queueing(1, rounds);
        assert_eq!(
            (alone.events, alone.end_ns),
            (4 * rounds, drive + rounds * 12_000)
        );
        let many = queueing(64, rounds);
        assert_eq!(many.events, 4 * rounds);
        let busy = many.end_ns as f64 / (drive as f64 / SERVERS[DRIVE] as f64);
        assert!((1.0..1.05).contains(&busy), "{busy}");
        // No more rounds than asked for, even with more tokens.
        assert_eq!(queueing(64, 3).events, 12);
    }
}
