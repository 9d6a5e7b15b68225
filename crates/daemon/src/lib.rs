//! The daemon: latency leases around bursts of I/O, I/O boost, drive profiles.
//!
//! [`daemon::run`] is all of it. What it decides is in [`lease`] and [`boost`], which touch nothing;
//! [`watch`] has the events, [`psd`] and [`profile`] the settings.

#![cfg(target_os = "linux")]

pub mod boost;
pub mod daemon;
pub mod lease;
pub mod log;
pub mod managed_setting;
pub mod metrics;
pub mod power;
pub mod profile;
pub mod psd;
pub mod watch;
