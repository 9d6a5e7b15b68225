//! Bursts of I/O on this machine, and the latency limits that its CPUs get for them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file to read past the page cache.
pub(crate) fn data(folder: &Path) -> PathBuf {
    let path = folder.join("data");
    fs::write(&path, vec![1; 4 << 20]).unwrap();
    fs::File::open(&path).unwrap().sync_all().unwrap();
    path
}

/// A burst of reads.
pub(crate) fn burst(data: &Path) {
    let read = Command::new("dd")
        .arg(format!("if={}", data.display()))
        .args([
            "of=/dev/null",
            "bs=4k",
            "count=400",
            "iflag=direct",
            "status=none",
        ])
        .status();
    assert!(read.unwrap().success());
}

/// Where the limits of CPUs are.
pub(crate) fn limits(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut limits = BTreeMap::new();
    for cpu in 0.. {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/power/pm_qos_resume_latency_us");
        let path = root.join(file);
        let Ok(text) = fs::read_to_string(&path) else {
            break;
        };
        limits.insert(path, text.trim().to_owned());
    }
    limits
}
