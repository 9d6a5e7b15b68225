//! What several of the tests use.

pub(crate) mod browser;
pub(crate) mod results;
pub(crate) mod sample;
