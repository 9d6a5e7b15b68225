//! The integration tests of this crate in one binary, which is linked once.

mod amd_pstate;
mod beside_fio;
mod block_trace;
mod depth;
mod drives;
mod durability;
mod frequency;
mod hardware;
mod isolation;
mod jobs;
mod page_cache;
mod policies;
mod polling;
mod power_limit;
mod properties;
mod psd;
mod quiet;
mod read_ahead;
mod real_jobs;
mod rooms;
mod server;
mod steering;
mod step_tasks;
mod threads;
mod turns;
mod verify;
