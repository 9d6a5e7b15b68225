//! Clocks

pub(crate) mod clocks;
pub(crate) mod events;
pub(crate) mod slots;
