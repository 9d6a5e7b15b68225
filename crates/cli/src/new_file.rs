//! Files that a command was asked to write: whole or not at all, and never over another one unasked.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::bail;

/// Checks before any work that `path` may be written: a file that exists needs `force`.
pub(crate) fn check_output_may_be_written(path: &Path, force: bool) -> anyhow::Result<()> {
    if path == Path::new("-") {
        // In other arguments `-` means a pipe; this file is written whole, beside the command's output.
        bail!("standard output cannot be written to; name a file, or ./- for one of this name");
    }
    let folder = parent_folder(path);
    if !folder.is_dir() {
        bail!(
            "there is no folder {}; make it, or name another",
            folder.display()
        );
    }
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => bail!("it is there and not a regular file"),
        Ok(_) if !force => bail!("the file exists; --force replaces it"),
        _ => Ok(()),
    }
}

/// The path behind a link, or `path` itself if it is no link.
pub(crate) fn resolve_links_if_present(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A file's folder.
pub(crate) fn parent_folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Writes a file under a temporary name, then renames it, so that no partial file bears the real name.
pub(crate) fn write_whole_file(
    path: &Path,
    force: bool,
    content: impl FnOnce(&File) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let path = resolve_links_if_present(path);
    // The mode is that of any new file: the umask removes bits.
    let file = tempfile::Builder::new()
        .prefix(".wakepath-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent_folder(&path))
        // The library's error names the temporary file, which users do not know.
        .map_err(|e| e.raw_os_error().map_or(e, io::Error::from_raw_os_error))?;
    content(file.as_file())?;
    let kept = if force {
        file.persist(&path)
    } else {
        file.persist_noclobber(&path)
    };
    kept.map_err(|e| e.error)?;
    Ok(())
}
