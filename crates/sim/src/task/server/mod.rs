//! Request servers: requests arrive, wait for a worker thread, and cost CPU work and disk calls.
//!
//! A request's way begins when it arrives at the network card. The card interrupts a CPU, at the cost of the machine's completion
//! interrupt; an interrupt takes everything that has arrived by its begin, as the kernel's NAPI does. It wakes the worker that fell
//! asleep last, as `epoll` does. Without a sleeping worker, the request waits in the order of arrival.
//!
//! - Setup: `setup` compiles a server file into cycles and nanoseconds.
//! - State: `state` has requests on their way, the queue, workers, and when each client asks next.
//! - Events: `arrivals` brings requests to the workers, `work` takes a worker's steps, `log` writes an append-only file.
//! - Totals: `result` has the rates of arrivals and replies.

mod arrivals;
mod log;
pub(crate) mod result;
pub(crate) mod setup;
pub(crate) mod state;
mod work;
