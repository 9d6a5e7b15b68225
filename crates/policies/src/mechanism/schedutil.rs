//! `schedutil`: the cpufreq governor, with variants for the iowait boost.

use wakepath_units::{Capacity, Nanoseconds};

use super::key::{Fallback, Form, Key, KeyInfo, choice_key, number_key, switch_key};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::freq::iowait_boost::{Settings, Step};
use crate::freq::{FreqPolicy, SchedutilSettings};

pub(super) static IOWAIT_BOOST: Key<bool> = switch_key(
    "iowait_boost",
    "on",
    "whether wake-ups from I/O wait raise the frequency",
);
static STEP: Key<Step> = choice_key(
    "iowait_boost_step",
    &[("double", Step::Double), ("linear", Step::Linear)],
    "double",
    "linear",
    "how the boost grows: doubling, as in the kernel, or by 128 of 1024",
);
static CAP: Key<u64> = number_key(
    "iowait_boost_cap",
    Capacity::SCALE.0 as u64,
    "1024",
    "of 1024",
    "512",
    "the highest boost",
);
static RATE_LIMIT: Key<u64> = Key {
    info: KeyInfo {
        name: "rate_limit_us",
        meaning: "the shortest time between two changes of frequency",
        unit: "us",
        fallback: Fallback::Derived("from the transition latency"),
        example: "500",
    },
    words: &[],
    form: Form::UpTo(u32::MAX as u64, |n| n),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "schedutil",
    kind: Kind::Frequency,
    versioned: false,
    summary: "the scheduler's utilisation signals",
    source: "kernel/sched/cpufreq_schedutil.c",
    on: SIM_AND_MACHINE,
    keys: &[&IOWAIT_BOOST, &STEP, &CAP, &RATE_LIMIT],
    overlaps: &[],
    build: |given| {
        let settings = SchedutilSettings {
            boost: Settings {
                enabled: given.value_or_default(&IOWAIT_BOOST)?,
                step: given.value_or_default(&STEP)?,
                cap: Capacity(given.value_or_default(&CAP)? as u32),
            },
            rate_limit: given
                .given_value(&RATE_LIMIT)?
                .map(Nanoseconds::from_micros),
        };
        Ok(Policy::Frequency(FreqPolicy::Schedutil(settings)))
    },
};
