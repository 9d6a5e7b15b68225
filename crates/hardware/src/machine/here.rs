//! Where the calibrated description of the running machine is.

use std::env;
use std::path::PathBuf;

/// The name of the calibrated machine for `--machine` and in studies.
pub const HERE: &str = "here";
/// Names another file in place of the two usual ones; empty: there is none.
const VARIABLE: &str = "WAKEPATH_HERE";
/// What a calibration by root leaves.
pub(super) const OF_SYSTEM: &str = "/var/lib/wakepath/machine.toml";

/// The file that a calibration writes by default: of the system for root, else of the user. `None`: the user has no home.
pub fn calibration_file(is_root: bool) -> Option<PathBuf> {
    match env::var_os(VARIABLE) {
        Some(named) => (!named.is_empty()).then(|| named.into()),
        None if is_root => Some(PathBuf::from(OF_SYSTEM)),
        None => file_of_user(),
    }
}

/// The calibrated machine's file, if one is there: the system's before the user's, which was measured without root.
pub fn calibrated_file() -> Option<PathBuf> {
    match env::var_os(VARIABLE) {
        Some(named) if named.is_empty() => None,
        Some(named) => Some(PathBuf::from(named)).filter(|file| file.is_file()),
        None => [Some(PathBuf::from(OF_SYSTEM)), file_of_user()]
            .into_iter()
            .flatten()
            .find(|file| file.is_file()),
    }
}

/// The user's own file, by the XDG base directories.
fn file_of_user() -> Option<PathBuf> {
    let absolute = |variable: &str| {
        let path = PathBuf::from(env::var_os(variable)?);
        path.is_absolute().then_some(path)
    };
    let data =
        absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(data.join("wakepath/machine.toml"))
}
