//! Files that exist whole or not at all, whenever the power fails.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Prefix for the names of unfinished files. After a kill such files are useless.
pub(crate) const UNFINISHED: &str = ".unfinished-";

/// A file under a temporary name until all content is on the disk. Dropping the file leaves nothing.
#[derive(Debug)]
pub(crate) struct UnfinishedFile {
    file: NamedTempFile,
    path: PathBuf,
}

impl UnfinishedFile {
    pub(crate) fn create_beside(path: &Path) -> io::Result<Self> {
        let file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            // A new file gets the mode that the process's umask allows.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(parent_folder(path))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// The open file.
    pub(crate) fn temporary_file(&self) -> &File {
        self.file.as_file()
    }

    pub(crate) fn sync_and_rename_into_place(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist(&self.path).map_err(|e| e.error)?;
        // The name, too.
        File::open(parent_folder(&self.path))?.sync_all()
    }
}

fn parent_folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Writes a file that exists whole or not at all: under a temporary name first, synced, then renamed to `path`.
pub(crate) fn write_atomically<E: From<io::Error>>(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
) -> Result<(), E> {
    let unfinished = UnfinishedFile::create_beside(path)?;
    let mut out = BufWriter::new(unfinished.temporary_file());
    content(&mut out)?;
    out.flush()?;
    drop(out);
    Ok(unfinished.sync_and_rename_into_place()?)
}

/// Removes the temporary files that killed writers left unfinished in `folder`.
pub(crate) fn remove_unfinished_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
