//! The integration tests of this crate in one binary, which is linked once.

mod directory;
#[path = "../../../cli/tests/all/common/files.rs"]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod files;
mod strangers;
