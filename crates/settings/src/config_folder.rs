//! The folder `/etc/wakepath` of configuration files, below the root of a machine.

use std::io;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;
use wakepath_files::{Links, Tree};
use wakepath_system::Root;

/// Path of the folder of configuration files, below the machine's root.
pub(crate) const CONFIG_FOLDER: &str = "etc/wakepath";

/// Opens the folder of configuration files, with `make` after creating it; `None` if missing. On a captured machine no
/// link is followed: `etc` could lead to the running machine's.
///
/// # Errors
/// The system's; it is a link, or no folder.
pub(crate) fn open_config_folder(root: &Root, make: bool) -> io::Result<Option<OwnedFd>> {
    open_folder_below_root(root, CONFIG_FOLDER, make)
}

/// As [`open_config_folder`], for any folder of a machine.
///
/// # Errors
/// The system's; it is a link, or no folder.
pub(crate) fn open_folder_below_root(
    root: &Root,
    folder: &str,
    make: bool,
) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = if root.is_live() {
        let path = root.absolute_path(folder);
        if make {
            std::fs::create_dir_all(&path)?;
        }
        openat(CWD, path, flags, Mode::empty()).map_err(io::Error::from)
    } else {
        let tree = Tree::open_folder(&root.absolute_path(""), Links::Refused)?;
        if make {
            tree.make_folder_with_parents(Path::new(folder))?;
        }
        tree.open_file_or_folder(Path::new(folder), flags)
    };
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Removes a configuration file; returns whether there was one.
///
/// # Errors
/// The system's.
pub(crate) fn remove_config_file(root: &Root, name: &str) -> io::Result<bool> {
    let folder = match open_config_folder(root, false) {
        Ok(None) => return Ok(false),
        Ok(Some(folder)) => folder,
        Err(error) => {
            let path = root.absolute_path(&format!("{CONFIG_FOLDER}/{name}"));
            let is_missing = root.is_live()
                && path
                    .symlink_metadata()
                    .is_err_and(|about| about.kind() == io::ErrorKind::NotFound);
            return if is_missing { Ok(false) } else { Err(error) };
        }
    };
    // On a read-only file system the removal of a missing file is an error, too.
    if let Err(Errno::NOENT) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        return Ok(false);
    }
    match unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) => {
            rustix::fs::fsync(&folder)?;
            Ok(true)
        }
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
