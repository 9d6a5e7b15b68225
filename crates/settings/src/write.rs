//! Writes single settings, and verifies them.

use std::fs::File;
use std::io::{self, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use wakepath_system::nvme::ApstFeature;
use wakepath_system::setting::{Access, SettingInfo, have_same_meaning};
use wakepath_system::{Root, SettingKey, System, SystemError};

use crate::SettingsError;
use crate::nvme::set_apst_until_drive_reset;
use crate::text_file::overwrite_existing_file;

/// Longest time until a busy machine has taken up a setting that it takes up later.
const LONGEST_DELAY: Duration = Duration::from_secs(1);
/// Time between two looks at a setting that is taken up later.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Writes a value to a setting. For a latency request, returns the open file: the request ends when the file is closed.
///
/// # Errors
/// The value is impossible, or the machine refuses it.
pub(crate) fn write_setting(
    system: &System,
    key: &SettingKey,
    value: &str,
) -> Result<Option<File>, SystemError> {
    match key.setting.mechanism {
        Access::Text => {
            let before = if key.setting.is_taken_up_later {
                system.read_setting(key).ok()
            } else {
                None
            };
            let line = format!("{value}\n");
            overwrite_existing_file(system.root(), &key.relative_path(), line.as_bytes())
                .map_err(|source| write_error(system, key, value, source))?;
            if let Some(before) = before.filter(|before| before != value) {
                wait_until_setting_changes(system, key, &before);
            }
            Ok(None)
        }
        Access::Held => {
            let number: i32 = value.parse().map_err(|_| SystemError::Value {
                setting: key.to_string(),
                value: value.to_owned(),
                expected: "whole microseconds".to_owned(),
            })?;
            let request = open_device_with_request(system.root(), &key.relative_path(), number)
                .map_err(|source| write_error(system, key, value, source))?;
            Ok(Some(request))
        }
        Access::NvmeFeature(_) => {
            let feature = ApstFeature::parse(value).ok_or_else(|| SystemError::Value {
                setting: key.to_string(),
                value: value.to_owned(),
                expected: "on: or off: and 512 hexadecimal digits".to_owned(),
            })?;
            set_apst_until_drive_reset(system.root(), &key.at.to_string(), &feature)
                .map_err(|source| system.nvme_command_error(key, "Set Features", source))?;
            Ok(None)
        }
    }
}

/// Waits until a setting has another value than before, for at most [`LONGEST_DELAY`].
fn wait_until_setting_changes(system: &System, key: &SettingKey, before: &str) {
    let end = Instant::now() + LONGEST_DELAY;
    while Instant::now() < end && system.read_setting(key).is_ok_and(|now| now == before) {
        sleep(BETWEEN_LOOKS);
    }
}

fn write_error(system: &System, key: &SettingKey, value: &str, source: io::Error) -> SystemError {
    SystemError::Write {
        path: system.root().absolute_path(&key.relative_path()),
        value: value.to_owned(),
        source,
    }
}

/// Opens a device and requests a number from it. The request ends when the file is closed.
fn open_device_with_request(root: &Root, path: &str, request: i32) -> io::Result<File> {
    let mut file = root.open_file(path, OFlags::RDWR)?;
    file.write_all(&request.to_ne_bytes())?;
    Ok(file)
}

/// Reads a setting back and compares it with the expected value.
///
/// # Errors
/// [`SettingsError::ReadBack`] if the value is another one.
pub(crate) fn verify_by_reading_back(
    system: &System,
    key: &SettingKey,
    expected: &str,
) -> Result<(), SettingsError> {
    let found = system.read_setting(key)?;
    if shows_expected_value_in_force(key.setting, expected, &found) {
        return Ok(());
    }
    Err(SettingsError::ReadBack {
        path: system.root().absolute_path(&key.relative_path()),
        expected: expected.to_owned(),
        found,
    })
}

/// Whether a value that was read can result from a write: the same value, or a minimum frequency that a lower maximum
/// has pulled down.
pub(crate) fn may_result_from_write(
    system: &System,
    key: &SettingKey,
    written: &str,
    found: &str,
) -> bool {
    if have_same_meaning(key.setting, written, found) {
        return true;
    }
    let is_lower = found.parse::<u64>().ok() < written.parse::<u64>().ok();
    key.setting.name == "frequency-min"
        && is_lower
        && system
            .root()
            .read_text_if_readable(&key.sibling_file_path("scaling_max_freq"))
            .as_deref()
            == Some(found)
}

/// Whether a value that was read shows the expected value in force.
fn shows_expected_value_in_force(setting: &SettingInfo, expected: &str, found: &str) -> bool {
    match setting.mechanism {
        // The device of latency requests reads as the strictest request of all processes.
        Access::Held => match (expected.parse::<i64>(), found.parse::<i64>()) {
            (Ok(expected), Ok(found)) => found <= expected,
            _ => false,
        },
        Access::Text | Access::NvmeFeature(_) => have_same_meaning(setting, expected, found),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;

    use super::*;

    #[test]
    fn a_limit_is_awaited_that_the_kernel_takes_up_later() {
        let folder = tempfile::tempdir().unwrap();
        let system = System::new(Root::at_directory(folder.path()));
        let key: SettingKey = "frequency-max:policy0".parse().unwrap();
        let path = folder.path().join(key.relative_path());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "2400000\n").unwrap();
        let kernel = thread::spawn({
            let (path, new) = (path.clone(), folder.path().join("new"));
            move || {
                sleep(Duration::from_millis(40));
                fs::write(&new, "3200000\n").unwrap();
                fs::rename(new, path).unwrap();
            }
        });
        wait_until_setting_changes(&system, &key, "2400000");
        assert_eq!(system.read_setting(&key).unwrap(), "3200000");
        kernel.join().unwrap();

        // A limit that stays as it was is given up.
        let began = Instant::now();
        wait_until_setting_changes(&system, &key, "3200000");
        assert!(began.elapsed() >= LONGEST_DELAY);
    }
}
