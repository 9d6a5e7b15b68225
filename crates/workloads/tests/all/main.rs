//! The integration tests of this crate in one binary, which is linked once.

mod against_fio;
mod block_traces;
mod command_line;
mod extent;
mod options;
mod read_back;
mod real_jobs;
mod uneven_places;
