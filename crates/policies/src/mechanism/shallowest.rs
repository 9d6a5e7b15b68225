//! `shallowest`: a bound, no governor of any kernel.

use super::{Kind, Mechanism, Place, Policy};
use crate::idle::IdlePolicy;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "shallowest",
    kind: Kind::Idle,
    versioned: false,
    summary: "always the shallowest enabled state",
    source: "of wakepath: the least latency",
    on: &[Place::Sim, Place::Replay],
    keys: &[],
    overlaps: &[],
    build: |_| Ok(Policy::Idle(IdlePolicy::Shallowest)),
};
