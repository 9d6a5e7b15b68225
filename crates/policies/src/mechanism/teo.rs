//! `teo`: the timer events oriented idle governor.

use super::{EVERYWHERE, Kind, Mechanism, Policy};
use crate::idle::IdlePolicy;
use crate::spec::version::KERNELS;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "teo",
    kind: Kind::Idle,
    versions: KERNELS,
    summary: "the next timer, unless most wake-ups came before it",
    source: "drivers/cpuidle/governors/teo.c",
    on: EVERYWHERE,
    keys: &[],
    overlaps: &[],
    build: |given| Ok(Policy::Idle(IdlePolicy::Teo(given.version()))),
};
