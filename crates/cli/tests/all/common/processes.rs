//! Programs that tests start, and processes that they leave.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// A shell script called `x`, as a policy.
pub(crate) fn script(folder: &Path, text: &str) -> String {
    let file = folder.join("x");
    fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    "exec:x".to_owned()
}

/// How many processes have this word in their command line.
pub(crate) fn running(mark: &str) -> usize {
    let all = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    all.filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(mark))
        .count()
}

/// Waits until a condition holds, for five minutes at most: on a busy machine, seconds become minutes.
#[track_caller]
pub(crate) fn wait(until: &mut dyn FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(300);
    while !until() {
        assert!(Instant::now() < patience, "it takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}
