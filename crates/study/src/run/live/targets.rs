//! Where fio jobs would write: only files may be overwritten.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use wakepath_workloads::fio;

/// Mount points of devices or kernel files, and the exception with ordinary files.
const NOT_FILES: [&str; 3] = ["/dev", "/proc", "/sys"];
const FILES: &str = "/dev/shm";

/// Refuses fio jobs that would write to anything except files.
///
/// # Errors
/// Names the job, its target, and a remedy.
pub(super) fn refuse_fio_targets_other_than_files(text: &str, origin: &str) -> Result<(), String> {
    for job in fio::list_job_paths(text, origin).map_err(|e| e.to_string())? {
        let opened = job.files.iter().map(|path| (path, job.writes));
        let mapped = job.memory.iter().map(|path| (path, true));
        for (path, writes) in opened.chain(mapped) {
            let what = match classify_target(Path::new(path)) {
                Target::Other(what) if writes => what.to_owned(),
                // fio creates missing files and unlinks obstacles even for jobs that only read.
                Target::Unknown(why) => why,
                Target::File | Target::Other(_) => continue,
            };
            let does = if job.writes { "write to" } else { "use" };
            return Err(format!(
                "job '{}' would {does} {path}, {what}; give it a file, for example with fio_options = \
                 {{ filename = \"fio.tmp\", size = \"1g\" }}",
                job.job
            ));
        }
    }
    Ok(())
}

/// What a path that fio would write to is.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// A file or directory, or nothing yet in a place for files.
    File,
    /// Something else.
    Other(&'static str),
    /// Undecidable.
    Unknown(String),
}

fn classify_target(path: &Path) -> Target {
    let kind = match fs::metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(e) if e.kind() == ErrorKind::NotFound => return classify_missing_target(path),
        Err(e) => return Target::Unknown(format!("which cannot be looked at ({e})")),
    };
    if kind.is_block_device() {
        Target::Other("a block device, and destroy what is on it")
    } else if kind.is_char_device() {
        Target::Other("a character device")
    } else if kind.is_file() || kind.is_dir() {
        match fs::canonicalize(path) {
            Ok(real) if is_place_for_files(&real) => Target::File,
            Ok(_) => Target::Other("a file of the kernel"),
            Err(e) => Target::Unknown(format!("which cannot be looked at ({e})")),
        }
    } else {
        Target::Other("which is no regular file")
    }
}

/// Classifies a path that is missing so far, and that fio would create.
fn classify_missing_target(path: &Path) -> Target {
    if fs::symlink_metadata(path).is_ok() {
        return Target::Unknown("a link that leads nowhere".to_owned());
    }
    match path_once_created(path) {
        Ok(Some(real)) if is_place_for_files(&real) => Target::File,
        Ok(Some(_)) => Target::Unknown("a device that does not exist".to_owned()),
        Ok(None) => Target::Unknown("through a directory that does not exist".to_owned()),
        Err(e) => Target::Unknown(format!("which cannot be looked at ({e})")),
    }
}

/// The path, without links, of a file that fio would create. fio creates missing directories, so a `..` behind them
/// resolves only later: `None`.
fn path_once_created(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut missing: Vec<OsString> = Vec::new();
    let mut existing = path;
    loop {
        let (Some(Component::Normal(name)), Some(parent)) =
            (existing.components().next_back(), existing.parent())
        else {
            return Ok(None);
        };
        missing.push(name.to_owned());
        existing = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        match fs::canonicalize(existing) {
            Ok(mut real) => {
                real.extend(missing.iter().rev());
                return Ok(Some(real));
            }
            // Nothing exists under the path, not even a link.
            Err(e)
                if e.kind() == ErrorKind::NotFound && fs::symlink_metadata(existing).is_err() => {}
            Err(e) => return Err(e),
        }
    }
}

/// Whether a path without links is in a place for ordinary files.
fn is_place_for_files(real: &Path) -> bool {
    real.starts_with(FILES) || !NOT_FILES.iter().any(|place| real.starts_with(place))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn refused(options: &str) -> Option<String> {
        let section = if options.starts_with('[') {
            ""
        } else {
            "[a]\n"
        };
        refuse_fio_targets_other_than_files(&format!("{section}{options}\nsize=4k\n"), "t.fio")
            .err()
    }

    #[test]
    fn a_device_is_not_written_to_whatever_its_name() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().display().to_string();
        let up = "../".repeat(40);
        symlink("/dev/null", temp.path().join("link")).unwrap();
        symlink("/dev", temp.path().join("devices")).unwrap();
        symlink("/nowhere/at/all", temp.path().join("dangling")).unwrap();
        symlink("fio.tmp", temp.path().join("loose")).unwrap();
        for (place, what) in [
            ("filename=/dev/null".to_owned(), "character device"),
            ("filename=//dev/null".to_owned(), "character device"),
            ("filename=/./dev/../dev/null".to_owned(), "character device"),
            (format!("filename={up}dev/null"), "character device"),
            (
                format!("filename={folder}/x.tmp:/dev/null"),
                "character device",
            ),
            (format!("filename={folder}/link"), "character device"),
            (
                format!("filename={folder}/devices/null"),
                "character device",
            ),
            (
                format!("directory={folder}\nfilename=link"),
                "character device",
            ),
            ("directory=/dev\nfilename=null".to_owned(), "/dev/null"),
            ("filename=null\ndirectory=/tmp:/dev".to_owned(), "/dev/null"),
            ("filename_format=/dev/null".to_owned(), "character device"),
            ("[/dev/null]".to_owned(), "character device"),
            ("[global]\nfilename=/dev/null\n[a]".to_owned(), "/dev/null"),
            (
                format!("[global]\nfilename=/dev/null\n[a]\nfilename={folder}/x"),
                "/dev/null",
            ),
            (
                "[global]\ndirectory=/dev\n[a]\nfilename=null".to_owned(),
                "/dev/null",
            ),
            ("filename=/dev/no-such-drive".to_owned(), "does not exist"),
            ("filename=/dev/no/such/drive".to_owned(), "does not exist"),
            (format!("filename={folder}/dangling"), "leads nowhere"),
            (format!("filename={folder}/loose"), "leads nowhere"),
            (
                format!("filename={folder}/no/../../x"),
                "through a directory",
            ),
            ("filename=/proc/sys/vm/swappiness".to_owned(), "the kernel"),
        ] {
            for rw in ["write", "randwrite", "rw", "randrw"] {
                let (first, rest) = match place.rsplit_once("[a]\n") {
                    Some((first, rest)) => (format!("{first}[a]"), rest.to_owned()),
                    None => (place.clone(), String::new()),
                };
                let error = refused(&format!("{first}\nreadwrite={rw}\n{rest}"))
                    .unwrap_or_else(|| panic!("{place} is not refused"));
                assert!(error.contains(what), "{place}: {error}");
                assert!(
                    error.contains("fio_options = { filename = \"fio.tmp\""),
                    "{error}"
                );
            }
        }
        for line in [
            "rw=read\nmem=mmapshared:/dev/null".to_owned(),
            format!("rw=read\nfilename={folder}/no/../../x"),
        ] {
            assert!(refused(&line).is_some(), "{line}");
        }
    }

    #[test]
    fn files_are_written_to_and_devices_read() {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path().display().to_string();
        fs::write(temp.path().join("there"), "x").unwrap();
        symlink("there", temp.path().join("link")).unwrap();
        for options in [
            "rw=write".to_owned(),
            "rw=write\nfilename=fio.tmp".to_owned(),
            "rw=write\nfilename=some/where/fio.tmp".to_owned(),
            format!("rw=write\nfilename={folder}/there:{folder}/new:{folder}/link"),
            format!("rw=write\nfilename={folder}/../new"),
            format!("rw=write\ndirectory={folder}\nmem=mmapshared:{folder}/memory"),
            "rw=read\nfilename=/dev/null".to_owned(),
            "rw=randread\nfilename=/dev/no-such-drive".to_owned(),
        ] {
            let error = refused(&options);
            // Missing files look like drives yet to come.
            if options.contains("no-such") {
                assert!(error.is_some());
            } else {
                assert_eq!(error, None, "{options}");
            }
        }
        if Path::new(FILES).is_dir() {
            assert_eq!(
                refused(&format!("rw=write\nfilename={FILES}/wakepath-no-such-file")),
                None
            );
        }
    }
}
