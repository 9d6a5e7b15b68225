//! What the figures of a calibration were measured on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parts of a machine whose change makes measured figures stale. What could not be read is absent, and is not compared.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibratedOn {
    /// Day of the calibration: YYYY-MM-DD, in UTC.
    pub date: String,
    /// Release of the kernel, as `uname -r` prints it.
    pub kernel: String,
    /// Number of CPUs online.
    pub cpus: usize,
    /// Processor, as `/proc/cpuinfo` names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<String>,
    /// Revision of the processor's microcode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// Version of the firmware (BIOS).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Name of the measured disk in the kernel, such as `nvme0n1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// Model, serial number and firmware of that disk, or its size where the disk names no model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<String>,
}
