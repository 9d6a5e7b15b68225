//! Power

pub(crate) mod cpu_power;
pub(crate) mod energy;
pub(crate) mod limit;
pub(crate) mod limit_events;
pub(crate) mod limit_setup;
pub(crate) mod packages;
pub(crate) mod state;
pub(crate) mod uncore;
