//! Which physical drive has a name such as `nvme0` now: names are given anew at each start and after each reset.

use std::fmt;

use crate::Root;

/// Model and serial number of a drive as sysfs has them; empty where sysfs has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveIdentity {
    /// The model.
    pub model: String,
    /// The serial number.
    pub serial: String,
}

impl DriveIdentity {
    /// Reads the identity of a drive, such as `nvme0`, from sysfs. No command is sent, so the drive sleeps on.
    pub fn read(root: &Root, drive_name: &str) -> Self {
        Self {
            model: read_drive_file_or_empty(root, drive_name, "model"),
            serial: read_drive_file_or_empty(root, drive_name, "serial"),
        }
    }

    /// Whether a drive of this name exists, and sysfs tells its model.
    pub const fn has_model(&self) -> bool {
        !self.model.is_empty()
    }
}

impl fmt::Display for DriveIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.model, self.serial)
    }
}

fn read_drive_file_or_empty(root: &Root, drive_name: &str, file: &str) -> String {
    let path = format!("sys/class/nvme/{drive_name}/{file}");
    root.read_text_if_readable(&path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_drive_of_the_same_name_is_another_identity() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::at_directory(directory.path());
        assert!(!DriveIdentity::read(&root, "nvme0").has_model());
        let folder = directory.path().join("sys/class/nvme/nvme0");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("model"), "SN530   \n").unwrap();
        std::fs::write(folder.join("serial"), "1\n").unwrap();
        let first = DriveIdentity::read(&root, "nvme0");
        assert!(first.has_model());
        assert_eq!(first.to_string(), "SN530 1");
        std::fs::write(folder.join("serial"), "2\n").unwrap();
        assert_ne!(DriveIdentity::read(&root, "nvme0"), first);
    }
}
