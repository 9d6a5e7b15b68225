//! Which processes write to files, by the kernel's notices (`fanotify(7)`). Taking notices needs `CAP_SYS_ADMIN`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

/// Bytes of a notice (`struct fanotify_event_metadata`).
const NOTICE_BYTES: usize = 24;

/// Offset in bytes from a notice's begin to the file descriptor.
const DESCRIPTOR: usize = 16;

/// Offset in bytes from a notice's begin to the process's number.
const PROCESS: usize = 20;

/// Most notices that are read at once.
const NOTICES: usize = 64;

/// The kernel's notices of writes to watched files.
#[derive(Debug)]
pub struct FileWrites {
    group: OwnedFd,
}

/// A write to a watched file.
#[derive(Debug)]
pub struct FileWrite {
    /// The file, opened for reading.
    pub file: OwnedFd,
    /// The process that has written.
    pub process: u32,
}

impl FileWrites {
    /// Begins to take notices, of no file yet.
    ///
    /// # Errors
    /// The system's: the kernel has no `fanotify`, or the process lacks the capability.
    #[expect(unsafe_code, reason = "there is no safe way to take notices")]
    pub fn open() -> io::Result<Self> {
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        let opened_as = libc::O_RDONLY | libc::O_CLOEXEC;
        // SAFETY: the call takes two numbers.
        let number = unsafe { libc::fanotify_init(flags, opened_as as libc::c_uint) };
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just opened this descriptor, and nobody else knows it.
        let group = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Self { group })
    }

    /// Takes notices of writes to a file, too. Watching a file twice is as good as once.
    ///
    /// # Errors
    /// The system's.
    #[expect(unsafe_code, reason = "there is no safe way to watch a file")]
    pub fn watch_file(&self, file: impl AsFd) -> io::Result<()> {
        // SAFETY: both descriptors are open until the call returns. Without a path the second one is the file to watch.
        let status = unsafe {
            libc::fanotify_mark(
                self.group.as_raw_fd(),
                libc::FAN_MARK_ADD,
                libc::FAN_MODIFY,
                file.as_fd().as_raw_fd(),
                ptr::null(),
            )
        };
        if status < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Waits until a process has written to a watched file, at most for this long. Returns the writes so far, the first one first.
    ///
    /// # Errors
    /// The system's.
    pub fn wait_for_writes(&self, patience: Duration) -> io::Result<Vec<FileWrite>> {
        let timeout = Timespec::try_from(patience).map_err(io::Error::other)?;
        let mut wanted = [PollFd::new(&self.group, PollFlags::IN)];
        match poll(&mut wanted, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
            other => other?,
        };
        let mut bytes = [0; NOTICES * NOTICE_BYTES];
        let count = match read(&self.group, &mut bytes) {
            Err(Errno::AGAIN | Errno::INTR) => 0,
            other => other?,
        };
        let notices = bytes[..count].chunks_exact(NOTICE_BYTES);
        Ok(notices.filter_map(parse_notice).collect())
    }
}

/// Parses a notice; `None` where it has no file, as where notices were lost.
#[expect(unsafe_code, reason = "a notice has a descriptor as a number")]
fn parse_notice(notice: &[u8]) -> Option<FileWrite> {
    let descriptor = read_number(notice, DESCRIPTOR).filter(|number| *number >= 0)?;
    // SAFETY: the kernel has opened this descriptor for the notice, and nobody else knows it.
    let file = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let process = u32::try_from(read_number(notice, PROCESS)?).ok()?;
    Some(FileWrite { file, process })
}

/// Reads a number with four bytes.
fn read_number(notice: &[u8], place: usize) -> Option<i32> {
    let bytes = notice.get(place..place + 4)?.try_into().ok()?;
    Some(i32::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::process::Command;

    use rustix::fs::fstat;

    use super::*;

    #[test]
    fn a_write_has_its_file_and_process_and_a_read_is_none() {
        let Ok(writes) = FileWrites::open() else {
            return eprintln!("skipped: notices of writes need root");
        };
        let folder = tempfile::tempdir().unwrap();
        let [watched, other] = ["watched", "other"].map(|name| folder.path().join(name));
        fs::write(&watched, "1\n").unwrap();
        writes.watch_file(File::open(&watched).unwrap()).unwrap();
        fs::read(&watched).unwrap();
        fs::write(&other, "1\n").unwrap();
        assert!(writes.wait_for_writes(Duration::ZERO).unwrap().is_empty());

        let mut shell = Command::new("sh")
            .args(["-c", "echo 2 >>watched"])
            .current_dir(&folder)
            .spawn()
            .unwrap();
        let process = shell.id();
        shell.wait().unwrap();
        let found = writes.wait_for_writes(Duration::from_secs(30)).unwrap();
        let [write] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(write.process, process);
        let expected = fstat(File::open(&watched).unwrap()).unwrap();
        assert_eq!(fstat(&write.file).unwrap().st_ino, expected.st_ino);
    }
}
