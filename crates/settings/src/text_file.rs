//! Text files of sysfs, and files with the answers of a captured drive.

use std::io::{self, Write};

use rustix::fs::OFlags;
use wakepath_system::Root;

/// Overwrites a text file of the machine as a shell's `echo` does. The file must exist.
///
/// A kernel takes a value as a whole. In a folder with files of a machine, a kill at any moment leaves the old or the new
/// value as well, never an empty file. The new value is first written over the old one, with line ends up to its length.
///
/// # Errors
/// The system's.
pub(crate) fn overwrite_existing_file(root: &Root, relative: &str, value: &[u8]) -> io::Result<()> {
    let mut file = root.open_file(relative, OFlags::WRONLY)?;
    if root.is_live() {
        return file.write_all(value);
    }
    let old_length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let mut padded = value.to_vec();
    padded.resize(old_length.max(value.len()), b'\n');
    file.write_all(&padded)?;
    file.set_len(value.len() as u64)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// Number of times that a value is overwritten beside a reader.
    const WRITES: usize = 3_000;

    #[test]
    fn a_file_is_at_no_moment_empty() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at_directory(folder.path());
        let path = folder.path().join("value");
        let values = ["performance", "0", "balance_power"];
        fs::write(&path, "0\n").unwrap();
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut empty = 0;
                while !is_done.load(Ordering::Relaxed) {
                    empty += usize::from(fs::read_to_string(&path).unwrap().trim().is_empty());
                }
                empty
            });
            for write in 0..WRITES {
                let line = format!("{}\n", values[write % values.len()]);
                overwrite_existing_file(&root, "value", line.as_bytes()).unwrap();
                assert_eq!(fs::read_to_string(&path).unwrap(), line);
            }
            is_done.store(true, Ordering::Relaxed);
            assert_eq!(reader.join().unwrap(), 0);
        });
    }
}
