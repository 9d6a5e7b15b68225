//! The integration tests of this crate in one binary, which is linked once.

#[path = "../../../cli/tests/all/common/captured.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "a part of it is used, and a test may panic"
)]
mod captured;
mod drive;
#[path = "../../../cli/tests/all/common/files.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "a part of it is used, and a test may panic"
)]
mod files;
mod power;
mod wake;
