//! The scheduler

pub(crate) mod events;
pub(crate) mod fair_server;
pub(crate) mod state;
