//! Power of clusters, packages, uncore and CPUs, and power limits.
//!
//! Time in states is taken while events pass; power comes in at the end. Package sleep and uncore follow the machine's
//! figures, and power limits follow RAPL: a running average in a window (`docs/background/model.md`, "Energy").
//!
//! - Setup: `setup` has a machine's figures, `limit_setup` has the limits, and the hardware's knowledge about power.
//! - State: `state` has how long clusters and package were down, `uncore` its clock, `limit` and `packages` the
//!   budgets.
//! - Events: `limit_events` caps clocks.
//! - Totals: `cpu_power` and `energy` turn times into joules.

pub(crate) mod cpu_power;
pub(crate) mod energy;
pub(crate) mod limit;
pub(crate) mod limit_events;
pub(crate) mod limit_setup;
pub(crate) mod packages;
pub(crate) mod setup;
pub(crate) mod state;
pub(crate) mod uncore;
