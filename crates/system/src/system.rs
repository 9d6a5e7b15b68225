//! Reads single settings.

use std::fs::File;
use std::io::Read;

use rustix::fs::OFlags;
use wakepath_hardware::drive::Drive;

use crate::nvme::{self, ApstFeature};
use crate::setting::{Access, Values, word_in_brackets};
use crate::{Root, SettingKey, SystemError};

/// A machine whose settings can be read.
#[derive(Clone, Debug)]
pub struct System {
    root: Root,
}

impl System {
    /// The running machine.
    pub fn live() -> Self {
        Self::new(Root::live())
    }

    /// The machine whose files are below a root.
    pub const fn new(root: Root) -> Self {
        Self { root }
    }

    /// Root of the machine's files.
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// Checks that a setting accepts a value on this machine.
    ///
    /// # Errors
    /// [`SystemError::Value`] with the allowed values.
    pub fn check_setting_value(&self, key: &SettingKey, value: &str) -> Result<(), SystemError> {
        key.setting
            .check_value(value, |file| {
                self.root
                    .read_text_if_readable(&key.sibling_file_path(file))
            })
            .map_err(|expected| SystemError::Value {
                setting: key.to_string(),
                value: value.to_owned(),
                expected,
            })
    }

    /// Reads a setting's value.
    ///
    /// # Errors
    /// The machine has no such setting, or does not let it be read.
    pub fn read_setting(&self, key: &SettingKey) -> Result<String, SystemError> {
        match key.setting.mechanism {
            Access::Text => {
                let text = self.root.read_text(&key.relative_path())?;
                Ok(match key.setting.values {
                    Values::Bracketed => word_in_brackets(&text).to_owned(),
                    _ => text,
                })
            }
            Access::Held => {
                let bytes = self
                    .root
                    .open_file(&key.relative_path(), OFlags::RDONLY)
                    .and_then(read_request_bytes_as_decimal);
                bytes.map_err(|source| SystemError::Read {
                    path: self.root.absolute_path(&key.relative_path()),
                    source,
                })
            }
            Access::NvmeFeature(_) => {
                let drive = nvme::open_drive_or_capture(&self.root, &key.at.to_string());
                let feature = ApstFeature::read_from_drive(&*drive);
                Ok(feature
                    .map_err(|source| self.nvme_command_error(key, "Get Features", source))?
                    .to_string())
            }
        }
    }

    /// Asks a drive, such as `nvme0`, for its Identify data.
    ///
    /// # Errors
    /// The drive does not answer, or answers something else.
    pub fn identify_drive(&self, drive_name: &str) -> Result<Drive, SystemError> {
        nvme::identify_drive(&self.root, drive_name).map_err(|source| SystemError::Nvme {
            path: self.root.absolute_path(&format!("dev/{drive_name}")),
            command: "Identify Controller",
            source,
        })
    }

    /// The error for a failed NVMe command on a setting's drive.
    pub fn nvme_command_error(
        &self,
        key: &SettingKey,
        command: &'static str,
        source: std::io::Error,
    ) -> SystemError {
        SystemError::Nvme {
            path: self.root.absolute_path(&key.relative_path()),
            command,
            source,
        }
    }
}

/// Reads the four bytes of a request held open, as a decimal number.
fn read_request_bytes_as_decimal(mut file: File) -> std::io::Result<String> {
    let mut bytes = [0; 4];
    file.read_exact(&mut bytes)?;
    Ok(i32::from_ne_bytes(bytes).to_string())
}
