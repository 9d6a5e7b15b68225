//! The page cache: buffered reads and writes, dirty pages, and their way to the drives.
//!
//! Rules and constants follow Linux 6.12 (`mm/page-writeback.c`, `fs/fs-writeback.c`): limits for dirty pages, pauses
//! for writers, the flusher's rounds.
//!
//! - Setup: `setup` is the machine's cache, `job` one job's use of the cache. `read_ahead` has the rules by which the kernel reads ahead.
//! - State: `state` has the files' dirty pages, the limits and the rounds, `cached` what
//!   a read finds, `arrivals` pages being read, `busy_pages` pages being written back, `pages` sets of pages.
//!   `caller` is a task's present system call, `write_back` has waiting tasks and requests in flight.
//! - Events: `events` takes a system call through the stages. `events` runs the flusher; `flusher_wake_ups` wakes it.
//!   `plug` gathers requests of a write-back, `plug_events` gives them to the drives, `throttle` limits them.
//!   `sync` has syncs and page locks, `reads` the stages of reads, `deferred` reads that wait beside their task.
//!   `mapped` has page faults of a mapped file, `mappings` what those have mapped.
//! - The file system's journal: `journal` has transactions, `xfs_log` the buffers of XFS's log, `journal_events` runs the threads and
//!   has syncs wait.
//! - Totals: `state::Totals`, pages dirtied and written, and the time with writers held back.

mod arrivals;
pub(crate) mod busy_pages;
pub(crate) mod cached;
pub(crate) mod caller;
mod deferred;
pub(crate) mod events;
mod flusher_wake_ups;
pub(crate) mod job;
pub(crate) mod journal;
mod journal_events;
mod mapped;
mod mappings;
pub(crate) mod pages;
mod plug;
mod plug_events;
pub(crate) mod read_ahead;
mod reads;
pub(crate) mod result;
pub(crate) mod setup;
pub(crate) mod state;
mod sync;
mod throttle;
pub(crate) mod write_back;
mod xfs_log;
