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
    let session = Session::open_and_recover(&system).unwrap();
    let hold = session.apply_while_held(&plan(&system, &["teo"])).unwrap();
    wakepath_settings::put_back_all_before_exit().unwrap();
    assert_same(directory.path(), &before);
    assert!(hold.put_back_and_release().unwrap().is_none());
}
