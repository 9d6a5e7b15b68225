//! What an experiment on a drive leaves.

use serde::Serialize;

use super::declared::DeclaredSleep;
use super::parallel_units::ParallelUnits;
use super::service::ServiceTime;
use super::short_pauses::ShortPauses;
use super::sleep::{DriveSleep, SleepEntry};
use crate::summary::LatencySummary;
use crate::test_file::BackingDevice;
use crate::{Conditions, StorageStack};

/// Result of an experiment on a drive.
#[derive(Clone, Debug, Serialize)]
pub struct DriveMeasurement {
    /// File or device.
    pub file: String,
    /// Size of the measured part in bytes.
    pub bytes: u64,
    /// Disk behind the file; absent for several disks or none.
    pub device: Option<BackingDevice>,
    /// File system, encryption and temperature.
    pub storage: StorageStack,
    /// Day, kernel and other work of the experiment.
    pub conditions: Conditions,
    /// Whether CPUs were held in their first idle state. If not, idle exits are in the figures.
    pub held_shallow: bool,
    /// Requests as fast as they were served.
    pub service: Vec<ServiceTime>,
    /// A flush after a 4 KiB write; absent if nothing was written.
    pub flush: Option<LatencySummary>,
    /// A 4 KiB write that ends on the media; absent if nothing was written.
    pub forced_write: Option<LatencySummary>,
    /// Reads after short pauses, while CPUs were held awake; absent: not measured, or CPUs could sleep.
    pub short_pauses: Option<ShortPauses>,
    /// Reads after pauses.
    pub sleep: DriveSleep,
    /// Sleep states seen from outside, shortest pause first.
    pub sleep_entries: Vec<SleepEntry>,
    /// Reads after pauses with APST switched off; absent where the drive does not sleep by APST, or APST could not be changed.
    pub sleep_without_apst: Option<DriveSleep>,
    /// Sleep states seen with APST switched off; empty if all sleep is from APST, or without a measurement.
    pub sleep_entries_without_apst: Vec<SleepEntry>,
    /// Sleep states as the drive declares them and the kernel lets it enter them; empty where that cannot be read.
    pub declared_sleep: Vec<DeclaredSleep>,
    /// Requests served side by side; absent without a load at more than depth 1.
    pub parallel_units: Option<ParallelUnits>,
    /// Whether all steps of the experiment were done; a signal ends it early.
    pub complete: bool,
    /// Notes on the results for their reader: doubts, refusals, other work.
    pub notes: Vec<String>,
}
