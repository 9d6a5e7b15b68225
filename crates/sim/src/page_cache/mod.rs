//! Page cache

pub(crate) mod events;
pub(crate) mod state;
pub(crate) mod write_back;
