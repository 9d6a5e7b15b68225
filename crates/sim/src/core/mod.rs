//! What every mechanism stands on: ids and events, the event queue, random streams, work and latency parts.

pub(crate) mod basics;
pub(crate) mod parts;
pub(crate) mod queue;
pub(crate) mod random;
pub(crate) mod speed;
