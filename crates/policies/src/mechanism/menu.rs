//! `menu`: the idle governor of most machines.

use super::{EVERYWHERE, Kind, Mechanism, Policy};
use crate::idle::IdlePolicy;
use crate::spec::version::KERNELS;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "menu",
    kind: Kind::Idle,
    versions: KERNELS,
    summary: "the next timer, corrected by experience, unless wake-ups show a pattern",
    source: "drivers/cpuidle/governors/menu.c",
    on: EVERYWHERE,
    keys: &[],
    overlaps: &[],
    build: |given| Ok(Policy::Idle(IdlePolicy::Menu(given.version()))),
};
