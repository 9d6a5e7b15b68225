//! `haltpoll`: the idle governor for guests, with its module parameters.

use super::key::{Key, number_key_as, switch_key};
use super::{EVERYWHERE, Kind, Mechanism, Policy};
use crate::idle::{HaltpollParameters, IdlePolicy};

const fn module_parameter_key(
    name: &'static str,
    default: &'static str,
    unit: &'static str,
    example: &'static str,
    meaning: &'static str,
) -> Key<u32> {
    let most = u32::MAX as u64;
    number_key_as(name, (most, |n| n as u32), default, unit, example, meaning)
}

static LONGEST: Key<u32> = module_parameter_key(
    "guest_halt_poll_ns",
    "200000",
    "ns",
    "50000",
    "the longest time to poll",
);
static SHRINK: Key<u32> = module_parameter_key(
    "guest_halt_poll_shrink",
    "2",
    "",
    "0",
    "what the time to poll is divided by after a long halt; 0 sets it to zero",
);
static GROW: Key<u32> = module_parameter_key(
    "guest_halt_poll_grow",
    "2",
    "",
    "4",
    "what the time to poll is multiplied with after a short halt",
);
static GROW_START: Key<u32> = module_parameter_key(
    "guest_halt_poll_grow_start",
    "50000",
    "ns",
    "10000",
    "the shortest time to poll to grow from",
);
static ALLOW_SHRINK: Key<bool> = switch_key(
    "guest_halt_poll_allow_shrink",
    "on",
    "whether the time to poll may shrink",
);

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "haltpoll",
    kind: Kind::Idle,
    versioned: true,
    summary: "polls before halting, for guests",
    source: "drivers/cpuidle/governors/haltpoll.c",
    on: EVERYWHERE,
    keys: &[&LONGEST, &SHRINK, &GROW, &GROW_START, &ALLOW_SHRINK],
    overlaps: &[],
    build: |given| {
        let parameters = HaltpollParameters {
            guest_halt_poll_ns: given.value_or_default(&LONGEST)?,
            guest_halt_poll_shrink: given.value_or_default(&SHRINK)?,
            guest_halt_poll_grow: given.value_or_default(&GROW)?,
            guest_halt_poll_grow_start: given.value_or_default(&GROW_START)?,
            guest_halt_poll_allow_shrink: given.value_or_default(&ALLOW_SHRINK)?,
        };
        Ok(Policy::Idle(IdlePolicy::Haltpoll(
            given.version_or_bare(),
            parameters,
        )))
    },
};
