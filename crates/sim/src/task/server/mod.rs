//! Request servers: requests arrive, wait for a worker thread, and cost CPU work and disk calls.
//!
//! A request's way begins when it arrives at the network card. The card interrupts a CPU, at the cost of the machine's completion
//! interrupt; an interrupt takes everything that has arrived by its begin, as the kernel's NAPI does. It wakes the worker that fell
//! asleep last, as `epoll` does. Without a sleeping worker, the request waits in the order of arrival.
//! Clients in the server's process are workers themselves: they ask again where they were answered, without an interrupt.
//!
//! - Setup: `setup` compiles a server file into cycles and nanoseconds.
//! - State: `state` has requests on their way, the queue, workers, and when each client asks next.
//! - `disk_steps`: what a thread writes and flushes, in order.
//! - Events: `arrivals` brings requests to the workers, `work` takes a worker's steps, `log` syncs an append-only file, for which
//!   requests may wait, `writer` has the threads that write.
//! - Totals: `result` has the rates of arrivals and replies, and calls to the disk.

mod arrivals;
mod disk_steps;
mod log;
pub(crate) mod result;
pub(crate) mod setup;
pub(crate) mod state;
mod work;
mod writer;
