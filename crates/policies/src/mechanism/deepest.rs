//! `deepest`: a bound, no governor of any kernel.

use super::{Kind, Mechanism, Place, Policy};
use crate::idle::IdlePolicy;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "deepest",
    kind: Kind::Idle,
    versioned: false,
    summary: "always the deepest enabled state within the latency request",
    source: "of wakepath: the most sleep",
    on: &[Place::Sim, Place::Replay],
    keys: &[],
    overlaps: &[],
    build: |_| Ok(Policy::Idle(IdlePolicy::Deepest)),
};
