//! The integration tests of this crate in one binary, which is linked once.

mod compiler;
mod hostile;
mod own;
#[path = "../../../cli/tests/all/common/processes.rs"]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod processes;
