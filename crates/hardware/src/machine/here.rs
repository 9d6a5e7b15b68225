//! Finds the calibrated description of the running machine.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::MachineError;

/// The name of the calibrated machine for `--machine` and in studies.
pub const HERE: &str = "here";
/// The variable that names another calibration file in place of the two usual ones; empty: there is none.
const VARIABLE: &str = "WAKEPATH_HERE";
/// The calibration file that root writes. Its folder is not that of the journal, which only root may read.
pub const SYSTEM_FILE: &str = "/var/lib/wakepath-machine/machine.toml";

/// The calibration file that is written by default: of the system for root, else of the user. `None`: the user has no
/// home.
pub fn calibration_path_to_write(is_root: bool) -> Option<PathBuf> {
    match env::var_os(VARIABLE) {
        Some(named) => (!named.is_empty()).then(|| named.into()),
        None if is_root => Some(PathBuf::from(SYSTEM_FILE)),
        None => user_calibration_path(),
    }
}

/// The calibration file of this machine: the system's before the user's, which was measured without root.
///
/// # Errors
/// There is none, the one of `WAKEPATH_HERE` is no file, or the folder of one cannot be searched.
pub fn find_calibration_file() -> Result<PathBuf, MachineError> {
    match env::var_os(VARIABLE) {
        Some(named) if named.is_empty() => Err(MachineError::NotCalibrated { file: SYSTEM_FILE }),
        Some(named) => require_named_calibration_file(named.into()),
        None => find_first_calibration_file(
            [Some(PathBuf::from(SYSTEM_FILE)), user_calibration_path()]
                .into_iter()
                .flatten(),
        ),
    }
}

/// The calibration file that the variable names; an error if it is no file.
fn require_named_calibration_file(path: PathBuf) -> Result<PathBuf, MachineError> {
    let source = match fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => return Ok(path),
        Ok(_) => Error::other("not a regular file"),
        Err(error) => error,
    };
    Err(MachineError::NamedHere { path, source })
}

/// The first of some paths that is a file. A folder that cannot be searched is an error: the file could be there.
fn find_first_calibration_file(
    paths: impl Iterator<Item = PathBuf>,
) -> Result<PathBuf, MachineError> {
    for path in paths {
        match is_file_or_search_error(&path) {
            Ok(true) => return Ok(path),
            Ok(false) => {}
            Err(source) => return Err(MachineError::UnreadableHere { path, source }),
        }
    }
    Err(MachineError::NotCalibrated { file: SYSTEM_FILE })
}

/// Whether a path is a file; an error if that cannot be known.
fn is_file_or_search_error(path: &Path) -> Result<bool, Error> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.is_file()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Path of the user's own calibration file.
fn user_calibration_path() -> Option<PathBuf> {
    Some(user_data_folder()?.join("machine.toml"))
}

/// Folder of the user's own data, by the XDG base directories; `None` without a home.
pub(super) fn user_data_folder() -> Option<PathBuf> {
    let data = absolute_path_in_variable("XDG_DATA_HOME")
        .or_else(|| Some(absolute_path_in_variable("HOME")?.join(".local/share")))?;
    Some(data.join("wakepath"))
}

/// The path in an environment variable; `None` for a relative path, which the XDG base directories forbid.
fn absolute_path_in_variable(variable: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os(variable)?);
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_that_cannot_be_reached_is_not_taken_for_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let [missing, there, unreachable] =
            ["missing", "there", "unreachable"].map(|name| folder.path().join(name));
        fs::write(&there, "").unwrap();
        // Root may search every folder, and a link to itself nobody can follow.
        symlink(&unreachable, &unreachable).unwrap();
        let find = |paths: [&PathBuf; 2]| find_first_calibration_file(paths.into_iter().cloned());
        assert_eq!(find([&missing, &there]).unwrap(), there);
        assert!(matches!(
            find([&missing, &missing]),
            Err(MachineError::NotCalibrated { file: SYSTEM_FILE })
        ));
        let error = find([&unreachable, &there]).unwrap_err().to_string();
        let start = format!("here: {}: ", unreachable.display());
        let end = "; let all users read it, or name another file by WAKEPATH_HERE";
        assert!(error.starts_with(&start) && error.ends_with(end), "{error}");
    }

    #[test]
    fn a_variable_that_names_no_file_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = require_named_calibration_file(folder.path().to_owned()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "WAKEPATH_HERE names {}, which cannot be read: not a regular file; name a machine file there, or unset the \
                 variable",
                folder.path().display()
            )
        );
        let missing = require_named_calibration_file(folder.path().join("none.toml"));
        assert!(matches!(missing, Err(MachineError::NamedHere { .. })));
    }
}
