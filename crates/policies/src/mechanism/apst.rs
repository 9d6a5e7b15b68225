//! `apst`: the table of power state transitions that the kernel programs into an NVMe drive.

use super::key::{Key, choice_key, number_key, switch_key};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::apst::{ApstQuirks, ApstRule, ApstSettings};

static RULE: Key<ApstRule> = choice_key(
    "rule",
    &[("current", ApstRule::Current), ("legacy", ApstRule::Legacy)],
    "current",
    "legacy",
    "by tolerances, or by 50 times the transition latency",
);
static PRIMARY_TIMEOUT: Key<u64> = number_key(
    "primary_timeout_ms",
    u64::MAX,
    "100",
    "ms",
    "50",
    "idle time before a quick state",
);
static SECONDARY_TIMEOUT: Key<u64> = number_key(
    "secondary_timeout_ms",
    u64::MAX,
    "2000",
    "ms",
    "1000",
    "idle time before a slow state",
);
static PRIMARY_TOLERANCE: Key<u64> = number_key(
    "primary_tolerance_us",
    u64::MAX,
    "15000",
    "us",
    "5000",
    "how slow a quick state may be",
);
static SECONDARY_TOLERANCE: Key<u64> = number_key(
    "secondary_tolerance_us",
    u64::MAX,
    "100000",
    "us",
    "50000",
    "how slow a slow state may be",
);
static MAX_LATENCY: Key<u64> = number_key(
    "max_latency_us",
    u64::MAX,
    "100000",
    "us",
    "25000",
    "the latency budget; 0 switches APST off",
);
static NO_DEEPEST: Key<bool> = switch_key("no_deepest", "off", "never use the deepest state");

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "apst",
    kind: Kind::Apst,
    versioned: false,
    summary: "the kernel's NVMe power state transition table",
    source: "nvme_configure_apst(), drivers/nvme/host/core.c",
    on: SIM_AND_MACHINE,
    keys: &[
        &RULE,
        &PRIMARY_TIMEOUT,
        &SECONDARY_TIMEOUT,
        &PRIMARY_TOLERANCE,
        &SECONDARY_TOLERANCE,
        &MAX_LATENCY,
        &NO_DEEPEST,
    ],
    overlaps: &[("max_latency_us", Kind::DriveLatency)],
    build: |given| {
        Ok(Policy::Apst(ApstSettings {
            rule: given.value_or_default(&RULE)?,
            primary_timeout_ms: given.value_or_default(&PRIMARY_TIMEOUT)?,
            secondary_timeout_ms: given.value_or_default(&SECONDARY_TIMEOUT)?,
            primary_tolerance_us: given.value_or_default(&PRIMARY_TOLERANCE)?,
            secondary_tolerance_us: given.value_or_default(&SECONDARY_TOLERANCE)?,
            max_latency_us: given.value_or_default(&MAX_LATENCY)?,
            enabled: true,
            quirks: ApstQuirks {
                no_deepest: given.value_or_default(&NO_DEEPEST)?,
                no_apst: false,
            },
        }))
    },
};
