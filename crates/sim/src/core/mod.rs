//! The base for every mechanism, with nothing about any mechanism.
//!
//! - `basics`: ids for CPUs, tasks and requests, and the interrupts and timers that events bring.
//! - `calendar`: each owner's pending event. `queue`: pending events in order by time, then by scheduling.
//! - `context`: all that any event may touch. `observer`: the trait for watching a run.
//! - `random`: a random stream for each purpose, so that policies compared see the same drive.
//! - `speed`: how long work takes at a clock. `span`: the counted part in a run. `parts`: latency by part. `topology`:
//!   CPUs by cluster, core and clock.
//!
//! Times are integer nanoseconds and work is cycles on the biggest core.

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
