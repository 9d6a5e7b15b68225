//! The folder for test files of fio.

use std::path::{Path, PathBuf};

use crate::error::CalibrateError;

/// Whether fio reads a folder's path from a job file as it stands: `;` and `#` begin comments, `$` a variable, and `:`
/// separates files.
pub(crate) fn fits_job_file(folder: &Path) -> bool {
    folder.to_str().is_some_and(|path| {
        path.trim() == path
            && !path.contains([':', ';', '#', '$'])
            && !path.contains(char::is_control)
    })
}

/// The file in a folder that jobs read.
pub(crate) fn data_file_in(folder: &Path) -> PathBuf {
    folder.join("fio.tmp")
}

/// A folder for test files, removed with them.
#[derive(Debug)]
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn make(parent: &Path) -> Result<Self, CalibrateError> {
        let made = tempfile::Builder::new()
            .prefix(".wakepath-calibrate-")
            .tempdir_in(parent);
        made.map(Self).map_err(|source| CalibrateError::Folder {
            path: parent.to_owned(),
            action: "making a folder for test files",
            source,
        })
    }

    /// The file that jobs read.
    pub(crate) fn data_file(&self) -> PathBuf {
        data_file_in(self.path())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

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
