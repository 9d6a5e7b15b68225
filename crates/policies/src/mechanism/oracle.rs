//! `oracle`: the bound that no governor can reach.

use super::key::{Key, choice_key};
use super::{Kind, Mechanism, Place, Policy};
use crate::idle::{IdlePolicy, OracleGoal};

static GOAL: Key<OracleGoal> = choice_key(
    "goal",
    &[
        ("energy", OracleGoal::Energy),
        ("latency", OracleGoal::Latency),
    ],
    "energy",
    "latency",
    "what it minimises",
);

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "oracle",
    kind: Kind::Idle,
    versioned: false,
    summary: "knows how long the CPU will stay idle",
    source: "of wakepath: the best that is possible on a recording",
    on: &[Place::Replay],
    keys: &[&GOAL],
    overlaps: &[],
    build: |given| {
        Ok(Policy::Idle(IdlePolicy::Oracle(
            given.value_or_default(&GOAL)?,
        )))
    },
};
