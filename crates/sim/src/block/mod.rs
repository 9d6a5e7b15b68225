//! A request's way through the kernel: submission, hardware queues, interrupt, and the waiting task.
//!
//! CPU work on the way is the machine's `[io_path]`, in cycles. `docs/background/model.md`, "Completions", says which CPU a
//! completion interrupts, and when.
//!
//! - Setup: `cost` is the CPU work for one I/O.
//! - State: `completion` has queues, their CPUs and coalescing. `request` is one request, `requests` are all requests.
//! - Events: `events` submits, gives to the drives, collects and delivers, and cuts each latency into parts. `flush_queue` does so
//!   with flushes.

pub(crate) mod completion;
pub(crate) mod cost;
pub(crate) mod events;
mod flush_queue;
mod polling;
pub(crate) mod request;
pub(crate) mod requests;
