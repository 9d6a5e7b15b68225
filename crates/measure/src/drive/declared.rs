//! When a drive says that it sleeps: its declared power states, and the transition table in force.

use serde::Serialize;
use wakepath_system::System;
use wakepath_system::nvme::{self, ApstFeature};
use wakepath_units::Nanoseconds;

/// A transition into a power state, as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DeclaredSleep {
    /// Number of the power state.
    pub state: u8,
    /// Idle time before the transition.
    pub after: Nanoseconds,
    /// Declared entry latency.
    pub entry: Nanoseconds,
    /// Declared exit latency.
    pub exit: Nanoseconds,
}

impl DeclaredSleep {
    /// Transitions of an NVMe disk, shortest idle time first. Empty for other disks, without APST, or without root.
    pub fn read(system: &System, disk: &str) -> Vec<Self> {
        let Some(controller) = system.controller_of_namespace(disk) else {
            return Vec::new();
        };
        let root = system.root();
        let feature =
            ApstFeature::read_from_drive(&*nvme::open_drive_or_capture(root, &controller));
        let drive = nvme::identify_drive(root, &controller);
        let (Ok(feature), Ok(drive)) = (feature, drive) else {
            return Vec::new();
        };
        if !feature.enabled {
            return Vec::new();
        }
        let transitions = feature.table.entries().filter(|entry| entry.timeout_ms > 0);
        let mut all: Vec<Self> = transitions
            .filter_map(|entry| {
                let declared = drive.states.get(usize::from(entry.target))?;
                Some(Self {
                    state: entry.target,
                    after: Nanoseconds::from_millis(u64::from(entry.timeout_ms)),
                    entry: Nanoseconds::from_micros(u64::from(declared.entry_latency_us)),
                    exit: Nanoseconds::from_micros(u64::from(declared.exit_latency_us)),
                })
            })
            .collect();
        all.sort_by_key(|sleep| (sleep.after, sleep.state));
        all.dedup();
        all
    }
}
