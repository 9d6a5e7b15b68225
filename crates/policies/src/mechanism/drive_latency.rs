//! `drive-latency`: the exit latency that the kernel's APST table of a drive may use.

use std::fmt;

use serde::Serialize;
use wakepath_hardware::machine::MAX_LATENCY_REQUEST_US;
use wakepath_units::Nanoseconds;

use super::key::{Fallback, Form, Key, KeyInfo, TimeUnit};
use super::{Kind, Mechanism, Policy, SIM_AND_MACHINE};

/// A drive's latency tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum DriveLatency {
    /// At most this, in whole microseconds; 0 switches APST off.
    Limit(Nanoseconds),
    /// Any latency.
    Any,
    /// The kernel's default for drives.
    Auto,
}

impl fmt::Display for DriveLatency {
    /// Notation in sysfs (`pm_qos_latency_tolerance_us`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => write!(f, "{}", limit.as_micros()),
            Self::Any => f.write_str("any"),
            Self::Auto => f.write_str("auto"),
        }
    }
}

static TOLERANCE: Key<DriveLatency> = Key {
    info: KeyInfo {
        name: "tolerance",
        meaning: "the longest exit latency of a power state; 0us switches APST off, auto is the kernel's default",
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
    build: |given| Ok(Policy::DriveLatency(given.get(&TOLERANCE)?)),
};
