//! `teo`: the timer events oriented idle governor.

use super::{EVERYWHERE, Kind, Mechanism, Policy};
use crate::idle::IdlePolicy;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "teo",
    kind: Kind::Idle,
    versioned: true,
    summary: "the next timer, unless most wake-ups came before it",
    source: "drivers/cpuidle/governors/teo.c",
    on: EVERYWHERE,
    keys: &[],
    overlaps: &[],
    build: |given| Ok(Policy::Idle(IdlePolicy::Teo(given.version()))),
};
