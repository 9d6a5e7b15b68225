//! Location of a machine's files: below `/`, or below a captured machine's directory.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use wakepath_files::{Links, Tree};
use wakepath_units::printable::quote_shell_word;

use crate::SystemError;

/// Size limit for files: sysfs has at most a page, `/proc/interrupts` on a big server a few hundred kilobytes.
const MAX_FILE: u64 = 4 << 20;

/// The root directory below which a machine's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// The root of the running machine.
    pub fn live() -> Self {
        Self(PathBuf::from("/"))
    }

    /// The root of a captured machine, or of a directory with the same layout. `/` is the running machine.
    pub fn at_directory(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// Whether the root is the running machine's.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    /// ` --root DIR`, for a command line in a message; empty for the running machine.
    pub fn command_line_option(&self) -> String {
        if self.is_live() {
            return String::new();
        }
        format!(" --root {}", quote_shell_word(&self.0.to_string_lossy()))
    }

    /// The full path of a machine's file, given without leading slash.
    pub fn absolute_path(&self, relative: &str) -> PathBuf {
        self.0.join(relative)
    }

    /// Opens a file of the machine. Captured files may come from strangers: links are followed as if the directory was
    /// `/`, so that nothing outside is opened, and only regular files are accepted.
    ///
    /// # Errors
    /// The system's.
    pub fn open_file(&self, relative: &str, flags: OFlags) -> io::Result<File> {
        if self.is_live() {
            return Ok(self.open_file_or_folder(relative, flags)?.into());
        }
        self.open_captured_tree()?
            .open_file(Path::new(relative), flags)
    }

    /// Opens whatever is at a path of the machine: as [`Self::open_file`], but also folders and special files.
    pub(crate) fn open_file_or_folder(&self, relative: &str, flags: OFlags) -> io::Result<OwnedFd> {
        if self.is_live() {
            let flags = flags | OFlags::CLOEXEC;
            return Ok(openat(
                CWD,
                self.absolute_path(relative),
                flags,
                Mode::empty(),
            )?);
        }
        self.open_captured_tree()?
            .open_file_or_folder(Path::new(relative), flags)
    }

    /// Opens the directory of a captured machine.
    fn open_captured_tree(&self) -> io::Result<Tree> {
        Tree::open_folder(&self.0, Links::InTree)
    }

    /// A folder of the machine, given without leading slash; the folder need not exist.
    pub fn folder(&self, relative: impl Into<String>) -> SystemFolder<'_> {
        SystemFolder {
            root: self,
            path: relative.into(),
        }
    }

    /// Reads the bytes of a machine's file.
    pub fn read_bytes(&self, relative: &str) -> Result<Vec<u8>, SystemError> {
        let read = if self.is_live() {
            wakepath_files::read_file_up_to(&self.absolute_path(relative), MAX_FILE)
        } else {
            self.open_captured_tree()
                .and_then(|tree| tree.read_file_up_to(Path::new(relative), MAX_FILE))
        };
        read.map_err(|source| SystemError::Read {
            path: self.absolute_path(relative),
            source,
        })
    }

    /// File type and permissions at a path of the machine; `None` if missing.
    pub fn type_and_permissions(&self, relative: &str) -> Option<(FileType, u32)> {
        let about = fstat(self.open_file_or_folder(relative, OFlags::PATH).ok()?).ok()?;
        Some((
            FileType::from_raw_mode(about.st_mode),
            about.st_mode & 0o7777,
        ))
    }

    /// Reads the text of a machine's file, without the line end.
    pub fn read_text(&self, relative: &str) -> Result<String, SystemError> {
        let data = self.read_bytes(relative)?;
        Ok(String::from_utf8_lossy(&data).trim().to_owned())
    }

    /// Reads the text of a machine's file; `None` if it cannot be read.
    pub fn read_text_if_readable(&self, relative: &str) -> Option<String> {
        self.read_text(relative).ok()
    }

    /// Reads a whole number from a machine's file; `None` if the file cannot be read, or holds something else.
    pub fn read_number_if_readable(&self, relative: &str) -> Option<u64> {
        self.read_text_if_readable(relative)?.parse().ok()
    }

    /// Whether a file or directory exists at a path of the machine.
    pub fn exists(&self, relative: &str) -> bool {
        self.open_file_or_folder(relative, OFlags::PATH).is_ok()
    }

    /// The names in a directory of the machine, sorted; empty if it cannot be read.
    pub fn list_names(&self, relative: &str) -> Vec<String> {
        let entries = Tree::open_folder(&self.0, Links::InTree)
            .and_then(|tree| tree.list_names(Path::new(relative)))
            .unwrap_or_default();
        let names = entries.into_iter().map(OsString::into_string);
        names.filter_map(Result::ok).collect()
    }

    /// The numbers `n` of a directory's entries named `PREFIXn`, ascending.
    pub fn list_entry_numbers(&self, relative: &str, prefix: &str) -> Vec<usize> {
        let mut numbers: Vec<usize> = self
            .list_names(relative)
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }
}

/// A folder of a machine, from which files are read by name.
#[derive(Clone, Debug)]
pub struct SystemFolder<'a> {
    root: &'a Root,
    path: String,
}

impl SystemFolder<'_> {
    /// Path of a file in this folder, below the machine's root.
    pub fn path_of_file(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    /// Reads the text of a file in this folder; `None` if it cannot be read.
    pub fn read_text_if_readable(&self, name: &str) -> Option<String> {
        self.root.read_text_if_readable(&self.path_of_file(name))
    }

    /// Reads a whole number from a file in this folder; `None` if the file cannot be read, or holds something else.
    pub fn read_number_if_readable(&self, name: &str) -> Option<u64> {
        self.root.read_number_if_readable(&self.path_of_file(name))
    }

    /// As [`Self::read_number_if_readable`], for a narrower type; `None` also if the number does not fit.
    pub fn read_small_number<T: TryFrom<u64>>(&self, name: &str) -> Option<T> {
        T::try_from(self.read_number_if_readable(name)?).ok()
    }

    /// Whether a file or folder of this name exists in this folder.
    pub fn exists(&self, name: &str) -> bool {
        self.root.exists(&self.path_of_file(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_a_captured_machine_stay_inside() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path();
        std::fs::create_dir_all(top.join("sys/devices/cpu0")).unwrap();
        std::fs::create_dir_all(top.join("sys/class")).unwrap();
        std::fs::write(top.join("sys/devices/cpu0/name"), "C1\n").unwrap();
        for (target, link) in [
            ("/sys/devices/cpu0", "absolute"),
            ("../devices/cpu0", "relative"),
        ] {
            std::os::unix::fs::symlink(target, top.join("sys/class").join(link)).unwrap();
        }
        std::os::unix::fs::symlink("/etc", top.join("sys/class/etc")).unwrap();
        let root = Root::at_directory(directory.path());
        for link in ["absolute", "relative"] {
            assert_eq!(
                root.read_text(&format!("sys/class/{link}/name")).unwrap(),
                "C1"
            );
            assert_eq!(root.list_names(&format!("sys/class/{link}")), ["name"]);
        }
        assert!(!root.exists("sys/class/etc/passwd"));
        assert!(root.list_names("sys/class/etc").is_empty());
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let root = Root::at_directory(directory.path());
        let error = root.read_text("fifo").unwrap_err().to_string();
        assert!(error.contains("FIFO"), "{error}");
        assert!(root.open_file("fifo", OFlags::WRONLY).is_err());
    }

    #[test]
    fn links_out_of_a_captured_machine_are_refused() {
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(outside.path(), "mine").unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), directory.path().join("link")).unwrap();
        let root = Root::at_directory(directory.path());
        assert!(root.read_text("link").is_err());
        assert!(root.read_text("../x").is_err());
        assert!(root.open_file("link", OFlags::WRONLY).is_err());
        assert_eq!(std::fs::read_to_string(outside.path()).unwrap(), "mine");
    }

    #[test]
    fn entries_are_counted_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["cpu10", "cpu2", "cpuidle", "cpu0"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        assert_eq!(
            Root::at_directory(directory.path()).list_entry_numbers("", "cpu"),
            [0, 2, 10]
        );
    }
}
