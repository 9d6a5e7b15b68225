//! `ladder`: the idle governor for periodic ticks.

use super::{EVERYWHERE, Kind, Mechanism, Policy};
use crate::idle::IdlePolicy;
use crate::spec::version::KERNELS;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "ladder",
    kind: Kind::Idle,
    versions: KERNELS,
    summary: "one state deeper after four long stays, one back after a short one",
    source: "drivers/cpuidle/governors/ladder.c",
    on: EVERYWHERE,
    keys: &[],
    overlaps: &[],
    build: |given| Ok(Policy::Idle(IdlePolicy::Ladder(given.version()))),
};
