//! RCU

pub(crate) mod events;
pub(crate) mod state;
