//! `drive-latency`: the exit latency that the kernel's APST table of a drive may use.

use wakepath_hardware::machine::MAX_LATENCY_REQUEST_US;

use super::key::{Fallback, Form, Key, KeyInfo, TimeUnit};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};
use crate::latency::DriveLatency;

static TOLERANCE: Key<DriveLatency> = Key {
    info: KeyInfo {
        name: "tolerance",
        meaning: "the longest exit latency of a power state; 0us switches APST off, any and auto allow all",
        unit: "",
        fallback: Fallback::Required,
        example: "25000us",
    },
    words: &[("any", DriveLatency::Any), ("auto", DriveLatency::Auto)],
    form: Form::Time(
        TimeUnit::Micros,
        MAX_LATENCY_REQUEST_US,
        DriveLatency::Limit,
    ),
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "drive-latency",
    kind: Kind::DriveLatency,
    versioned: false,
    summary: "the latency that the kernel's APST table of a drive may use",
    source: "nvme_set_latency_tolerance(), drivers/nvme/host/core.c",
    on: SIM_AND_MACHINE,
    keys: &[&TOLERANCE],
    overlaps: &[],
    build: |given| Ok(Policy::DriveLatency(given.value_or_default(&TOLERANCE)?)),
};
