//! A running machine, read: which settings decide about power and latency and what they are, what the kernel
//! counted, what the machine is.
//!
//! - [`setting`]: every setting as data: its scope, where it is, its unit, what it may be.
//! - [`System`]: reads a setting, on this machine or in a captured one.
//! - [`counters`]: what the kernel counts of idle states; [`status`]: what CPUs and drives did.
//! - [`dump`]: what was counted between two dumps of sysfs.
//! - [`capture`]: a machine as files, and as a description for the simulator.
//! - [`journal`]: what wakepath itself has changed.
//!
//! Everything takes a root: `/` is this machine, another directory is a captured one, which has the same
//! files below it. Nothing here changes a setting; the crate `settings` does.

pub mod apst;
pub mod capture;
pub mod counters;
pub mod dump;
mod error;
mod haltpoll;
pub mod journal;
mod key;
pub mod nvme;
mod root;
pub mod setting;
pub mod status;
mod system;
mod topology;

pub use error::SystemError;
pub use haltpoll::HaltpollAsSet;
pub use key::{At, SettingKey};
pub use root::Root;
pub use system::System;
pub use topology::{CPUS, StateInfo, find_state, shallow_ceiling};
