//! fio

pub(crate) mod batches;
pub(crate) mod events;
pub(crate) mod jobs;
pub(crate) mod rates;
