//! Held settings are put back before the process exits. In a binary of its own, because it concerns all that a
//! process holds.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "all/common/mod.rs"]
mod common;

use common::{assert_same, content, laptop, plan};
use wakepath_settings::Session;

#[test]
fn exiting_puts_back_what_is_held() {
    let (directory, system) = laptop();
    let before = content(directory.path());
    let session = Session::open(&system).unwrap();
    let hold = session.hold(&plan(&system, &["teo"])).unwrap();
    wakepath_settings::restore_before_exit().unwrap();
    assert_same(directory.path(), &before);
    assert!(hold.release().unwrap().is_none());
}
