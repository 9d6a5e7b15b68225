//! `teo`: the timer events oriented idle governor.

use super::{EVERYWHERE, Kind, Mechanism, Policy};
use crate::idle::{IdlePolicy, teo};
use crate::spec::SpecError;

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "teo",
    kind: Kind::Idle,
    versioned: true,
    summary: "the next timer, unless most wake-ups came before it",
    source: "drivers/cpuidle/governors/teo.c",
    on: EVERYWHERE,
    keys: &[],
    overlaps: &[],
    build: |given| {
        let kernel = given.version_or_bare();
        if teo::has_known_rules(kernel) {
            return Ok(Policy::Idle(IdlePolicy::Teo(kernel)));
        }
        Err(SpecError::UnknownVersion {
            name: given.mechanism.name,
            version: kernel.to_string(),
            problem: "teo of Linux 6.3 to 6.10 looked at how busy its CPU was, and is not built in; nearest: 6.2, 6.11. \
                      With the source of that kernel, c:linux/teo runs it"
                .to_owned(),
        })
    },
};
