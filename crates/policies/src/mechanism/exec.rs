//! `exec:FILE`: a governor of one's own, a program.

use super::{Kind, Mechanism, Place, build_program_policy};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "exec",
    kind: Kind::Idle,
    versioned: false,
    summary: "a governor of your own: a program that answers a call log line by line",
    source: "the program; docs/guides/own-governor.md",
    on: &[Place::Sim, Place::Replay],
    keys: &[],
    overlaps: &[],
    build: build_program_policy,
};
