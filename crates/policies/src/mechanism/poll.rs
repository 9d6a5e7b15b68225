//! `poll`: how long the polling idle state polls.

use super::key::{Fallback, Form, Key, KeyInfo, choice_key};
use super::{Kind, Mechanism, Place, Policy};
use crate::poll::{PollPolicy, PollRule};

static REQUEST: Key<u64> = Key {
    info: KeyInfo {
        name: "request_us",
        meaning: "an explicit limit, clamped to between 10 us and a sixteenth of a tick",
        unit: "us",
        fallback: Fallback::Derived("from the idle states"),
        example: "20",
    },
    words: &[],
    form: Form::UpTo(u64::MAX, |n| n),
};
static RULE: Key<PollRule> = choice_key(
    "rule",
    &[("current", PollRule::Current), ("first", PollRule::First)],
    "current",
    "first",
    "the residency of the first state of 10 us or more, or of the first at all (before 5.11)",
);

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "poll",
    kind: Kind::Poll,
    versioned: false,
    summary: "how long the polling idle state polls",
    source: "cpuidle_poll_time(), drivers/cpuidle/cpuidle.c",
    on: &[Place::Sim],
    keys: &[&REQUEST, &RULE],
    overlaps: &[],
    build: |given| {
        Ok(Policy::Poll(PollPolicy {
            request_us: given.given_value(&REQUEST)?,
            rule: given.value_or_default(&RULE)?,
        }))
    },
};
