//! Block

pub(crate) mod completion;
pub(crate) mod events;
pub(crate) mod request;
