//! Tasks

pub(crate) mod events;
pub(crate) mod fio;
pub(crate) mod rtapp;
pub(crate) mod state;
