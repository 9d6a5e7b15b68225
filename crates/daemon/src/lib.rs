//! The daemon: latency leases around bursts of I/O, I/O boost, drive profiles.
//!
//! [`run_until_stopped`] is the whole daemon: `plan` fits a configuration to this machine, `running` starts, acts and stops. [`lease`] and
//! [`boost`] decide and touch nothing. [`watch`] has the events; [`psd`], [`profile`] and `drives` have the settings.

#![cfg(target_os = "linux")]

pub mod boost;
mod daemon;
mod drives;
mod error;
mod guarding;
pub mod latency_feed;
pub mod latency_parts;
pub mod lease;
mod lease_time;
pub mod log;
mod machine_counters;
pub mod managed_setting;
pub mod metrics;
mod metrics_file;
pub mod metrics_server;
mod missing;
mod plan;
mod probe_cost;
pub mod profile;
pub mod psd;
mod running;
mod signals;
pub mod watch;

pub use daemon::{load_config_or_default, run_until_stopped};
pub use error::DaemonError;
pub use guarding::check_guard_drives;
pub use signals::LockLender;
