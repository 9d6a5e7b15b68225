//! rt-app

pub(crate) mod events;
pub(crate) mod program;
pub(crate) mod result;
pub(crate) mod state;
