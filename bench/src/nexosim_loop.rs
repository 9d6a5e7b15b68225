//! The closed loops in NeXosim, written for its greatest speed: one model schedules its own events on one thread. Only
//! the result goes through a port.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::{EventSinkReader, Output, SinkState, event_queue};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};
use wakepath_sim::pattern::{LoopOutcome, SERVERS, STAGES, stage_time_ns};

/// The loop without queues, with all tokens in one model.
#[derive(Serialize, Deserialize)]
struct Delays {
    rounds: u64,
    events: u64,
    /// Round and stage of each token.
    at: Vec<(u64, usize)>,
    /// Events so far, whenever a token has done its rounds.
    done: Output<u64>,
}

#[Model]
impl Delays {
    #[nexosim(init)]
    #[expect(clippy::unused_async, reason = "the signature that Model asks for")]
    async fn init(&mut self, cx: &Context<Self>) {
        for token in 0..self.at.len() {
            let first = Duration::from_nanos(stage_time_ns(0, token as u64, 0));
            _ = cx.schedule_event(first, schedulable!(Self::step), token);
        }
    }

    /// Handles a token at the end of a stage.
    #[nexosim(schedulable)]
    async fn step(&mut self, token: usize, cx: &Context<Self>) {
        self.events += 1;
        let (round, stage) = &mut self.at[token];
        *stage += 1;
        if *stage == STAGES {
            *stage = 0;
            *round += 1;
        }
        if *round == self.rounds {
            self.done.send(self.events).await;
            return;
        }
        let next = Duration::from_nanos(stage_time_ns(*stage, token as u64, *round));
        _ = cx.schedule_event(next, schedulable!(Self::step), token);
    }
}

/// The loop with queues, with all stages in one model.
#[derive(Serialize, Deserialize)]
struct Queueing {
    tokens: usize,
    to_begin: u64,
    events: u64,
    stages: [Stage; STAGES],
    /// Events so far, whenever a token has done its last round.
    done: Output<u64>,
}

#[derive(Default, Serialize, Deserialize)]
struct Stage {
    free: usize,
    begun: u64,
    waiting: VecDeque<usize>,
}

#[Model]
impl Queueing {
    #[nexosim(init)]
    #[expect(clippy::unused_async, reason = "the signature that Model asks for")]
    async fn init(&mut self, cx: &Context<Self>) {
        for token in 0..self.tokens {
            self.to_begin -= 1;
            self.arrive(0, token, cx);
        }
    }

    /// Handles a token that a stage has served.
    #[nexosim(schedulable)]
    async fn served(&mut self, (stage, token): (usize, usize), cx: &Context<Self>) {
        self.events += 1;
        if let Some(next) = self.stages[stage].waiting.pop_front() {
            self.begin(stage, next, cx);
        } else {
            self.stages[stage].free += 1;
        }
        let after = (stage + 1) % STAGES;
        if after > 0 {
            self.arrive(after, token, cx);
        } else if self.to_begin > 0 {
            self.to_begin -= 1;
            self.arrive(0, token, cx);
        } else {
            self.done.send(self.events).await;
        }
    }

    fn arrive(&mut self, stage: usize, token: usize, cx: &Context<Self>) {
        if self.stages[stage].free > 0 {
            self.stages[stage].free -= 1;
            self.begin(stage, token, cx);
        } else {
            self.stages[stage].waiting.push_back(token);
        }
    }

    fn begin(&mut self, stage: usize, token: usize, cx: &Context<Self>) {
        let number = &mut self.stages[stage].begun;
        let time = Duration::from_nanos(stage_time_ns(stage, 0, *number));
        *number += 1;
        _ = cx.schedule_event(time, schedulable!(Self::served), (stage, token));
    }
}

/// Runs the loop of [`wakepath_sim::pattern::run_loop_without_queues`].
pub fn run_loop_without_queues(tokens: usize, rounds: u64) -> anyhow::Result<LoopOutcome> {
    let mut model = Delays {
        rounds,
        events: 0,
        at: vec![(0, 0); tokens],
        done: Output::default(),
    };
    let (sink, done) = event_queue(SinkState::Enabled);
    model.done.connect_sink(sink);
    run(model, done)
}

/// Runs the loop of [`wakepath_sim::pattern::run_loop_with_queues`].
pub fn run_loop_with_queues(tokens: usize, rounds: u64) -> anyhow::Result<LoopOutcome> {
    let mut model = Queueing {
        tokens,
        to_begin: rounds,
        events: 0,
        stages: SERVERS.map(|free| Stage {
            free,
            ..Stage::default()
        }),
        done: Output::default(),
    };
    let (sink, done) = event_queue(SinkState::Enabled);
    model.done.connect_sink(sink);
    run(model, done)
}

fn run<M: Model<Env = ()>>(
    model: M,
    mut done: impl EventSinkReader<u64>,
) -> anyhow::Result<LoopOutcome> {
    let mut simulation = SimInit::with_num_threads(1)
        .add_model(model, Mailbox::new(), "loop")
        .init(MonotonicTime::EPOCH)
        .map_err(|e| anyhow!("{e}"))?;
    simulation.run().map_err(|e| anyhow!("{e}"))?;
    let end = simulation.time().duration_since(MonotonicTime::EPOCH);
    let mut events = None;
    while let Some(so_far) = done.try_read() {
        events = Some(so_far);
    }
    Ok(LoopOutcome {
        events: events.context("NeXosim has not finished")?,
        end_ns: u64::try_from(end.as_nanos())?,
    })
}
