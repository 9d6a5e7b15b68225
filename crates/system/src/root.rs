//! Where the files of a machine are: below `/`, or below the directory of a captured one.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use crate::SystemError;

/// No file that is read here is longer; those of sysfs have at most a page, `/proc/interrupts` of a big
/// server a few hundred kilobytes.
const MAX_FILE: u64 = 4 << 20;

/// The root directory of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// This machine.
    pub fn live() -> Self {
        Self(PathBuf::from("/"))
    }

    /// A captured machine, or a directory that looks like one. `/` is this machine.
    pub fn at(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// Whether this is the running machine.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// The path of a file, which is given without a leading slash.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.0.join(relative)
    }

    /// Opens a file. Below a captured root no symbolic link is followed: its files may come from someone
    /// else, and a link in them must not lead out of the directory.
    ///
    /// # Errors
    /// The system's.
    pub fn open(&self, relative: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::CLOEXEC;
        let opened = if self.is_live() {
            openat(CWD, self.path(relative), flags, Mode::empty())?
        } else {
            let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let base = openat(CWD, &self.0, directory, Mode::empty())?;
            let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            openat2(base, relative, flags, Mode::empty(), beneath)?
        };
        Ok(opened.into())
    }

    /// The bytes of a file.
    pub fn bytes(&self, relative: &str) -> Result<Vec<u8>, SystemError> {
        self.read(relative).map_err(|source| SystemError::Read {
            path: self.path(relative),
            source,
        })
    }

    fn read(&self, relative: &str) -> io::Result<Vec<u8>> {
        let mut data = Vec::new();
        self.open(relative, OFlags::RDONLY)?
            .take(MAX_FILE + 1)
            .read_to_end(&mut data)?;
        if data.len() as u64 > MAX_FILE {
            return Err(io::Error::other(format!("more than {MAX_FILE} bytes")));
        }
        Ok(data)
    }

    /// The text of a file without the line end.
    pub fn text(&self, relative: &str) -> Result<String, SystemError> {
        let data = self.bytes(relative)?;
        Ok(String::from_utf8_lossy(&data).trim().to_owned())
    }

    /// The text of a file, if it can be read.
    pub fn optional(&self, relative: &str) -> Option<String> {
        self.text(relative).ok()
    }

    /// A whole number from a file, if it can be read and is one.
    pub fn number(&self, relative: &str) -> Option<u64> {
        self.optional(relative)?.parse().ok()
    }

    /// Whether there is such a file or directory.
    pub fn exists(&self, relative: &str) -> bool {
        self.open(relative, OFlags::PATH).is_ok()
    }

    /// The names in a directory, in order; none if it cannot be read.
    pub fn names(&self, relative: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(relative)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// The numbers of the entries `PREFIXn` of a directory, in order.
    pub fn numbered(&self, relative: &str, prefix: &str) -> Vec<usize> {
        let mut numbers: Vec<usize> = self
            .names(relative)
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_a_captured_machine_are_refused() {
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(outside.path(), "mine").unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), directory.path().join("link")).unwrap();
        let root = Root::at(directory.path());
        assert!(root.text("link").is_err());
        assert!(root.text("../x").is_err());
        assert!(root.open("link", OFlags::WRONLY).is_err());
        assert_eq!(std::fs::read_to_string(outside.path()).unwrap(), "mine");
    }

    #[test]
    fn entries_are_counted_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["cpu10", "cpu2", "cpuidle", "cpu0"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        assert_eq!(Root::at(directory.path()).numbered("", "cpu"), [0, 2, 10]);
    }
}
