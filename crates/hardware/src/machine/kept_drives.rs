//! Drives that a user keeps under names of their own, as files in the user's data folder.
//!
//! Each drive is a file `NAME.toml` in the form that [`DriveModel::to_toml`] writes. Other files in the folder are ignored, and
//! links are refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use wakepath_files::{Links, Tree};
use wakepath_units::pasted::decode_text_strictly;

use super::file::MAX_FILE;
use super::here::user_data_folder;
use super::{DriveModel, MachineError};
use crate::drive::DriveLibrary;

/// Longest name of a kept drive in bytes.
const LONGEST: usize = 64;

/// The folder with the drives that a user keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptDrives {
    folder: PathBuf,
}

/// Why a drive cannot be kept, or removed.
#[derive(Debug, thiserror::Error)]
pub enum KeepDriveError {
    /// The name cannot be that of a file in every folder.
    #[error(
        "'{0}' is no name for a drive; expected 1 to {LONGEST} of the characters a to z, 0 to 9, `-`, `_` and `.`, beginning \
         with a letter or digit"
    )]
    Name(String),
    /// The library has a drive with this name.
    #[error("'{name}' is {known} of the library; choose another name by --name")]
    NameOfLibrary {
        /// The requested name.
        name: String,
        /// What the library calls the drive.
        known: String,
    },
    /// A kept drive has this name.
    #[error("a drive '{0}' is kept already; --force replaces it")]
    Exists(String),
    /// No kept drive has this name.
    #[error("no drive '{name}' is kept; kept are: {kept}")]
    NotKept {
        /// The requested name.
        name: String,
        /// Names of the kept drives.
        kept: String,
    },
    /// The folder or the file cannot be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The folder or the file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The drive has no form in TOML.
    #[error(transparent)]
    Form(#[from] MachineError),
}

impl KeptDrives {
    /// The folder of the current user, by the XDG base directories; `None` without a home.
    pub fn in_user_folder() -> Option<Self> {
        Some(Self::in_folder(user_data_folder()?.join("drives")))
    }

    /// Drives in a given folder, which need not exist.
    pub const fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The file for a drive with this name.
    pub fn path_for_name(&self, name: &str) -> PathBuf {
        self.folder.join(file_name(name))
    }

    /// Names of the kept drives, sorted. A missing folder has none.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list_names(&self) -> Result<Vec<String>, MachineError> {
        let names = match self.open_folder() {
            Ok(tree) => tree.list_names(Path::new("")),
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let names = names.map_err(|source| MachineError::Read {
            path: self.folder.clone(),
            source,
        })?;
        let stems = names.iter().filter_map(|name| {
            let stem = name.to_str()?.strip_suffix(".toml")?;
            is_valid_name(stem).then(|| stem.to_owned())
        });
        Ok(stems.collect())
    }

    /// The kept drive with this name; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read or describes no drive.
    pub fn find(&self, name: &str) -> Result<Option<DriveModel>, MachineError> {
        if !is_valid_name(name) {
            return Ok(None);
        }
        let path = self.path_for_name(name);
        let bytes = self
            .open_folder()
            .and_then(|tree| tree.read_file_up_to(Path::new(&file_name(name)), MAX_FILE));
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(source) => return Err(MachineError::Read { path, source }),
        };
        let text = decode_text_strictly(bytes).map_err(|_| MachineError::Read {
            path: path.clone(),
            source: io::Error::new(io::ErrorKind::InvalidData, "it is no text in UTF-8"),
        })?;
        let model = DriveModel::parse(&text, &path.display().to_string())?;
        let note = format!("the drive '{name}' is the one kept in {}", path.display());
        Ok(Some(DriveModel {
            note: Some(note),
            ..model
        }))
    }

    /// Keeps a drive under a name; `replaces`: an older drive with this name goes. Returns the file.
    ///
    /// # Errors
    /// [`KeepDriveError`].
    pub fn keep(
        &self,
        name: &str,
        drive: &DriveModel,
        replaces: bool,
    ) -> Result<PathBuf, KeepDriveError> {
        if !is_valid_name(name) {
            return Err(KeepDriveError::Name(name.to_owned()));
        }
        if let Some(known) = name_in_library(name) {
            return Err(KeepDriveError::NameOfLibrary {
                name: name.to_owned(),
                known,
            });
        }
        let path = self.path_for_name(name);
        if !replaces && path.symlink_metadata().is_ok() {
            return Err(KeepDriveError::Exists(name.to_owned()));
        }
        let text = drive.to_toml()?;
        let written = fs::create_dir_all(&self.folder)
            .and_then(|()| self.open_folder())
            .and_then(|tree| tree.replace_file(Path::new(&file_name(name)), text.as_bytes()));
        match written {
            Ok(()) => Ok(path),
            Err(source) => Err(KeepDriveError::Write { path, source }),
        }
    }

    /// Removes a kept drive. Returns the file that is gone.
    ///
    /// # Errors
    /// There is no such drive, or the file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<PathBuf, KeepDriveError> {
        let names = self.list_names()?;
        if !names.iter().any(|kept| kept == name) {
            let kept = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            return Err(KeepDriveError::NotKept {
                name: name.to_owned(),
                kept,
            });
        }
        let path = self.path_for_name(name);
        match fs::remove_file(&path) {
            Ok(()) => Ok(path),
            Err(source) => Err(KeepDriveError::Write { path, source }),
        }
    }

    fn open_folder(&self) -> io::Result<Tree> {
        Tree::open_folder(&self.folder, Links::Refused)
    }
}

impl DriveModel {
    /// The name that a drive is kept under if the user gives none: `my-` and the words of its title.
    pub fn suggest_name_to_keep(&self) -> String {
        let lower_case = self.name.to_ascii_lowercase();
        let words = lower_case.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let mut name = format!("my-{}", words.join("-"));
        name.truncate(LONGEST);
        match name.trim_end_matches('-') {
            "my" => "my-drive".to_owned(),
            name => name.to_owned(),
        }
    }
}

fn file_name(name: &str) -> String {
    format!("{name}.toml")
}

fn is_lowercase_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether a name can be that of a kept drive: the characters are those of file names on every system.
fn is_valid_name(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len())
        && name.bytes().next().is_some_and(is_lowercase_or_digit)
        && name
            .bytes()
            .all(|b| is_lowercase_or_digit(b) || b"-_.".contains(&b))
}

/// What the library calls the drive with exactly this name; `None` for a name that the library does not have.
fn name_in_library(name: &str) -> Option<String> {
    if DriveModel::full_library_name_for_short_name(name).is_some() {
        return Some("a drive model".to_owned());
    }
    let found = DriveLibrary::builtin().find_one_model(name).ok()?;
    let is_whole = found.note_if_name_was_partial(name).is_none();
    is_whole.then(|| format!("the drive {}", found.name))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn kept_in(folder: &tempfile::TempDir) -> KeptDrives {
        KeptDrives::in_folder(folder.path().join("wakepath/drives"))
    }

    #[test]
    fn a_kept_drive_comes_back_whole_and_goes_again() {
        let folder = tempfile::tempdir().unwrap();
        let kept = kept_in(&folder);
        assert_eq!(kept.list_names().unwrap(), [""; 0]);
        for name in ["sn530", "Samsung SSD 990 PRO 1TB"] {
            let drive = DriveModel::find(name).unwrap();
            let own = drive.suggest_name_to_keep();
            let path = kept.keep(&own, &drive, false).unwrap();
            assert_eq!(path, kept.path_for_name(&own));
            let found = kept.find(&own).unwrap().unwrap();
            assert_eq!(found.to_toml().unwrap(), drive.to_toml().unwrap());
            assert!(found.note.unwrap().contains(&own));
        }
        let names = ["my-samsung-ssd-990-pro-1tb", "my-wd-pc-sn530-256gb"];
        assert_eq!(kept.list_names().unwrap(), names);
        kept.remove(names[0]).unwrap();
        assert_eq!(kept.list_names().unwrap(), names[1..]);
        assert!(kept.find(names[0]).unwrap().is_none());
        let error = kept.remove(names[0]).unwrap_err().to_string();
        let expected = format!("no drive '{}' is kept; kept are: {}", names[0], names[1]);
        assert_eq!(error, expected);
    }

    #[test]
    fn names_that_lead_elsewhere_or_mean_another_drive_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let kept = kept_in(&folder);
        let drive = DriveModel::find("sn530").unwrap();
        for name in [
            "",
            ".x",
            "-x",
            "a/b",
            "../x",
            "A",
            "a b",
            "a\u{1b}",
            &"a".repeat(65),
        ] {
            let error = kept.keep(name, &drive, true).unwrap_err();
            assert!(matches!(error, KeepDriveError::Name(_)), "{name}: {error}");
            assert!(kept.find(name).unwrap().is_none());
        }
        for (name, known) in [
            (
                "sn530",
                "'sn530' is a drive model of the library; choose another name by --name",
            ),
            (
                "ct1000p3ssd8",
                "'ct1000p3ssd8' is the drive CT1000P3SSD8 of the library; choose another name by --name",
            ),
        ] {
            assert_eq!(
                kept.keep(name, &drive, true).unwrap_err().to_string(),
                known
            );
        }
    }

    #[test]
    fn an_older_drive_is_replaced_only_if_that_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let kept = kept_in(&folder);
        let [old, new] = ["sn530", "760p"].map(|name| DriveModel::find(name).unwrap());
        kept.keep("own", &old, false).unwrap();
        let error = kept.keep("own", &new, false).unwrap_err().to_string();
        assert_eq!(error, "a drive 'own' is kept already; --force replaces it");
        kept.keep("own", &new, true).unwrap();
        assert_eq!(kept.find("own").unwrap().unwrap().name, new.name);
    }

    /// Whoever can write into the folder leads no read or write out of it.
    #[test]
    fn links_and_other_files_in_the_folder_are_no_drives() {
        let folder = tempfile::tempdir().unwrap();
        let kept = kept_in(&folder);
        let drive = DriveModel::find("sn530").unwrap();
        kept.keep("own", &drive, false).unwrap();
        let target = folder.path().join("target.toml");
        fs::write(&target, drive.to_toml().unwrap()).unwrap();
        symlink(&target, kept.path_for_name("linked")).unwrap();
        fs::write(kept.folder.join("README"), "no drive").unwrap();
        assert_eq!(kept.list_names().unwrap(), ["linked", "own"]);
        let error = kept.find("linked").unwrap_err().to_string();
        assert!(error.contains("linked.toml"), "{error}");
        // A link is replaced, and its target stays.
        kept.keep("linked", &DriveModel::find("760p").unwrap(), true)
            .unwrap();
        assert_eq!(
            fs::read_to_string(&target).unwrap(),
            drive.to_toml().unwrap()
        );
        fs::write(
            kept.path_for_name("own"),
            "schema = 1\n[drive]\nnonsense = 1\n",
        )
        .unwrap();
        assert!(
            kept.find("own")
                .unwrap_err()
                .to_string()
                .contains("own.toml")
        );
    }
}
