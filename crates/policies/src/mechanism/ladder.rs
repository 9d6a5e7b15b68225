//! `ladder`: the idle governor for periodic ticks.

use super::{EVERYWHERE, Kind, Mechanism, Policy};
use crate::idle::IdlePolicy;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "ladder",
    kind: Kind::Idle,
    versioned: true,
    summary: "one state deeper after four long residencies, one back after a short one",
    source: "drivers/cpuidle/governors/ladder.c",
    on: EVERYWHERE,
    keys: &[],
    overlaps: &[],
    build: |given| Ok(Policy::Idle(IdlePolicy::Ladder(given.version_or_bare()))),
};
