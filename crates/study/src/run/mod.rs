//! Running a plan.

pub mod live;
pub mod rows;
pub mod sim;
mod timeline;

use std::sync::atomic::AtomicBool;

/// Who waits for a study: is told of progress, and may call it off.
pub struct Waiting<'a> {
    /// Called after every finished run, and once for those that were there before.
    pub finished: &'a (dyn Fn(usize) + Sync),
    /// Once set, no further run begins, and those under way are given up.
    pub cancelled: &'a AtomicBool,
}
