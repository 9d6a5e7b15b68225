//! Files that exist whole or not at all, whenever the power fails.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Prefix of unfinished files' names. After a kill such files are useless.
pub(crate) const UNFINISHED: &str = ".unfinished-";

/// A file under a temporary name until all content is on the disk. Dropping the file leaves nothing.
#[derive(Debug)]
pub(crate) struct Unfinished {
    file: NamedTempFile,
    path: PathBuf,
}

impl Unfinished {
    pub(crate) fn begin(path: &Path) -> io::Result<Self> {
        let file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            // The umask limits the mode, as for any new file.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(parent_folder(path))?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        self.file.as_file()
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.as_file().sync_all()?;
        self.file.persist(&self.path).map_err(|e| e.error)?;
        // The name, too.
        File::open(parent_folder(&self.path))?.sync_all()
    }
}

fn parent_folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

/// Writes a file that exists whole or not at all.
pub(crate) fn write_atomically<E: From<io::Error>>(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
) -> Result<(), E> {
    let unfinished = Unfinished::begin(path)?;
    let mut out = BufWriter::new(unfinished.file());
    content(&mut out)?;
    out.flush()?;
    drop(out);
    Ok(unfinished.finish()?)
}

/// Removes files that a kill left unfinished in a folder.
pub(crate) fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
