//! `wakeup-latency`: how long CPUs may take to wake up from suspend-to-idle.

use wakepath_units::Nanoseconds;

use super::key::{Fallback, Form, Key, KeyInfo, TimeUnit};
use super::{Kind, Mechanism, Place, Policy};

static LIMIT: Key<Option<Nanoseconds>> = Key {
    info: KeyInfo {
        name: "limit",
        meaning: "the longest exit latency of an idle state during suspend-to-idle; none: no limit",
        unit: "",
        fallback: Fallback::Required,
        example: "200us",
    },
    words: &[("none", None)],
    form: Form::Time(TimeUnit::Micros, i32::MAX as u64 - 1, Some),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "wakeup-latency",
    kind: Kind::WakeupLatency,
    versioned: false,
    summary: "how deep CPUs sleep during suspend-to-idle; idle CPUs of a running system are not affected",
    source: "/dev/cpu_wakeup_latency, kernel/power/qos.c, Linux 6.19",
    on: &[Place::Machine],
    keys: &[&LIMIT],
    overlaps: &[],
    build: |given| Ok(Policy::WakeupLatency(given.value_or_default(&LIMIT)?)),
};
