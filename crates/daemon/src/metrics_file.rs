//! Metrics in a file that node_exporter's textfile collector reads.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::log;

/// How often the file is written.
const INTERVAL: Duration = Duration::from_secs(15);

/// A file of metrics, written again and again. Dropping it removes the file: old metrics would look like present ones.
#[derive(Debug)]
pub(crate) struct MetricsFile {
    path: PathBuf,
    next: Instant,
    writer: Option<JoinHandle<io::Result<()>>>,
    failures: u64,
}

impl MetricsFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            next: Instant::now(),
            writer: None,
            failures: 0,
        }
    }

    /// When [`MetricsFile::write_if_due`] has to be called next.
    pub(crate) const fn next_write_time(&self) -> Instant {
        self.next
    }

    /// Writes a page made by `render`, if it is time, in a thread of its own: a slow disk must not hold up leases.
    pub(crate) fn write_if_due(&mut self, render: impl FnOnce() -> String + Send + 'static) {
        let now = Instant::now();
        if self.next > now {
            return;
        }
        self.next = now + INTERVAL;
        // A write that takes this long is waited for another time.
        if self.writer.as_ref().is_some_and(|w| !w.is_finished()) {
            return;
        }
        self.join_writer_and_log_failure();
        let path = self.path.clone();
        self.writer = Some(std::thread::spawn(move || {
            write_by_rename(&path, &render())
        }));
    }

    /// Waits for the last write. The more failures, the rarer the lines in the log.
    fn join_writer_and_log_failure(&mut self) {
        let Some(writer) = self.writer.take() else {
            return;
        };
        if let Ok(Err(error)) = writer.join() {
            self.failures += 1;
            if self.failures.is_power_of_two() {
                log::log_error(&format!(
                    "metrics: {} cannot be written: {error} (failure {})",
                    self.path.display(),
                    self.failures
                ));
            }
        }
    }
}

impl Drop for MetricsFile {
    fn drop(&mut self) {
        self.join_writer_and_log_failure();
        // It may not be there.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes a file that exists whole or not at all, readable for everybody.
fn write_by_rename(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new()
        .prefix(".wakepath-")
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    // The process's umask has kept others out.
    file.as_file()
        .set_permissions(Permissions::from_mode(0o644))?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole_readable_and_gone_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wakepath.prom");
        // What is in the way is replaced, not followed.
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), &path).unwrap();
        let mut file = MetricsFile::new(path.clone());
        file.write_if_due(|| "x 1\n".to_owned());
        file.write_if_due(|| "not due".to_owned());
        file.join_writer_and_log_failure();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x 1\n");
        let mode = std::fs::symlink_metadata(&path).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o644);
        assert!(mode.is_file());
        drop(file);
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0);
    }
}
