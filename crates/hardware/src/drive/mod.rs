//! NVMe drives: the power states declared by firmware.
//!
//! A [`Drive`] comes from the built-in [`library`] or from an Identify Controller dump
//! ([`id_ctrl`]). Its figures are declarations: upper bounds, and sometimes changed by a firmware
//! update.

mod capacity;
mod contradictions;
pub mod id_ctrl;
pub mod library;
mod name_words;
mod power_states;
pub mod quirks;
pub mod speeds;
mod watts;

pub(crate) use capacity::capacity_bytes_by_name;
pub use library::{CatalogEntry, DriveLibrary, DriveTable};
pub use power_states::{Drive, MAX_POWER_STATES, PowerState};
pub use speeds::DriveSpeeds;
