//! A directory made by strangers, whose files may not lead out of it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::regular::{open_only_if_regular, read_up_to, require_utf8};
use crate::resolve::{self, Links};

/// A directory, held open. Nothing outside is ever opened, whatever paths and links say.
#[derive(Debug)]
pub struct Tree {
    base: OwnedFd,
    links: Links,
}

impl Tree {
    /// Opens the directory itself, whose own path may have links. The empty path, which is the parent of a bare file name, is the
    /// working directory.
    ///
    /// # Errors
    /// The system's; it is no directory.
    pub fn open_folder(path: &Path, links: Links) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let named = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let base = openat(CWD, named, flags, Mode::empty())?;
        Ok(Self { base, links })
    }

    /// Opens whatever is at a path below the directory: folders, and files that are not read, too.
    ///
    /// # Errors
    /// The system's; `InvalidInput` for a path that leads out of the directory, or over a link that is refused.
    pub fn open_file_or_folder(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        if self.links == Links::Refused
            && let Some(problem) = why_path_leads_out(path)
        {
            return Err(io::Error::new(ErrorKind::InvalidInput, problem));
        }
        resolve::open_resolving_links(&self.base, path, flags | OFlags::CLOEXEC, self.links)
    }

    /// Opens a regular file below the directory.
    ///
    /// # Errors
    /// As [`Self::open_file_or_folder`]; `InvalidInput` for anything but a regular file.
    pub fn open_file(&self, path: &Path, flags: OFlags) -> io::Result<File> {
        open_only_if_regular(|flags| self.open_file_or_folder(path, flags), flags)
    }

    /// Reads a regular file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Self::open_file`]; `FileTooLarge` for a longer one.
    pub fn read_file_up_to(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        read_up_to(self.open_file(path, OFlags::RDONLY)?, limit)
    }

    /// Reads a regular UTF-8 file of at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Self::read_file_up_to`]; `InvalidData` for what is not UTF-8.
    pub fn read_text_up_to(&self, path: &Path, limit: u64) -> io::Result<String> {
        require_utf8(self.read_file_up_to(path, limit)?)
    }

    /// The names in a folder below the directory, sorted.
    ///
    /// # Errors
    /// As [`Self::open_file_or_folder`].
    pub fn list_names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK;
        let mut names = Vec::new();
        for entry in Dir::new(self.open_file_or_folder(path, flags)?)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Makes a folder below the directory, with its missing parents.
    ///
    /// # Errors
    /// As [`Self::open_file_or_folder`].
    pub fn make_folder_with_parents(&self, path: &Path) -> io::Result<()> {
        let mut above = PathBuf::new();
        for part in path.components() {
            let parent = self.open_file_or_folder(&above, OFlags::PATH | OFlags::DIRECTORY)?;
            above.push(part);
            let mode = Mode::RWXU | Mode::RWXG | Mode::RWXO;
            match mkdirat(parent, part.as_os_str(), mode) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.open_file_or_folder(path, OFlags::PATH | OFlags::DIRECTORY)
            .map(|_| ())
    }

    /// Writes a new file, with missing parent folders. An existing file is replaced, not overwritten: a hard link
    /// elsewhere keeps the old content.
    ///
    /// # Errors
    /// As [`Self::open_file_or_folder`]; a folder of this name is there.
    pub fn replace_file(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let parent = path.parent().unwrap_or(Path::new(""));
        self.make_folder_with_parents(parent)?;
        let name = path.file_name().unwrap_or_default();
        let folder = self.open_file_or_folder(parent, OFlags::PATH | OFlags::DIRECTORY)?;
        match unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        File::from(openat(folder, name, flags, mode)?).write_all(content)
    }

    /// Device and inode numbers of the directory, which identify it on the running system.
    ///
    /// # Errors
    /// The system's.
    pub fn device_and_inode(&self) -> io::Result<(u64, u64)> {
        let about = fstat(&self.base)?;
        Ok((about.st_dev, about.st_ino))
    }
}

/// The reason why a path may lead out of the directory; `None` if it cannot.
fn why_path_leads_out(path: &Path) -> Option<&'static str> {
    path.components().find_map(|part| match part {
        Component::Prefix(_) | Component::RootDir => {
            Some("is an absolute path; only files below the directory are read")
        }
        Component::ParentDir => Some("has `..` in it; only files below the directory are read"),
        Component::CurDir | Component::Normal(_) => None,
    })
}
