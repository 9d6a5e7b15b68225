//! Files that are there whole or not at all, whenever the power fails.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// How the names of unfinished files begin. What bears such a name after a kill is of no use.
pub(crate) const UNFINISHED: &str = ".unfinished-";

/// Writes a file under another name first, and has it on the disk before it gets its own.
pub(crate) fn write<E: From<io::Error>>(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
) -> Result<(), E> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let file = tempfile::Builder::new()
        .prefix(UNFINISHED)
        // As any new file: the umask takes away what it does not want.
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)?;
    let mut out = BufWriter::new(file.as_file());
    content(&mut out)?;
    out.flush()?;
    drop(out);
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    // The name, too.
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// Removes what a kill left unfinished in this folder.
pub(crate) fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
