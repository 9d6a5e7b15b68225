//! What every mechanism stands on, and nothing of any mechanism.
//!
//! - `basics`: ids of CPUs, tasks and requests, and the interrupts and timers that events bring.
//! - `calendar`: who has which event pending. `queue`: pending events in order of time, and of scheduling among equal times.
//! - `context`: all that an event of any mechanism may touch. `observer`: what somebody who watches a run gets to see.
//! - `random`: a stream of random numbers for each purpose, so that policies compared see the same drive.
//! - `speed`: how long work takes at a clock. `span`: which part of a run
//!   counts. `parts`: the parts of a request's latency. `topology`: which CPUs
//!   share what.
//!
//! Times are integer nanoseconds and work is cycles of the biggest core.

pub(crate) mod basics;
pub(crate) mod calendar;
pub(crate) mod context;
pub mod observer;
pub(crate) mod parts;
pub(crate) mod queue;
pub(crate) mod random;
pub(crate) mod span;
pub(crate) mod speed;
pub(crate) mod topology;
