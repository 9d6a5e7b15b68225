//! The page cache: buffered reads and writes, dirty pages, and their way to the drives.
//!
//! Rules and constants are those of Linux 6.12 (`mm/page-writeback.c`, `fs/fs-writeback.c`): limits of dirty pages, how
//! writers are held back, what the flusher writes in a round.
//!
//! - Setup: `job` is what one job does with the cache.
//! - State: `state` has the pages of files, the limits and the rounds. `write_back` has who waits, and what is on its way.
//! - Events: `events` takes a system call through its stages, and runs the flusher.
//! - Totals: `state::Totals`, pages dirtied and written, and the time that writers were held back.

pub(crate) mod events;
pub(crate) mod job;
pub(crate) mod result;
pub(crate) mod state;
pub(crate) mod write_back;
