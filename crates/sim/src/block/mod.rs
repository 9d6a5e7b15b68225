//! The way of a request through the kernel: submission, hardware queues, interrupt, and the task that goes on.
//!
//! CPU work on that way is the machine's `[io_path]`, in cycles. Which CPU a completion interrupts, and when, is in
//! `docs/model.md`, "Completions".
//!
//! - Setup: `cost` is the CPU work of one I/O.
//! - State: `completion` has queues, their CPUs and coalescing. `request` is one request on its way, `requests` are
//!   all of them.
//! - Events: `events` submits, gives to the drives, collects and delivers. It cuts each latency into parts.

pub(crate) mod completion;
pub(crate) mod cost;
pub(crate) mod events;
pub(crate) mod request;
pub(crate) mod requests;
