//! `menu`: the idle governor of most machines.

use super::{EVERYWHERE, Kind, Mechanism, Policy};
use crate::idle::IdlePolicy;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "menu",
    kind: Kind::Idle,
    versioned: true,
    summary: "the next timer, corrected by experience, unless wake-ups show a pattern",
    source: "drivers/cpuidle/governors/menu.c",
    on: EVERYWHERE,
    keys: &[],
    overlaps: &[],
    build: |given| Ok(Policy::Idle(IdlePolicy::Menu(given.version_or_bare()))),
};
