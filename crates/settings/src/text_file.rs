//! Text files of sysfs, and files with the answers of a captured drive.

use std::io::{self, Read, Write};

use rustix::fs::OFlags;
use wakepath_system::Root;

/// Overwrites a text file of the machine as a shell's `echo` does. The file must exist.
///
/// A kernel takes a value as a whole. In a folder with files of a machine, a kill at any moment leaves the old or the new
/// value as well, never an empty file. The new value is first written over the old one, with line ends up to its length;
/// [`end_interrupted_overwrite`] takes these away after a kill.
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

/// Takes away the line ends that a kill during [`overwrite_existing_file`] left behind the value.
///
/// # Errors
/// The system's.
pub(crate) fn end_interrupted_overwrite(root: &Root, relative: &str) -> io::Result<()> {
    if root.is_live() {
        return Ok(());
    }
    let mut content = Vec::new();
    root.open_file(relative, OFlags::RDONLY)?
        .read_to_end(&mut content)?;
    let line_ends = content.iter().rev().take_while(|byte| **byte == b'\n');
    let surplus = line_ends.count().saturating_sub(1);
    if surplus == 0 {
        return Ok(());
    }
    let file = root.open_file(relative, OFlags::WRONLY)?;
    file.set_len((content.len() - surplus) as u64)
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
    fn line_ends_of_an_interrupted_overwrite_go() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at_directory(folder.path());
        let path = folder.path().join("value");
        for (left, ended) in [("0\n\n\n\n", "0\n"), ("0\n", "0\n"), ("0", "0"), ("", "")] {
            fs::write(&path, left).unwrap();
            end_interrupted_overwrite(&root, "value").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), ended);
        }
    }

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
