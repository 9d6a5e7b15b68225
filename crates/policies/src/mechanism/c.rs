//! `c:FILE`: a governor of one's own, in the kernel's C.

use super::{Kind, Mechanism, Place, build_program_policy};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "c",
    kind: Kind::Idle,
    versioned: false,
    summary: "a governor of your own: the C file of a kernel's governor, compiled and run beside",
    source: "the file; docs/guides/own-governor.md",
    on: &[Place::Sim, Place::Replay],
    keys: &[],
    overlaps: &[],
    build: build_program_policy,
};
