//! The compiler of governors in C.

use std::process::Command;

/// Whether governors in C can be compiled here.
pub(crate) fn has_gcc() -> bool {
    let there = Command::new("gcc").arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: no gcc");
        assert!(std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(), "no gcc");
    }
    there
}
