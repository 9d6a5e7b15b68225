//! A drive and the power states that its firmware declares.

use serde::{Deserialize, Serialize};
use wakepath_units::Microwatts;

/// The most power states that a controller can have (NVMe Base Specification, Identify Controller,
/// `PSD0` to `PSD31`).
pub const MAX_POWER_STATES: usize = 32;

/// An NVMe power state, as declared in the power state descriptor.
///
/// Latencies keep the descriptor's own unit and width, whole microseconds in 32 bits, because the
/// kernel's APST rules count in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerState {
    /// Highest power in this state (`MP`). `None` if the drive does not say (the field is 0).
    #[serde(rename = "max_power_uw")]
    pub max_power: Option<Microwatts>,
    /// The drive cannot process I/O commands in this state (`NOPS`).
    pub non_operational: bool,
    /// Longest time to enter the state, in microseconds (`ENLAT`); 0 also means "not reported".
    pub entry_latency_us: u32,
    /// Longest time to leave the state, in microseconds (`EXLAT`); 0 also means "not reported".
    pub exit_latency_us: u32,
    /// Rank of the read throughput among the states, 0 the best (`RRT`, 0 to 31).
    pub read_throughput_rank: u8,
    /// Rank of the read latency, 0 the best (`RRL`, 0 to 31).
    pub read_latency_rank: u8,
    /// Rank of the write throughput, 0 the best (`RWT`, 0 to 31).
    pub write_throughput_rank: u8,
    /// Rank of the write latency, 0 the best (`RWL`, 0 to 31).
    pub write_latency_rank: u8,
    /// Typical idle power after 30 s in this state (`IDLP`), if reported.
    #[serde(rename = "idle_power_uw")]
    pub idle_power: Option<Microwatts>,
    /// Largest average power over 10 s under the workload that the drive names (`ACTP`), if
    /// reported.
    #[serde(rename = "active_power_uw")]
    pub active_power: Option<Microwatts>,
}

impl PowerState {
    /// Entry and exit together, in microseconds.
    pub const fn entry_and_exit_latency_us(&self) -> u64 {
        self.entry_latency_us as u64 + self.exit_latency_us as u64
    }
}

/// What an NVMe controller says about itself, as far as power management needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drive {
    /// Model string (`MN`) without padding.
    pub model: String,
    /// Firmware revision (`FR`) without its padding. In the library several revisions with the
    /// same table are joined by `|`; see [`crate::drive::DriveTable::firmwares`].
    pub firmware: String,
    /// PCI vendor id (`VID`). `None` if the source does not tell.
    pub vendor_id: Option<u16>,
    /// PCI subsystem vendor id (`SSVID`). `None` if the source does not tell.
    pub subsystem_vendor_id: Option<u16>,
    /// Index of the last power state (`NPSS`, 0 to 31): the number of states minus one.
    pub npss: u8,
    /// The power states 0 to `npss`, in this order.
    pub states: Vec<PowerState>,
    /// Whether the drive supports autonomous transitions (`APSTA`; the kernel takes any value but
    /// 0 as yes). `None` if the source does not tell, as with everything that smartctl printed:
    /// that is not a "no".
    pub apsta: Option<bool>,
    /// Total capacity of the drive's media in bytes (`TNVMCAP`). `None`: the source does not tell, or the drive says 0: not
    /// told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_bytes: Option<u64>,
    /// Where the figures come from.
    pub source: String,
}
