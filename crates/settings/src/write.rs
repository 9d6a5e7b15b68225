//! Writes and verifies single settings.

use std::fs::File;
use std::io::Write;

use rustix::fs::OFlags;
use wakepath_system::nvme::ApstFeature;
use wakepath_system::setting::{Access, SettingInfo, same};
use wakepath_system::{SettingKey, System, SystemError};

use crate::SettingsError;
use crate::nvme::set_apst;
use crate::text_file::overwrite_file;

/// Writes a setting. What holds a request returns it; dropping it takes the request back.
///
/// # Errors
/// The value is impossible, or the machine refuses it.
pub(crate) fn write(
    system: &System,
    key: &SettingKey,
    value: &str,
) -> Result<Option<File>, SystemError> {
    let write_error = |source| SystemError::Write {
        path: system.root().path(&key.path()),
        value: value.to_owned(),
        source,
    };
    match key.setting.mechanism {
        Access::Text => {
            let line = format!("{value}\n");
            let written = overwrite_file(system.root(), &key.path(), line.as_bytes());
            written.map_err(write_error)?;
            Ok(None)
        }
        Access::Held => {
            let number: i32 = value.parse().map_err(|_| SystemError::Value {
                setting: key.to_string(),
                value: value.to_owned(),
                expected: "whole microseconds".to_owned(),
            })?;
            let mut file = system
                .root()
                .open(&key.path(), OFlags::RDWR)
                .map_err(write_error)?;
            file.write_all(&number.to_ne_bytes()).map_err(write_error)?;
            Ok(Some(file))
        }
        Access::NvmeFeature(_) => {
            let feature = ApstFeature::parse(value).ok_or_else(|| SystemError::Value {
                setting: key.to_string(),
                value: value.to_owned(),
                expected: "on: or off: and 512 hexadecimal digits".to_owned(),
            })?;
            set_apst(system.root(), &key.at.to_string(), &feature)
                .map_err(|source| system.nvme_error(key, "Set Features", source))?;
            Ok(None)
        }
    }
}

/// Reads a setting back and compares.
///
/// # Errors
/// [`SettingsError::ReadBack`] if the value is another one.
pub(crate) fn verify(
    system: &System,
    key: &SettingKey,
    expected: &str,
) -> Result<(), SettingsError> {
    let found = system.read(key)?;
    if holds(key.setting, expected, &found) {
        return Ok(());
    }
    Err(SettingsError::ReadBack {
        path: system.root().path(&key.path()),
        expected: expected.to_owned(),
        found,
    })
}

/// Whether what is found is what was written: the same, or what a maximum frequency that was lowered since leaves of
/// a minimum.
pub(crate) fn results_from_write(
    system: &System,
    key: &SettingKey,
    written: &str,
    found: &str,
) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let lowered = || {
        key.setting.name == "frequency-min"
            && number(found) < number(written)
            && system
                .root()
                .optional(&key.beside("scaling_max_freq"))
                .as_deref()
                == Some(found)
    };
    same(key.setting, written, found) || lowered()
}

/// Whether what was read means that what was written is in force.
fn holds(setting: &SettingInfo, expected: &str, found: &str) -> bool {
    match setting.mechanism {
        // It reads as the strictest request of all processes.
        Access::Held => {
            let number = |text: &str| text.parse::<i64>().ok();
            matches!((number(expected), number(found)), (Some(e), Some(f)) if f <= e)
        }
        Access::Text | Access::NvmeFeature(_) => same(setting, expected, found),
    }
}
