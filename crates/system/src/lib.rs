//! Reads a machine: settings for power and latency, the kernel's counters, and the hardware.
//!
//! - [`setting`]: every setting as data: scope, path, unit, allowed values.
//! - [`System`]: reads a setting, on this machine or a captured one.
//! - [`counters`]: idle-state counters; [`status`]: activity of CPUs and drives.
//! - [`dump`]: differences between two dumps of sysfs.
//! - [`capture`]: a machine as files, and as a description for the simulator.
//! - [`extents`]: where a file's blocks are on its device.
//! - [`journal`]: changes made by wakepath.
//!
//! Everything takes a root: `/` is this machine, another directory is a captured one, which has the same
//! files below it. Nothing here changes a setting; the crate `settings` does.

pub mod apst;
pub mod capture;
mod cgroups;
pub mod counters;
mod drift;
mod drive_identity;
pub mod dump;
mod error;
pub mod extents;
pub mod file_writes;
mod haltpoll;
pub mod journal;
mod key;
pub mod nvme;
mod root;
pub mod setting;
pub mod status;
mod system;
mod topology;

pub use cgroups::CgroupPaths;
pub use drift::AppliedSettings;
pub use drive_identity::DriveIdentity;
pub use error::SystemError;
pub use haltpoll::HaltpollAsSet;
pub use key::{At, SettingKey};
pub use root::{Root, SystemFolder};
pub use system::System;
pub use topology::{
    CPUS, DriveInterrupt, StateInfo, find_state_by_name, is_interrupt_of_drive,
    is_namespace_of_drive, latency_just_above_c1,
};
