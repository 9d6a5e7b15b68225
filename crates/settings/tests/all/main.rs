//! The integration tests of this crate in one binary, which is linked once.

mod boot_settings;
mod common;
mod drive_tables;
mod kernel_command_line;
mod lending;
mod persistent;
mod reapply;
mod session;
mod supply;
