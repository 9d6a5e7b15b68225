//! The folder for test files of fio.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::process::geteuid;
use wakepath_units::printable;

use crate::error::CalibrateError;

/// Begin of each name for a folder with test files.
const PREFIX: &str = ".wakepath-calibrate-";

/// Whether fio reads a folder's path from a job file as it stands: `;` and `#` begin comments, `$` a variable, and `:`
/// separates files.
pub(crate) fn fits_job_file(folder: &Path) -> bool {
    folder.to_str().is_some_and(|path| {
        path.trim() == path
            && !path.contains([':', ';', '#', '$'])
            && !path.contains(char::is_control)
    })
}

/// The jobs' file in a folder.
pub(crate) fn data_file_in(folder: &Path) -> PathBuf {
    folder.join("fio.tmp")
}

/// A folder for test files, removed with them.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: tempfile::TempDir,
    /// Shows other calibrations a living one; absent on file systems without locks.
    _lock: Option<File>,
}

impl Folder {
    pub(crate) fn make(parent: &Path) -> Result<Self, CalibrateError> {
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent);
        let folder = made.map_err(|source| CalibrateError::Folder {
            path: parent.to_owned(),
            action: "making a folder for test files",
            source,
        })?;
        Ok(Self {
            _lock: lock_folder(folder.path()),
            folder,
        })
    }

    /// The file that jobs read.
    pub(crate) fn data_file(&self) -> PathBuf {
        data_file_in(self.path())
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Locks a folder while the file lives; `None` on file systems without locks, or if another process has the lock.
fn lock_folder(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = File::from(open(path, flags, Mode::empty()).ok()?);
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(folder)
}

/// Folders left by killed calibrations of the same user: nobody has the lock.
pub(crate) fn find_leftovers(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| name.starts_with(PREFIX))
    });
    let own = named.map(|entry| entry.path()).filter(|path| {
        // Links are not followed, and other users' folders stay.
        let about = path.symlink_metadata();
        about.is_ok_and(|about| about.is_dir() && about.uid() == geteuid().as_raw())
    });
    let mut left: Vec<PathBuf> = own.filter(|path| lock_folder(path).is_some()).collect();
    left.sort();
    left
}

/// Removes the folders from [`find_leftovers`], with a note for each.
pub(crate) fn remove_leftovers(parent: &Path) -> Vec<String> {
    let all = find_leftovers(parent).into_iter();
    all.map(|path| {
        let shown = path.display().to_string();
        let name = printable::escape_for_one_line(&shown);
        match fs::remove_dir_all(&path) {
            Ok(()) => format!("{name}: removed; a calibration that was killed had left it"),
            Err(why) => {
                format!(
                    "{name}: a calibration that was killed left it; it cannot be removed: {why}"
                )
            }
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn what_killed_calibrations_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let living = Folder::make(parent.path()).unwrap();
        let dead = at(".wakepath-calibrate-dead");
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("fio.tmp"), "x").unwrap();
        fs::create_dir(at("other")).unwrap();
        fs::write(at(".wakepath-calibrate-file"), "x").unwrap();
        std::os::unix::fs::symlink("other", at(".wakepath-calibrate-link")).unwrap();
        assert_eq!(find_leftovers(parent.path()), [dead.as_path()]);
        let notes = remove_leftovers(parent.path());
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("calibrate-dead: removed"), "{notes:?}");
        assert!(!dead.exists() && living.path().exists());
        for name in [
            "other",
            ".wakepath-calibrate-file",
            ".wakepath-calibrate-link",
        ] {
            assert!(at(name).exists(), "{name}");
        }
        assert!(remove_leftovers(&at("none")).is_empty());
    }

    #[test]
    fn folders_that_a_job_file_cannot_name_are_refused() {
        for path in ["/var/tmp", ".", "/mnt/a b/c", "/mnt/\u{e9}"] {
            assert!(fits_job_file(Path::new(path)), "{path}");
        }
        for path in [
            "/a;b", "/a#b", "/$HOME", "/a:b", "/a\nb", "/a\tb", " a", "/a ",
        ] {
            assert!(!fits_job_file(Path::new(path)), "{path}");
        }
        assert!(!fits_job_file(Path::new(OsStr::from_bytes(b"/\xff"))));
    }
}
